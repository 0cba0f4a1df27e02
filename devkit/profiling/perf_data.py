"""perf.data of simpleperf and of Linux perf as a profile of addresses; `symbolize` gives them lines.

Samples are not turned into objects: a call chain's bytes are looked up among those seen before, and only new
ones are taken apart. A million samples take a few seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.errors import FileError
from devkit.profiling import perf_file
from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import Meta, Module, Profile
from devkit.profiling.perf_file import Attr, PerfFile, damaged
from devkit.profiling.perf_maps import Mapping, Space, Spaces
from devkit.profiling.perf_symbols import FileSymbols, read_build_ids, read_files, read_files2

KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"

_HEADER = struct.Struct("<IHH")
_U64 = struct.Struct("<Q")
_MMAP, _LOST, _COMM, _EXIT, _FORK, _SAMPLE, _MMAP2 = 1, 2, 3, 4, 7, 9, 10
_LOST_SAMPLES, _SWITCH, _SWITCH_CPU_WIDE = 13, 14, 15
_AUXTRACE, _COMPRESSED, _COMPRESSED2 = 71, 81, 83
# Records of simpleperf have 32 bits of size, which makes room for large ones.
_SIMPLEPERF = 32768
_SPLIT, _SPLIT_END, _EVENT_ID = _SIMPLEPERF + 4, _SIMPLEPERF + 5, _SIMPLEPERF + 6
_MISC_CPU, _MISC_KERNEL = 7, 1
_MISC_EXEC = _MISC_SWITCH_OUT = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
# Addresses from here on are no addresses but say what those behind them belong to.
_CONTEXT = (1 << 64) - 4095
_CONTEXT_KERNEL, _CONTEXT_USER = (1 << 64) - 128, (1 << 64) - 512
# Bits of sample_type, in the order of their fields; the value behind those with one of 64 bits.
_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID = 1 << 16, 1, 2, 4, 8, 64
_STREAM_ID, _CPU, _PERIOD, _READ, _CALLCHAIN = 512, 128, 256, 16, 32
_FIXED = (_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID, _STREAM_ID, _CPU, _PERIOD)
# The fields behind records that are no samples, in their order.
_TRAILER = (_TID, _TIME, _ID, _STREAM_ID, _CPU, _IDENTIFIER)
_MOST = (1 << 63) - 1
_STEP = 65536

# The virtual address of a place in a file that is known here; None where it is not.
Locate = Callable[[Module, int], "int | None"]


def read_perf_data(
    path: Path, *, locate: Locate | None = None, on_bytes: Callable[[int], None] | None = None
) -> Profile:
    """Read a recording. Frames have virtual addresses, and names where the recorder wrote some down.

    Where neither `locate` nor the recording says how a file is laid out, an address is its place in the file.

    Args:
        locate: asked for each place in a file once.
        on_bytes: told how many bytes were read since the last call.

    Raises:
        FileError: it is no recording, cut off, damaged, or without samples.
    """
    with PerfFile(path) as file:
        try:
            return _Reader(file, locate, on_bytes or (lambda count: None)).read()
        except (struct.error, ValueError, IndexError, OverflowError, MemoryError) as error:
            raise damaged(path, f"its records contradict themselves ({error})") from None


@dataclass
class _Layout:
    """Where a sample's fields are, from its beginning. -1: it has none."""

    ip: int = -1
    tid: int = -1
    time: int = -1
    period: int = -1
    chain: int = -1
    identifier: int = -1
    read_format: int = 0
    size: int = field(default=_HEADER.size)


def _layout(attr: Attr) -> _Layout:
    made = _Layout()
    at = _HEADER.size
    for bit in _FIXED:
        if not attr.sample_type & bit:
            continue
        if bit == _IP:
            made.ip = at
        elif bit == _TID:
            made.tid = at
        elif bit == _TIME:
            made.time = at
        elif bit == _PERIOD:
            made.period = at
        elif bit in (_IDENTIFIER, _ID) and made.identifier < 0:
            made.identifier = at
        at += 8
    made.size = at
    if attr.sample_type & _CALLCHAIN:
        made.chain = at
    made.read_format = attr.read_format if attr.sample_type & _READ else -1
    return made


