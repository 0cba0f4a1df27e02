"""Formats beside the field cases: tombstones old and new, MTE, GWP-ASan, sanitizers, bare stacks."""

from __future__ import annotations

import pytest

from devkit.crashes import Crash, as_text, cause_of, own_frame, read_crashes
from devkit.crashes.frames import parse_frame
from devkit.crashes.model import BACKTRACE, KILLED, SANITIZER, SIGNAL


def only(text: str) -> Crash:
    (crash,) = read_crashes(text.splitlines()).crashes
    return crash


ANDROID_8 = """\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
Build fingerprint: 'example/phone_b/phone_b:8.1.0/OPM1/1:user/release-keys'
Revision: '0'
ABI: 'arm'
pid: 4321, tid: 4330, name: worker (1)  >>> /data/local/tmp/a b/llm_demo <<<
signal 7 (SIGBUS), code 1 (BUS_ADRALN), fault addr 0xb4c0f003
    r0 00000000  r1 00000001  r2 00000002  r3 00000003
    ip 00000000  sp 00000000  lr 00000000  pc 00000000  cpsr 60070010

backtrace:
    #00 pc 00001a2c  /data/local/tmp/a b/libMNN.so (_ZN3MNN4CPUXEv+12)
    #01 pc 00047d2b  /system/lib/libc.so (__pthread_start(void*)+22)

stack:
         b5c7e8b8  00000000
         #00  b5c7e8f8  00000000
memory near r0:
    #00 pc 00000000  /not/a/frame

--- --- --- --- --- --- --- --- --- --- --- --- --- --- --- ---
pid: 4321, tid: 4321, name: llm_demo  >>> /data/local/tmp/a b/llm_demo <<<
    r0 00000000  r1 00000001  r2 00000002  r3 00000003

backtrace:
    #00 pc 00048bd4  /system/lib/libc.so (__ioctl+8)
"""


def test_a_tombstone_file_of_android_8_with_its_other_threads() -> None:
    crash = only(ANDROID_8)
    assert (crash.signal, crash.code, crash.abi) == ("SIGBUS", "BUS_ADRALN", "arm")
    assert (crash.process, crash.thread, crash.pid, crash.tid) == (
        "/data/local/tmp/a b/llm_demo", "worker (1)", 4321, 4330,
    )  # fmt: skip
    assert [stack.title for stack in crash.stacks] == ["backtrace", "thread 4321 (llm_demo)"]
    assert [len(stack.frames) for stack in crash.stacks] == [2, 1]
    frame = crash.frames[0]
    assert (frame.module, frame.function, frame.function_offset) == (
        "/data/local/tmp/a b/libMNN.so", "_ZN3MNN4CPUXEv", 12,
    )  # fmt: skip
    assert cause_of(crash).kind == "bad alignment or file cut short"
    assert "where:   MNN::CPUX in /data/local/tmp/a b/libMNN.so (#00)" in as_text(
        read_crashes(ANDROID_8.splitlines()), [], []
    )


MTE = """\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
pid: 100, tid: 101, name: t  >>> /data/local/tmp/p <<<
signal 11 (SIGSEGV), code 9 (SEGV_MTESERR), fault addr 0x0b000074e1d9b3c0
{cause}
    x0  0000000000000000  x1  0000000000000000

backtrace:
      #00 pc 00000000000004cc  /data/local/tmp/libx.so (use(int*)+8) (BuildId: 0a0b)

deallocated by thread 101:
      #00 pc 0000000000053334  /apex/com.android.runtime/lib64/bionic/libc.so (scudo::free+1) (BuildId: 0c0d)
      #01 pc 0000000000000514  /data/local/tmp/libx.so (drop()+4) (BuildId: 0a0b)

allocated by thread 100:
      #00 pc 0000000000000560  /data/local/tmp/libx.so (make()+4) (BuildId: 0a0b)
"""


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (
            "Cause: [MTE]: Use After Free, 0 bytes into a 32-byte allocation at 0x74e1d9b3c0",
            "use after free (MTE)",
        ),
        ("Cause: [MTE]: Buffer Overflow, 4 bytes right of a 32-byte allocation", "buffer overflow (MTE)"),
        ("Cause: [GWP-ASan]: Use After Free, 8 bytes into a 32-byte allocation", "use after free (GWP-ASan)"),
        ("Cause: [GWP-ASan]: Double Free, 0 bytes into a 32-byte allocation", "heap error (GWP-ASan)"),
        ("tagged_addr_ctrl: 000000000007fff3", "memory tag mismatch (MTE)"),
    ],
)
def test_dumps_with_the_stacks_of_the_block(cause: str, kind: str) -> None:
    crash = only(MTE.format(cause=cause))
    assert [stack.title for stack in crash.stacks] == ["backtrace", "freed by", "allocated by"]
    assert [len(stack.frames) for stack in crash.stacks] == [1, 2, 1]
    assert crash.stacks[1].frames[1].function == "drop()"
    assert cause_of(crash).kind == kind


