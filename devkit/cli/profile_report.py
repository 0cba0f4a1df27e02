"""What `devkit profile` says about a recording: tables here, pages and files for other viewers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import output, paths
from devkit.errors import FileError, UsageError

if TYPE_CHECKING:
    from devkit.profiling import Profile
    from devkit.profiling.engine_times import EngineTimes
    from devkit.profiling.history import History
    from devkit.profiling.tree import Merged

# From here on merging takes seconds, which is said.
_LONG_SAMPLES = 100_000

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the flame graph there.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write all functions there.")]
Speedscope = Annotated[
    Path | None, typer.Option("--speedscope", metavar="FILE", help="Write a file for speedscope.app.")
]
Firefox = Annotated[
    Path | None, typer.Option("--firefox", metavar="FILE", help="Write a file for profiler.firefox.com.")
]
Folded = Annotated[
    Path | None, typer.Option("--folded", metavar="FILE", help="Write stacks as `a;b;c weight` lines.")
]
Annotate = Annotated[
    str | None, typer.Option("--annotate", metavar="FUNC", help="Show a function's lines and their weights.")
]
Tree = Annotated[bool, typer.Option("--tree", help="Show the call tree instead of the top functions.")]
Top = Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many functions to show.")]
LeastShare = Annotated[
    float,
    typer.Option("--least", metavar="PERCENT", min=0, max=100, help="Leave out smaller branches of --tree."),
]
Threads = Annotated[
    list[str] | None, typer.Option("--thread", metavar="NAME|TID", help="Only this thread; repeatable.")
]
EventName = Annotated[
    str | None, typer.Option("--event", metavar="NAME", help="Which event, where several were counted.")
]
Engine = Annotated[
    list[Path] | None,
    typer.Option("--engine", metavar="FILE", help="A saved output, or QNN's profile: its times, too."),
]
Show = Annotated[
    str | None, typer.Option("--show", metavar="RUN", help="Record nothing: report on this recording.")
]
Compare = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--compare", metavar="BEFORE AFTER", help="Record nothing: say what differs in two recordings."
    ),
]


@dataclass(frozen=True)
class ReportRequest:
    """What of a recording to show and to write."""

    html: Path | None = None
    csv: Path | None = None
    speedscope: Path | None = None
    firefox: Path | None = None
    folded: Path | None = None
    annotate: str | None = None
    tree: bool = False
    top: int = 25
    least_percent: float = 1.0
    threads: tuple[str, ...] = ()
    event: str | None = None
    engine: tuple[Path, ...] = ()


def finish(
    profile: Profile,
    app: str,
    history: History,
    request: ReportRequest,
    sources: Path,
    results: Mapping[str, Any] | None = None,
) -> None:
    """Keep a new recording and report on it; without `--html` the page stands beside the recording.

    Args:
        results: of the run, for scripts.
    """
    from dataclasses import replace

    name = history.save(profile, app)
    html = request.html or history.path(name).with_suffix(".html")
    show(profile, replace(request, html=html), sources, name=name, results=results)


def show(
    profile: Profile,
    request: ReportRequest,
    sources: Path,
    *,
    name: str = "",
    results: Mapping[str, Any] | None = None,
) -> None:
    """Report on a recording.

    Args:
        sources: where source files are looked for that are not where the debug information says.
        name: of the recording in the history.
        results: of the run that was recorded, for scripts.

    Raises:
        UsageError: the thread, event or function asked for is not in it.
        FileError: a file cannot be written.
    """
    from devkit.profiling import report
    from devkit.profiling.functions import function_rows
    from devkit.profiling.sections import engine_text
    from devkit.profiling.selection import event_named, only_threads
    from devkit.profiling.tree import build_tree, merge

    sink = output.current()
    if len(profile) >= _LONG_SAMPLES:
        sink.note(f"merging {len(profile):,} samples")
    if request.threads:
        profile = only_threads(profile, request.threads)
    if request.engine:
        from devkit.profiling.engine_times import with_engine_times

        profile = with_engine_times(profile, _engine_times(request))
    event = event_named(profile, request.event)
    merged = merge(profile)
    rows = function_rows(merged, event) if profile.events else []
    total = merged.totals[event] if profile.events else 0
    written = _write_files(profile, merged, event, request)
    data: dict[str, Any] = {
        "run": name or None,
        **report.as_dict(rows, profile, merged, event),
        "files": {kind: str(path) for kind, path in written.items()},
    }
    if results is not None:
        data["results"] = dict(results)
    parts = [_headline(profile, total, event)]
    if request.tree:
        parts.append(report.call_tree(build_tree(merged), event, least_share=request.least_percent / 100))
    if request.annotate is not None:
        from devkit.profiling.annotate import annotate, annotated_text

        found = annotate(merged, request.annotate, event)
        data["annotated"] = found.as_dict()
        text, warnings = annotated_text(found, [sources, Path.cwd()], profile.meta.recorded_at)
        for warning in warnings:
            sink.warn(warning)
        parts.append(text)
    if not request.tree and request.annotate is None:
        parts += [report.thread_table(profile, event), report.top_table(rows, total, most=request.top)]
        parts += [text] if (text := engine_text(profile)) else []
    if not sink.json_mode:
        for note in profile.meta.notes:
            sink.warn(note)
    parts += [f"{kind}: {path}" for kind, path in written.items()]
    if name:
        parts.append(f"kept as {name} (devkit profile --show {name} --annotate FUNC)")
    sink.data(data, "\n".join(parts))


def compare(before: Profile, after: Profile, names: tuple[str, str], request: ReportRequest) -> None:
    """Say what differs between two recordings.

    Raises:
        UsageError: the thread or event asked for is not in one of them.
        FileError: the page cannot be written.
    """
    from devkit.profiling.compare import change_table, compare_profiles
    from devkit.profiling.selection import event_named, only_threads

    sink = output.current()
    if request.threads:
        before, after = (only_threads(profile, request.threads) for profile in (before, after))
    events = event_named(before, request.event), event_named(after, request.event)
    compared = compare_profiles(before, after, events)
    title = f"{names[0]} → {names[1]}"
    about = [
        f"{side}: {name}, {count:,} samples, {weight:,} {unit}"
        for side, name, count, weight, unit in zip(
            ("before", "after"), names, compared.counts, compared.weights, compared.units, strict=True
        )
    ]
    data: dict[str, Any] = {"before": names[0], "after": names[1], **compared.as_dict(), "files": {}}
    parts = [*about, "", change_table(compared.changes, most=request.top)]
    if request.html is not None:
        from devkit.profiling.flamegraph import render_comparison

        page = render_comparison(
            compared.joined, compared.counts, title=title, about=about, notes=compared.notes
        )
        _write(request.html, page)
        data["files"] = {"flame graph": str(request.html)}
        parts.append(f"flame graph: {request.html}")
    if not sink.json_mode:
        for note in compared.notes:
            sink.warn(note)
    sink.data(data, "\n".join(parts))


def show_engine(request: ReportRequest) -> None:
    """Report on saved outputs alone, without a recording.

    Raises:
        UsageError: one says nothing about times, or a file was asked for that needs samples.
        FileError: one cannot be read.
    """
    from devkit.profiling import Meta, ProfileBuilder
    from devkit.profiling.engine_times import with_engine_times
    from devkit.profiling.sections import engine_text

    files = (request.html, request.csv, request.speedscope, request.firefox, request.folded)
    if any(path is not None for path in files) or request.annotate is not None:
        raise UsageError(
            "--engine alone has no samples to write or annotate",
            hints=["devkit profile --show last --engine FILE --html page.html"],
        )
    times = _engine_times(request)
    text = engine_text(with_engine_times(ProfileBuilder().finish(Meta()), times), most=request.top)
    npu = [f"NPU busy: {one.npu_ms:.3f} ms ({one.source})" for one in times if one.npu_ms is not None]
    output.current().data({"engine": [one.as_dict() for one in times]}, "\n".join([text, *npu]))


def _engine_times(request: ReportRequest) -> list[EngineTimes]:
    from devkit.profiling.engine_times import read_engine_file

    return [read_engine_file(path, _qnn_viewer) for path in request.engine]


def _qnn_viewer() -> tuple[Path, Mapping[str, str]]:
    from devkit.cli import common
    from devkit.ndk.qnn_sdk import HOST_TARGET, qnn_sdk_for, tool_environment

    sdk = qnn_sdk_for(common.load_config())
    return sdk.find_file("qnn-profile-viewer", HOST_TARGET), tool_environment(sdk)


def _headline(profile: Profile, total: int, event: int) -> str:
    meta = profile.meta
    parts = [" ".join(meta.command), meta.machine, f"{len(profile):,} samples"]
    if profile.events:
        kind = profile.events[event]
        parts.append(f"{total / 1e9:.2f} s of {kind.name}" if kind.unit == "ns" else f"{total:,} {kind.name}")
    if meta.lost:
        parts.append(f"{meta.lost:,} lost")
    return ", ".join(part for part in parts if part) + "\n"


def _write_files(profile: Profile, merged: Merged, event: int, request: ReportRequest) -> dict[str, Path]:
    from devkit.profiling import export, report
    from devkit.profiling.flamegraph import render_page, shown_command
    from devkit.profiling.functions import function_rows

    written: dict[str, Path] = {}

    def write(kind: str, path: Path | None, parts: Iterable[str]) -> None:
        if path is not None:
            _write(path, "".join(parts))
            written[kind] = path

    title = shown_command(profile.meta) or "profile"
    if request.html is not None:
        write("flame graph", request.html, [render_page(merged)])
    if request.csv is not None:
        rows, kind = function_rows(merged, event), profile.events[event]
        write("functions", request.csv, [report.as_csv(rows, merged.totals[event], kind)])
    if request.speedscope is not None:
        write("speedscope", request.speedscope, [export.speedscope(profile, title)])
    if request.firefox is not None:
        write("Firefox Profiler", request.firefox, [export.firefox(profile, title)])
    if request.folded is not None:
        write("folded stacks", request.folded, report.as_folded(merged, event))
    return written


def _write(path: Path, text: str) -> None:
    try:
        paths.write_atomically(path, text)
    except OSError as error:
        raise FileError(f"{path} cannot be written", evidence=error.strerror) from None


def list_recordings(history: History) -> None:
    """The recordings of a project."""
    names = history.names()
    output.current().data(names, "\n".join(names) or "no recordings yet: devkit profile APP")
