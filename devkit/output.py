"""The one place that prints: data to stdout; notes, progress and errors to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from devkit.errors import FileError

if TYPE_CHECKING:
    from devkit.errors import DevkitError

PROGRESS_AFTER_S = 0.5
PROGRESS_NOTE_EVERY_S = 10.0
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Progress:
    """A bar of known length. Also usable when nothing is drawn (no terminal, --json, --quiet)."""

    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float) -> None:
        """Count `amount` more units (bytes, steps) as done."""
        self.done += amount

    def skip(self, amount: float) -> None:
        """Count `amount` units that were done before: they are no part of the rate."""
        self.done += amount

    def describe(self, text: str) -> None:
        """Change the text beside the bar."""

    def total(self, total: float) -> None:
        """Correct the length of the bar, in the same units as `advance`."""


class Output:
    """How results, notes and errors leave devkit.

    Args:
        json_mode: data leaves as one JSON document on stdout, errors as JSON too.
        quiet: no notes and no progress, only data, warnings and errors.
        verbosity: 0 normal, 1 (-v) also shows what devkit runs.
    """

    def __init__(self, *, json_mode: bool = False, quiet: bool = False, verbosity: int = 0) -> None:
        self.json_mode = json_mode
        self.quiet = quiet
        self.verbosity = verbosity
        self.debug = False
        self._line_by_line = False

    def data(self, value: Any, human: str | None = None) -> None:
        """Print a result: `value` as JSON in json mode, else `human` (or `value` as text)."""
        if self.json_mode:
            import json

            text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
        else:
            text = human if human is not None else str(value)
        self._write(sys.stdout, text + "\n" if text and not text.endswith("\n") else text)

    def rows(self, values: Iterable[Any], human: str) -> None:
        """Print a part of a result that comes bit by bit: in json mode one line a value, else `human`."""
        if self.json_mode:
            import json

            self._line_by_line = True
            human = "".join(json.dumps(value, ensure_ascii=False, default=str) + "\n" for value in values)
        if human:
            self._write(sys.stdout, human)

    def raw(self, data: bytes, *, stderr: bool = False) -> None:
        """Pass bytes of a program through unchanged. In json mode they go to stderr."""
        stream = sys.stderr if stderr or self.json_mode else sys.stdout
        buffer = getattr(stream, "buffer", None)
        with _written(stream):
            if buffer is None:
                stream.write(data.decode("utf-8", "replace"))
            else:
                stream.flush()
                buffer.write(data)
            stream.flush()

    def note(self, text: str) -> None:
        """Say what is going on (stderr; silent with --quiet)."""
        if not self.quiet:
            self._write(sys.stderr, text + "\n")

    def detail(self, text: str) -> None:
        """Say something only `-v` users want to read."""
        if self.verbosity > 0:
            self._write(sys.stderr, self.style(text, "dim") + "\n")

    def command(self, argv_text: str) -> None:
        """Show a command line that devkit runs (with -v)."""
        self.detail("+ " + argv_text)

    def warn(self, text: str) -> None:
        """Say what may go wrong. Never silent."""
        self._write(sys.stderr, self.style("warning: ", "yellow") + text + "\n")

    def error(self, error: DevkitError) -> None:
        """Print an error: what, where, evidence, next commands."""
        if self.json_mode:
            import json

            # Whoever reads lines (`rows`) gets the error as one more of them.
            text = json.dumps(error.as_dict(), indent=None if self._line_by_line else 2, ensure_ascii=False)
            with contextlib.suppress(FileError):  # where stdout is full, stderr may not be
                self._write(sys.stdout, text + "\n")
                return
        lines = [self.style("error", "red") + f" ({error.where}): {error.what}"]
        if error.evidence:
            lines += ["  " + self.style("| ", "dim") + line for line in error.evidence.splitlines()]
        lines += [self.style("  try: ", "cyan") + hint for hint in error.hints]
        self._write(sys.stderr, "\n".join(lines) + "\n")

    @contextlib.contextmanager
    def progress(self, label: str, total: float | None, *, unit: str = "steps") -> Iterator[Progress]:
        """A progress bar on stderr; drawn only on a terminal and only when it takes a while.

        Elsewhere (a log file, CI) a line says every PROGRESS_NOTE_EVERY_S how far it is.

        Args:
            label: what is being done.
            total: length in `unit`, or None when unknown.
            unit: "bytes" shows sizes and rate, anything else shows counts.
        """
        if self.quiet or self.json_mode or not sys.stderr.isatty():
            yield Progress() if self.quiet else _Notes(self, label, total, unit)
            return
        bar = _LazyBar(label, total, unit)
        try:
            yield bar
        finally:
            bar.close()

    def style(self, text: str, style: str, *, stream: Any = None) -> str:
        """Wrap text in an ANSI style when stderr (or `stream`) is a terminal that wants colour."""
        target = stream or sys.stderr
        if os.environ.get("NO_COLOR") or not target.isatty() or os.environ.get("TERM") == "dumb":
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    @staticmethod
    def _write(stream: Any, text: str) -> None:
        with _written(stream):
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = stream.encoding or "ascii"
                stream.write(text.encode(encoding, "replace").decode(encoding))
            stream.flush()


@contextlib.contextmanager
def _written(stream: Any) -> Iterator[None]:
    """Say that stdout cannot be written (disk full); where stderr cannot, nobody can be told.

    A reader that has gone is another thing: BrokenPipeError ends devkit.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if stream is not sys.stderr:
            raise FileError(
                "the output cannot be written",
                evidence=os.strerror(error.errno or 0),
                hints=["send it elsewhere, or make room: df -h"],
            ) from None


