"""Recording a program of this machine with Linux perf."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devkit import output, process
from devkit.errors import HERE, FileError, ToolFailed, ToolMissing, UsageError
from devkit.process import Completed
from devkit.profiling.model import Meta, Module, Profile
from devkit.profiling.perf_script import FIELDS, parse_build_ids, read_perf_script
from devkit.profiling.symbolizing import locator, symbolize
from devkit.symbols import SymbolIndex, Symbolizer

FREQUENCY_HZ = 1000
DWARF, FRAME_POINTERS = "dwarf", "fp"
CALL_GRAPHS = (DWARF, FRAME_POINTERS)
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_PROBE_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 60.0
# coreutils' timeout: SIGTERM, then SIGKILL after that; its exit code says so.
_GRACE_S = 5
TIMED_OUT = 124
_REFUSED = re.compile(
    r"perf_event_paranoid|Permission denied|Operation not permitted|No permission|perf_event_open|CAP_PERFMON"
)
# Ubuntu's /usr/bin/perf is a script that looks for the one of the running kernel.
_OTHER_KERNEL = re.compile(r"perf not found for kernel|linux-tools-\S+")
_TOO_OFTEN = re.compile(r"Maximum frequency rate")


@dataclass(frozen=True)
class HostRun:
    """What was recorded.

    Attributes:
        exit_code: the program's; None for a process that was attached to.
    """

    profile: Profile
    exit_code: int | None


def find_perf() -> Path:
    """Linux perf of this machine.

    Raises:
        ToolMissing: there is none.
    """
    found = shutil.which("perf")
    if found is None:
        raise ToolMissing(
            "recording programs of this machine takes Linux perf, which is not here",
            hints=["apt install linux-perf  # Debian", "apt install linux-tools-$(uname -r)  # Ubuntu"],
        )
    return Path(found)


def check_perf(perf: Path, frequency_hz: int = FREQUENCY_HZ) -> None:
    """Record nothing for a moment: whether this kernel lets perf work shows only so.

    Raises:
        ToolMissing: perf is not made for this kernel.
        ToolFailed: it may not record, with the setting that forbids it and what changes that.
    """
    with tempfile.TemporaryDirectory(prefix="devkit-perf-") as folder:
        argv = _argv(perf, Path(folder, "perf.data"), frequency_hz, FRAME_POINTERS)
        done = process.run(
            [*argv, "--", "true"], timeout_s=_PROBE_TIMEOUT_S, check=False, env={"LC_ALL": "C"}
        )
    if done.exit_code != 0:
        raise _refusal(done, perf)


def record(
    program: Sequence[str | Path] = (),
    *,
    pid: int | None = None,
    seconds: float | None = None,
    frequency_hz: int = FREQUENCY_HZ,
    call_graph: str = DWARF,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> HostRun:
    """Run a program under perf, or watch a running one, and read what came of it.

    The program has this terminal. Ctrl-C ends it, and what was recorded is read all the same.

    Args:
        program: its path and arguments; or else
        pid: of a running process.
        seconds: end the program, or the watching, after that.
        frequency_hz: samples a second and thread.
        call_graph: DWARF copies 8 KiB of stack with each sample, and is right for any program; FRAME_POINTERS
            costs nothing, and misses callers where compilers leave them out (GCC: those of leaf functions).
        env: variables added to this process's environment.

    Raises:
        ToolMissing: there is no perf.
        ToolFailed: perf may not record here, or failed.
        UsageError: there is no such process.
        FileError: it recorded nothing that can be read.
    """
    perf = find_perf()
    check_perf(perf, frequency_hz)
    executable = _executable(pid) if pid is not None else ""
    with tempfile.TemporaryDirectory(prefix="devkit-perf-") as folder:
        data = Path(folder, "perf.data")
        argv: list[str | Path] = [*_argv(perf, data, frequency_hz, call_graph)]
        if pid is not None:
            argv += ["--pid", str(pid)]
            # perf watches as long as that runs; the time begins when it has begun.
            argv += ["--", "sleep", f"{seconds:g}"] if seconds is not None else []
        else:
            limit = ["timeout", "--foreground", f"--kill-after={_GRACE_S}", f"{seconds:g}"] if seconds else []
            argv += ["--", *limit, *program]
        began = time.time()
        exit_code = _run(argv, cwd, env)
        if not data.is_file() or not data.stat().st_size:
            raise ToolFailed(
                "perf recorded nothing", evidence=process.show(argv), hints=["its own words are above"]
            )
        output.current().note("reading the recording")
        profile = _read(perf, data)
        if not len(profile):
            raise FileError("perf took no samples: the program was too short, or only waited")
    command = tuple(str(word) for word in program) or (f"process {pid}",)
    notes = list(profile.meta.notes)
    if any(event.name.startswith("cpu-clock") for event in profile.events):
        notes.append("This machine has no hardware counters for perf: a clock was sampled (cpu-clock).")
    if pid is not None and not executable.isascii():
        notes.append(
            f"perf does not see {executable} of a running process, whose path is not all ASCII:"
            " its functions are [unknown]. Start it with --host instead."
        )
    meta = replace(profile.meta, command=command, recorded_at=began, notes=tuple(notes))
    return HostRun(replace(profile, meta=meta), None if pid is not None else exit_code)


def _read(perf: Path, data: Path) -> Profile:
    quiet = {"LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    ids = process.run([perf, "buildid-list", "--input", data], env=quiet, check=False)
    lines: list[str] = []
    # --no-inline: inlined functions are found here, with those of all other frames.
    argv: list[str | Path] = [perf, "script", "--input", data, "--no-inline", "--fields", FIELDS]
    done = process.stream(argv, lines.append, env=quiet)
    if done.exit_code != 0:
        raise process.failed(done)
    version = process.run([perf, "--version"], check=False).text.split()
    meta = Meta(
        machine=os.uname().nodename, arch=os.uname().machine, clock="perf",
        recorder="perf " + (version[-1] if version else ""),
    )  # fmt: skip
    index = SymbolIndex()
    known: set[str] = set()
    find = locator(index)

    def locate(module: Module, place: int) -> int | None:
        # Recorded here: the paths are files of this machine. Lines come from the very build alone.
        if module.path not in known:
            known.add(module.path)
            index.add(Path(module.path))
        return find(module, place)

    profile = read_perf_script(lines, meta, build_ids=parse_build_ids(ids.text), locate=locate)
    try:
        return symbolize(profile, index, Symbolizer())
    except ToolMissing as error:
        output.current().warn(f"functions without lines: {error.what}")
        return profile


def _argv(perf: Path, data: Path, frequency_hz: int, call_graph: str) -> list[str | Path]:
    # -N: the user's ~/.debug stays as it is. Files that only call what was sampled have build-ids, too.
    return [
        perf, "record", "--quiet", "-N", "--buildid-all", "--output", data,
        "--freq", str(frequency_hz), "--call-graph", call_graph,
    ]  # fmt: skip


def _run(argv: Sequence[str | Path], cwd: Path | None, env: Mapping[str, str] | None) -> int:
    """perf in this terminal's group: Ctrl-C reaches it; it then ends the program and writes its file."""
    running = process.start(
        argv, cwd=cwd, env=env, stdin=None, stdout=_stdout(), stderr=None, own_group=False,
        die_with_parent=True,
    )  # fmt: skip
    try:
        return running.wait()
    except KeyboardInterrupt:
        return running.wait(_END_TIMEOUT_S)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()


