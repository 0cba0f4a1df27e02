"""What a perf.data says of the files whose code ran: build-ids, where they are linked to, their symbols."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_UNKNOWN = (1 << 64) - 1
_MISC_BUILD_ID_SIZE = 1 << 15
_DEX = 3


@dataclass
class FileSymbols:
    """One file as simpleperf saw it on the phone.

    Attributes:
        kind: simpleperf's DsoType: 0 kernel, 1 kernel module, 2 ELF file, 3 DEX …
        min_vaddr: virtual address of its first executable segment.
        offset_of_min_vaddr: where that lies in the file; None when it is not told.
        starts, ends, names: its symbols that were hit, by address.
    """

    path: str
    kind: int
    min_vaddr: int = 0
    offset_of_min_vaddr: int | None = None
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def sort(self) -> FileSymbols:
        """With symbols in order of their addresses."""
        rows = sorted(zip(self.starts, self.ends, self.names, strict=True))
        self.starts, self.ends, self.names = ([row[i] for row in rows] for i in range(3))  # type: ignore[assignment]
        return self

    def name_at(self, address: int) -> str:
        """The symbol that covers a virtual address, "" where none does."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.names[at] if at >= 0 and address < self.ends[at] else ""


def read_build_ids(data: bytes) -> dict[str, str]:
    """Feature BUILD_ID: path → build-id in hex."""
    found: dict[str, str] = {}
    at = 0
    while at + 36 <= len(data):
        _, misc, size = struct.unpack_from("<IHH", data, at)
        if size < 36 or at + size > len(data):
            break
        length = data[at + 32] if misc & _MISC_BUILD_ID_SIZE else 20
        build_id = data[at + 12 : at + 12 + min(length, 20)]
        name = data[at + 36 : at + size].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        if any(build_id):
            # Without a length, shorter ids (MD5, LLD's fast) are filled up with zeros.
            found[name] = (build_id[:16] if not any(build_id[16:]) else build_id).hex()
        at += size
    return found


def read_files(data: bytes) -> Iterator[FileSymbols]:
    """Feature FILE of simpleperf since 2016.

    Raises:
        struct.error, ValueError: it is damaged.
    """
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        if end > len(data):
            raise ValueError("a file's description is cut off")
        path, at = _text(data, at + 4, end)
        kind, min_vaddr, count = struct.unpack_from("<IQI", data, at)
        at += 16
        file = FileSymbols(path, kind, min_vaddr)
        for _ in range(count):
            start, length = struct.unpack_from("<QI", data, at)
            name, at = _text(data, at + 12, end)
            _add(file, start, length, name)
        if kind == _DEX and at + 4 <= end:
            at += 4 + 8 * struct.unpack_from("<I", data, at)[0]
        if at + 8 <= end:
            _set_offset(file, struct.unpack_from("<Q", data, at)[0])
        yield file.sort()
        at = end


def read_files2(data: bytes) -> Iterator[FileSymbols]:
    """Feature FILE2 of simpleperf since 2021: record_file.proto's FileFeature, each behind its length.

    Raises:
        struct.error, ValueError: it is damaged.
    """
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        if end > len(data):
            raise ValueError("a file's description is cut off")
        file = FileSymbols("", 0)
        for number, value in _fields(data[at + 4 : end]):
            if number == 1 and isinstance(value, bytes):
                file.path = value.decode("utf-8", "surrogateescape")
            elif number == 2 and isinstance(value, int):
                file.kind = value
            elif number == 3 and isinstance(value, int):
                file.min_vaddr = value
            elif number == 4 and isinstance(value, bytes):
                parts = dict(_fields(value))
                start, length, name = parts.get(1, 0), parts.get(2, 0), parts.get(3, b"")
                if isinstance(start, int) and isinstance(length, int) and isinstance(name, bytes):
                    _add(file, start, length, name.decode("utf-8", "replace"))
            elif number in (6, 7) and isinstance(value, bytes):
                offset = dict(_fields(value)).get(1, 0)
                if isinstance(offset, int):
                    _set_offset(file, offset)
        yield file.sort()
        at = end


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is cut off")
            yield number, data[at : at + length]
            at += length
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _text(data: bytes, at: int, end: int) -> tuple[str, int]:
    stop = data.find(b"\0", at, end)
    if stop < 0:
        raise ValueError("a name has no end")
    return data[at:stop].decode("utf-8", "surrogateescape"), stop + 1


def _add(file: FileSymbols, start: int, length: int, name: str) -> None:
    file.starts.append(start)
    file.ends.append(start + length)
    file.names.append(name)


def _set_offset(file: FileSymbols, offset: int) -> None:
    file.offset_of_min_vaddr = None if offset == _UNKNOWN else offset
