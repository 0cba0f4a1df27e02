"""`devkit logcat`: the phone's log, or a saved one."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from devkit import output
from devkit.cli import common, logcat_adb
from devkit.errors import EXIT_CHECK_FAILED, DeviceError, FileError, UsageError

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

    from devkit.config import Config
    from devkit.device import Device
    from devkit.logcat.follow import Follower
    from devkit.logcat.processes import ProcessFilter
    from devkit.logcat.save import Writer
    from devkit.logcat.session import Beside, View

app = typer.Typer(rich_markup_mode=None)

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKmMgG]?)[bB]?\Z")
_FACTORS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}


@app.command(
    epilog="Example: devkit logcat; devkit logcat MNNJNI:I '*:E'; devkit logcat --app com.example.chat "
    "--since 10m; devkit logcat --all --save log.txt; devkit logcat --file bug.txt --regex QNN"
)
def logcat(
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG:LEVEL]…",
            help="What is shown (the engine's tags); '*': all others, S: silent.",
        ),
    ] = None,
    serial: common.Serial = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show every tag.")] = False,
    level: Annotated[
        str | None, typer.Option("--level", "-l", metavar="L", help="Nothing below V, D, I, W, E or F.")
    ] = None,
    regex: Annotated[
        str | None, typer.Option("--regex", "-e", metavar="REGEX", help="Only messages with a match.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="REGEX", help="No messages with a match.")
    ] = None,
    pid: Annotated[
        list[int] | None, typer.Option("--pid", min=1, metavar="PID", help="Only this process; repeatable.")
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option("--app", metavar="NAME", help="Only this program or app, also after restarts."),
    ] = None,
    buffer: Annotated[
        list[str] | None,
        typer.Option("--buffer", "-b", metavar="NAME", help="main, system, crash (default), radio, …, all."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Begin there: 10m (ago), 10:22:30, '05-14 10:22:30'."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Show nothing later.")] = None,
    dump: Annotated[bool, typer.Option("--dump", "-d", help="Show what is there and end.")] = False,
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="End after that: 30s, 5m.")
    ] = None,
    max_count: Annotated[
        int | None, typer.Option("--max-count", "-m", min=1, metavar="N", help="End after N lines shown.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE|-", help="Read a saved log instead.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write all that is read there, too.")
    ] = None,
    save_shown: Annotated[bool, typer.Option("--save-shown", help="Save only what is shown.")] = False,
    append: Annotated[bool, typer.Option("--append", help="Continue FILE of --save.")] = False,
    rotate: Annotated[
        str, typer.Option("--rotate", metavar="SIZE", help="A new FILE after so much; 0: never.")
    ] = "64M",
    keep: Annotated[
        int, typer.Option("--keep", min=0, metavar="N", help="Full files to keep, FILE.1 the newest.")
    ] = 4,
    events: Annotated[
        bool, typer.Option("--events", help="Errors of QNN, heat, kills, crashes: not the lines.")
    ] = False,
    clear: Annotated[
        bool, typer.Option("--clear", "-c", help="Empty the phone's log and end; asks.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: common.DryRun = False,
    print_commands: common.PrintCommands = False,
) -> None:
    """Show the phone's log; it goes on after broken links, says what is missing, and ends with Ctrl-C.

    Exit code 1: lines may be missing (the summary says where).
    """
    from devkit.logcat.filters import Filters, compile_regex
    from devkit.logcat.session import View
    from devkit.logcat.times import parse_duration, parse_moment

    kind = View
    if events:
        from devkit.cli.logcat_events import EventView

        kind = EventView

    _check(
        clear=clear, file=file, dry_run=dry_run, processes=process,
        needs_save={"--append": append, "--save-shown": save_shown}, save=save,
    )  # fmt: skip
    config = common.load_config(serial=serial)
    buffers = _buffers(buffer)
    if clear:
        logcat_adb.clear(config, serial, buffers, yes=yes, dry_run=dry_run)
        return
    tags, others = _tags(config, specs or [], everything or events, bool(pid or process), level)
    filters = Filters(
        tags,
        others,
        compile_regex(regex, "--regex"),
        compile_regex(exclude, "--exclude"),
        parse_moment(since) if since else None,
        parse_moment(until, option="--until") if until else None,
    )
    seconds = parse_duration(duration, option="--duration") if duration else None
    rotate_bytes = _size(rotate)
    if filters.since_ns and filters.until_ns and filters.since_ns > filters.until_ns:
        raise UsageError(f"--since {since} is later than --until {until}: nothing can be shown")
    if print_commands:
        if file is not None:
            raise UsageError("--print-commands tells how adb reads a phone's log, --file reads a saved one")
        logcat_adb.print_commands(config, serial, buffers, filters, dump)
        return
    with contextlib.ExitStack() as stack:
        device = common.pick_device(config, serial) if file is None else None
        writer = stack.enter_context(_writer(save, rotate_bytes, keep, append)) if save else None
        view = kind(
            filters,
            processes=_processes(device, pid, process),
            buffers=frozenset(buffers)
            if file is not None and buffer and "all" not in buffers
            else frozenset(),
            writer=writer,
            save_shown=save_shown,
            max_count=max_count,
            duration_s=seconds,
        )
        if device is not None:
            view.beside = _crashes(config, stack)
        if not (specs or everything or events or pid or process):
            names = ", ".join(sorted(tag.decode() for tag in tags))
            sink = output.current()
            sink.note(sink.style(f"showing {names}, and of others what is fatal (--all: everything)", "dim"))
        if device is None:
            _read_file(str(file), view)
        else:
            view.live = True
            _follow(device, buffers, view, dump)


def _check(
    *,
    clear: bool,
    file: str | None,
    dry_run: bool,
    processes: list[str] | None,
    needs_save: dict[str, bool],
    save: Path | None,
) -> None:
    """Refuse what would be passed over in silence."""
    if clear and file is not None:
        raise UsageError("--clear empties a phone's log, --file reads a saved one: name one of them")
    if dry_run and not clear:
        raise UsageError("--dry-run goes with --clear: nothing else changes anything")
    for option, given in needs_save.items():
        if given and save is None:
            raise UsageError(f"{option} goes with --save FILE")
    if processes and not all(name.strip() for name in processes):
        raise UsageError("--app needs a name", hints=["--app llm_demo, --app com.example.chat"])


def _follow(device: Device, buffers: list[str], view: View, dump: bool) -> None:
    from devkit.logcat.source import says_no_layout

    if _is_capture(device, buffers, view):
        try:
            _follow_as(device, buffers, view, dump, text=True)
            return
        except DeviceError as error:
            if not says_no_layout(error.evidence or ""):
                raise
            output.current().detail(f"{error.evidence}: the log is read in binary instead")
    _follow_as(device, buffers, view, dump, text=False)


def _follow_as(device: Device, buffers: list[str], view: View, dump: bool, *, text: bool) -> None:
    from devkit.logcat.capture import Capture
    from devkit.logcat.follow import Follower
    from devkit.logcat.reading import Entries, Lines
    from devkit.logcat.source import PhoneLog, is_one

    source, since_ns = PhoneLog(device, buffers, ends=dump, text=text), view.filters.since_ns
    follower: Follower[Any]
    take: Callable[[Any], bool]
    if text:
        lines = Lines(of_one=is_one(buffers))
        follower, take = Follower(source, lines, since_ns=since_ns, ends=dump), Capture(view, lines).take
    else:
        follower, take = Follower(source, Entries(), since_ns=since_ns, ends=dump), view.take
    try:
        view.follow(follower, take)
    except DeviceError:
        if view.counts.read:
            _summarize(view, follower)
        raise
    except BaseException:
        _summarize(view, follower)
        raise
    _summarize(view, follower)
    if follower.gaps:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _is_capture(device: Device, buffers: list[str], view: View) -> bool:
    """Whether everything goes to a file, and what is shown needs nothing that a text log does not tell."""
    from devkit.logcat.source import BINARY_BUFFERS, TEXT_SINCE_API

    return (
        view.writer is not None
        and not view.save_shown
        and view.processes is None
        and not output.current().json_mode
        and not BINARY_BUFFERS.intersection(buffers)
        and device.api_level >= TEXT_SINCE_API
    )


def _read_file(file: str, view: View) -> None:
    from devkit.logcat.files import read_log

    try:
        if file == "-":
            view.read(read_log(cast("io.BufferedReader", sys.stdin.buffer)))
        else:
            with Path(file).open("rb") as stream:
                view.read(read_log(stream))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise FileError(f"{file} cannot be read", evidence=error.strerror) from None
    _summarize(view, None)


def _summarize(view: View, follower: Follower[Any] | None) -> None:
    from devkit.logcat.session import summary

    view.tell_all()
    sink = output.current()
    if view.beside is not None:
        view.beside.finish()
    value, text = summary(view, follower)
    if sink.json_mode:
        sink.rows([{"summary": value}], "")
    else:
        sink.note(sink.style(text, "dim"))


def _crashes(config: Config, stack: contextlib.ExitStack) -> Beside:
    from devkit.cli.live_crashes import LiveCrashes

    live = LiveCrashes(config, json_rows=True)
    stack.callback(live.close)
    return live


def _tags(
    config: Config, specs: list[str], everything: bool, by_process: bool, level: str | None
) -> tuple[dict[bytes, int], int]:
    """Tags and their levels: those that are named, else everything of a process, else the engine's."""
    from devkit.logcat.filters import parse_level, parse_specs
    from devkit.logcat.record import SILENT, VERBOSE
    from devkit.logcat.tags import default_tags

    tags, named = parse_specs(specs)
    if specs:
        # adb logcat shows all other tags when only some are named; nobody names some to see all.
        others = named if named is not None else SILENT if not everything else VERBOSE
        # Lines that the phone has folded or dropped must not look like lines that never were.
        tags.setdefault(b"chatty", VERBOSE)
    elif everything or by_process:
        others = VERBOSE
    else:
        tags, others = default_tags(config.engine)
    if level is not None:
        lowest = parse_level(level)
        tags = {tag: max(one, lowest) for tag, one in tags.items()}
        others = max(others, lowest)
    return tags, others


