"""What `devkit run` offers beside arguments: environment, processors, root, stdin, terminals, outputs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.errors import SimError
from tests.e2e.support import REPO, Cli, Sim, eventually, left_on_phone, start_sim
from tests.e2e.terminal import Terminal

FOLDER = "/data/local/tmp/devkit/runner"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("跑 runner")
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    source = REPO / "tests/data/runner/main.cpp"
    subprocess.run([compiler, "-g", "-O0", str(source), "-o", str(folder / "runner")], check=True)
    return folder / "runner"


@pytest.fixture(scope="module")
def chip_sim(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    base = tmp_path_factory.mktemp("state")
    try:
        chip = start_sim("chip", base, adb, model="sm8750", su=True)
    except SimError:  # a reduced phone has no su
        chip = start_sim("chip", base, adb, model="sm8750")
    yield chip
    chip.phone.stop()


@pytest.fixture
def chip(chip_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    """A phone with big and little processors, and su where this machine has namespaces."""
    monkeypatch.setenv("XDG_STATE_HOME", str(chip_sim.state_home))
    return chip_sim


def write_yaml(workdir: Path, program: Path, more: str) -> None:
    (workdir / "devkit.yaml").write_text(f"apps:\n  app:\n    target: '{program}'\n{more}")


# Environment and working directory


def test_variables_of_every_layer(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    write_yaml(workdir, runner, "    env: {A: of the app, B: of the app}\n")
    names = ("A", "B", "HERE", "LD_LIBRARY_PATH", "ADSP_LIBRARY_PATH")
    ran = devkit(
        "run", "app", "--env", "B=it's $HOME", "-e", "HERE", "--", "env", *names, HERE="from here"
    )  # fmt: skip
    folder = "/data/local/tmp/devkit/app"
    assert ran.out.splitlines() == ["of the app", "it's $HOME", "from here", folder, folder]
    ran = devkit("run", "app", "--env", "ADSP_LIBRARY_PATH=/a;/b", "--", "env", "ADSP_LIBRARY_PATH")
    assert ran.out == "/a;/b\n"


@pytest.mark.parametrize(
    ("word", "message"), [("=x", "names no variable"), ("NO_SUCH_ONE", "is not set here")]
)
def test_wrong_variables(sim: Sim, runner: Path, devkit: Cli, word: str, message: str) -> None:
    ran = devkit("run", runner, "--env", word)
    assert ran.code == 2 and message in ran.err and "try: " in ran.err


def test_the_working_directory(sim: Sim, runner: Path, devkit: Cli, workdir: Path, device: Device) -> None:
    write_yaml(workdir, runner, "    cwd: a dir 中\n    pull: ['*.txt']\n")
    device.shell(["mkdir", "-p", "/data/local/tmp/devkit/app/a dir 中"], check=True)
    assert devkit("run", "app", "--", "where").out.startswith("/data/local/tmp/devkit/app/a dir 中\nuser ")
    assert devkit("run", "app", "--cwd", "/data", "--", "where").out.startswith("/data\n")
    # Outputs are looked for there.
    assert devkit("run", "app", "--", "write", "x.txt", "text").code == 0
    assert (workdir / "devkit-out/app/x.txt").read_text() == "text"
    # No exit code of the program's: it was not started.
    ran = devkit("run", "app", "--cwd", "/no/such", "--", "where")
    assert ran.code == 125 and "/no/such" in ran.err


# Outputs


def test_outputs_come_back_verified(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    write_yaml(workdir, runner, "    pull: ['out/*.bin', '**/*.json', 'it''s \"one\".txt']\n")
    files = {"out/a b.bin": "x" * 20_000, "out/sub/c.json": "{}", 'it\'s "one".txt': "中", "out/other": "no"}
    words = [word for pair in files.items() for word in pair]
    ran = devkit("run", "app", "--json", "--", "write", *words)
    assert ran.code == 0, ran.err
    got = {entry["local"]: entry for entry in ran.data["outputs"]["files"]}
    out = workdir / "devkit-out/app"
    wanted = {name: text for name, text in files.items() if name != "out/other"}
    assert {str(out / name) for name in wanted} == set(got)
    for name, text in wanted.items():
        assert (out / name).read_text() == text
        assert got[str(out / name)]["verified_by"] == "sha256"
        assert got[str(out / name)]["size"] == len(text.encode())
    assert not list(out.rglob("*.part")) and not (out / "out/other").exists()
    assert (workdir / "devkit-out/.gitignore").read_text() == "*\n"

    # Again, with one changed: the others are here already.
    again = devkit("run", "app", "--", "write", *words[:-2], "out/a b.bin", "new")
    assert again.code == 0 and "outputs: 1 files (3 B)" in again.err and "2 were here already" in again.err
    assert (out / "out/a b.bin").read_text() == "new"


def test_missing_outputs_and_those_of_an_earlier_run_are_said(
    sim: Sim, runner: Path, devkit: Cli, workdir: Path, device: Device
) -> None:
    (workdir / "prompt.txt").write_text("not an output")
    write_yaml(workdir, runner, "    files: [prompt.txt]\n    pull: [result.json, '*.txt']\n")
    ran = devkit("run", "app", "--pull", "no/*.bin", "--", "write", "result.json", "1")
    # The program says 0, but what it should have written is not there.
    assert ran.code == 1
    assert "output missing: nothing on the phone matches no/*.bin" in ran.err
    assert "output not written: what matches *.txt on the phone is older" in ran.err
    here = workdir / "devkit-out/app"
    assert (here / "result.json").read_text() == "1" and not (here / "prompt.txt").exists()
    ran = devkit("run", "app", "--json", "--", "exit", "3")
    assert ran.code == 3
    assert ran.data["outputs"]["files"] == []
    assert ran.data["outputs"]["not_written"] == ["result.json", "*.txt"]
    assert not [
        name for name in device.list_dir("/data/local/tmp/devkit/app") if name.startswith(".devkit-run")
    ]


def test_outputs_elsewhere(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    target = workdir / "results 中"
    ran = devkit(
        "run", runner, "--pull", "out/", "--pull-to", target, "--", "write", "out/x/y", "1", "out/z", "2"
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert (target / "out/x/y").read_text() == "1" and (target / "out/z").read_text() == "2"
    assert not (workdir / "devkit-out").exists()


@pytest.mark.parametrize("pattern", ["/data/x", "../x", ""])
def test_outputs_are_below_the_working_directory(sim: Sim, runner: Path, devkit: Cli, pattern: str) -> None:
    ran = devkit("run", runner, "--pull", pattern, "--", "exit", "0")
    assert ran.code == 2 and "no path below the program's working directory" in ran.err


def test_an_output_that_cannot_be_written_here(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    (workdir / "file").touch()
    ran = devkit("run", runner, "--pull", "x", "--pull-to", workdir / "file", "--", "write", "x", "1")
    assert ran.code == 125 and "cannot write" in ran.err


# Processors and root


def test_processors_by_name(chip: Sim, runner: Path, devkit: Cli) -> None:
    device = chip.device()
    listed = device.shell("grep '' /sys/devices/system/cpu/cpu[0-9]*/cpu_capacity /dev/null").text
    capacity = {
        int(cpu): int(strength) for cpu, strength in re.findall(r"/cpu(\d+)/cpu_capacity:(\d+)", listed)
    }
    assert len(set(capacity.values())) > 1
    slowest, fastest = min(capacity.values()), max(capacity.values())
    wanted = {
        "big": [cpu for cpu, strength in capacity.items() if strength > slowest],
        "little": [cpu for cpu, strength in capacity.items() if strength == slowest],
        "prime": [cpu for cpu, strength in capacity.items() if strength == fastest],
        "all": list(capacity),
    }
    wanted["0x1"] = [0]
    for name, cpus in wanted.items():
        ran = devkit("run", runner, "--taskset", name, "--", "where")
        assert ran.code == 0, ran.err
        assert [int(line[4:]) for line in ran.out.splitlines() if line.startswith("cpu ")] == sorted(cpus), (
            name
        )
        assert "on processors " in ran.err


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("bog", 2, "'bog' names no processors"),
        ("0", 2, "names no processors"),
        ("200-201", 2, "the phone has none of these processors"),
        # This machine's own: it has one kind, or says nothing of them.
        ("big", 125, "processors"),
    ],
)
def test_processors_that_are_not_there(
    sim: Sim, runner: Path, devkit: Cli, word: str, code: int, message: str
) -> None:
    ran = devkit("run", runner, "--taskset", word, "--", "where")
    assert (ran.code, ran.out) == (code, "") and message in ran.err and "try: " in ran.err


def check_root(device: Device) -> None:
    """A reduced phone has no su; its adbd is root when this machine's user is."""
    if device.shell("[ $(id -u) = 0 ] || command -v su").exit_code != 0:
        pytest.skip("nobody is root on a reduced phone")


