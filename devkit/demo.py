"""The main job on a virtual phone: build, push, stop at a breakpoint, run, and leave nothing.

Everything here goes through the same rooms as `devkit run` and `devkit debug`; nothing is staged.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import config as configuration
from devkit import lldb, output, paths, runtime
from devkit.errors import CheckFailed, DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.lldb import DebugResult
    from devkit.sim import Phone

APP = "llm_demo"
MARKER = "devkit demo: breakpoint"
_OWN_LIBRARIES = ("libllm.so", "libMNN_Express.so", "libMNN.so")
_SHOWN_LOCALS = 6


@dataclass
class Transcript:
    """What happened, step by step: printed as it happens, and kept for --json."""

    steps: list[dict[str, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """One step: its title, its lines, its duration."""
        sink = output.current()
        started = time.monotonic()
        lines: list[str] = []

        def say(line: str) -> None:
            lines.append(line)
            sink.note("   " + line)

        sink.note(sink.style(f"{len(self.steps) + 1}. {title}", "bold"))
        yield say
        seconds = time.monotonic() - started
        self.steps.append({"step": title, "seconds": round(seconds, 2), "lines": lines})
        sink.note(sink.style(f"   ({seconds:.1f} s)", "dim"))


def run_demo(*, keep: bool = False) -> dict[str, Any]:
    """Run the demo and return its transcript as data.

    Args:
        keep: leave the virtual phone running.

    Raises:
        CheckFailed: a step ran, but did not show what it must show.
        DevkitError: a step failed.
    """
    from devkit.device import AdbServer, Device, find_private_adb
    from devkit.sim import start_phone

    transcript = Transcript()
    source = example_engine()
    settings = configuration.load(source)
    adb = find_private_adb(settings.adb.path)
    name = "demo" if keep else f"demo-{os.getpid()}"
    with transcript.step("start a virtual phone") as say:
        phone = start_phone(name, adb=adb.path, lifeline=not keep)
        record = phone.record
        say(f"serial {record.serial}; its own adb server ({adb.version_string}) is on port {record.adb_port}")
    with _ended(phone, keep):
        assert record.adb_host is not None and record.adb_port is not None
        device = Device(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))
        say_device(transcript, device)
        data = _main_job(transcript, settings, device)
    output.current().note(_closing(data, record.name, source, keep))
    return {**data, "steps": transcript.steps, "phone": record.as_dict() if keep else None}


def example_engine() -> Path:
    """The example engine: of the checkout, or a working copy of the installed package's.

    Raises:
        DevkitError: neither is there.
    """
    checkout = Path(__file__).resolve().parents[1] / "examples" / "mini-engine"
    if (checkout / "CMakeLists.txt").is_file() and os.access(checkout, os.W_OK):
        return checkout
    packaged = resources.files("devkit").joinpath("data/mini-engine")
    with resources.as_file(packaged) as folder:
        if not (folder / "CMakeLists.txt").is_file():
            folder = checkout
        if not (folder / "CMakeLists.txt").is_file():
            raise DevkitError("the example engine is not part of this installation",
                              hints=["pip install --force-reinstall mnn-devkit"])  # fmt: skip
        working = paths.cache_dir() / "demo" / "mini-engine"
        # copy2 keeps mtimes, so that a second demo compiles nothing.
        shutil.copytree(folder, working, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    return working


def breakpoint_place(source: Path) -> tuple[str, int]:
    """File name and line of the statement that the marker comment announces.

    Raises:
        DevkitError: the marker is not in the example's sources.
    """
    for file in sorted(source.rglob("*.cpp")):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if MARKER in line:
                return file.name, number
    raise DevkitError(f"no line of {source} carries the comment '{MARKER}'")


def short_name(function: str | None) -> str:
    """A C++ function without its parameter list: the library's templates fill whole screens."""
    if not function:
        return "?"
    if ")" not in function:
        return function
    depth = 0
    for position in range(function.rindex(")"), -1, -1):
        depth += {")": 1, "(": -1}.get(function[position], 0)
        if depth == 0:
            return function[:position] or function
    return function


def say_device(transcript: Transcript, device: Device) -> None:
    """One step that says which phone it is."""
    with transcript.step("look at it") as say:
        properties = device.properties
        say(
            f"{properties.get('ro.product.model')}, Android {properties.get('ro.build.version.release')} "
            f"(API {device.api_level}), {device.abi}"
        )