def _processes(
    device: Device | None, pids: list[int] | None, names: list[str] | None
) -> ProcessFilter | None:
    from devkit.logcat.processes import ProcessFilter
    from devkit.logcat.session import app_users, ask_names

    if not pids and not names:
        return None
    if device is None:
        return ProcessFilter(pids=pids or (), names=names or ())

    def shell(script: str) -> bytes:
        return device.shell(script).stdout

    return ProcessFilter(
        pids=pids or (), names=names or (), uids=app_users(shell, names or ()), ask=ask_names(shell)
    )


def _buffers(names: list[str] | None) -> list[str]:
    from devkit.logcat.source import BUFFER_NAMES, DEFAULT_BUFFERS

    found = [word for text in names or [] for word in text.replace(",", " ").split()]
    for name in found:
        if name not in BUFFER_NAMES:
            raise UsageError(f"there is no log buffer {name!r}", hints=[", ".join(BUFFER_NAMES)])
    return found or list(DEFAULT_BUFFERS)


def _size(text: str) -> int:
    found = _SIZE.match(text.strip())
    if found is None:
        raise UsageError(f"--rotate {text!r} is no size", hints=["64M, 500k, 0 for never"])
    return int(float(found[1]) * _FACTORS[found[2].lower()])


def _writer(path: Path, rotate_bytes: int, keep: int, append: bool) -> Writer:
    from devkit.logcat.save import Writer
    from devkit.paths import expand_user

    return Writer(expand_user(path), rotate_bytes=rotate_bytes, kept=keep, append=append)
