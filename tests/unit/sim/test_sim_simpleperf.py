"""The virtual phone's simpleperf: records of several processors in the order in which they were written."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import pytest

from devkit.sim.simpleperf import kernel, writer
from devkit.sim.simpleperf.kernel import EventAttr
from devkit.sim.simpleperf.sampling import KernelSampler, Stream
from devkit.sim.simpleperf.spaces import Space

PID, EVENT_ID, EXEC = 4711, 9, 1 << 13
ATTR = EventAttr(1, 0, 1, kernel.CALLCHAIN, 0, 0, 0)


def exec_at(time: int) -> bytes:
    record = writer.comm(PID, PID, "hot", time, EVENT_ID)
    kind, misc, size = struct.unpack_from("<IHH", record)
    return struct.pack("<IHH", kind, misc | EXEC, size) + record[8:]


def mapped_at(time: int, path: str, start: int) -> bytes:
    return writer.mmap2(PID, start, start + 0x1000, 0, path, time, EVENT_ID)


def sampled_at(time: int, *chain: int) -> bytes:
    return writer.sample(ATTR, PID, PID, time, EVENT_ID, 0, 1, chain)


class Ring:
    """A processor's buffer that has this to give, reading by reading."""

    def __init__(self, *drained: bytes) -> None:
        self._drained = list(drained)

    def drain(self) -> bytes:
        return self._drained.pop(0) if self._drained else b""

    def close(self) -> None:
        pass


Sampling = Callable[..., tuple[KernelSampler, Stream]]


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> Sampling:
    def start(*rings: Ring) -> tuple[KernelSampler, Stream]:
        left = list(rings)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(len(rings))))
        monkeypatch.setattr(kernel, "open_event", lambda *words: os.open(os.devnull, os.O_RDONLY))
        monkeypatch.setattr(kernel, "id_of", lambda fd: EVENT_ID)
        monkeypatch.setattr(kernel, "open_ring", lambda fd: left.pop(0))
        stream = Stream(ATTR, dwarf=False)
        # What a shell had mapped before it became the program.
        stream._spaces[PID] = Space()
        return KernelSampler(stream, [PID], on_exec=True), stream

    return start


def test_a_program_that_is_moved_while_it_starts_keeps_its_memory(sampling: Sampling) -> None:
    sampler, stream = sampling(
        Ring(mapped_at(2, "/data/hot", 0x1000) + sampled_at(3, 0x1010)),
        Ring(exec_at(1) + sampled_at(4, 0x1020)),
    )
    sampler.drain()
    sampler.close()
    assert [place.path for place in stream.space(PID).places] == ["/data/hot"]
    assert (stream.hit, stream.samples) == ({"/data/hot"}, 2)


def test_what_comes_while_buffers_are_read_keeps_its_order(sampling: Sampling) -> None:
    # The first buffer was empty when it was read, the second had the later record when its turn came.
    sampler, stream = sampling(
        Ring(b"", exec_at(1), sampled_at(8, 0x2010)),
        Ring(mapped_at(2, "/data/hot", 0x1000), mapped_at(7, "/data/lib.so", 0x2000)),
    )
    sampler.drain()
    assert [time for time, _ in stream.records] == [1, 2]
    assert [place.path for place in stream.space(PID).places] == ["/data/hot"]
    sampler.drain()
    assert [time for time, _ in stream.records] == [1, 2, 7, 8]
    assert stream.hit == {"/data/lib.so"}


def test_nothing_is_lost_at_the_end(sampling: Sampling) -> None:
    sampler, stream = sampling(Ring(mapped_at(1, "/data/hot", 0x1000), sampled_at(5, 0x1010)))
    sampler.drain()
    assert stream.samples == 0
    sampler.close()
    assert (stream.samples, stream.hit) == (1, {"/data/hot"})
