"""perf.data of simpleperf's generations: layouts by the virtual phone's writer, damage by chance."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.errors import DevkitError, FileError
from devkit.profiling import Profile
from devkit.profiling.perf_data import read_perf_data
from devkit.sim.simpleperf import kernel, writer
from devkit.sim.simpleperf.kernel import EventAttr
from devkit.sim.simpleperf.writer import Event, SeenFile

PLAIN = kernel.IP | kernel.TID | kernel.TIME | kernel.ID | kernel.CPU | kernel.PERIOD
ATTR = EventAttr(1, 0, 1000, PLAIN | kernel.CALLCHAIN, kernel.SAMPLE_ID_ALL | kernel.EXCLUDE_KERNEL)
LIBRARY = "/data/local/tmp/我的/libMNN.so"
BUILD_ID = bytes(range(20))


def some_records(attr: EventAttr = ATTR) -> list[bytes]:
    return [
        writer.comm(10, 10, "llm demo", 0, 1),
        writer.comm(10, 11, "worker", 0, 1),
        writer.mmap2(10, 0x1000, 0x5000, 0x1000, LIBRARY, 0, 1),
        writer.mmap2(10, 0x9000, 0xA000, 0, "/system/lib64/libc.so", 0, 1),
        writer.sample(attr, 10, 10, 100, 1, 0, 7, [0x1234, 0x9010]),
        writer.sample(attr, 10, 11, 200, 1, 1, 5, [0x1234, 0x9010]),
        writer.sample(attr, 10, 11, 300, 1, 1, 3, [0x777777]),
    ]


def some_file(
    records: Sequence[bytes],
    events: Sequence[Event] = (Event("cpu-clock:u", ATTR, (1,)),),
    *,
    new: bool = True,
) -> bytes:
    files = [
        SeenFile(LIBRARY, BUILD_ID, 0x2000, 0x1000, [(0x2200, 0x100, "gemm<float, 4>(float*)")]),
        SeenFile("/system/lib64/libc.so", b"\x01" * 16, 0, 0),
    ]
    return writer.perf_data(
        events, records, files, {"simpleperf_version": "1.x", "clockid": "perf"},
        command=["simpleperf", "record"], release="6.1", arch="arm64", new_files=new,
    )  # fmt: skip


def read(data: bytes, folder: Path) -> Profile:
    path = folder / "perf.data"
    path.write_bytes(data)
    return read_perf_data(path)


@pytest.mark.parametrize("new", [True, False])
def test_what_it_says_arrives(tmp_path: Path, new: bool) -> None:
    profile = read(some_file(some_records(), new=new), tmp_path)
    assert list(profile.sample_weight) == [7, 5, 3]
    assert list(profile.sample_time_ns) == [100, 200, 300]
    assert [(event.name, event.unit) for event in profile.events] == [("cpu-clock:u", "ns")]
    assert {(t.pid, t.tid, t.name) for t in profile.threads} == {(10, 10, "llm demo"), (10, 11, "worker")}
    assert profile.sample_stack[0] == profile.sample_stack[1]
    frames = [profile.frames[index] for index in profile.frames_of(profile.sample_stack[0])]
    # 0x1234 lies 0x234 behind the mapping of 0x1000, which the recorder saw at the address 0x2000.
    assert [(profile.modules[f.module].path, f.address, f.function) for f in frames] == [
        ("/system/lib64/libc.so", 0x10, ""),
        (LIBRARY, 0x2234, "gemm<float, 4>(float*)"),
    ]
    assert profile.modules[frames[1].module].build_id == BUILD_ID.hex()
    # 16 bytes: what Clang's --build-id=md5 makes.
    assert profile.modules[frames[0].module].build_id == "01" * 16
    nowhere = profile.frames[profile.stack_frame[profile.sample_stack[2]]]
    assert profile.modules[nowhere.module].path == "[unknown]"
    assert (profile.meta.recorder, profile.meta.arch, profile.meta.clock) == (
        "simpleperf 1.x",
        "arm64",
        "perf",
    )


def test_places_in_files_that_are_here_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(some_file(some_records()))
    asked = []

    def locate(module: object, offset: int) -> int | None:
        asked.append(offset)
        return 0xABC if offset == 0x1234 else None

    profile = read_perf_data(path, locate=locate)
    assert {frame.address for frame in profile.frames} == {0xABC, 0x10, 0x777777}
    assert sorted(asked) == [0x10, 0x1234]


def test_a_library_that_takes_anothers_place(tmp_path: Path) -> None:
    """dlclose and dlopen: the same address is another file later, whatever the order in the file."""
    records = [
        writer.sample(ATTR, 10, 10, 500, 1, 0, 1, [0x1500]),
        writer.mmap2(10, 0x1000, 0x2000, 0, "/old.so", 0, 1),
        writer.mmap2(10, 0x1000, 0x2000, 0, "/new.so", 400, 1),
        writer.sample(ATTR, 10, 10, 300, 1, 0, 1, [0x1500]),
    ]
    profile = read(some_file(records), tmp_path)
    assert [
        profile.modules[profile.frames[profile.stack_frame[stack]].module].path
        for stack in profile.sample_stack
    ] == ["/new.so", "/old.so"]


def test_several_events_by_their_ids(tmp_path: Path) -> None:
    second = EventAttr(0, 1, 1000, ATTR.sample_type, ATTR.flags)
    events = [Event("cpu-clock:u", ATTR, (1,)), Event("instructions:u", second, (2, 3))]
    records = [*some_records(), writer.sample(ATTR, 10, 10, 400, 3, 0, 99, [0x1234])]
    profile = read(some_file(records, events), tmp_path)
    assert profile.events[profile.sample_event[3]] == ("instructions:u", "count", False)
    assert profile.total(profile.sample_event[3]) == 99


def test_compressed_records_may_be_cut_anywhere(tmp_path: Path) -> None:
    whole = b"".join(some_records())
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(whole[:150]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    rest = packer.compress(whole[150:]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    records = [struct.pack("<IHH", 81, 0, 8 + len(part)) + part for part in (packed, rest)]
    assert list(read(some_file(records), tmp_path).sample_weight) == [7, 5, 3]


def test_a_record_that_was_split(tmp_path: Path) -> None:
    records = some_records()
    large = records.pop()
    halves = [struct.pack("<IHH", 32772, 0, 8 + 24) + large[:24]]
    halves += [
        struct.pack("<IHH", 32772, 0, 8 + len(large) - 24) + large[24:],
        struct.pack("<IHH", 32773, 0, 8),
    ]
    assert list(read(some_file([*records, *halves]), tmp_path).sample_weight) == [7, 5, 3]


def test_kernel_and_user_parts_of_a_chain_behind_read_values(tmp_path: Path) -> None:
    """PERF_SAMPLE_READ lies before the chain; markers tell whose the addresses behind them are."""
    attr = EventAttr(1, 0, 1000, ATTR.sample_type | 16, ATTR.flags)
    kernel_mode, user_mode = (1 << 64) - 128, (1 << 64) - 512
    chain = [kernel_mode, 0xFFFF000000001000, 0xFFFF000000002000, user_mode, 0x1234, 0x9010]
    body = struct.pack("<QIIQQIIQ", chain[1], 10, 10, 100, 1, 0, 0, 7)
    body += struct.pack("<QQ6Q", 4711, len(chain), *chain)
    sample = struct.pack("<IHH", 9, 1, 8 + len(body)) + body
    profile = read(some_file([*some_records()[:4], sample], [Event("cpu-clock", attr, (1,))]), tmp_path)
    frames = [profile.frames[index] for index in profile.frames_of(profile.sample_stack[0])]
    assert [(profile.modules[f.module].name, f.address) for f in frames] == [
        ("libc.so", 0x10),
        ("libMNN.so", 0x2234),
        ("[kernel.kallsyms]", 0xFFFF000000002000),
        ("[kernel.kallsyms]", 0xFFFF000000001000),
    ]


def test_samples_without_time_period_and_calls(tmp_path: Path) -> None:
    attr = EventAttr(0, 1, 5000, kernel.IP | kernel.TID, 0)
    mapped = writer.mmap2(10, 0x1000, 0x5000, 0x1000, LIBRARY, 0, 1)[:-32]
    records = [struct.pack("<IHH", 10, 0, len(mapped)) + mapped[8:]]
    records += [struct.pack("<IHHQII", 9, 2, 24, 0x1234, 10, tid) for tid in (10, 11)]
    profile = read(some_file(records, [Event("instructions", attr, (1,))]), tmp_path)
    assert list(profile.sample_weight) == [5000, 5000] and list(profile.sample_time_ns) == [0, 0]
    assert {profile.frames[profile.stack_frame[s]].address for s in profile.sample_stack} == {0x2234}
    assert [thread.tid for thread in profile.threads] == [10, 11]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"PERFILE2", "ends within its header"),
        (b"\x7fELF" + bytes(200), "is no perf.data"),
        (b"2ELIFREP" + bytes(200), "big-endian"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(FileError) as caught:
        read(data, tmp_path)
    assert words in f"{caught.value.what} {caught.value.evidence}"


def test_without_samples_and_unfinished(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no samples"):
        read(some_file(some_records()[:4]), tmp_path)
    data = bytearray(some_file(some_records()))
    data[48:56] = bytes(8)  # a recorder that was killed has not written the size
    with pytest.raises(FileError) as caught:
        read(bytes(data), tmp_path)
    assert "killed before it could finish" in (caught.value.evidence or "")


@given(cut=st.integers(0, 2000))
@settings(max_examples=60, deadline=None)
def test_a_file_that_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    data = some_file(some_records())
    folder = tmp_path_factory.mktemp("cut")
    if cut >= len(data):
        return
    with pytest.raises(FileError):
        read(data[:cut], folder)


@given(
    places=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), min_size=1, max_size=12),
    new=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_damage_anywhere_is_an_error_or_read(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], new: bool
) -> None:
    data = bytearray(some_file(some_records(), new=new))
    for at, value in places:
        data[at % len(data)] = value
    try:
        profile = read(bytes(data), tmp_path_factory.mktemp("damaged"))
    except DevkitError as error:
        assert error.hints
    else:
        assert len(profile) >= 1