class _Reader:
    def __init__(self, file: PerfFile, locate: Locate | None, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._locate = locate
        self._on_bytes = on_bytes
        self._builder = ProfileBuilder()
        self._spaces = Spaces()
        self._layouts = [_layout(attr) for attr in file.attrs]
        self._attr_of_id = {i: index for index, attr in enumerate(file.attrs) for i in attr.ids}
        self._build_ids = read_build_ids(file.features.get(perf_file.BUILD_ID, b""))
        self._symbols = self._read_symbols()
        # simpleperf has made call addresses of return addresses already.
        self._caller_distance = 0 if file.is_simpleperf else 1
        self._lost = 0
        self._kernel = self._builder.module(KERNEL, self._build_ids.get(KERNEL, ""))
        self._kernel_frames: dict[int, int] = {}
        self._places: dict[tuple[int, int], int] = {}

    def read(self) -> Profile:
        samples = self._read_others()
        if not samples:
            raise FileError(
                f"the recording {self._file.path} holds no samples",
                hints=[
                    "the program may have been too short, or only have waited: --frequency 4000, --off-cpu",
                    "devkit profile APP -- ARGS that keep it busy",
                ],
            )
        names = self._file.event_names()
        off_cpu = self._file.meta_info.get("trace_offcpu") == "true"
        events = []
        for index, attr in enumerate(self._file.attrs):
            waits = off_cpu and "sched_switch" in names[index]
            events.append(self._builder.event(names[index], _unit(attr, waits), off_cpu=waits))
        self._read_samples(events, names, off_cpu)
        return self._finish()

    # ---- records

    def _records(self) -> Iterator[tuple[int, int, int, Any, int]]:
        """(type, misc, size, buffer, place) of each record; what was compressed or split is put together."""
        data: Any = self._file.data
        at, end, told = self._file.data_start, self._file.data_end, self._file.data_start
        unpack = _HEADER.unpack_from
        inflater: Any = None
        rest = b""
        parts: list[bytes] = []
        while at + _HEADER.size <= end:
            kind, misc, size = unpack(data, at)
            if kind >= _SIMPLEPERF:
                size |= misc << 16
                misc = 0
            if size < _HEADER.size or at + size > end:
                raise damaged(self._file.path, f"a record of {size} bytes at {at} does not fit")
            if at - told > 1 << 22:
                self._on_bytes(at - told)
                told = at
            if kind in (_COMPRESSED, _COMPRESSED2):
                inflater = inflater or _inflater()
                content = data[at + 8 : at + size]
                if kind == _COMPRESSED2:
                    content = content[8 : 8 + _U64.unpack_from(content)[0]]
                rest += _inflate(inflater, content, self._file.path)
                inner = 0
                while inner + _HEADER.size <= len(rest):
                    kind, misc, length = unpack(rest, inner)
                    if length < _HEADER.size:
                        raise damaged(self._file.path, "a compressed record has no size")
                    if inner + length > len(rest):
                        break
                    yield kind, misc, length, rest, inner
                    inner += length
                rest = rest[inner:]
            elif kind == _SPLIT:
                parts.append(data[at + 8 : at + size])
            elif kind == _SPLIT_END:
                whole = b"".join(parts)
                parts = []
                if len(whole) >= _HEADER.size:
                    yield (*unpack(whole), whole, 0)
            else:
                yield kind, misc, size, data, at
                if kind == _AUXTRACE and size >= 16:
                    at += _U64.unpack_from(data, at + 8)[0]
            at += size
        self._on_bytes(end - told)

    def _read_others(self) -> int:
        """Take in everything but samples, in the order of time; how many samples there are."""
        samples = 0
        found: list[tuple[int, int, int, int, bytes]] = []
        attr = self._file.attrs[0]
        trailer = [bit for bit in _TRAILER if attr.sample_type & bit]
        has_trailer = bool(attr.flags & perf_file.FLAG_SAMPLE_ID_ALL)
        time_at = 8 * (trailer.index(_TIME) - len(trailer)) if has_trailer and _TIME in trailer else 0
        size_of_trailer = 8 * len(trailer) if has_trailer else 0
        for number, (kind, misc, size, data, at) in enumerate(self._records()):
            if kind == _SAMPLE:
                samples += 1
            elif kind in (_MMAP, _MMAP2, _COMM, _FORK):
                if size < _HEADER.size + size_of_trailer + 8:
                    raise damaged(self._file.path, f"a record of {size} bytes is too short for its kind")
                time = _U64.unpack_from(data, at + size + time_at)[0] if time_at else 0
                body = bytes(data[at + 8 : at + size - size_of_trailer])
                found.append((time if time <= _MOST else 0, number, kind, misc, body))
            elif kind == _LOST:
                self._lost += _U64.unpack_from(data, at + 16)[0]
            elif kind == _LOST_SAMPLES:
                self._lost += _U64.unpack_from(data, at + 8)[0]
            elif kind == _EVENT_ID:
                count = min(_U64.unpack_from(data, at + 8)[0], (size - 16) // 16)
                for index, event_id in struct.iter_unpack("<QQ", data[at + 16 : at + 16 + 16 * count]):
                    self._attr_of_id[event_id] = index
        found.sort()
        for time, _, kind, misc, body in found:
            self._take_in(time, kind, misc, body)
        return samples

    def _take_in(self, time: int, kind: int, misc: int, body: bytes) -> None:
        if kind == _FORK:
            pid, parent = struct.unpack_from("<II", body)
            if pid != parent:
                self._spaces.fork(parent, pid, time)
            return
        pid, tid = struct.unpack_from("<II", body)
        if kind == _COMM:
            name = body[8:].partition(b"\0")[0].decode("utf-8", "replace")
            self._builder.thread(pid, tid, name)
            if misc & _MISC_EXEC:
                self._spaces.exec(pid, time)
            return
        start, length, offset = struct.unpack_from("<QQQ", body, 8)
        build_id = ""
        if kind == _MMAP2 and misc & _MISC_MMAP_BUILD_ID:
            build_id = body[36 : 36 + min(body[32], 20)].hex()
        path = body[64 if kind == _MMAP2 else 32 :].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        if misc & _MISC_CPU == _MISC_KERNEL or not length:
            return
        build_id = build_id or self._build_ids.get(path, "")
        self._spaces.map(pid, time, Mapping(start, start + length, offset, path, build_id))

    # ---- samples

    def _read_samples(self, events: list[int], names: dict[int, str], off_cpu: bool) -> None:
        builder, spaces, attrs = self._builder, self._spaces, self._file.attrs
        single = spaces.single
        threads: dict[int, int] = {}
        sample = builder.sample
        unpack = _U64.unpack_from
        several = len(attrs) > 1
        layout, attr, event = self._layouts[0], attrs[0], events[0]
        waiting = _Waiting() if off_cpu else None
        for kind, misc, size, data, at in self._records():
            if kind != _SAMPLE:
                if waiting is not None and kind == _SWITCH and not misc & _MISC_SWITCH_OUT:
                    self._back_on_cpu(waiting, data, at, size)
                continue
            if several:
                place = self._layouts[0].identifier
                index = self._attr_of_id.get(unpack(data, at + place)[0], 0) if place >= 0 else 0
                if index >= len(attrs):
                    raise damaged(self._file.path, f"a sample is of event {index}, which there is not")
                layout, attr, event = self._layouts[index], attrs[index], events[index]
            if layout.size > size:
                raise damaged(self._file.path, f"a sample of {size} bytes is too short")
            who = unpack(data, at + layout.tid)[0] if layout.tid >= 0 else 0
            pid = who & 0xFFFFFFFF
            thread = threads.get(who)
            if thread is None:
                thread = threads[who] = builder.thread(pid, who >> 32)
            time = unpack(data, at + layout.time)[0] if layout.time >= 0 else 0
            weight = unpack(data, at + layout.period)[0] if layout.period >= 0 else attr.period or 1
            space = single.get(pid) or spaces.at(pid, time)
            ip = data[at + layout.ip : at + layout.ip + 8] if layout.ip >= 0 else b""
            chain = b""
            if layout.chain >= 0:
                begin = at + layout.chain + _read_bytes(layout.read_format, data, at + layout.chain)
                length = 8 * unpack(data, begin)[0]
                if begin + 8 + length > at + size:
                    raise damaged(self._file.path, f"a call chain of {length // 8} calls does not fit")
                chain = data[begin + 8 : begin + 8 + length]
            key = (ip, chain, misc & _MISC_CPU)
            stack = space.stacks.get(key)
            if stack is None:
                stack = space.stacks[key] = self._stack(space, *key)
            if waiting is None:
                sample(stack, thread, weight if weight <= _MOST else _MOST, time & _MOST, event)
            else:
                waiting.add(
                    who,
                    time,
                    thread,
                    event,
                    stack,
                    weight,
                    waits="sched_switch" in names[events.index(event)],
                )
        if waiting is not None:
            for row in waiting.finish():
                sample(*row)

    @staticmethod
    def _back_on_cpu(waiting: _Waiting, data: Any, at: int, size: int) -> None:
        # Its trailer is all it has.
        if size >= 24:
            waiting.back(_U64.unpack_from(data, at + 8)[0], _U64.unpack_from(data, at + 16)[0])

    def _stack(self, space: Space, ip: bytes, chain: bytes, mode: int) -> int:
        in_kernel = mode == _MISC_KERNEL
        first = int.from_bytes(ip, "little") if ip else None
        frames: list[int] = []
        if first is not None and first < _CONTEXT:
            frames.append(self._frame(space, first, in_kernel))
        begun = False
        for address in struct.unpack(f"<{len(chain) // 8}Q", chain):
            if address >= _CONTEXT:
                if address == _CONTEXT_USER:
                    in_kernel = False
                elif address == _CONTEXT_KERNEL:
                    in_kernel = True
                continue
            if not begun:
                begun = True
                if address == first:
                    continue
            distance = self._caller_distance if frames else 0
            frames.append(
                self._frame(space, address - distance if address > distance else address, in_kernel)
            )
        frames.reverse()
        return self._builder.stack(frames)

    def _frame(self, space: Space, address: int, in_kernel: bool) -> int:
        frames = self._kernel_frames if in_kernel else space.frames
        frame = frames.get(address)
        if frame is None:
            frame = frames[address] = (
                self._kernel_frame(address) if in_kernel else self._place(space, address)
            )
        return frame

    def _kernel_frame(self, address: int) -> int:
        symbols = self._symbols.get(KERNEL)
        name = symbols.name_at(address) if symbols else ""
        return self._builder.frame(name, self._kernel, address=address)

    def _place(self, space: Space, address: int) -> int:
        mapping = space.find(address)
        if mapping is None:
            return self._builder.frame("", self._builder.module(UNKNOWN), address=address)
        module = Module(mapping.path, mapping.build_id)
        index = self._builder.module(*module)
        place = address - mapping.start + mapping.offset
        symbols = self._symbols.get(mapping.path)
        virtual = self._locate(module, place) if self._locate is not None else None
        if virtual is None and symbols is not None and symbols.offset_of_min_vaddr is not None:
            virtual = place - symbols.offset_of_min_vaddr + symbols.min_vaddr
        if virtual is None:
            virtual = place
        name = symbols.name_at(virtual) if symbols is not None else ""
        return self._builder.frame(name, index, address=virtual)

    # ---- around

    def _read_symbols(self) -> dict[str, FileSymbols]:
        features = self._file.features
        try:
            known = {f.path: f for f in read_files(features.get(perf_file.FILE, b""))}
            return known | {f.path: f for f in read_files2(features.get(perf_file.FILE2, b""))}
        except (struct.error, ValueError) as error:
            raise damaged(self._file.path, f"its list of files is broken: {error}") from None

    def _finish(self) -> Profile:
        info = self._file.meta_info
        version = info.get("simpleperf_version", "") or self._file.string(perf_file.VERSION)
        recorder = "simpleperf" if self._file.is_simpleperf else "perf"
        command = tuple(self._file.strings(perf_file.CMDLINE))
        machine = info.get("product_props", "").replace(":", " ") or self._file.string(perf_file.HOSTNAME)
        stamp = info.get("timestamp", "")
        return self._builder.finish(
            Meta(
                machine=machine,
                command=command,
                recorder=f"{recorder} {version}".strip(),
                recorded_at=float(stamp) if stamp.isdigit() and len(stamp) < 12 else 0.0,
                arch=self._file.string(perf_file.ARCH),
                clock=info.get("clockid", "perf"),
                lost=min(self._lost, _MOST),
                extra={"simpleperf": info} if info else {},
            )
        )


class _Waiting:
    """Samples of a recording with off-CPU time: one taken when a thread left its processor weighs as much
    as the time until the thread was seen again."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._left: dict[int, int] = {}
        self._last = 0

    def add(
        self, who: int, time: int, thread: int, event: int, stack: int, weight: int, *, waits: bool
    ) -> None:
        self.back(who, time)
        self._rows.append([stack, thread, 0 if waits else min(weight, _MOST), time & _MOST, event])
        if waits:
            self._left[who] = len(self._rows) - 1

    def back(self, who: int, time: int) -> None:
        """A thread runs again."""
        self._last = max(self._last, time & _MOST)
        index = self._left.pop(who, None)
        if index is not None:
            self._rows[index][2] = max(0, (time & _MOST) - self._rows[index][3])

    def finish(self) -> list[list[int]]:
        """All rows; who never came back waited until the end."""
        for index in self._left.values():
            self._rows[index][2] = max(0, self._last - self._rows[index][3])
        return self._rows


def _unit(attr: Attr, waits: bool) -> str:
    if waits or (attr.kind == 1 and attr.config in (0, 1)):
        return "ns"
    return "cycles" if (attr.kind, attr.config) == (0, 0) else "count"


def _read_bytes(read_format: int, data: Any, at: int) -> int:
    """How many bytes PERF_SAMPLE_READ takes."""
    if read_format < 0:
        return 0
    times = (read_format & 1) + (read_format >> 1 & 1)
    values = 1 + (read_format >> 2 & 1) + (read_format >> 4 & 1)
    if read_format & 8:
        return 8 + 8 * times + 8 * values * int(_U64.unpack_from(data, at)[0])
    return 8 * times + 8 * values


def _inflater() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)


def _inflate(inflater: Any, content: bytes, path: Path) -> bytes:
    import zstandard

    try:
        inflated: bytes = inflater.decompress(content)
        return inflated
    except zstandard.ZstdError as error:
        raise damaged(path, f"a compressed part is broken ({error})") from None
