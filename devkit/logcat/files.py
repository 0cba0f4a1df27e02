"""Saved logs: what a file holds is found out by looking at it (binary, text, PowerShell's UTF-16)."""

from __future__ import annotations

import codecs
import gzip
import io
import struct
import zlib
from collections.abc import Iterator, Sequence

from devkit.errors import FileError
from devkit.logcat.binary import BinaryParser
from devkit.logcat.layouts import TextParser
from devkit.logcat.record import Item

_CHUNK_BYTES = 256 * 1024
_MAGIC_BYTES = 24
_HEAD = struct.Struct("<HHiIIII")


def read_log(stream: io.BufferedReader) -> Iterator[Sequence[Item]]:
    """The records, markers and stray lines of a saved log, in pieces as they come, also out of a gzip file.

    Raises:
        FileError: it is an archive of several files, or broken.
    """
    first = stream.peek(_MAGIC_BYTES)[:4]
    if first[:2] == b"\x1f\x8b":
        unpacked = gzip.GzipFile(fileobj=stream)
        try:
            yield from _read(unpacked)
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise FileError("the log's gzip file is broken", evidence=str(error)) from None
    elif first == b"PK\x03\x04":
        raise FileError(
            "a zip file holds several logs", hints=["unzip it, and read the bugreport-*.txt or log in it"]
        )
    else:
        yield from _read(stream)


def _read(stream: io.BufferedReader | gzip.GzipFile) -> Iterator[Sequence[Item]]:
    first = stream.read1(_CHUNK_BYTES)
    while 0 < len(first) < _MAGIC_BYTES and b"\n" not in first and (more := stream.read1(_CHUNK_BYTES)):
        first += more
    parser = BinaryParser() if is_binary(first) else TextParser()
    decoder = None
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
    elif first.startswith(codecs.BOM_UTF8):
        first = first[len(codecs.BOM_UTF8) :]
    while first:
        data = decoder.decode(first).encode("utf-8", "replace") if decoder else first
        yield parser.feed(data)
        # What has come: a pipe may be of a log that goes on.
        first = stream.read1(_CHUNK_BYTES)
    yield parser.finish()


def is_binary(data: bytes) -> bool:
    """Whether it begins as the output of `logcat -B` does."""
    if len(data) < _HEAD.size:
        return False
    length, head, pid, _tid, _sec, nsec, lid = _HEAD.unpack_from(data)
    return head in (24, 28) and 0 < length < 0x8000 and pid >= 0 and nsec < 10**9 and lid < 8
