"""Crashes of a program that runs, or of a log that is followed: shown with their lines."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.crashes import Crash, SymbolFolders
    from devkit.crashes.live import CrashWatch
    from devkit.logcat.record import Record
    from devkit.runtime import PreparedApp


def of_app(
    config: Config,
    prepared: PreparedApp,
    *,
    mine: Callable[[Crash], bool] = lambda crash: True,
    editor: bool = False,
) -> LiveCrashes:
    """The crashes of an app that stands on the phone: its files there are known."""
    from devkit.symbols import is_elf

    folder = prepared.plan.folder
    deployed = {posixpath.join(folder, f.remote): f.local for f in prepared.plan.files if is_elf(f.local)}
    places = list(dict.fromkeys(deployed.values()))
    return LiveCrashes(config, places, deployed, app=prepared.local.app.name, mine=mine, editor=editor)


class LiveCrashes:
    """Give it what is shown; it shows each crash in lines of source, on stderr, below its own text.

    Args:
        places: folders and files with symbols; None: what devkit built.
        deployed: as `SymbolFolders`.
        app: for the commands that are proposed; None: it is not known.
        json_rows: with --json each crash is a line of the output at once.
        mine: whether a crash is of interest.
        editor: begin with a line as compilers write them, which editors make a link and list as a problem.

    Attributes:
        found: all crashes, in order, for --json.
    """

    def __init__(
        self,
        config: Config | None,
        places: Sequence[Path] | None = None,
        deployed: Mapping[str, Path] | None = None,
        *,
        app: str | None = None,
        json_rows: bool = False,
        mine: Callable[[Crash], bool] = lambda crash: True,
        editor: bool = False,
    ) -> None:
        self._config = config
        self._places = places
        self._deployed = deployed
        self._app = app
        self._json_rows = json_rows
        self._mine = mine
        self._editor = editor
        self._watch: CrashWatch | None = None
        self._folders: SymbolFolders | None = None
        self.found: list[Crash] = []

    def output(self, data: bytes, stderr: bool = False) -> None:
        """Bytes of the program."""
        self._watching().text(data, "stderr" if stderr else "stdout")

    def log(self, records: Sequence[Record]) -> None:
        """Records of the phone's log."""
        self._watching().records(records)

    def logged(self, text: bytes) -> None:
        """Lines of the log without their heads."""
        self._watching().text(text, "log")

    def finish(self) -> None:
        """Nothing more comes; returns when all that was found has been shown."""
        if self._watch is not None:
            self._watch.close()

    def close(self) -> None:
        """`finish`, and leave nothing behind."""
        self.finish()
        if self._folders is not None:
            self._folders.__exit__()
            self._folders = None

    def as_list(self) -> list[dict[str, Any]]:
        """All crashes, as `devkit symbolize --json` has them."""
        from devkit.crashes.report import crash_dict

        return [crash_dict(crash, self._roots(), self._app) for crash in self.found]

    def _watching(self) -> CrashWatch:
        if self._watch is None:
            from devkit.crashes.live import CrashWatch

            self._watch = CrashWatch(self.tell)
        return self._watch

    def tell(self, crash: Crash) -> None:
        """Put lines to a crash and show it."""
        from devkit.crashes.report import crash_dict, crash_text

        if not self._mine(crash):
            return
        self._add_lines(crash)
        self.found.append(crash)
        sink = output.current()
        if sink.json_mode:
            if self._json_rows:
                sink.rows([{"crash": crash_dict(crash, self._roots(), self._app)}], "")
            return
        sys.stdout.flush()  # the crash itself, which comes first
        text = f"\n{self._link(crash)}{crash_text(crash, self._roots(), self._app)}\n\n"
        if sys.stderr.isatty():
            text = text.replace("\n", "\r\n")  # the program may have the terminal in raw mode
        sink.raw(text.encode("utf-8", "replace"), stderr=True)

    def _link(self, crash: Crash) -> str:
        from devkit.crashes import headline, own_frame

        own = own_frame(crash) if self._editor else None
        place = own[1].place if own is not None and own[1] is not None else None
        return f"{place}: error: {headline(crash)}\n" if place else ""

    def _add_lines(self, crash: Crash) -> None:
        from devkit.cli.crash_symbols import add_lines, built_places
        from devkit.crashes import SymbolFolders

        if not crash.stacks:
            return
        try:
            if self._folders is None:
                places = self._places if self._places is not None else built_places(self._config)
                self._folders = SymbolFolders(places, self._deployed)
            add_lines([crash], self._folders, self._config)
        except (DevkitError, OSError) as error:
            what = error.what if isinstance(error, DevkitError) else str(error)
            output.current().warn(f"frames stay as printed: {what}")

    def _roots(self) -> list[Path]:
        return [Path.cwd(), *([self._config.source] if self._config else [])]
