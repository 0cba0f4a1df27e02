"""The unwinder's parts against other readers of the same data: pyelftools, the process itself."""

from __future__ import annotations

import ctypes
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from devkit.sim.crashes.demangle import demangle
from devkit.sim.crashes.expressions import evaluate, sleb, uleb
from devkit.sim.crashes.frames import find_row
from devkit.sim.crashes.memory import Memory, parse_maps, read_maps
from devkit.sim.crashes.modules import Modules
from devkit.sim.crashes.registers import AARCH64, X86_64, processor

PLACES = 400


class Words(Memory):
    """A memory in which every word is its own address, plus one."""

    def __init__(self) -> None:
        pass

    def word(self, address: int) -> int:
        return address + 1

    def read(self, address: int, count: int) -> bytes:
        return bytes(range(count))


@pytest.fixture(scope="module")
def own() -> tuple[Memory, Modules, Any]:
    maps = read_maps(os.getpid())
    memory = Memory(os.getpid())
    return memory, Modules(memory, maps), maps


def libc(own: tuple[Memory, Modules, Any]) -> Any:
    _, modules, maps = own
    mapping = next(m for m in maps.all if re.search(r"/libc(-[\d.]+)?\.so", m.name) and m.offset == 0)
    return modules.at(mapping)


def test_every_row_of_the_c_library_is_read_as_pyelftools_reads_it(own: tuple[Memory, Modules, Any]) -> None:
    from elftools.dwarf.callframe import FDE, RegisterRule
    from elftools.elf.elffile import ELFFile

    module = libc(own)
    with Path(module.name).open("rb") as file:
        entries = [e for e in ELFFile(file).get_dwarf_info().EH_CFI_entries() if isinstance(e, FDE)]
        entries = random.Random(7).sample(entries, min(PLACES, len(entries)))
        compared = 0
        for entry in entries:
            table = entry.get_decoded()
            for index, row in enumerate(table.table):
                start = row["pc"]
                end = (
                    table.table[index + 1]["pc"]
                    if index + 1 < len(table.table)
                    else entry.header["initial_location"] + entry.header["address_range"]
                )
                if end <= start or row["cfa"].expr is not None:
                    continue
                for place in {start, end - 1}:
                    mine = find_row(own[0], module.frame_table, place + module.bias)
                    assert mine is not None, hex(place)
                    assert mine.cfa == (row["cfa"].reg, row["cfa"].offset), hex(place)
                    offsets = {
                        number: ("offset", rule.arg)
                        for number, rule in row.items()
                        if isinstance(number, int) and rule.type == RegisterRule.OFFSET
                    }
                    found = {n: rule for n, rule in mine.rules.items() if rule[0] == "offset"}
                    assert found == offsets, hex(place)
                    compared += 1
    assert compared > PLACES


def test_no_row_where_no_function_is(own: tuple[Memory, Modules, Any]) -> None:
    module = libc(own)
    assert find_row(own[0], module.frame_table, module.bias) is None
    assert find_row(own[0], module.frame_table, (1 << 47) - 4096) is None


def test_symbols_and_build_id_of_a_loaded_library(own: tuple[Memory, Modules, Any]) -> None:
    from elftools.elf.elffile import ELFFile

    module = libc(own)
    address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert address is not None
    symbol = module.symbol_at(address - module.bias + 1)
    assert symbol is not None and symbol.name in ("getpid", "__getpid")
    assert module.symbol_at(0) is None
    assert module.exported(b"no such symbol") is None
    with Path(module.name).open("rb") as file:
        notes = ELFFile(file).get_section_by_name(".note.gnu.build-id").iter_notes()
        assert module.build_id == next(notes)["n_desc"]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("35", 5),
        ("0905 1f", (1 << 64) - 5),
        ("08ff", 255),
        ("09ff", (1 << 64) - 1),
        ("1080 01", 128),
        ("117f", (1 << 64) - 1),
        ("7708", 1008),
        ("9207 08", 1008),
        ("7700 06", 1001),
        ("33 32 1c", 1),
        ("33 32 1e", 6),
        ("33 3f 1a", 3),
        ("31 32 24", 4),
        ("38 31 25", 4),
        ("0980 31 26", (1 << 64) - 64),
        ("32 12 22", 4),
        ("31 32 16 1c", 1),
        ("31 32 33 17 22 22", 6),
        ("31 32 14 22 22", 4),
        ("31 32 1501 22 22", 4),
        ("35 2304", 9),
        ("31 28 0400 32 2f 0100 33", 3),
        ("30 28 0400 32 2f 0100 33", 2),
        ("33 33 29", 1),
        ("09fe 31 2d", 1),
        ("35 36 13", 5),
        # The entry of a PLT: sp + 8 + ((ip & 15) >= 11) * 8.
        ("7708 8000 3f 1a 3b 2a 33 24 22", 1016),
    ],
)
def test_expressions(code: str, value: int) -> None:
    assert evaluate(bytes.fromhex(code), {7: 1000, 16: 0x40B}, Words()) == value


@pytest.mark.parametrize("code", ["", "06", "ff", "22", "2f fdff", "7a00"])
def test_broken_expressions(code: str) -> None:
    with pytest.raises(ValueError, match="DWARF"):
        evaluate(bytes.fromhex(code), {7: 0}, Words())


def test_leb128() -> None:
    assert uleb(b"\xe5\x8e\x26", 0) == (624485, 3)
    assert sleb(b"\xc0\xbb\x78", 0) == (-123456, 3)
    assert sleb(b"\x00\x7f", 1) == (-1, 2)


def test_registers_of_both_processors() -> None:
    words = b"".join(number.to_bytes(8, "little") for number in range(100))
    ptrace = X86_64.from_ptrace(words[: 27 * 8])
    assert (ptrace[7], ptrace[16], ptrace[0], ptrace[15]) == (19, 16, 10, 0)
    context = X86_64.from_context(words)
    assert (context[16], context[7], context[8], context[5]) == (5 + 16, 5 + 15, 5, 5 + 8)
    arm = AARCH64.from_ptrace(words[: 34 * 8])
    assert (arm[0], arm[29], arm[30], arm[31], arm[33]) == (0, 29, 30, 31, 32)
    assert AARCH64.from_context(words)[33] == 23 + 32
    assert processor("aarch64") is AARCH64 and processor("x86_64") is X86_64


def test_maps() -> None:
    text = (
        "55d0-55d8 r-xp 00001000 fe:01 42      /data/a b/lib\\012x.so\n"
        "7f00-7f10 ---p 00000000 00:00 0 \n"
        "nonsense\n"
        "7f20-7f30 rw-p 00000000 00:00 0      [stack]\n"
    )
    first, second, third = parse_maps(text)
    assert (first.start, first.end, first.offset, first.inode) == (0x55D0, 0x55D8, 0x1000, 42)
    assert first.name == "/data/a b/lib\nx.so" and first.executable and first.flags == "r-x"
    assert second.name == "" and not second.readable
    assert third.name == "[stack]"


def test_names() -> None:
    assert demangle("main") == "main"
    assert demangle("_Znonsense") == "_Znonsense"
    assert demangle("_ZN3kit7prefillEPNS_4StepEi") in (
        "kit::prefill(kit::Step*, int)",
        "_ZN3kit7prefillEPNS_4StepEi",
    )
