"""Why a program never came to a breakpoint, from its end and its output."""

from __future__ import annotations

import pytest

from devkit.lldb.early_end import explain_early_end

BEFORE = "(lldb) breakpoint set --name x\nStop hook #1 added.\n(lldb) process continue\n"
AFTER = "\n(lldb) devkit-arrive\n(lldb) process continue\nerror: process must be launched\n"
BIONIC = 'CANNOT LINK EXECUTABLE "./llm_demo": library "libMNN.so" not found: needed by main executable'
GLIBC = "./tiny: error while loading shared libraries: libinner.so: cannot open shared object file"


@pytest.mark.parametrize(("line", "code"), [(BIONIC, 1), (GLIBC, 127)])
def test_the_linker_refused_it(line: str, code: int) -> None:
    end = explain_early_end(code, f"{BEFORE}{line}\nProcess 9 exited with status = {code}{AFTER}", "llm_demo")
    assert "before main" in end.what and f"exit code {code}" in end.what
    assert end.evidence == (line,) and "devkit deploy llm_demo --dry-run" in end.hints[0]


@pytest.mark.parametrize(("code", "how"), [(0, "it ended normally"), (255, "it ended with exit code 255")])
def test_it_ended_by_itself(code: int, how: str) -> None:
    said = "usage: llm_demo config.json\nsecond line\nProcess 9 resuming\nProcess 9 exited with status = 0"
    end = explain_early_end(code, BEFORE + said + AFTER, "llm_demo", ["x"])
    assert end.what.endswith(how)
    assert end.evidence == ("usage: llm_demo config.json", "second line")
    assert end.hints[0].startswith("devkit run llm_demo -- ")
    assert "  | second line\n  try: " in end.text


def test_a_signal_ended_it() -> None:
    stop = (
        "Process 9 stopped\n* thread #1, stop reason = signal SIGSEGV\n    frame #0: 0x00 libc.so`f + 1\n"
        "libc.so`f:\n->  0x7f <+1>: movl\n    0x80 <+2>: negl"
    )
    end = explain_early_end(139, f"{BEFORE}loading\n{stop}{AFTER}", "llm_demo")
    assert "SIGSEGV ended it" in end.what and end.evidence == ("loading",)


def test_the_session_ended_first() -> None:
    end = explain_early_end(None, f"{BEFORE}working{AFTER}", "llm_demo")
    assert "the session ended while it ran" in end.what and end.evidence == ("working",) and not end.hints
