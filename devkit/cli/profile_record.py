"""What `devkit profile` does round a recording: prepare the phone, read the file, look symbols up."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import DeviceError, DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.profiling import Profile
    from devkit.profiling.history import History
    from devkit.profiling.recording import Recording, RecordOptions
    from devkit.runtime.root import RootWay
    from devkit.symbols import SymbolIndex

Attach = Annotated[
    str | None, typer.Option("--attach", metavar="PID|NAME", help="Record a running process instead.")
]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", metavar="N", min=0.1, help="With --attach: for how long (10); --host: end it."),
]
Frequency = Annotated[
    int, typer.Option("--frequency", metavar="HZ", min=1, max=100_000, help="Samples a second and core.")
]
CallGraph = Annotated[
    str,
    typer.Option("--call-graph", metavar="dwarf|fp|none", help="How callers are found: dwarf, fp or none."),
]
Counter = Annotated[
    str | None,
    typer.Option("--counter", metavar="EVENT", help="What to count (cpu-cycles, else cpu-clock)."),
]
OffCpu = Annotated[bool, typer.Option("--off-cpu", help="Also where threads wait.")]
PerThread = Annotated[bool, typer.Option("--per-thread", help="Threads as the outermost frames.")]
Symbols = Annotated[
    list[Path] | None,
    typer.Option("--symbols", metavar="DIR", help="Unstripped files beside the build's; repeatable."),
]


@dataclass(frozen=True)
class Wanted:
    """What the options say, beside how to run and to report."""

    options: RecordOptions
    attach: str | None = None
    seconds: float = 10.0
    per_thread: bool = False
    symbols: tuple[Path, ...] = ()


def make_wanted(
    *,
    name: str | None,
    attach: str | None,
    seconds: float | None,
    frequency: int,
    call_graph: str,
    counter: str | None,
    off_cpu: bool,
    per_thread: bool,
    symbols: Sequence[Path] | None,
) -> Wanted:
    """What the options say.

    Raises:
        UsageError: they contradict each other.
    """
    from devkit.profiling.recording import CALL_GRAPHS, RecordOptions

    if call_graph not in CALL_GRAPHS:
        raise UsageError(
            f"--call-graph {call_graph}: there is no such way",
            hints=[f"--call-graph {way}" for way in CALL_GRAPHS],
        )
    if attach is None and seconds is not None:
        raise UsageError(
            "--seconds goes with --attach: a program that is started is recorded to its end",
            hints=["--timeout SECONDS ends the program"],
        )
    if attach is None and name is None:
        raise UsageError("which app?", hints=["devkit profile APP", "devkit profile --attach NAME"])
    options = RecordOptions(frequency, call_graph, counter or "", off_cpu)
    return Wanted(options, attach, seconds or 10.0, per_thread, tuple(symbols or ()))


def show_plan(device: Device, config: Config, wanted: Wanted, device_dir: str) -> None:
    """What would be done; nothing on the phone is changed."""
    from devkit.profiling.phone_prepare import CLOSED, HARDEN, probe
    from devkit.profiling.phone_recorder import find_recorder

    found = probe(device)
    recorder = find_recorder(config, device, found, device_dir, push=False)
    words = wanted.options.words(wanted.options.counter or "cpu-cycles")
    lines = [
        f"recorder  {recorder.path} ({recorder.origin})",
        f"options   {' '.join(words)}",
        f"phone     {HARDEN} {found.harden or 'not set'}, perf_event_paranoid "
        f"{'unreadable' if found.paranoid is None else found.paranoid}",
    ]
    if found.state == CLOSED:
        lines.append(f"would set {HARDEN} 0, and put {found.harden} back at the end")
    output.current().data(
        {"recorder": recorder.path, "origin": recorder.origin, "options": words, "phone": found.as_dict()},
        "\n".join(lines),
    )


def record_process(
    config: Config, device: Device, wanted: Wanted, *, root: bool, logcat: bool = False
) -> Profile:
    """Record a running process for a while.

    Args:
        logcat: show its lines of the phone's log.

    Raises:
        DeviceError: there is no such process, the phone does not let us record, or went away.
    """
    from devkit.cli.run_logcat import STDERR, beside_session
    from devkit.runtime.root import find_root

    assert wanted.attach is not None
    entry = device.find_process(wanted.attach)
    folder = device.writable_dir(config.device.dir)
    way = find_root(device) if root else None
    with ready(config, device, wanted, folder, way) as recording:
        output.current().note(f"recording {entry.program} ({entry.pid}) for {wanted.seconds:g} s")
        log = beside_session(device, STDERR, pids=[entry.pid]) if logcat else contextlib.nullcontext()
        with log:
            recording.attach(entry.pid, wanted.seconds)
        return finish(config, device, recording, wanted, entry.cmdline or (entry.name,), ())


@contextlib.contextmanager
def ready(
    config: Config, device: Device, wanted: Wanted, device_dir: str, root: RootWay | None
) -> Iterator[Recording]:
    """A phone that lets us record, and what to record with."""
    from devkit.profiling.phone_prepare import CLOSED, Opened, probe
    from devkit.profiling.phone_recorder import find_recorder
    from devkit.profiling.recording import new_recording

    found = probe(device)
    recorder = find_recorder(config, device, found, device_dir)
    recording = new_recording(device, recorder, wanted.options, device_dir)
    with contextlib.ExitStack() as stack:
        stack.callback(recording.forget)
        try:
            if found.state == CLOSED or root is not None:
                stack.enter_context(Opened(device, found, root=root))
            recording.choose_counter()
        except DeviceError:
            way = _other_way(device, root)
            if way is None:
                raise
            output.current().note("the phone refuses the shell user: opening it with su")
            stack.enter_context(Opened(device, found, root=way))
            recording.choose_counter()
        output.current().detail(f"{recorder.path} ({recorder.origin}) counts {recording.counter}")
        yield recording


def load_run(config: Config, history: History, run: str, symbols: Sequence[Path] | None) -> Profile:
    """A recording of the history, or a file: devkit's own, a perf.data, or a text of simpleperf.

    Raises:
        UsageError: there is no such recording.
        FileError: the file is none, or damaged.
    """
    from devkit.profiling.loading import is_ours, read_any

    path = history.find(run)
    if is_ours(path):
        return history.load(run)
    from devkit.profiling.symbolizing import locator

    with _symbols(config, (), symbols or ()) as index:
        with output.current().progress(f"reading {path}", path.stat().st_size, unit="bytes") as bar:
            profile = read_any(path, locate=locator(index), on_bytes=bar.advance)
        return _looked_up(config, profile, index)


def _looked_up(config: Config, profile: Profile, index: SymbolIndex) -> Profile:
    """With functions and lines; without a tool for them as it is."""
    from devkit.profiling.symbolizing import demangled, symbolize
    from devkit.symbols import Symbolizer

    tool = common.symbolizer_of_ndk(config)
    try:
        with output.current().progress("looking up source lines", None):
            profile = symbolize(profile, index, Symbolizer(tool))
    except DevkitError as error:
        output.current().warn("; ".join([f"functions stay addresses: {error.what}", *error.hints]))
    return demangled(profile, beside=tool)


def _other_way(device: Device, root: RootWay | None) -> RootWay | None:
    """Through su, where there is one and it was not tried yet."""
    from devkit.runtime.root import find_root

    if root is not None:
        return None
    try:
        return find_root(device)
    except DevkitError:
        return None


def finish(
    config: Config,
    device: Device,
    recording: Recording,
    wanted: Wanted,
    command: Sequence[str],
    files: Sequence[Path],
) -> Profile:
    """The recording's file, read and looked up."""
    from devkit.profiling.perf_data import read_perf_data
    from devkit.profiling.symbolizing import by_thread, locator

    sink = output.current()
    with tempfile.TemporaryDirectory(prefix="devkit-profile-") as folder:
        local = Path(folder, "perf.data")
        recording.collect(local)
        with _symbols(config, files, wanted.symbols) as index:
            size = local.stat().st_size
            with sink.progress("reading the recording", size, unit="bytes") as bar:
                profile = read_perf_data(local, locate=locator(index), on_bytes=bar.advance)
            notes = (*profile.meta.notes, *recording.notes)
            if profile.meta.lost:
                share = profile.meta.lost / (len(profile) + profile.meta.lost)
                notes += (f"{profile.meta.lost} samples were lost ({share:.0%}): a lower --frequency",)
            meta = replace(
                profile.meta,
                machine=f"{device.model} ({device.serial})",
                command=tuple(command),
                recorded_at=time.time(),
                notes=notes,
            )
            series = recording.series_by_samples(min(profile.sample_time_ns, default=0))
            profile = replace(profile, meta=meta, series=tuple(series))
            profile = _looked_up(config, profile, index)
    return by_thread(profile) if wanted.per_thread else profile


@contextlib.contextmanager
def _symbols(config: Config, files: Sequence[Path], more: Sequence[Path]) -> Iterator[SymbolIndex]:
    """The unstripped files: what was deployed, what is built here, what the user named."""
    from devkit import crashes
    from devkit.engine.plan import BUILD_ROOT

    built = config.source / BUILD_ROOT
    places = [*more, *([built] if built.is_dir() else [])]
    with crashes.SymbolFolders(places) as folders:
        for file in files:
            folders.index.add(file)
        yield folders.index