def test_an_abort_message_of_several_lines_with_apostrophes() -> None:
    crash = only(
        "pid: 7, tid: 7, name: p  >>> p <<<\nsignal 6 (SIGABRT), code -1 (SI_QUEUE), fault addr --------\n"
        "Abort message: 'it's one\ntwo\nthree'\n    x0  0000\nbacktrace:\n"
        "      #00 pc 10  /d/libx.so (f+1)\n"
    )
    assert crash.abort_message == "it's one\ntwo\nthree"
    assert len(crash.frames) == 1 and crash.fault_address is None


def test_an_abort_message_that_lost_its_end_swallows_nothing() -> None:
    crash = only(
        "pid: 7, tid: 7, name: p  >>> p <<<\nAbort message: 'one\ntwo\nbacktrace:\n"
        "      #00 pc 10  /d/libx.so (f+1)\n"
    )
    assert crash.abort_message == "one\ntwo" and len(crash.frames) == 1


HWASAN = """\
==2001==ERROR: HWAddressSanitizer: tag-mismatch on address 0x00410000fff0 at pc 0x0055d3a41234
WRITE of size 1 at 0x00410000fff0 tags: 2a/00 (ptr/mem) in thread T0
    #0 0x55d3a41234  (/data/local/tmp/prog+0x1234) (BuildId: aabbccdd)
    #1 0x7b24d90a08  (/system/lib64/libc.so+0x2da08)

Cause: use-after-free
0x00410000fff0 is located 16 bytes inside a 32-byte region [0x00410000ffe0,0x004100010000)
freed by thread T0 here:
    #0 0x7b24a1c7c8  (/system/lib64/libclang_rt.hwasan-aarch64-android.so+0x1c7c8)
    #1 0x55d3a41300  (/data/local/tmp/prog+0x1300) (BuildId: aabbccdd)

previously allocated by thread T0 here:
    #0 0x55d3a41400  (/data/local/tmp/prog+0x1400) (BuildId: aabbccdd)
SUMMARY: HWAddressSanitizer: tag-mismatch (/data/local/tmp/prog+0x1234)
"""


def test_hwasan() -> None:
    crash = only(HWASAN)
    assert (crash.kind, crash.tool, crash.what) == (SANITIZER, "HWAddressSanitizer", "tag-mismatch")
    assert (crash.access, crash.thread) == ("WRITE of size 1", "T0")
    assert [stack.title for stack in crash.stacks] == ["access", "freed by", "allocated by"]
    assert crash.frames[0].pc == 0x1234 and crash.frames[0].build_id == "aabbccdd"
    assert "Cause: use-after-free" in crash.details