def _main_job(transcript: Transcript, settings: Config, device: Device) -> dict[str, Any]:
    with transcript.step("build the example engine for it") as say:
        local = runtime.build_app(settings, device, APP)
        assert local.build is not None
        what = "nothing had changed" if local.build.steps == 0 else f"{local.build.steps} build steps"
        say(f"{what}; {len(local.artifacts)} libraries and {APP} in {local.build.build_dir}")

    with transcript.step("push what it needs") as say:
        prepared = runtime.prepare_app(settings, device, local)
        plan = prepared.plan
        runtime.deploy_app(device, prepared)
        for pushed in plan.to_push:
            say(f"{pushed.remote:24} {output.human_bytes(pushed.size):>9}   {pushed.reason}")
        say(f"{len(plan.to_push)} files, {plan.push_bytes} bytes, to {plan.folder}")

    file, line = breakpoint_place(settings.source)
    with transcript.step(f"debug it: stop at {file}:{line}") as say:
        result = _debug(settings, device, prepared, f"{file}:{line}")
        stop = _check_stop(result, file, line)
        top = stop["frames"][0]
        say(f"stopped at {file}:{top['line']} in {short_name(top['function'])}")
        for value in stop["locals"][:_SHOWN_LOCALS]:
            say(f"  {value['name']} = {value['value']}")
        say("backtrace:")
        for number, frame in enumerate(stop["frames"]):
            where = f"{Path(frame['file']).name}:{frame['line']}" if frame["file"] else "no source"
            say(f"  #{number:<2} {frame['module'] or '?':18} {short_name(frame['function'])}  {where}")
        say(f"continued to its end: exit code {result.exit_code}")

    with transcript.step("run it without the debugger") as say:
        text, code = _run(device, prepared)
        for shown in text.splitlines():
            say("| " + shown)
        say(f"exit code {code}")
        _check_run(text, code)
    return {
        "built": [str(local.program), *map(str, local.artifacts)],
        "pushed_files": len(plan.to_push),
        "pushed_bytes": plan.push_bytes,
        "stop": {"file": top["file"], "line": top["line"], "function": top["function"]},
        "locals": stop["locals"],
        "backtrace": stop["frames"],
        "debugged_exit_code": result.exit_code,
        "output": text,
        "exit_code": code,
    }


def _debug(settings: Config, device: Device, prepared: runtime.PreparedApp, place: str) -> DebugResult:
    tools = lldb.find_tools(settings, device)
    with tempfile.TemporaryDirectory(prefix="devkit-demo-") as folder:
        batch = Path(folder) / "demo.lldb"
        batch.write_text("breakpoint delete --force\nprocess continue\n", "utf-8")
        request = lldb.DebugRequest(
            program=prepared.local.program,
            libraries=prepared.libraries,
            search_paths=prepared.symbol_folders,
            device_dir=prepared.device_dir,
            launch=prepared.launch(()),
            breakpoints=(place,),
            batch=batch,
        )
        return lldb.debug(device, tools, request, show=False)


def _run(device: Device, prepared: runtime.PreparedApp) -> tuple[str, int]:
    launch = prepared.launch(())
    done = device.shell(launch.shell_text(), timeout_s=60)
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return text, done.exit_code


def _check_stop(result: DebugResult, file: str, line: int) -> dict[str, Any]:
    stops = [stop for stop in result.stops if stop["is_breakpoint"]]
    if not stops:
        raise CheckFailed("the program did not stop at the breakpoint", evidence=result.transcript[-2000:])
    stop = stops[0]
    top = stop["frames"][0]
    if Path(top["file"] or "").name != file or top["line"] != line:
        raise CheckFailed(f"it stopped at {top['file']}:{top['line']}, not at {file}:{line}")
    modules = {frame["module"] for frame in stop["frames"] if frame["file"]}
    if len(modules & set(_OWN_LIBRARIES)) < 2:
        raise CheckFailed("the backtrace does not reach through the engine's libraries",
                          evidence=", ".join(sorted(modules)))  # fmt: skip
    if not any(value["value"] for value in stop["locals"]):
        raise CheckFailed("no local variable could be read", evidence=result.transcript[-2000:])
    if result.exit_code != 0:
        raise CheckFailed(f"the debugged program ended with exit code {result.exit_code}",
                          evidence=result.transcript[-2000:])  # fmt: skip
    return stop


def _check_run(text: str, code: int) -> None:
    if code != 0:
        raise CheckFailed(f"the program ended with exit code {code}", where="phone", evidence=text[-2000:])
    if "decode tokens num" not in text:
        raise CheckFailed("the program printed no result block", where="phone", evidence=text[-2000:])


@contextlib.contextmanager
def _ended(phone: Phone, keep: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        phone.stop()
        raise
    if not keep:
        phone.stop()


def _closing(data: dict[str, Any], name: str, source: Path, keep: bool) -> str:
    sink = output.current()
    first = sink.style("done", "green") + (
        f": {data['pushed_bytes']} bytes pushed, stopped at "
        f"{Path(data['stop']['file']).name}:{data['stop']['line']}, exit code {data['exit_code']}"
    )
    if not keep:
        return first + "\nthe virtual phone is gone; `--keep` leaves it running to play with"
    lines = [
        first,
        f"the virtual phone runs on: sim:{name}. Try:",
        *(f"  {line}" for line in path_lines(Path(sys.executable).parent, shutil.which("devkit"))),
        f"  cd {shlex.quote(str(source))}",
        f"  devkit run {APP} -s sim:{name}",
        f"  devkit debug {APP} -s sim:{name} --break MNN::Transformer::Llm::response",
        f"  devkit device shell -s sim:{name}",
        f"  devkit sim stop {name}",
    ]
    return "\n".join(lines)


def path_lines(own: Path, found: str | None) -> list[str]:
    """What makes `devkit` in the user's shell this devkit: nothing, or a line that sets PATH.

    Args:
        own: the folder of this Python's programs.
        found: the devkit that the shell finds now.
    """
    if not (own / "devkit").exists() or (found and os.path.samefile(found, own / "devkit")):
        return []
    return [f'export PATH={shlex.quote(str(own))}:"$PATH"']


def check_keep_name() -> None:
    """A kept demo phone has the fixed name 'demo': say so before work is done in vain."""
    from devkit.sim import list_phones

    if any(record.name == "demo" for record in list_phones()):
        raise UsageError(
            "the phone of an earlier `devkit demo --keep` is still running",
            hints=["devkit sim stop demo", "devkit run llm_demo -s sim:demo"],
        )
