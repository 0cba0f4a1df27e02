"""`devkit deploy` and `devkit run` on the virtual phone, with a program named by its path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.symbols import read_elf
from tests.e2e.support import REPO, Cli, Sim, TinyApp, eventually, left_on_phone, start_sim
from tests.e2e.terminal import Terminal


def test_output_exit_code_and_stderr_apart(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("run", tiny.program)
    assert (ran.code, ran.out) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
    ran = devkit("run", tiny.program, "--", "cat", stdin="一 line\n" * 1000)
    assert (ran.code, ran.out, ran.err) == (0, "一 line\n" * 1000, "eof\n")


@pytest.mark.parametrize(("args", "code"), [(("exit", "0"), 0), (("exit", "42"), 42), (("abort",), 134)])
def test_the_exit_code_is_the_programs(
    sim: Sim, tiny: TinyApp, devkit: Cli, args: tuple[str, ...], code: int
) -> None:
    assert devkit("run", tiny.program, "--", *args).code == code


def test_arguments_arrive_as_they_are(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    words = [
        "a b",
        "it's",
        '"q"',
        "$HOME `id` $(id)",
        "",
        "*",
        "back\\slash",
        "你好<|im_end|>",
        "-n",
        "tab\there",
    ]
    ran = devkit("run", tiny.program, "--", "args", *words)
    assert ran.out == "".join(f"[{word}]\n" for word in words)


def test_the_library_path_is_the_apps_folder(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("run", tiny.program, "--", "env", "LD_LIBRARY_PATH")
    assert ran.out == "/data/local/tmp/devkit/tiny\n"


def test_only_what_changed_travels(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    place = ("--device-dir", "/data/local/tmp/only changed 中")
    first = devkit("deploy", tiny.program, *place, "--json").data
    pushed = {f["remote"]: f["action"] for f in first["files"]}
    # A phone has no libstdc++: it travels; the C library is the phone's.
    assert pushed == dict.fromkeys(("tiny", "libinner.so", "libstdc++.so.6", "libgcc_s.so.1"), "push")
    second = devkit("deploy", tiny.program, *place, "--json").data
    assert (second["push_files"], second["push_bytes"]) == (0, 0)

    device.push_bytes(b"tampered", "/data/local/tmp/only changed 中/tiny/libinner.so")
    planned = devkit("deploy", tiny.program, *place, "--json", "--dry-run").data
    assert planned["dry_run"] is True
    assert [(f["remote"], f["why"]) for f in planned["files"] if f["action"] == "push"] == [
        ("libinner.so", "changed on the phone")
    ]
    # A dry run has changed nothing.
    assert device.read_bytes("/data/local/tmp/only changed 中/tiny/libinner.so") == b"tampered"
    healed = devkit("deploy", tiny.program, *place, "--json").data
    assert healed["push_files"] == 1
    [library] = [f for f in healed["files"] if f["remote"] == "libinner.so"]
    there = workdir / "libinner.so"
    there.write_bytes(device.read_bytes("/data/local/tmp/only changed 中/tiny/libinner.so"))
    assert there.stat().st_size == library["sent_size"] < library["size"] and library["stripped"]
    assert read_elf(there).build_id == read_elf(tiny.library).build_id is not None
    # Nothing but the files and the manifest is there.
    names = set(device.list_dir("/data/local/tmp/only changed 中/tiny")) - {".", ".."}
    assert names == {*pushed, ".devkit-manifest.json"}


def test_files_of_an_app_travel_into_its_folder(
    sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, device: Device
) -> None:
    model = workdir / "model 模型"
    (model / "deep er").mkdir(parents=True)
    weights = os.urandom(300_000)
    (model / "deep er" / "w.bin").write_bytes(weights)
    (model / "config.json").write_text("{}")
    (workdir / "devkit.yaml").write_text(
        f"apps:\n  chat:\n    target: '{tiny.program}'\n    files: [{{local: model 模型, remote: model}}]\n"
        '    args: [env, GREETING]\n    env: {GREETING: it\'s "me"}\n'
    )
    ran = devkit("run", "chat")
    assert (ran.code, ran.out) == (0, 'it\'s "me"\n')
    assert device.read_bytes("/data/local/tmp/devkit/chat/model/deep er/w.bin") == weights
    (model / "config.json").write_text('{"a": 1}')
    changed = devkit("deploy", "chat", "--json").data
    assert [f["remote"] for f in changed["files"] if f["action"] == "push"] == ["model/config.json"]


def test_a_missing_file_and_a_path_that_leaves_the_folder(
    sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path
) -> None:
    yaml = workdir / "devkit.yaml"
    for entry, message in (
        ("none.bin", "none.bin does not exist"),
        ("{local: devkit.yaml, remote: ../x}", "leaves the app's folder"),
        ("{local: devkit.yaml, remote: tiny}", "two files want to be tiny"),
    ):
        yaml.write_text(f"apps: {{chat: {{target: '{tiny.program}', files: [{entry}]}}}}\n")
        ran = devkit("deploy", "chat")
        assert ran.code == 125 and message in ran.err and "try: " in ran.err


def test_disk_full_leaves_the_old_deployment(
    tmp_path: Path, adb: Path, tiny: TinyApp, devkit: Cli, monkeypatch: pytest.MonkeyPatch, workdir: Path
) -> None:
    small = start_sim("small", tmp_path / "state", adb, data_limit_bytes=4_000_000)
    with small.phone:
        monkeypatch.setenv("XDG_STATE_HOME", str(small.state_home))
        assert devkit("run", tiny.program, "--", "exit", "0").code == 0
        device = small.device()
        before = device.read_bytes("/data/local/tmp/devkit/tiny/.devkit-manifest.json")
        fat = workdir / "tiny"
        fat.write_bytes(tiny.program.read_bytes() + b"\0" * 6_000_000)
        (workdir / "libinner.so").write_bytes(tiny.library.read_bytes())
        ran = devkit("run", fat, "--", "exit", "0", DEVKIT_DEPLOY_STRIP="never")
        assert ran.code == 125
        assert "storage is full" in ran.err and "have to travel" in ran.err
        assert "try: " in ran.err
        assert device.read_bytes("/data/local/tmp/devkit/tiny/.devkit-manifest.json") == before
        names = set(device.list_dir("/data/local/tmp/devkit/tiny")) - {".", ".."}
        assert not [name for name in names if "staging" in name]
        assert devkit("run", tiny.program, "--", "exit", "3").code == 3


@pytest.mark.parametrize("mode", ["wait", "deaf"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_program_ends_with_devkit(
    sim: Sim, tiny: TinyApp, device: Device, mode: str, how: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "run", str(tiny.program), "--", mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdin is not None and process.stderr is not None
    assert process.stdout.readline() == b"waiting\n"
    assert left_on_phone(device, f"tiny {mode}")
    process.send_signal(how)
    code = process.wait(10)
    if how == signal.SIGINT:
        # It is gone before devkit is.
        assert code == 130
        assert not left_on_phone(device, f"tiny {mode}")
    assert eventually(lambda: not left_on_phone(device, f"tiny {mode}", ".devkit-guard"))
    folder = "/data/local/tmp/devkit/tiny"
    # The guard removes its file first of all, but it may only now have seen the end.
    assert eventually(lambda: not [n for n in device.list_dir(folder) if "guard" in n], 20)
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_timeout_ends_it(sim: Sim, tiny: TinyApp, device: Device, devkit: Cli) -> None:
    started = time.monotonic()
    ran = devkit("run", tiny.program, "--timeout", "1", "--", "wait")
    assert ran.code == 124
    assert ran.out == "waiting\n" and "still running after 1 s" in ran.err
    assert time.monotonic() - started < 10
    assert not left_on_phone(device, "tiny wait")


def test_output_is_live(sim: Sim, tiny: TinyApp) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "run", str(tiny.program), "--timeout", "20", "--", "wait"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    started = time.monotonic()
    assert process.stdout.readline() == b"waiting\n"
    assert time.monotonic() - started < 10
    process.send_signal(signal.SIGINT)
    process.wait(10)
    process.stdout.close()


def test_printed_commands_do_what_run_does(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    place = "/data/local/tmp/printed it's"
    ran = devkit("run", tiny.program, "--device-dir", place, "--print-commands", "--", "args", "a b", "it's")
    assert ran.code == 0
    assert set(device.list_dir("/data/local/tmp")) & {"printed it's"} <= {"printed it's"}
    script = workdir / "commands.sh"
    script.write_text("set -e\n" + ran.out)
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[a b]\n[it's]\n")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no_such_app", 2, "there is no app or program named no_such_app"),
        ("./nothing", 2, "does not exist"),
        ("./text", 2, "我的 work/text is not a program"),
        ("./empty", 2, "empty is empty"),
        ("./", 2, "我的 work is a folder"),
        ("", 2, "there is no app or program named ''"),
    ],
)
def test_wrong_apps(sim: Sim, devkit: Cli, workdir: Path, name: str, code: int, message: str) -> None:
    (workdir / "text").write_text("hello\n")
    (workdir / "empty").touch()
    ran = devkit("run", name)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err and "try: " in ran.err


def test_a_source_folder_that_is_away(sim: Sim, devkit: Cli, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text("source: nowhere\n")
    for args in (("run", "app"), ("build",)):
        ran = devkit(*args)
        assert ran.code == 2 and f"source folder {workdir / 'nowhere'} does not exist" in ran.err
        assert "devkit.yaml:1" in ran.err


@pytest.mark.parametrize("folder", ["", "relative/dir"])
def test_a_folder_on_the_phone_is_an_absolute_path(sim: Sim, tiny: TinyApp, devkit: Cli, folder: str) -> None:
    ran = devkit("run", tiny.program, "--device-dir", folder)
    assert ran.code == 2 and f"{folder!r} cannot be the folder on the phone" in ran.err


def test_a_signal_is_named(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("run", tiny.program, "--", "abort")
    assert (ran.code, ran.err.splitlines()[-1]) == (134, "tiny ended with exit code 134: SIGABRT")
    assert devkit("run", tiny.program, "--json", "--", "abort").data["signal"] == "SIGABRT"
    assert devkit("run", tiny.program, "--json", "--", "exit", "3").data["signal"] is None


def test_a_phone_that_goes_away_in_the_middle(
    tmp_path: Path, adb: Path, tiny: TinyApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = start_sim("leaving", tmp_path / "state", adb)
    with leaving.phone:
        monkeypatch.setenv("XDG_STATE_HOME", str(leaving.state_home))
        ran = subprocess.Popen(
            [sys.executable, "-m", "devkit", "run", str(tiny.program), "--", "wait"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert ran.stdout is not None and ran.stdout.readline() == b"waiting\n"
        leaving.phone.stop()
        _, errors = ran.communicate(timeout=20)
    text = errors.decode()
    assert ran.returncode == 125
    assert "broke off (running tiny)" in text and "try: devkit device list" in text
    assert len(text.splitlines()) <= 5, text


def test_wrong_abi_is_refused_before_anything_travels(
    sim: Sim, devkit: Cli, device: Device, workdir: Path
) -> None:
    program = workdir / "for_arm64"
    program.write_bytes((REPO / "tests/data/cases/C1/build/llm_demo").read_bytes())
    ran = devkit("run", program)
    assert ran.code == 125
    assert "for_arm64 is for arm64-v8a (64-bit aarch64), the phone wants x86_64" in ran.err
    folder = "/data/local/tmp/devkit/for_arm64"
    assert device.stat([folder])[folder] is None


def test_a_missing_library_is_named_before_anything_travels(
    sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, device: Device
) -> None:
    alone = workdir / "alone"
    alone.write_bytes(tiny.program.read_bytes())
    ran = devkit("run", alone)
    assert ran.code == 125
    assert "libinner.so, needed by alone, was not found" in ran.err
    assert str(workdir) in ran.err
    assert device.stat(["/data/local/tmp/devkit/alone"])["/data/local/tmp/devkit/alone"] is None


def test_no_device(devkit: Cli, tiny: TinyApp) -> None:
    # An adb server address where nothing listens: nothing is started there.
    ran = devkit("run", tiny.program, ADB_SERVER_SOCKET="tcp:127.0.0.1:1")
    assert ran.code == 125 and ran.out == ""
    assert "127.0.0.1:1" in ran.err and "try: " in ran.err


def test_on_a_terminal_the_program_has_a_terminal(sim: Sim, tiny: TinyApp, device: Device) -> None:
    terminal = Terminal("run", str(tiny.program), "--", "cat")
    terminal.type(b"hello phone\r")
    terminal.wait_for(b"hello phone\r\n")  # the echo
    terminal.wait_for(b"hello phone\r\n")  # the program
    terminal.type(b"\x04")
    terminal.wait_for(b"eof")
    assert terminal.end() == 0
    terminal = Terminal("run", str(tiny.program), "--", "wait")
    terminal.wait_for(b"waiting")
    terminal.type(b"\x03")
    # The phone's terminal turns the key into SIGINT, as with any program.
    assert terminal.end() == 128 + signal.SIGINT
    assert eventually(lambda: not left_on_phone(device, "tiny wait", ".devkit-guard"))


def test_hanging_up_ends_a_program_that_hears_nothing(sim: Sim, tiny: TinyApp, device: Device) -> None:
    with Terminal("run", str(tiny.program), "--", "deaf") as terminal:
        terminal.wait_for(b"waiting")
        terminal.type(b"\r~.")
        assert terminal.end() == 130
        assert b"error" not in terminal.text and b"interrupted" in terminal.text
    assert eventually(lambda: not left_on_phone(device, "tiny deaf", ".devkit-guard"))