@pytest.mark.parametrize(
    ("line", "what", "kind"),
    [
        (
            "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000008 (pc 0x1 bp 0x2 sp 0x3 T0)",
            "SEGV",
            "null pointer",
        ),
        (
            "==1==ERROR: AddressSanitizer: attempting double-free on 0x602000000010 in thread T0:",
            "double-free",
            "double-free",
        ),
        (
            "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x1",
            "heap-use-after-free",
            "use-after-free",
        ),
        (
            "==1==ERROR: AddressSanitizer: stack-overflow on address 0x7ffc (pc 0x1 bp 0x2 sp 0x3 T0)",
            "stack-overflow",
            "stack-overflow",
        ),
        ("==1==ERROR: LeakSanitizer: detected memory leaks", "detected memory leaks", "memory leak"),
        ("WARNING: ThreadSanitizer: data race (pid=1)", "data race", "data race"),
        (
            "src/a.cpp:3:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented",
            "signed integer overflow: 2147483647 + 1 cannot be represented",
            "undefined behaviour",
        ),
    ],
)
def test_kinds_of_sanitizer_errors(line: str, what: str, kind: str) -> None:
    crash = only(line + "\n    #0 0x11 in f(int, char) /src/a.cpp:3:5\n    #1 0x22 in main (/d/p+0x22)\n")
    assert (crash.what, cause_of(crash).kind) == (what, kind)
    assert [frame.function for frame in crash.frames] == ["f(int, char)", "main"]
    (location,) = crash.frames[0].locations
    assert location.place == "/src/a.cpp:3:5"


def test_a_stack_of_lldb() -> None:
    crash = only(
        "* thread #1, name = 'llm_demo', stop reason = signal SIGSEGV: address not mapped to object "
        "(fault address: 0x10)\n"
        "  * frame #0: 0x0000007a123454cc libllm.so`kit::take(p=0x0000000000, n=3) at fixture.cpp:7:12 "
        "[inlined]\n"
        "    frame #1: 0x0000007a123454cc libllm.so`kit::prefill(s=0x1, n=3) + 8 at fixture.cpp:14\n"
        "    frame #2: 0x0000007b12345000 libc.so`__libc_init + 104\n"
    )
    assert (crash.kind, crash.signal, crash.fault_address) == (SIGNAL, "SIGSEGV", "0x10")
    assert [frame.module for frame in crash.frames] == ["libllm.so", "libllm.so", "libc.so"]
    assert crash.frames[0].locations[0].place == "fixture.cpp:7:12"
    assert crash.frames[1].locations[0].line == 14
    assert (crash.frames[2].function, crash.frames[2].function_offset) == ("__libc_init", 104)


def test_a_stack_of_backtrace_symbols() -> None:
    crash = only(
        "caught it\n./prog(+0x1139) [0x55d0139]\n/lib/libc.so.6(abort+0x12b) [0x7f1]\n./prog() [0x401136]\n"
    )
    assert crash.kind == BACKTRACE
    assert [frame.pc for frame in crash.frames] == [0x1139, None, None]
    assert [frame.module for frame in crash.frames] == ["./prog", "/lib/libc.so.6", "./prog"]
    assert (crash.frames[1].function, crash.frames[1].function_offset) == ("abort", 0x12B)


def test_a_dump_that_lost_its_beginning() -> None:
    text = "".join(
        f"05-14 10:22:31.402  {70 + n % 2}  7 F DEBUG   :       #0{n // 2} pc 10  /d/lib{n % 2}.so (f+1)\n"
        for n in range(4)
    )
    crashes = read_crashes(text.splitlines()).crashes
    assert [(crash.kind, crash.pid) for crash in crashes[:2]] == [(BACKTRACE, 70), (BACKTRACE, 71)]


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("Segmentation fault", "SIGSEGV"),
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("Aborted ", "SIGABRT"),
        ("[1] + Bus error            ./llm_demo", "SIGBUS"),
        ("Illegal instruction", "SIGILL"),
    ],
)
def test_the_word_of_the_shell(line: str, signal: str) -> None:
    crash = only(line + "\n")
    assert (crash.kind, crash.signal) == (SIGNAL, signal)
    assert "adb bugreport" in as_text(read_crashes([line]), [], [])


@pytest.mark.parametrize(
    "line", ["Killed by request of the user", "Aborted the download", "a Segmentation fault"]
)
def test_sentences_are_not_the_word_of_the_shell(line: str) -> None:
    assert read_crashes([line]).crashes == []