def _executable(pid: int) -> str:
    """The file a process runs.

    Raises:
        UsageError: there is no such process.
    """
    if not process.is_alive(pid):
        raise UsageError(f"there is no process {pid} on this machine", hints=["ps -e"])
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _stdout() -> int | None:
    """The program's output is no part of a JSON document."""
    return 2 if output.current().json_mode else None


def _refusal(done: Completed, perf: Path) -> ToolFailed | ToolMissing:
    said = process.tail(done.stderr.strip() or done.stdout)
    if _OTHER_KERNEL.search(said):
        return ToolMissing(
            f"{perf} is not made for the running kernel {os.uname().release}",
            evidence=said,
            hints=["apt install linux-tools-$(uname -r)"],
        )
    if _TOO_OFTEN.search(said):
        return ToolFailed(
            "this kernel allows fewer samples a second", evidence=said, hints=["--frequency 500"]
        )
    if not _REFUSED.search(said):
        return process.failed(done)
    level = _paranoid()
    hints = []
    if level is None or level > 2:
        hints.append("sudo sysctl kernel.perf_event_paranoid=2  # until the machine's next start")
    hints.append("in a container: start it with --cap-add PERFMON and a seccomp profile that allows perf")
    return ToolFailed(
        "this machine does not let perf record",
        where=HERE,
        evidence=f"kernel.perf_event_paranoid = {'?' if level is None else level}\n{said}",
        hints=hints,
    )


def _paranoid() -> int | None:
    try:
        return int(_PARANOID.read_text())
    except (OSError, ValueError):
        return None
