"""perf.data as simpleperf writes it: events, records in the order of time, and what it says of the files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from devkit.sim.simpleperf import kernel
from devkit.sim.simpleperf.kernel import EventAttr

_HEADER = struct.Struct("<8sQQ6Q32s")
_BUILD_ID, _OSRELEASE, _ARCH, _CMDLINE, _FILE, _META_INFO, _FILE2 = 2, 4, 6, 11, 128, 129, 132
_MISC_USER = 2
_MISC_BUILD_ID_SIZE = 1 << 15
_ELF_FILE = 2


@dataclass(frozen=True)
class Event:
    """One of a recording: its attributes and the ids of its counters."""

    name: str
    attr: EventAttr
    ids: tuple[int, ...]


@dataclass
class SeenFile:
    """A file whose code ran."""

    path: str
    build_id: bytes = b""
    min_vaddr: int = 0
    offset: int = 0
    symbols: list[tuple[int, int, str]] = field(default_factory=list)


def perf_data(
    events: Sequence[Event],
    records: Iterable[bytes],
    files: Sequence[SeenFile],
    meta: Mapping[str, str],
    *,
    command: Sequence[str],
    release: str,
    arch: str,
    new_files: bool,
) -> bytes:
    """The whole file.

    Args:
        new_files: what is known of files in the feature of Android 13 and later.
    """
    ids = b"".join(struct.pack(f"<{len(event.ids)}Q", *event.ids) for event in events)
    attrs, at = b"", _HEADER.size
    for event in events:
        size = 8 * len(event.ids)
        attrs += event.attr.pack() + struct.pack("<QQ", at, size)
        at += size
    attrs_at = _HEADER.size + len(ids)
    data = b"".join(records)
    data_at = attrs_at + len(attrs)
    features = {
        _BUILD_ID: b"".join(_build_id(file) for file in files if file.build_id),
        _OSRELEASE: _string(release),
        _ARCH: _string(arch),
        _CMDLINE: struct.pack("<I", len(command)) + b"".join(map(_string, command)),
        _FILE2 if new_files else _FILE: b"".join(_file2(f) if new_files else _file(f) for f in files),
        _META_INFO: b"".join(f"{key}\0{value}\0".encode("utf-8", "replace") for key, value in meta.items()),
    }
    mask = sum(1 << number for number in features)
    place = data_at + len(data) + 16 * len(features)
    table = b""
    for number in sorted(features):
        table += struct.pack("<QQ", place, len(features[number]))
        place += len(features[number])
    header = _HEADER.pack(
        b"PERFILE2", _HEADER.size, kernel.ATTR_BYTES + 16,
        attrs_at, len(attrs), data_at, len(data), 0, 0, mask.to_bytes(32, "little"),
    )  # fmt: skip
    return header + ids + attrs + data + table + b"".join(features[number] for number in sorted(features))


def trailer(pid: int, tid: int, time: int, event_id: int) -> bytes:
    """What stands behind every record that is no sample."""
    return struct.pack("<IIQQII", pid, tid, time, event_id, 0, 0)


def comm(pid: int, tid: int, name: str, time: int, event_id: int) -> bytes:
    """A thread has this name."""
    text = name.encode("utf-8", "replace")[:15] + b"\0"
    return _record(kernel.COMM, 0, struct.pack("<II", pid, tid) + _padded(text), pid, tid, time, event_id)


def mmap2(pid: int, start: int, end: int, offset: int, path: str, time: int, event_id: int) -> bytes:
    """A part of a file lies in a process's memory."""
    head = struct.pack("<IIQQQIIQQII", pid, pid, start, end - start, offset, 0, 0, 0, 0, 5, 2)
    text = path.encode("utf-8", "surrogateescape")[:4000] + b"\0"
    return _record(kernel.MMAP2, _MISC_USER, head + _padded(text), pid, pid, time, event_id)


def sample(
    attr: EventAttr, pid: int, tid: int, time: int, event_id: int, cpu: int, period: int, chain: Sequence[int]
) -> bytes:
    """A sample with its calls, the innermost first."""
    body = struct.pack("<QIIQQIIQ", chain[0], pid, tid, time, event_id, cpu, 0, period)
    if attr.sample_type & kernel.CALLCHAIN:
        body += struct.pack(f"<{len(chain) + 2}Q", len(chain) + 1, (1 << 64) - 512, *chain)
    # As simpleperf leaves them when it has unwound the stack: no registers, no stack.
    if attr.sample_type & kernel.REGS_USER:
        body += bytes(8)
    if attr.sample_type & kernel.STACK_USER:
        body += bytes(8)
    return struct.pack("<IHH", kernel.SAMPLE, _MISC_USER, 8 + len(body)) + body


def _record(kind: int, misc: int, body: bytes, pid: int, tid: int, time: int, event_id: int) -> bytes:
    body += trailer(pid, tid, time, event_id)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def _padded(text: bytes, unit: int = 8) -> bytes:
    return text + bytes(-len(text) % unit)


def _string(text: str) -> bytes:
    data = _padded(text.encode("utf-8", "surrogateescape") + b"\0", 64)
    return struct.pack("<I", len(data)) + data


def _build_id(file: SeenFile) -> bytes:
    name = _padded(file.path.encode("utf-8", "surrogateescape") + b"\0", 64)
    length = min(len(file.build_id), 20)
    ident = file.build_id[:20].ljust(20, b"\0") + bytes([length, 0, 0, 0])
    misc = _MISC_USER | (_MISC_BUILD_ID_SIZE if length != 20 else 0)
    return struct.pack("<IHHi", 67, misc, 36 + len(name), -1) + ident + name


def _file(file: SeenFile) -> bytes:
    body = file.path.encode("utf-8", "surrogateescape") + b"\0"
    body += struct.pack("<IQI", _ELF_FILE, file.min_vaddr, len(file.symbols))
    for start, size, name in file.symbols:
        body += struct.pack("<QI", start, size) + name.encode() + b"\0"
    body += struct.pack("<Q", file.offset)
    return struct.pack("<I", len(body)) + body


def _file2(file: SeenFile) -> bytes:
    body = _bytes_field(1, file.path.encode("utf-8", "surrogateescape")) + _number_field(2, _ELF_FILE)
    body += _number_field(3, file.min_vaddr)
    for start, size, name in file.symbols:
        symbol = _number_field(1, start) + _number_field(2, size) + _bytes_field(3, name.encode())
        body += _bytes_field(4, symbol)
    body += _bytes_field(6, _number_field(1, file.offset))
    return struct.pack("<I", len(body)) + body


def _number_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _bytes_field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def switch_in(pid: int, tid: int, time: int, event_id: int) -> bytes:
    """A thread runs again."""
    return _record(kernel.SWITCH, 0, b"", pid, tid, time, event_id)