def test_the_kernels_own_killer_and_older_lines_of_lmkd() -> None:
    kernel = only("[  99.1] Out of memory: Killed process 4242 (llm_demo) total-vm:9kB, anon-rss:3145728kB")
    assert (kernel.kind, kernel.pid, kernel.what, kernel.tool) == (
        KILLED, 4242, "3.0 GiB", "kernel's out-of-memory killer",
    )  # fmt: skip
    old = only("I/lowmemorykiller(  300): Killing 'llm_demo' (77), uid 2000, adj 0")
    assert (old.pid, old.process) == (77, "llm_demo")


def test_background_apps_that_are_killed_beside_a_crash_are_a_hint_only() -> None:
    kill = "I lowmemorykiller: Kill 'com.example.x' ({}), uid 10100, oom_score_adj 900 to free 1024kB rss"
    lines = [f"05-14 10:22:31.402   300   300 {kill.format(n)}" for n in (1, 2)]
    lines += [
        "05-14 10:22:32.000     7     7 F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), "
        "fault addr 0x8 in tid 7 (p), pid 7 (p)"
    ]
    (crash,) = read_crashes(lines).crashes
    assert crash.kind == SIGNAL and len(crash.others) == 2


def test_the_same_dump_from_two_buffers_is_one_crash() -> None:
    assert len(read_crashes((ANDROID_8 + ANDROID_8).splitlines()).crashes) == 1


@pytest.mark.parametrize(
    ("rest", "module", "function", "plus", "offset"),
    [
        ("/d/l.so (f(int (*)(char), std::vector<int, std::allocator<int> > const&)+12)", "/d/l.so",
         "f(int (*)(char), std::vector<int, std::allocator<int> > const&)", 12, None),
        ("/d/l.so (operator+(A, A)+4)", "/d/l.so", "operator+(A, A)", 4, None),
        ("/d/base.apk (offset 0xc000) (f+1) (BuildId: aa)", "/d/base.apk", "f", 1, 0xC000),
        ("/d/l.so (deleted) (f+1)", "/d/l.so (deleted)", "f", 1, None),
        ("<anonymous:0000007b1c5c0000>", "<anonymous:0000007b1c5c0000>", None, None, None),
        ("/d/l.so (BuildId: aa)", "/d/l.so", None, None, None),
        ("[vdso] (__kernel_rt_sigreturn)", "[vdso]", "__kernel_rt_sigreturn", None, None),
        ("", None, None, None, None),
        ("(offset 0x2000)  /d/l.so (f(int)+4)", "/d/l.so", "f(int)", 4, 0x2000),
        ("/d/l.so (???)", "/d/l.so", None, None, None),
    ],
)  # fmt: skip
def test_parts_of_a_frame(
    rest: str, module: str | None, function: str | None, plus: int | None, offset: int | None
) -> None:
    frame = parse_frame(f"    #07 pc 00000000000004cc  {rest}")
    assert frame is not None and (frame.number, frame.pc) == (7, 0x4CC)
    assert (frame.module, frame.function, frame.function_offset, frame.offset) == (
        module, function, plus, offset,
    )  # fmt: skip


def test_the_first_own_frame_skips_what_everybody_calls() -> None:
    crash = only(
        "pid: 7, tid: 7, name: p  >>> p <<<\nbacktrace:\n"
        "      #00 pc 10  /apex/com.android.runtime/lib64/bionic/libc.so (abort+180)\n"
        "      #01 pc 10  /data/local/tmp/x/libc++_shared.so (std::terminate()+4)\n"
        "      #02 pc 10  /data/local/tmp/x/libMNN.so (std::__ndk1::vector<int>::at(unsigned long)+4)\n"
        "      #03 pc 10  /data/local/tmp/x/libMNN.so (MNN::Session::run() const+4)\n"
    )
    found = own_frame(crash)
    assert found is not None and found[0].number == 3


