"""Source lines for crashes on the command line: from which files, with which tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.cli import common
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.crashes import Crash, SymbolFolders


def built_places(config: Config | None) -> list[Path]:
    """Where devkit's builds of the project are; none outside of one, or before the first build."""
    from devkit.engine.plan import BUILD_ROOT

    built = config.source / BUILD_ROOT if config else None
    return [built] if built is not None and built.is_dir() else []


def add_lines(crashes: Sequence[Crash], folders: SymbolFolders, config: Config | None) -> None:
    """Put locations into the frames; a tool that is missing or breaks off is a warning."""
    from devkit.crashes import symbolize
    from devkit.symbols import LineCache, Symbolizer

    symbolizer = Symbolizer(common.symbolizer_of_ndk(config), LineCache())
    try:
        symbolize(crashes, folders, symbolizer)
        for file, why in symbolizer.failed.items():
            output.current().warn(f"no lines from {file}: {why}")
    except DevkitError as error:
        # The text itself was read, which is worth more than nothing.
        output.current().warn("; ".join([f"frames stay as printed: {error.what}", *error.hints]))
