"""The parts of a sanitizer's report: the access, the block, who allocated it, who started the thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.crashes import Crash, as_text, read_crashes
from devkit.crashes.parts import Part, parts_of
from devkit.crashes.summary import short_name

# A symbolized report of clang's runtime on a Linux host, as people paste it: blanks doubled, long templates.
HOST = (Path(__file__).parents[2] / "data/crashes/asan_host_symbolized.txt").read_text()


def read(text: str) -> Crash:
    [crash] = read_crashes(text.splitlines()).crashes
    return crash


def parts(text: str) -> dict[str, Part]:
    return {part.name: part for part in parts_of(read(text), [])}


def test_the_four_parts_of_a_report() -> None:
    found = parts(HOST)
    assert list(found) == ["access", "block", "allocated", "thread"]
    lines = {name: part.location.line for name, part in found.items() if part.location}
    # The block was asked for in the operator, behind the allocators of the engine.
    assert lines == {"access": 815, "allocated": 301, "thread": 58}
    assert found["access"].text == "WRITE of size 16 by thread T3 (pool-3)"
    assert found["block"].text == "7 bytes behind the end of a block of 456 bytes"
    assert found["allocated"].text == "allocated by thread T0"
    assert found["thread"].text == "thread T3 (pool-3) was started by thread T0"


def test_as_text_they_are_above_the_stacks() -> None:
    text = as_text(read_crashes(HOST.splitlines()), [], [])
    summary, _, stacks = text.partition("\n\n")
    assert "WRITE of size 16 by thread T3 (pool-3) (pid 4711)" in summary.splitlines()[0]
    asked = "kit::Attention::onExecute(std::vector<…> const&) at /src/kit/cpu/Attention.cpp:301:16"
    assert f"  alloc:   allocated by thread T0: {asked}\n" in summary
    assert "devkit debug APP -b Gemm.hpp:815" in summary
    assert "is located" not in text and "  ()" not in text
    assert stacks.count("Attention.cpp:301:16") == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "0x1 is located 0 bytes after 40-byte region [0x1,0x2)",
            "0 bytes behind the end of a block of 40 bytes",
        ),
        (
            "0x1 is located 1 bytes before 8-byte region [0x2,0x3)",
            "1 byte before the beginning of a block of 8 bytes",
        ),
        ("0x1 is located 16 bytes inside of 24-byte region [0x1,0x2)", "byte 16 of a block of 24 bytes"),
        (
            "0x1 is located 4 bytes after global variable 't' defined in 'a b.c:3' (0x2) of size 40",
            "4 bytes behind the end of global variable 't' defined in 'a b.c:3' (0x2) of size 40",
        ),
        (
            "    [32, 96) 'window' (line 46) <== Memory access at offset 96 overflows this variable",
            "outside of the local variable 'window' (line 46) of 64 bytes",
        ),
    ],
)
def test_where_the_address_lies(line: str, says: str) -> None:
    report = (
        "==1==ERROR: AddressSanitizer: x-overflow on address 0x1 at pc 0x2\n    #0 0x1  (/d/x+0x1)\n\n" + line
    )
    assert parts(report)["block"].text == says


def test_a_variable_on_the_stack_has_its_function() -> None:
    report = (
        "==1==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x1 at pc 0x2\n"
        "READ of size 4 at 0x1 thread T0\n    #0 0x1 in use /d/a.c:1:2\n\n"
        "Address 0x1 is located in stack of thread T0 at offset 96 in frame\n    #0 0x3 in owner /d/a.c:9:2\n"
    )
    crash = read(report)
    assert [(stack.title, stack.thread) for stack in crash.stacks] == [
        ("access", "T0"),
        ("the variable's function", "T0"),
    ]
    assert parts(report)["variable"].location == crash.stacks[1].frames[0].locations[0]


def test_a_race_has_two_accesses() -> None:
    crash = read(
        "WARNING: ThreadSanitizer: data race (pid=7)\n  Write of size 4 at 0x1 by thread T1:\n"
        "    #0 one /d/a.c:1:2 (x+0x1)\n    #0 0x1 in one /d/a.c:1:2\n\n"
        "  Previous read of size 4 at 0x1 by main thread:\n    #0 0x2 in two /d/a.c:2:2\n"
    )
    assert [(s.title, s.thread) for s in crash.stacks][-1] == ("previous read of size 4", "the main thread")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("kit::decode(kit::Step*)", "kit::decode(kit::Step*)"),
        (
            "std::vector<int, std::allocator<int> >::operator<<(std::ostream<char, std::traits<char>>&, int)",
            "std::vector<…>::operator<<(…)",
        ),
        (
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<kit::Pool::$_1> > >::_M_run()",
            "std::thread::_State_impl<…>::_M_run()",
        ),
        ("k::operator->(" + "int, " * 20 + "int) const", "k::operator->(…) const"),
        ("x" * 200, "x" * 200),
        ("((((((((((<<<<<<<<<<" * 9, "((((((((((<<<<<<<<<<" * 9),
    ],
)
def test_names_for_people(name: str, short: str) -> None:
    assert short_name(name) == short
