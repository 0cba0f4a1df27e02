"""The lines of a text that a user names: plain, compressed, in another encoding, or a bug report's ZIP."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from devkit import output
from devkit.errors import FileError, UsageError

_LINES_A_STEP = 4096
_BOMS = {
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8[:2]: "utf-8-sig",
}  # fmt: skip
_LINE_BYTES = 1 << 16
# In a ZIP of `adb bugreport`: the report itself, and the tombstones as text (.pb is the same in binary).
_IN_BUGREPORT = re.compile(r"(?:.*/)?(?:bugreport[^/]*\.txt|tombstone_\d+)$")
_BINARY = {
    b"\x7fELF": ("is a program or library, no text with crashes", "devkit symbolize LOG --symbols {file}"),
    b"PERF": (
        "is a recording of simpleperf",
        "simpleperf report-sample -i {file} --show-callchain > report.txt",
    ),
}


def lines_of(file: str) -> Iterator[str]:
    """The lines of a file, or of stdin for "-", from which what they hold cannot be told yet.

    Raises:
        FileError: it cannot be read.
        UsageError: it is something else than a text.
    """
    if file == "-":
        if sys.stdin.isatty():
            output.current().note("reading the terminal; Ctrl-D ends")
        yield from decoded(sys.stdin.buffer)
        return
    try:
        with Path(file).open("rb") as stream:
            head = stream.peek(4)[:4] if stream.seekable() else b""
            _refuse_binary(file, head)
            if head == b"PK\x03\x04":
                yield from _of_archive(file, stream)
                return
            size = os.fstat(stream.fileno()).st_size
            with output.current().progress(f"reading {file}", size or None, unit="bytes") as bar:
                packed = head[:2] == b"\x1f\x8b"
                source = cast("IO[bytes]", gzip.open(stream)) if packed else stream
                at = 0
                for number, line in enumerate(decoded(source)):
                    yield line
                    if number % _LINES_A_STEP == 0 and stream.seekable():
                        at, before = stream.tell(), at
                        bar.advance(at - before)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{file} cannot be read", evidence=why) from None


def decoded(stream: IO[bytes]) -> Iterator[str]:
    """Lines, also of PowerShell's UTF-16. A line without an end, as of a binary file, comes in pieces."""
    first = stream.readline(_LINE_BYTES)
    encoding = _BOMS.get(first[:2])
    if encoding == "utf-16":
        reader = codecs.getreader(encoding)(_Rest(first, stream), "replace")  # type: ignore[arg-type]
        yield from iter(lambda: reader.readline(_LINE_BYTES), "")
        return
    if first.startswith(codecs.BOM_UTF8):
        first = first[len(codecs.BOM_UTF8) :]
    while first:
        yield first.decode("utf-8", "replace")
        first = stream.readline(_LINE_BYTES)


def _refuse_binary(file: str, head: bytes) -> None:
    for magic, (what, step) in _BINARY.items():
        if head.startswith(magic):
            raise UsageError(f"{file} {what}", hints=[step.format(file=file)])
    if re.search(r"tombstone_\d+\.pb$", file):
        raise UsageError(
            f"{file} is a tombstone in binary form", hints=[f"devkit symbolize {file.removesuffix('.pb')}"]
        )


def _of_archive(file: str, stream: BinaryIO) -> Iterator[str]:
    with zipfile.ZipFile(stream) as archive:
        members = [m for m in archive.infolist() if _IN_BUGREPORT.match(m.filename)]
        if not members:
            raise UsageError(
                f"{file} is a ZIP, and no bug report: it holds neither bugreport*.txt nor tombstones",
                hints=[
                    "unpack it, then: devkit symbolize LOG",
                    f"devkit symbolize LOG --symbols {file}  # an APK",
                ],
            )
        with output.current().progress(
            f"reading {file}", float(sum(m.file_size for m in members)), unit="bytes"
        ) as bar:
            for member in members:
                with contextlib.closing(archive.open(member)) as text:
                    yield from decoded(text)
                bar.advance(member.file_size)


class _Rest:
    """A stream with what was read from it already put back."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        return first or self._stream.read(size if size >= 0 else _LINE_BYTES)
