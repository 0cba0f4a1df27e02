"""What `devkit debug` says of symbols: builds that differ, sources that moved, breakpoints without code."""

from __future__ import annotations

import contextlib
import functools
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.lldb import DebugRequest, DebugResult
    from devkit.runtime import PreparedApp
    from devkit.symbols import SymbolIndex


def source_map(config: Config, prepared: PreparedApp) -> tuple[tuple[str, str], ...]:
    from devkit.lldb.source_map import source_map_of

    beside = prepared.local.program.parent
    roots = dict.fromkeys(folder.absolute() for folder in (config.source, config.root, beside))
    found = source_map_of(_own_files(prepared), list(roots))
    for warning in found.warnings:
        output.current().warn(warning)
    for before, here in found.pairs:
        output.current().detail(f"sources of {before} are in {here}")
    return found.pairs


def _own_files(prepared: PreparedApp) -> list[Path]:
    foreign = prepared.foreign_libraries
    return [prepared.local.program, *(file for file in prepared.libraries if file not in foreign)]


def pending(prepared: PreparedApp, points: Sequence[str]) -> tuple[str, ...]:
    from devkit.engine.compile_commands import read_database
    from devkit.lldb.pending import explain_pending

    if not points:
        return ()
    compiled: set[str] = set()
    built = prepared.local.build
    with contextlib.suppress(DevkitError):
        if built is not None and built.compile_commands is not None:
            compiled = {entry.file for entry in read_database(built.compile_commands).entries}
        own, foreign = _own_files(prepared), prepared.foreign_libraries
        return tuple(explain_pending(points, own, compiled, foreign=foreign))
    return ()


def check_build(
    config: Config, device: Device, prepared: PreparedApp, pid: int | None, name: str
) -> tuple[Path, ...]:
    """Refuse builds that differ; files here for what a process has loaded besides the app's own."""
    from devkit.lldb import same_build
    from devkit.symbols import is_elf

    local = {
        posixpath.join(prepared.plan.folder, file.remote): file.local
        for file in prepared.plan.files
        if is_elf(file.local)
    }
    index = functools.lru_cache(maxsize=1)(lambda: _all_builds(config))
    if pid is not None:
        return same_build.check_same_process(device, pid, local, name, index)
    same_build.check_same_build(device, local, name, index)
    return ()


def _all_builds(config: Config) -> SymbolIndex:
    """Every program and library of the build folders, and the NDK's runtime libraries."""
    from devkit.engine.plan import BUILD_ROOT
    from devkit.ndk import ndk_for
    from devkit.symbols import SymbolIndex
    from devkit.symbols.index import symbol_files

    places = [config.source / BUILD_ROOT]
    with contextlib.suppress(DevkitError):
        places += sorted(ndk_for(config).path.glob("toolchains/llvm/prebuilt/*/sysroot/usr/lib/*"))
    with output.current().progress("looking for builds by their build-ids", None):
        return SymbolIndex(file for place in places if place.exists() for file in symbol_files(place))


def warn_about_lines(request: DebugRequest, *, served: bool) -> None:
    """Without debug information there are functions, but no lines: said before the session, not after."""
    from devkit.lldb.recipes import parse_breakpoint
    from devkit.symbols import read_elf

    by_line = any(parse_breakpoint(text)[1] is not None for text in request.breakpoints)
    if not by_line and not served:
        return
    if not any(read_elf(file).has_debug_info for file in (request.program, *request.libraries)):
        output.current().warn(
            f"no debug info in {request.program} and its libraries: breakpoints at FILE:LINE stay pending; "
            "build it with --type debug, or break at functions"
        )


def warn_about_breakpoints(result: DebugResult, name: str, args: Sequence[str]) -> None:
    from devkit.lldb.early_end import explain_early_end

    sink = output.current()
    empty = [point for point in result.breakpoints if not point["locations"]]
    for point in empty:
        why = point.get("why") or "is it the right name, not stripped?"
        sink.warn(f"no code was ever at the breakpoint {point['place']}: {why}")
    for point in result.breakpoints:
        if point["locations"] and not point.get("resolved") and not point["hits"]:
            sink.warn(
                f"the breakpoint {point['place']} is in {point['module']}, which the program has not loaded"
            )
    hit = any(point["hits"] for point in result.breakpoints) or any(s["is_breakpoint"] for s in result.stops)
    if result.breakpoints and not hit and not empty:
        sink.warn(explain_early_end(result.exit_code, result.transcript, name, args).text)