class _Notes(Progress):
    """Progress in a log: a line now and then, with time left, and of bytes the rate."""

    def __init__(self, sink: Output, label: str, total: float | None, unit: str) -> None:
        super().__init__()
        self._sink, self._label, self._total, self._unit = sink, label, total, unit
        self._noted_at, self._noted = time.monotonic(), 0.0

    def advance(self, amount: float) -> None:
        super().advance(amount)
        elapsed = time.monotonic() - self._noted_at
        if elapsed < PROGRESS_NOTE_EVERY_S:
            return
        rate = max(0.0, self.done - self._noted) / elapsed
        text = f"{self._label}: {self._amount(self.done)}"
        if self._total:
            text += f" of {self._amount(self._total)}"
        text += f", {human_bytes(rate)}/s" if self._unit == "bytes" else f" {self._unit}"
        if self._total and rate:
            text += f", {max(0.0, self._total - self.done) / rate:.0f} s left"
        self._sink.note(text)
        self._noted_at, self._noted = time.monotonic(), self.done

    def _amount(self, count: float) -> str:
        return human_bytes(count) if self._unit == "bytes" else f"{count:.0f}"

    def skip(self, amount: float) -> None:
        super().skip(amount)
        self._noted += amount

    def describe(self, text: str) -> None:
        self._label = text

    def total(self, total: float) -> None:
        self._total = total


class _LazyBar(Progress):
    """A rich bar that is built only once PROGRESS_AFTER_S have passed: rich costs 40 ms."""

    def __init__(self, label: str, total: float | None, unit: str) -> None:
        super().__init__()
        self._label, self._total, self._unit = label, total, unit
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, amount: float) -> None:
        super().advance(amount)
        if self._ready():
            self._bar.update(self._task, completed=self.done)

    def describe(self, text: str) -> None:
        self._label = text
        if self._ready():
            self._bar.update(self._task, description=text)

    def total(self, total: float) -> None:
        self._total = total
        if self._ready():
            self._bar.update(self._task, total=total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _ready(self) -> bool:
        if self._bar is None and time.monotonic() - self._started >= PROGRESS_AFTER_S:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                ProgressColumn,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )
            from rich.progress import Progress as RichProgress

            columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
            if self._unit == "bytes":
                columns += [DownloadColumn(), TransferSpeedColumn()]
            else:
                columns += [MofNCompleteColumn()]
            columns += [TimeRemainingColumn()]
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._total, completed=self.done)
        return self._bar is not None


_current = Output()


def current() -> Output:
    """The sink of this process: the only global state devkit has."""
    return _current


def install(output: Output) -> Output:
    """Make `output` the sink of this process and return it."""
    global _current
    _current = output
    return output


def table(rows: list[tuple[str, ...]], header: tuple[str, ...] | None = None) -> str:
    """Align columns with two blanks between them; no trailing blanks, no colours."""
    everything = ([header] if header else []) + rows
    if not everything:
        return ""
    widths = [max(_columns(row[i]) for row in everything) for i in range(len(everything[0]))]
    lines = [
        "  ".join(cell + " " * (w - _columns(cell)) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in everything
    ]
    return "\n".join(lines) + "\n"


def _columns(text: str) -> int:
    """How wide a terminal shows it: Chinese letters take two columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def human_bytes(count: float) -> str:
    """12345 -> '12.1 kB' (powers of 1000, as `adb push` and rich count)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