def test_root(chip: Sim, runner: Path, devkit: Cli) -> None:
    check_root(chip.device())
    ran = devkit("run", runner, "--root", "--pull", "of root", "--", "write", "of root", "it's $X")
    assert ran.code == 0, ran.err
    ran = devkit("run", runner, "--root", "--taskset", "1", "--env", "A=it's", "--", "where")
    assert ran.out == f"{FOLDER}\nuser 0\ncpu 0\n"
    ran = devkit("run", runner, "--root", "--", "cat", stdin="through su")
    assert (ran.code, ran.out) == (0, "through su")
    assert devkit("run", runner, "--root", "--", "exit", "42").code == 42


@pytest.mark.parametrize("mode", ["wait", "deaf"])
def test_a_program_of_root_ends_with_devkit(chip: Sim, runner: Path, mode: str) -> None:
    device = chip.device()
    check_root(device)
    with _started("run", str(runner), "--root", "--", mode) as process:
        assert process.stdout is not None and process.stdout.readline() == b"waiting\n"
        assert left_on_phone(device, f"runner {mode}")
        process.kill()
        process.wait(10)
        assert eventually(lambda: not left_on_phone(device, f"runner {mode}", ".devkit-guard"))


def test_words_arrive_as_they_are_whatever_is_around_them(chip: Sim, runner: Path, devkit: Cli) -> None:
    rows: list[list[str]] = json.loads((REPO / "tests/data/cases/D5/argv.json").read_text("utf-8"))
    words = [word for row in rows for word in row]
    wanted = "".join(f"[{word}]\n" for word in words)
    device = chip.device()
    root = ["--root"] if device.shell("[ $(id -u) = 0 ] || command -v su").exit_code == 0 else []
    for options in (["--detach", "--follow"], root, [*root, "--detach", "--follow"]):
        ran = devkit("run", runner, *options, "--", "args", *words)
        assert (ran.code, ran.out) == (0, wanted), ran.err


