"""The records of a perf.data, one after the other: what was compressed or split is put together.

Sources: tools/perf/Documentation/perf.data-file-format.txt of Linux, record.h of simpleperf.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from devkit.profiling.perf_file import PerfFile, damaged

MMAP, LOST, COMM, FORK, SAMPLE, MMAP2 = 1, 2, 3, 7, 9, 10
LOST_SAMPLES, SWITCH = 13, 14
_AUXTRACE, _COMPRESSED, _COMPRESSED2 = 71, 81, 83
# Records of simpleperf have 32 bits of size, which makes room for large ones.
_SIMPLEPERF = 32768
_SPLIT, _SPLIT_END, EVENT_ID = _SIMPLEPERF + 4, _SIMPLEPERF + 5, _SIMPLEPERF + 6

HEADER = struct.Struct("<IHH")
U64 = struct.Struct("<Q")
_STEP_BYTES = 1 << 22


class Batch(NamedTuple):
    """Places of whole records in one buffer. Samples stand apart: they are the many."""

    data: Any
    samples: list[int]
    others: list[int]


def head(data: Any, at: int) -> tuple[int, int, int]:
    """(kind, misc, size) of a record."""
    kind, misc, size = HEADER.unpack_from(data, at)
    return (kind, 0, size | misc << 16) if kind >= _SIMPLEPERF else (kind, misc, size)


def read_batches(file: PerfFile, on_bytes: Callable[[int], None]) -> Iterator[Batch]:
    """All records in their order.

    Args:
        on_bytes: told how many bytes of the file were read since the last call.

    Raises:
        FileError: they do not fit into each other or into the file.
    """
    data: Any = file.data
    at, end = file.data_start, file.data_end
    last = end - HEADER.size
    unpack = HEADER.unpack_from
    inflated = _Inflated(file.path)
    parts: list[bytes] = []
    while at <= last:
        samples: list[int] = []
        others: list[int] = []
        begun, stop = at, min(at + _STEP_BYTES, last + 1)
        special = 0
        while at < stop:
            kind, _, size = unpack(data, at)
            if size < HEADER.size and kind < _SIMPLEPERF:
                raise damaged(file.path, f"a record of {size} bytes at {at} does not fit")
            if kind == SAMPLE:
                samples.append(at)
            elif kind < _AUXTRACE:
                others.append(at)
            else:
                special = kind
                break
            at += size
        if at > end:
            raise damaged(file.path, "its last record does not fit")
        if samples or others:
            yield Batch(data, samples, others)
        if special:
            kind, _, size = head(data, at)
            if size < HEADER.size or at + size > end:
                raise damaged(file.path, f"a record of {size} bytes at {at} does not fit")
            if kind in (_COMPRESSED, _COMPRESSED2):
                content = data[at + 8 : at + size]
                if kind == _COMPRESSED2:
                    content = content[8 : 8 + U64.unpack_from(content)[0]]
                yield inflated.more(content)
            elif kind == _SPLIT:
                parts.append(data[at + 8 : at + size])
            elif kind == _SPLIT_END:
                whole = b"".join(parts)
                parts = []
                if len(whole) >= HEADER.size:
                    yield Batch(whole, [0], []) if head(whole, 0)[0] == SAMPLE else Batch(whole, [], [0])
            else:
                yield Batch(data, [], [at])
                if kind == _AUXTRACE and size >= 16:
                    at += U64.unpack_from(data, at + 8)[0]
            at += size
        on_bytes(at - begun)


class _Inflated:
    """What compressed records hold; their last record may go on in the next one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inflater: Any = None
        self._rest = b""

    def more(self, content: bytes) -> Batch:
        data = self._rest + self._inflate(content)
        samples: list[int] = []
        others: list[int] = []
        at = 0
        while at + HEADER.size <= len(data):
            kind, _, size = head(data, at)
            if size < HEADER.size:
                raise damaged(self._path, "a compressed record has no size")
            if at + size > len(data):
                break
            (samples if kind == SAMPLE else others).append(at)
            at += size
        self._rest = data[at:]
        return Batch(data, samples, others)

    def _inflate(self, content: bytes) -> bytes:
        import zstandard

        if self._inflater is None:
            self._inflater = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        try:
            inflated: bytes = self._inflater.decompress(content)
            return inflated
        except zstandard.ZstdError as error:
            raise damaged(self._path, f"a compressed part is broken ({error})") from None
