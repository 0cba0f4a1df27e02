"""simpleperf on the virtual phone: real samples of real programs, read by devkit and by Linux perf."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.profiling import Profile
from devkit.profiling.perf_data import read_perf_data
from devkit.symbols import Symbolizer, read_elf
from tests.e2e.support import REPO, Sim, start_sim

FOLDER = "/data/local/tmp/perf"
SHARES = {"sixty": 60.0, "thirty": 30.0, "ten": 10.0}


def build_hot(folder: Path, *flags: str, name: str = "hot") -> Path:
    """The test program. Without frame pointers unless flags say otherwise."""
    program = folder / name
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"
    source = REPO / "tests/data/profile/hot.c"
    argv = [
        compiler,
        "-g",
        "-O2",
        "-D_GNU_SOURCE",
        "-pthread",
        "-Wl,--build-id",
        *flags,
        source,
        "-o",
        program,
    ]
    subprocess.run(argv, check=True)
    return program


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With frame pointers, in the innermost functions too."""
    return build_hot(tmp_path_factory.mktemp("hot"), "-O0")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without frame pointers."""
    return build_hot(tmp_path_factory.mktemp("bare"), "-fomit-frame-pointer", name="bare")


@pytest.fixture
def phone(sim: Sim, device: Device, hot: Path, bare: Path) -> Iterator[Device]:
    device.shell(f"mkdir -p {FOLDER}")
    for program in (hot, bare):
        device.push_bytes(program.read_bytes(), f"{FOLDER}/{program.name}", mode=0o755)
    yield device
    device.shell(f"rm -rf {FOLDER}; setprop debug.devkit.perf_refused 0; setprop debug.devkit.perf_locked 0")


def recorded(device: Device, options: str, tmp_path: Path, *, wanted: int = 0) -> Profile:
    done = device.shell(f"cd {FOLDER}; simpleperf record -o perf.data {options}", timeout_s=60)
    assert done.exit_code == wanted, done.stderr
    device.pull(f"{FOLDER}/perf.data", tmp_path / "perf.data")
    return read_perf_data(tmp_path / "perf.data")


def shares(profile: Profile, program: Path, *, least: float = 0.9) -> dict[str, float]:
    """Percent of the program's own samples by function; its build-id has to be the one here."""
    names = Counter[str]()
    info = read_elf(program)
    leaves: Counter[int] = Counter()
    for stack, weight in zip(profile.sample_stack, profile.sample_weight, strict=True):
        frame = profile.frames[profile.stack_frame[stack]]
        if profile.modules[frame.module].path == f"{FOLDER}/{program.name}":
            assert profile.modules[frame.module].build_id == info.build_id
            leaves[frame.address] += weight
    answers = Symbolizer().symbolize((info, address) for address in leaves)
    for address, weight in leaves.items():
        names[(answers[(program, address)] or (None,))[-1].function] += weight  # type: ignore[union-attr,index]
    total = sum(names[name] for name in SHARES)
    assert total > least * sum(profile.sample_weight)
    return {name: 100.0 * names[name] / total for name in SHARES}


def callers(profile: Profile, program: Path) -> set[tuple[str, ...]]:
    """The program's own functions of each stack, outermost first."""
    info = read_elf(program)
    frames = {
        index: frame
        for index, frame in enumerate(profile.frames)
        if profile.modules[frame.module].path.endswith("/" + program.name)
    }
    answers = Symbolizer().symbolize((info, frame.address) for frame in frames.values())
    found = set()
    for stack in set(profile.sample_stack):
        chain = [frames[f] for f in profile.frames_of(stack) if f in frames]
        names = [(answers[(program, frame.address)][-1].function or "?") for frame in chain]
        found.add(tuple(name for name in names if name != "_start"))
    return found


@pytest.mark.parametrize("program", ["hot", "bare"])
def test_shares_are_true_and_stacks_are_whole(
    phone: Device, hot: Path, bare: Path, tmp_path: Path, program: str
) -> None:
    file, graph = (hot, "fp") if program == "hot" else (bare, "dwarf")
    profile = recorded(phone, f"-f 2000 --call-graph {graph} ./{program} 1", tmp_path)
    for name, share in shares(profile, file).items():
        assert share == pytest.approx(SHARES[name], abs=5)
    assert ("main", "work", "sixty") in callers(profile, file)


def test_a_machine_without_perf_events(phone: Device, bare: Path, tmp_path: Path) -> None:
    phone.shell("setprop debug.devkit.perf_refused 1")
    profile = recorded(phone, "-f 500 -g ./bare 1 thread", tmp_path)
    # Here the time in the kernel counts too, for the place that called it.
    for name, share in shares(profile, bare, least=0.5).items():
        assert share == pytest.approx(SHARES[name], abs=8)
    assert ("work", "sixty") in callers(profile, bare)
    assert "worker" in {thread.name for thread in profile.threads}