def test_no_root(sim: Sim, runner: Path, devkit: Cli, device: Device) -> None:
    if device.shell("id -u").text == "0\n":
        pytest.skip("a reduced phone of root's is root's")
    ran = devkit("run", runner, "--root", "--", "where")
    assert (ran.code, ran.out) == (125, "")
    assert "has no su: programs cannot run as root there" in ran.err and "try: " in ran.err


# Standard input


def test_stdin_from_a_file(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    data = "一 line\n" * 20_000
    (workdir / "in put").write_text(data)
    ran = devkit("run", runner, "--stdin", "in put", "--", "cat", stdin="not this")
    assert (ran.code, ran.out) == (0, data)
    for name, words in (("nothing", "No such file"), (".", "Is a directory")):
        ran = devkit("run", runner, "--stdin", name)
        assert ran.code == 125 and f"--stdin {name} cannot be read" in ran.err and words in ran.err


@pytest.mark.parametrize(("text", "answer"), [("", ""), ("hello", "A: hello\n"), ("a\nb\n", "A: a\nA: b\n")])
def test_programs_that_never_see_the_end_get_a_line(
    sim: Sim, runner: Path, devkit: Cli, workdir: Path, text: str, answer: str
) -> None:
    write_yaml(workdir, runner, "    stdin_end: /exit\n")
    ran = devkit("run", "app", "--timeout", "30", "--", "chat", stdin=text)
    assert (ran.code, ran.out) == (0, answer)


@pytest.mark.slow
def test_llm_demo_is_known_to_be_one(sim: Sim, runner: Path, devkit: Cli, workdir: Path) -> None:
    llm = workdir / "llm_demo"
    shutil.copy(runner, llm)
    ran = devkit("run", llm, "--timeout", "30", "--", "chat", stdin="hi")
    assert (ran.code, ran.out) == (0, "A: hi\n")
    # On a terminal (of the phone), too, when what is typed comes from a pipe.
    ran = devkit("run", llm, "--tty", "--timeout", "30", "--", "chat", stdin="hi")
    assert ran.code == 0 and "A: hi\r\n" in _newlines(ran.out)
    write_yaml(workdir, llm, "    stdin_end: ''\n")
    assert devkit("run", "app", "--timeout", "2", "--", "chat", stdin="hi").code == 124


def _newlines(text: str) -> str:
    # subprocess' text mode reads \r\n as \n.
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def test_a_terminal_when_asked(sim: Sim, runner: Path, devkit: Cli) -> None:
    assert devkit("run", runner, "--tty", "--", "cat", stdin="to the end").out.count("to the end") == 2
    with Terminal("run", str(runner), "--no-tty", "--", "size") as terminal:
        terminal.wait_for(b"terminal 000 0x0")


@pytest.mark.slow
def test_output_is_live_when_asked(sim: Sim, runner: Path, devkit: Cli, device: Device) -> None:
    """Also of a program that never flushes, and that has to be ended."""
    late = devkit("run", runner, "--timeout", "2", "--", "buffered")
    assert (late.code, late.out) == (124, "") and "to stderr" in late.err
    live = devkit("run", runner, "--live", "--timeout", "2", "--", "buffered")
    assert (live.code, live.out) == (124, "terminal 010\n") and "to stderr" in live.err
    # The bytes stay as they are, all of them come, and the exit code is the program's.
    data = bytes(range(256)) * 2000
    done = subprocess.run(
        [sys.executable, "-m", "devkit", "run", str(runner), "--live", "--", "cat"],
        input=data, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, data), done.stderr
    assert devkit("run", runner, "--live", "--", "exit", "42").code == 42
    assert not left_on_phone(device, "devkit_line")


def test_the_window_is_followed(sim: Sim, runner: Path, device: Device) -> None:
    with Terminal("run", str(runner), "--", "size") as terminal:
        terminal.wait_for(b"terminal 111 40x200")
        fcntl.ioctl(terminal._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        terminal.wait_for(b"terminal 111 33x99")
        terminal.type(b"\x03")
        assert terminal.end() == 128 + signal.SIGINT
    assert eventually(lambda: not left_on_phone(device, "runner size", ".devkit-guard"))


# Detached


class _started:
    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "devkit", *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.slow
def test_a_detached_run(sim: Sim, runner: Path, devkit: Cli, device: Device) -> None:
    started = time.monotonic()
    ran = devkit("run", runner, "--detach", "--json", "--", "ticks", "60", "5")
    assert ran.code == 0, ran.err
    assert ran.data["state"] == "running" and ran.data["program_exit"] is None
    assert left_on_phone(device, "runner ticks")
    # Nothing of devkit waits for it.
    assert not left_on_phone(device, ".devkit-guard")
    second = devkit("run", runner, "--detach", "--", "ticks", "1", "0")
    assert second.code == 2 and f"already (pid {ran.data['pid']})" in second.err and "--stop" in second.err
    status = devkit("run", runner, "--status")
    assert status.code == 0 and "runner has been running for" in status.out and "ticks 60 5" in status.out
    so_far = devkit("run", runner, "--logs")
    assert so_far.code == 0 and so_far.out.startswith("tick 0\n") and "tick 59" not in so_far.out
    followed = devkit("run", runner, "--logs", "--follow")
    assert (followed.code, followed.out) == (5, "".join(f"tick {i}\n" for i in range(60)))
    assert time.monotonic() - started > 4
    # It is remembered.
    assert devkit("run", runner, "--status", "--json").data["program_exit"] == 5
    assert devkit("run", runner, "--logs", "-f").code == 5
    stopped = devkit("run", runner, "--stop")
    assert stopped.code == 0 and "nothing to stop" in stopped.out
    # And the log of the run before is kept once.
    assert devkit("run", runner, "--detach", "--follow", "--", "ticks", "2", "0").out == "tick 0\ntick 1\n"
    old = device.read_bytes(f"{FOLDER}/.devkit-detached/log.old")
    assert old.endswith(b"tick 59\n")


@pytest.mark.parametrize("root", [(), pytest.param(("--root",), marks=pytest.mark.slow)])
def test_stopping_a_detached_run(chip: Sim, runner: Path, devkit: Cli, root: tuple[str, ...]) -> None:
    device = chip.device()
    if root:
        check_root(device)
    for mode, code in (("wait", 143), ("deaf", 137)):
        assert devkit("run", runner, "--detach", *root, "--", mode).code == 0
        assert left_on_phone(device, f"runner {mode}")
        ran = devkit("run", runner, "--stop", "--json")
        assert ran.code == 0, ran.err
        assert (ran.data["state"], ran.data["program_exit"]) == ("ended", code)
        assert not left_on_phone(device, f"runner {mode}", ".devkit-detached")


@pytest.mark.slow
def test_a_detached_run_outlives_the_link_and_its_follower(
    sim: Sim, runner: Path, devkit: Cli, device: Device
) -> None:
    with _started("run", str(runner), "--detach", "--follow", "--", "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert process.returncode == 130
    assert left_on_phone(device, "runner wait")
    with _started("run", str(runner), "--logs", "--follow") as process:
        assert process.stdout is not None and process.stdout.readline() == b"waiting\n"
    # The follower on the phone ends, the program does not.
    assert eventually(lambda: not left_on_phone(device, "exec 3<"))
    assert devkit("run", runner, "--status", "--json").data["state"] == "running"
    # Every process that adbd started for a host ends when the host's adb server drops the phone.
    subprocess.run(
        [sim_adb(sim), "-H", "127.0.0.1", "-P", str(sim.phone.record.adb_port), "reconnect"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert eventually(lambda: devkit("run", runner, "--status", "--json").code == 0)
    assert devkit("run", runner, "--status", "--json").data["state"] == "running"
    # One that is killed with all of its session leaves no exit code, and that is said.
    pid = devkit("run", runner, "--status", "--json").data["pid"]
    device.shell(f"kill -9 {pid}; kill -9 $(pgrep -f 'runner wait')")
    gone = devkit("run", runner, "--status")
    assert "gone without an exit code" in gone.out
    assert devkit("run", runner, "--logs", "--follow").code == 1


def sim_adb(sim: Sim) -> str:
    import adbutils

    return str(Path(adbutils.__file__).parent / "binaries" / "adb")


@pytest.mark.slow
def test_outputs_and_input_of_a_detached_run(
    sim: Sim, runner: Path, devkit: Cli, workdir: Path, device: Device
) -> None:
    write_yaml(workdir, runner, "    stdin_end: /exit\n    pull: [out.txt]\n")
    (workdir / "in").write_text("hello\nyou")
    assert devkit("run", "app", "--detach", "--", "write", "out.txt", "1").code == 0
    ran = devkit("run", "app", "--logs", "--follow", "--json")
    assert ran.code == 0 and [entry["size"] for entry in ran.data["outputs"]["files"]] == [1]
    assert (workdir / "devkit-out/app/out.txt").read_text() == "1"
    ran = devkit("run", "app", "--detach", "--stdin", "in", "--follow", "--", "chat")
    # It wrote no output this time.
    assert (ran.code, ran.out) == (1, "A: hello\nA: you\n") and "output not written" in ran.err
    # Without input the end is not noticed either.
    assert devkit("run", "app", "--detach", "--follow", "--", "chat").out == ""


def test_a_detached_program_that_fails_at_once(sim: Sim, runner: Path, devkit: Cli) -> None:
    ran = devkit("run", runner, "--detach", "--cwd", "/no/such", "--", "wait")
    assert ran.code != 0 and "ended after" in ran.out and "/no/such" in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--detach", "--stop"), "--detach and --stop cannot be asked for together"),
        (("--follow",), "--follow goes with"),
        (("--logs", "--", "x"), "--logs takes no arguments"),
        (("--detach", "--timeout", "3"), "do not go with --detach"),
        (("--status", "--taskset", "big"), "do not go with --status"),
        (("--logs", "--env", "A=1"), "do not go with --logs"),
        (("--detach", "--pull", "*.txt"), "do not go with --detach"),
    ],
)
def test_options_that_contradict_each_other(
    devkit: Cli, runner: Path, options: tuple[str, ...], message: str
) -> None:
    ran = devkit("run", runner, *options)
    assert ran.code == 2 and message in ran.err


@pytest.mark.parametrize("detached", [False, True])
def test_a_cut_link_ends_a_run_but_not_a_detached_one(
    chip: Sim, runner: Path, devkit: Cli, detached: bool
) -> None:
    words = ("--detach", "--follow") if detached else ()
    with _started("run", str(runner), *words, "--", "ticks", "600", "0") as process:
        assert process.stdout is not None and process.stdout.readline() == b"tick 0\n"
        assert devkit("sim", "break", "cut", "--after", "1", "--name", chip.name).code == 0
        process.stdout.read()
        assert process.wait(60) == 125
        assert process.stderr is not None and b"broke off" in process.stderr.read()
    devkit("sim", "heal", "--name", chip.name)
    assert eventually(lambda: devkit("device", "shell", "--", "true").code == 0)
    device = chip.device()
    if detached:
        assert left_on_phone(device, "runner ticks")
        ran = devkit("run", runner, "--stop")
        assert ran.code == 0 and "exit code 143: SIGTERM" in ran.out
    assert eventually(lambda: not left_on_phone(device, "runner ticks", ".devkit-guard"))


@pytest.mark.slow
def test_a_phone_that_restarts_ends_a_detached_run(chip: Sim, runner: Path, devkit: Cli) -> None:
    assert devkit("run", runner, "--detach", "--", "wait").code == 0
    assert devkit("sim", "break", "reboot", "--name", chip.name).code == 0
    assert eventually(lambda: "gone without an exit code" in devkit("run", runner, "--status").out, 60)
    # And it can be started again.
    assert devkit("run", runner, "--detach", "--", "ticks", "1", "0").code == 0
    assert devkit("run", runner, "--logs", "--follow").out == "tick 0\n"


def test_nothing_was_detached(sim: Sim, devkit: Cli) -> None:
    for action in ("--logs", "--status", "--stop"):
        ran = devkit("run", "never", action, "--json")
        assert ran.code == 1 and "never started with --detach" in json.loads(ran.out)["error"]


def test_two_at_once_start_one(sim: Sim, runner: Path, devkit: Cli, device: Device) -> None:
    both = [_started("run", str(runner), "--detach", "--json", "--", "wait").process for _ in range(2)]
    codes = sorted(process.wait(60) for process in both)
    for process in both:
        process.communicate()
    assert codes == [0, 2]
    assert len([line for line in left_on_phone(device, "runner wait") if line.endswith("runner wait")]) == 1
    assert devkit("run", runner, "--stop").code == 0
    assert os.path.exists(runner)
