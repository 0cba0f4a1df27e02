"""perf.data of simpleperf and of Linux perf as a profile of addresses; `symbolize` gives them lines.

Samples are not turned into objects: a call chain's bytes are looked up among those seen before, and only new
ones are taken apart. A million samples take a few seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from devkit.errors import FileError
from devkit.profiling import perf_file
from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import Meta, Profile
from devkit.profiling.perf_file import Attr, PerfFile, damaged
from devkit.profiling.perf_maps import Mapping, Spaces
from devkit.profiling.perf_records import (
    COMM,
    EVENT_ID,
    FORK,
    HEADER,
    LOST,
    LOST_SAMPLES,
    MMAP,
    MMAP2,
    U64,
    head,
    read_batches,
)
from devkit.profiling.perf_samples import CPU, ID, IDENTIFIER, MOST, STREAM_ID, TID, TIME, read_samples
from devkit.profiling.perf_stacks import KERNEL, MISC_CPU, MISC_KERNEL, Locate, Stacks
from devkit.profiling.perf_symbols import FileSymbols, read_build_ids, read_files, read_files2

__all__ = ["Locate", "read_perf_data"]

_MISC_EXEC = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
# The fields behind records that are no samples, in their order.
_TRAILER = (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER)


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


class _Reader:
    def __init__(self, file: PerfFile, locate: Locate | None, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._locate = locate
        self._on_bytes = on_bytes
        self._builder = ProfileBuilder()
        self._spaces = Spaces()
        self._event_of_id = {i: index for index, attr in enumerate(file.attrs) for i in attr.ids}
        self._build_ids = read_build_ids(file.features.get(perf_file.BUILD_ID, b""))
        self._lost = 0

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
        waits = [off_cpu and "sched_switch" in names[index] for index in range(len(self._file.attrs))]
        events = [
            self._builder.event(names[index], _unit(attr, waits[index]), off_cpu=waits[index])
            for index, attr in enumerate(self._file.attrs)
        ]
        stacks = Stacks(
            self._builder,
            self._read_symbols(),
            self._locate,
            # simpleperf has made call addresses of return addresses already.
            caller_distance=0 if self._file.is_simpleperf else 1,
            kernel_build_id=self._build_ids.get(KERNEL, ""),
        )
        read_samples(
            self._file, read_batches(self._file, self._on_bytes), self._builder, self._spaces, stacks, events,
            self._event_of_id, waits if off_cpu else None,
        )  # fmt: skip
        return self._finish()

    def _read_others(self) -> int:
        """Take in everything but samples, in the order of time; how many samples there are."""
        count = 0
        found: list[tuple[int, int, int, int, bytes]] = []
        attr = self._file.attrs[0]
        trailer = [bit for bit in _TRAILER if attr.sample_type & bit]
        has_trailer = bool(attr.flags & perf_file.FLAG_SAMPLE_ID_ALL)
        time_at = 8 * (trailer.index(TIME) - len(trailer)) if has_trailer and TIME in trailer else 0
        size_of_trailer = 8 * len(trailer) if has_trailer else 0
        # Quick beside the second reading, which tells how far it is.
        for data, samples, others in read_batches(self._file, lambda count: None):
            count += len(samples)
            for at in others:
                kind, misc, size = head(data, at)
                if kind in (MMAP, MMAP2, COMM, FORK):
                    if size < HEADER.size + size_of_trailer + 8:
                        raise damaged(self._file.path, f"a record of {size} bytes is too short for its kind")
                    time = U64.unpack_from(data, at + size + time_at)[0] if time_at else 0
                    body = bytes(data[at + 8 : at + size - size_of_trailer])
                    found.append((time if time <= MOST else 0, len(found), kind, misc, body))
                elif kind == LOST:
                    self._lost += U64.unpack_from(data, at + 16)[0]
                elif kind == LOST_SAMPLES:
                    self._lost += U64.unpack_from(data, at + 8)[0]
                elif kind == EVENT_ID:
                    pairs = min(U64.unpack_from(data, at + 8)[0], (size - 16) // 16)
                    for index, event_id in struct.iter_unpack("<QQ", data[at + 16 : at + 16 + 16 * pairs]):
                        self._event_of_id[event_id] = index
        found.sort()
        for time, _, kind, misc, body in found:
            self._take_in(time, kind, misc, body)
        return count

    def _take_in(self, time: int, kind: int, misc: int, body: bytes) -> None:
        if kind == FORK:
            pid, parent = struct.unpack_from("<II", body)
            if pid != parent:
                self._spaces.fork(parent, pid, time)
            return
        pid, tid = struct.unpack_from("<II", body)
        if kind == COMM:
            name = body[8:].partition(b"\0")[0].decode("utf-8", "replace")
            self._builder.thread(pid, tid, name)
            if misc & _MISC_EXEC:
                self._spaces.exec(pid, time)
            return
        start, length, offset = struct.unpack_from("<QQQ", body, 8)
        build_id = ""
        if kind == MMAP2 and misc & _MISC_MMAP_BUILD_ID:
            build_id = body[36 : 36 + min(body[32], 20)].hex()
        path = body[64 if kind == MMAP2 else 32 :].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        if misc & MISC_CPU == MISC_KERNEL or not length:
            return
        build_id = build_id or self._build_ids.get(path, "")
        self._spaces.map(pid, time, Mapping(start, start + length, offset, path, build_id))

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
                lost=min(self._lost, MOST),
                extra={"simpleperf": info} if info else {},
            )
        )


def _unit(attr: Attr, waits: bool) -> str:
    if waits or (attr.kind == 1 and attr.config in (0, 1)):
        return "ns"
    return "cycles" if (attr.kind, attr.config) == (0, 0) else "count"
