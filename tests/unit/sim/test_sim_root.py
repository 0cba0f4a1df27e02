"""su's command lines, lmkd's choice and words, the filter against attaching."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from devkit.sim.memory_killer import Usage, choose_victim, kernel_line, kill_line
from devkit.sim.su import SuError, SuRequest, parse

SH = "/system/bin/sh"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], SuRequest(0, (SH,))),
        (["-c", "id"], SuRequest(0, (SH, "-c", "id"))),
        (["-c", "id", "-u"], SuRequest(0, (SH, "-c", "id -u"))),
        (["0", "id", "-u"], SuRequest(0, ("id", "-u"))),
        (["root", "-c", "id"], SuRequest(0, (SH, "-c", "id"))),
        (["shell", "id"], SuRequest(2000, ("id",))),
        (["2000"], SuRequest(2000, (SH,))),
        (["-", "root"], SuRequest(0, (SH,))),
        (["-p", "-s", "/data/x", "-c", "y"], SuRequest(0, ("/data/x", "-c", "y"), keep=True)),
        (["-mm", "-c", "id"], SuRequest(0, (SH, "-c", "id"))),
    ],
)
def test_su_takes_both_notations(words: list[str], expected: SuRequest) -> None:
    assert parse(words) == expected


@pytest.mark.parametrize(
    ("words", "text"), [(["-c"], "usage"), (["-x"], "usage"), (["nobody"], "unknown user")]
)
def test_su_refuses(words: list[str], text: str) -> None:
    with pytest.raises(SuError, match=text):
        parse(words)


def test_the_biggest_is_killed_and_named_as_lmkd_does() -> None:
    small, big = Usage(7, "sh", 1000, 2000, 500), Usage(12345, "llm_demo", 5242880, 6000000, 4096)
    assert choose_victim([small, big, small]) is big
    assert kill_line(big, 5243880, 5000000).startswith(
        "Kill 'llm_demo' (12345), uid 2000, oom_score_adj -1000 to free 5242880kB rss, 0kB swap; reason: "
    )
    assert "Killed process 12345 (llm_demo) total-vm:6000000kB, anon-rss:5238784kB" in kernel_line(big)


def test_attaching_is_refused_and_starting_traced_programs_is_not() -> None:
    code = """
import ctypes, os, signal, sys
from devkit.sim.tracing import forbid_attach
libc = ctypes.CDLL(None, use_errno=True)
other = os.fork()
if other == 0:
    signal.pause()
forbid_attach()
for request in (16, 0x4206):
    assert libc.ptrace(request, other, 0, 0) == -1
    print(ctypes.get_errno())
own = os.fork()
if own == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
_, status = os.waitpid(own, 0)
print(os.WIFSTOPPED(status))
for pid in (own, other):
    os.kill(pid, signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(errno.EPERM), str(errno.EPERM), "True"], done.stderr
