"""Saved logs: what a file holds is found out by looking at it (binary, text, PowerShell's UTF-16)."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from devkit.logcat.binary import BinaryParser
from devkit.logcat.layouts import TextParser
from devkit.logcat.record import Item

_CHUNK_BYTES = 256 * 1024
_HEAD = struct.Struct("<HHiIIII")


def read_log(stream: BinaryIO) -> Iterator[Sequence[Item]]:
    """The records, markers and stray lines of a saved log, in pieces."""
    first = stream.read(_CHUNK_BYTES)
    parser = BinaryParser() if is_binary(first) else TextParser()
    decoder = None
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
    elif first.startswith(codecs.BOM_UTF8):
        first = first[len(codecs.BOM_UTF8) :]
    while first:
        data = decoder.decode(first).encode("utf-8", "replace") if decoder else first
        yield parser.feed(data)
        first = stream.read(_CHUNK_BYTES)
    yield parser.finish()


def is_binary(data: bytes) -> bool:
    """Whether it begins as the output of `logcat -B` does."""
    if len(data) < _HEAD.size:
        return False
    length, head, pid, _tid, _sec, nsec, lid = _HEAD.unpack_from(data)
    return head in (24, 28) and 0 < length < 0x8000 and pid >= 0 and nsec < 10**9 and lid < 8
