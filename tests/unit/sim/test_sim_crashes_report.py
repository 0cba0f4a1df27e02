"""The text of tombstones, of the fatal line, and of causes."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from devkit.sim.crashes import signals
from devkit.sim.crashes.memory import Mapping, Maps
from devkit.sim.crashes.registers import AARCH64, X86_64
from devkit.sim.crashes.report import (
    Crash,
    MapLine,
    MemoryDump,
    ThreadReport,
    fatal_line,
    lines_of,
    probable_cause,
)
from devkit.sim.crashes.signals import SignalInfo, parse_siginfo
from devkit.sim.crashes.unwind import Frame

SEGV = SignalInfo(11, 1, 0, None, 0)
LIBRARY = "/data/local/tmp/devkit/libllm.so"
ID = "f98650f6560e12a2bf5a13fd5bf815ad1d637ba2"
FRAMES = [
    Frame(0x4CC, LIBRARY, "kit::prefill(kit::Step*, int)", 8, ID),
    Frame(0x514, LIBRARY, "kit::decode(kit::Step*)", 48, ID),
    Frame(0x10, "<anonymous:7f00>", "", 0, ""),
]
CRASH = Crash(
    api_level=34,
    fingerprint="example/phone_a/phone_a:14/AAAA.240101.001/1:user/release-keys",
    revision="0",
    processor=X86_64,
    timestamp="2026-05-14 10:22:31.171234567+0800",
    uptime_s=3,
    command_line=["./llm_demo", "qwen/config.json", "prompt.txt"],
    pid=12345,
    uid=2000,
    signal=SEGV,
    abort_message="",
    threads=[
        ThreadReport(12361, "llm_demo", {0: 0xABC, 16: 0x4CC}, FRAMES),
        ThreadReport(12345, "main", {}, FRAMES[:1]),
    ],
    cause="null pointer dereference",
)


def logged(crash: Crash) -> list[str]:
    return [line for line, to_log in lines_of(crash) if to_log]


def test_what_goes_to_the_log_of_android_14() -> None:
    registers = [
        "    rax 0000000000000abc  rbx 0000000000000000  rcx 0000000000000000  rdx 0000000000000000",
        "    r8  0000000000000000  r9  0000000000000000  r10 0000000000000000  r11 0000000000000000",
        "    r12 0000000000000000  r13 0000000000000000  r14 0000000000000000  r15 0000000000000000",
        "    rdi 0000000000000000  rsi 0000000000000000",
        "    rbp 0000000000000000  rsp 0000000000000000  rip 00000000000004cc",
    ]
    assert logged(CRASH) == [
        "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***",
        "Build fingerprint: 'example/phone_a/phone_a:14/AAAA.240101.001/1:user/release-keys'",
        "Revision: '0'",
        "ABI: 'x86_64'",
        "Timestamp: 2026-05-14 10:22:31.171234567+0800",
        "Process uptime: 3s",
        "Cmdline: ./llm_demo qwen/config.json prompt.txt",
        "pid: 12345, tid: 12361, name: llm_demo  >>> ./llm_demo <<<",
        "uid: 2000",
        "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000000",
        "Cause: null pointer dereference",
        *registers,
        "3 total frames",
        "backtrace:",
        f"      #00 pc 00000000000004cc  {LIBRARY} (kit::prefill(kit::Step*, int)+8) (BuildId: {ID})",
        f"      #01 pc 0000000000000514  {LIBRARY} (kit::decode(kit::Step*)+48) (BuildId: {ID})",
        "      #02 pc 0000000000000010  <anonymous:7f00>",
    ]


def test_arm64_has_its_own_registers() -> None:
    lines = logged(dataclasses.replace(CRASH, processor=AARCH64))
    assert "ABI: 'arm64'" in lines
    assert "    x28 0000000000000000  x29 0000000000000000" in lines
    assert (
        "    lr  0000000000000000  sp  0000000000000000  pc  0000000000000000  pst 0000000000000000" in lines
    )


@pytest.mark.parametrize(
    ("api_level", "there", "missing"),
    [
        (28, ["fault addr 0x0"], ["Timestamp", "uid:", "Cmdline", "Process uptime", "total frames"]),
        (29, ["Timestamp: 2026-05-14 10:22:31+0800", "uid: 2000"], ["Cmdline", "total frames"]),
        (31, ["Timestamp: 2026-05-14 10:22:31.171234567+0800", "Cmdline: ", "fault addr 0x0"], ["total fr"]),
        (33, ["fault addr 0x0000000000000000"], ["total frames"]),
    ],
)
def test_older_releases_say_less(api_level: int, there: list[str], missing: list[str]) -> None:
    text = "\n".join(logged(dataclasses.replace(CRASH, api_level=api_level)))
    assert all(part in text for part in there)
    assert not any(part in text for part in missing)
    if api_level < 33:
        assert "fault addr 0x00" not in text


def test_abort_message_and_no_address() -> None:
    abort = SignalInfo(6, -6, None, None, 0)
    lines = logged(dataclasses.replace(CRASH, signal=abort, abort_message="it's 'over'", cause=""))
    assert "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------" in lines
    assert "Abort message: 'it's 'over''" in lines


def test_the_file_has_memory_maps_threads_files_and_logs() -> None:
    dump = MemoryDump("rax", "[stack]", 0x1000, b"!Hello,\x00orld\x01" + bytes(19))
    maps = [
        MapLine(0x1000, 0x3000, "r-x", 0x2000, LIBRARY, ID, 0),
        MapLine(0x5000, 0x6000, "rw-", 0, "", "", 0),
    ]
    thread = dataclasses.replace(CRASH.threads[0], memory=[dump])
    crash = dataclasses.replace(
        CRASH,
        threads=[thread, CRASH.threads[1]],
        maps=maps,
        signal=dataclasses.replace(SEGV, address=0x4000),
        open_files={3: "/data/local/tmp/x", 0: "/dev/null"},
        logs={"main": ["line"]},
    )
    text = "\n".join(line for line, _ in lines_of(crash))
    assert (
        "memory near rax ([stack]):\n"
        "    0000000000001000 002c6f6c6c654821 00000001646c726f  !Hello,.orld....\n"
    ) in text
    assert "memory map (2 entries): (fault address prefixed with --->)" in text
    assert (
        f"    00000000'00001000-00000000'00002fff r-x      2000      2000  {LIBRARY} (BuildId: {ID})" in text
    )
    assert "--->Fault address falls at 00000000'00004000 between mapped regions" in text
    assert "--- --- --- --- --- --- --- --- --- --- --- --- --- --- --- ---\nCmdline: ./llm_demo" in text
    assert "pid: 12345, tid: 12345, name: main  >>> ./llm_demo <<<" in text
    assert "\nopen files:\n    fd 0: /dev/null (unowned)\n    fd 3: /data/local/tmp/x (unowned)" in text
    assert "--------- tail end of log main\nline" in text and text.endswith("--------- log main\nline")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0x10, "--->Fault address falls at 00000000'00000010 before any mapped regions"),
        (0x1800, "--->00000000'00001000-00000000'00001fff"),
        (0x9000, "--->Fault address falls at 00000000'00009000 after any mapped regions"),
    ],
)
def test_the_fault_is_marked_in_the_map(address: int, expected: str) -> None:
    maps = [MapLine(0x1000, 0x2000, "r--", 0, "", "", 0)]
    crash = dataclasses.replace(CRASH, maps=maps, signal=dataclasses.replace(SEGV, address=address))
    assert expected in "\n".join(line for line, _ in lines_of(crash))


def test_the_fatal_line() -> None:
    assert fatal_line(SEGV, 12345, 12361, ("worker", "llm_demo")) == (
        "Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0 "
        "in tid 12361 (worker), pid 12345 (llm_demo)"
    )
    sent = SignalInfo(6, 0, None, (77, 2000), 0)
    assert fatal_line(sent, 5, 5, ("a", "a")) == (
        "Fatal signal 6 (SIGABRT), code 0 (SI_USER from pid 77, uid 2000) in tid 5 (a), pid 5 (a)"
    )
    assert " from pid" not in fatal_line(dataclasses.replace(sent, sender=(5, 0)), 5, 5, ("a", "a"))


def siginfo(number: int, code: int, tail: bytes) -> bytes:
    return (struct.pack("<iii4x", number, 0, code) + tail).ljust(128, b"\0")


def test_siginfo() -> None:
    fault = parse_siginfo(siginfo(11, 2, struct.pack("<Q", 0x7F00)))
    assert (fault.name, fault.code_name, fault.address, fault.sender) == (
        "SIGSEGV",
        "SEGV_ACCERR",
        0x7F00,
        None,
    )
    killed = parse_siginfo(siginfo(11, 0, struct.pack("<iI", 9, 2000)))
    assert (killed.code_name, killed.address, killed.sender) == ("SI_USER", None, (9, 2000))
    refused = parse_siginfo(siginfo(31, 1, struct.pack("<Qi", 0x1234, 101)))
    assert (refused.code_name, refused.syscall) == ("SYS_SECCOMP", 101)
    assert parse_siginfo(siginfo(8, 1, struct.pack("<Q", 5))).code_name == "FPE_INTDIV"
    assert parse_siginfo(siginfo(11, 128, bytes(8))).code_name == "SI_KERNEL"
    assert parse_siginfo(siginfo(11, 77, bytes(8))).code_name == "?"


STACK = Mapping(0x10000, 0x20000, "rw-p", 0, "00:00", 0, "[stack]")
GUARD = Mapping(0xF000, 0x10000, "---p", 0, "00:00", 0, "")


@pytest.mark.parametrize(
    ("code", "address", "stack", "mappings", "cause"),
    [
        (1, 8, 0, [], "null pointer dereference"),
        (1, 4096, 0, [], ""),
        (1, 0xFFF8, 0xFFF0, [STACK], "stack pointer is in a non-existent map; likely due to stack overflow."),
        (
            2,
            0xFFF8,
            0xFFF0,
            [GUARD, STACK],
            "stack pointer is not in a rw map; likely due to stack overflow.",
        ),
        (1, 0xFFF8, 0x10010, [STACK], "stack pointer is close to top of stack; likely stack overflow."),
        (1, 0x15000, 0x15010, [STACK], ""),
        (1, 0x5000, 0x15010, [STACK], ""),
    ],
)
def test_causes(code: int, address: int, stack: int, mappings: list[Mapping], cause: str) -> None:
    assert probable_cause(SignalInfo(11, code, address, None, 0), stack, Maps(mappings)) == cause


def test_other_signals_have_no_cause() -> None:
    assert probable_cause(SignalInfo(signals.SIGABRT, -6, None, None, 0), 0, Maps([])) == ""
    assert "system call 101" in probable_cause(SignalInfo(signals.SIGSYS, 1, None, None, 101), 0, Maps([]))