def test_an_attached_shell_that_becomes_the_program(phone: Device, hot: Path, tmp_path: Path) -> None:
    """How devkit starts it: the recorder says that it has begun, the shell becomes the program."""
    done = phone.shell(
        f"cd {FOLDER}; said=$( {{ simpleperf record -p $$ -f 1000 --call-graph fp -o perf.data "
        "--start_profiling_fd 3 3>&1 >log 2>&1 </dev/null & echo $! >pid; } ); "
        '[ "$said" = STARTED ] || exit 99; exec ./hot 0.5 cat',
        stdin=b"one line\n",
        timeout_s=60,
    )
    assert (done.exit_code, done.text) == (7, "one line\nstate 1\n")
    ended = phone.shell(
        f"cd {FOLDER}; kill -TERM $(cat pid) 2>/dev/null; "
        "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done; cat log",
        timeout_s=60,
    )
    assert "Samples recorded: " in ended.text
    phone.pull(f"{FOLDER}/perf.data", tmp_path / "perf.data")
    profile = read_perf_data(tmp_path / "perf.data")
    assert shares(profile, hot)["sixty"] == pytest.approx(60, abs=9)


@pytest.mark.slow
def test_off_cpu_time_is_where_it_waits(phone: Device, bare: Path, tmp_path: Path) -> None:
    profile = recorded(phone, "-g --trace-offcpu -f 1000 ./bare 0.3 sleep", tmp_path)
    event = next(index for index, event in enumerate(profile.events) if event.off_cpu)
    assert profile.events[event].unit == "ns"
    waits = Counter[int]()
    for stack, kind, weight in zip(
        profile.sample_stack, profile.sample_event, profile.sample_weight, strict=True
    ):
        if kind == event:
            waits[stack] += weight
    longest, weight = waits.most_common(1)[0]
    assert weight > 250_000_000
    modules = [profile.modules[profile.frames[f].module].name for f in profile.frames_of(longest)]
    assert modules[-1] == "libc.so.6"
    assert "bare" in modules


def test_refusals_in_the_real_tools_words(phone: Device) -> None:
    phone.shell("setprop security.perf_harden 1; setprop debug.devkit.perf_locked 1")
    assert phone.shell("setprop security.perf_harden 0").exit_code == 1
    done = phone.shell(f"cd {FOLDER}; simpleperf record ./hot 0")
    assert done.exit_code == 1
    assert b"perf_event_paranoid is 3" in done.stderr
    phone.shell("setprop debug.devkit.perf_locked 0")
    assert phone.shell("setprop security.perf_harden 0; getprop security.perf_harden").text == "0\n"
    for words, text in [
        ("-a --duration 1", b"System wide profiling needs root privilege."),
        ("--app com.example.chat", b"package com.example.chat isn't debuggable or profileable from shell"),
        ("-e nonsense ./hot 0", b"Unknown event_type 'nonsense'"),
        ("--nonsense", b"Unknown option: --nonsense"),
        ("./nothing", b"failed to execvp(./nothing)"),
        ("-p 99999 --duration 1", b"Invalid argument"),
    ]:
        done = phone.shell(f"cd {FOLDER}; simpleperf record {words}")
        assert (done.exit_code, text in done.stderr) == (1, True), done.stderr


@pytest.mark.slow
def test_a_phone_before_android_10_has_none(
    tmp_path_factory: pytest.TempPathFactory, adb: Path, hot: Path
) -> None:
    """The NDK's does as well when it is pushed, whatever its name."""
    old = start_sim("old-perf", tmp_path_factory.mktemp("old"), adb, android="8")
    try:
        phone = old.device()
        assert phone.shell("simpleperf --version").exit_code == 127
        from devkit.sim.native import attach

        phone.push_bytes(attach.applet().read_bytes(), "/data/local/tmp/simpleperf-0123", mode=0o755)
        phone.push_bytes(hot.read_bytes(), "/data/local/tmp/hot", mode=0o755)
        done = phone.shell("cd /data/local/tmp; ./simpleperf-0123 record ./hot 0.1")
        assert done.exit_code == 0, done.stderr
        assert phone.stat(["/data/local/tmp/perf.data"])["/data/local/tmp/perf.data"] is not None
    finally:
        old.phone.stop()


@pytest.mark.skipif(shutil.which("perf") is None, reason="Linux perf is not here")
@pytest.mark.parametrize("options", ["--call-graph fp ./hot", "-g ./bare"])
def test_linux_perf_reads_the_files(phone: Device, tmp_path: Path, options: str) -> None:
    profile = recorded(phone, f"-f 1000 {options} 0.3", tmp_path)
    done = subprocess.run(
        ["perf", "script", "-i", tmp_path / "perf.data", "-F", "comm,tid,event,ip,sym,dso"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    heads = [line for line in done.stdout.splitlines() if line and not line[0].isspace()]
    assert len(heads) == len(profile)
    assert f"({FOLDER}/" in done.stdout