def test_addresses_here_and_there_in_a_log_are_no_stack() -> None:
    lines = []
    for number in range(9):
        lines.append(f"05-14 10:22:31.402    70    71 I app     : [{number % 3}] 0x7a12345678")
        lines.append("05-14 10:22:31.402    70    71 I app     : next")
        lines.append("05-14 10:22:31.402    70    72 I app     : another thread")
    assert read_crashes(lines).crashes == []


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("*** stack smashing detected ***: terminated", "stack corruption"),
        ("free(): double free detected in tcache 2", "heap corruption (glibc)"),
        ("malloc(): corrupted top size", "heap corruption (glibc)"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "uncaught C++ exception"),
        ("llm_demo: a.cpp:7: void f(int): Assertion `x > 0' failed.", "failed assertion"),
        ("libc++abi: terminating due to uncaught exception of type int", "uncaught C++ exception"),
    ],
)
def test_last_words_before_the_shell_or_the_fatal_line(words: str, kind: str) -> None:
    (by_shell,) = read_crashes([words, "Aborted"]).crashes
    fatal = "libc: Fatal signal 6 (SIGABRT), code -6 (SI_TKILL) in tid 7 (p), pid 7 (p)"
    (by_libc,) = read_crashes([f"E/app(    7): {words}", f"F/libc(    7): {fatal[6:]}"]).crashes
    for crash in (by_shell, by_libc):
        assert crash.abort_message == words.removeprefix("libc++abi: ")
        assert cause_of(crash).kind == kind


def test_another_app_that_was_killed_is_not_the_one_the_shell_speaks_of() -> None:
    lines = ["I/lowmemorykiller(  300): Kill 'com.example.x' (5), uid 10100, oom_score_adj 900", "Killed"]
    (crash,) = read_crashes(lines).crashes
    assert crash.process is None and crash.others == ["com.example.x (pid 5)"]


THREADS = """\
----- pid 12345 at 2026-05-14 10:22:31.171234567+0800 -----
Cmd line: ./llm_demo config.json
ABI: 'arm64'

"llm_demo" sysTid=12345
    #00 pc 0000000000083a3c  /apex/com.android.runtime/lib64/bionic/libc.so (syscall+28) (BuildId: ab)
    #01 pc 0000000000000514  /data/local/tmp/devkit/libllm.so (kit::decode(kit::Step*)+48)

"worker" sysTid=12361
    #00 pc 0000000000083a3c  /apex/com.android.runtime/lib64/bionic/libc.so (syscall+28) (BuildId: ab)

----- end 12345 -----
"""
ANR = """\
----- pid 700 at 2026-05-14 10:22:31 -----
Cmd line: com.example.chat
"main" prio=5 tid=1 Native
  | group="main" sCount=1 flags=1 obj=0x72 self=0xb4
  | sysTid=700 nice=-10 cgrp=top-app sched=0/0 handle=0x7a
  native: #00 pc 00000000000004cc  /data/app/lib/arm64/libllm.so (kit::prefill(kit::Step*, int)+8)
  at com.example.chat.Llm.run(Native method)
"pool-1" daemon prio=5 tid=9 Waiting
----- end 700 -----
"""


def test_all_threads_of_a_process_that_hangs() -> None:
    crash = only(THREADS)
    assert (crash.process, crash.pid, crash.kind) == ("./llm_demo config.json", 12345, BACKTRACE)
    assert [stack.title for stack in crash.stacks] == ["thread 12345 (llm_demo)", "thread 12361 (worker)"]
    assert [len(stack.frames) for stack in crash.stacks] == [2, 1]
    text = as_text(read_crashes(THREADS.splitlines()), [], [])
    assert "all 2 threads of ./llm_demo" in text and cause_of(crash).kind == "stacks of all threads"
    found = own_frame(crash)
    assert found is not None and found[0].function == "kit::decode(kit::Step*)"


def test_the_stacks_of_an_anr() -> None:
    crash = only(ANR)
    assert [(s.title, len(s.frames)) for s in crash.stacks] == [
        ("thread 700 (main)", 1),
        ("thread pool-1", 0),
    ]


def test_after_such_stacks_a_crash_is_a_crash() -> None:
    crashes = read_crashes((THREADS + ANDROID_8).splitlines()).crashes
    assert [crash.kind for crash in crashes] == [BACKTRACE, SIGNAL]
