"""Programs are really ended, with their children; failures carry evidence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devkit import process
from devkit.errors import OperationTimeout, ToolFailed, ToolMissing


def gone(pid: int, within_s: float = 3.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not process.is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_output_exit_code_and_stdin() -> None:
    done = process.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in", check=False)
    assert (done.stdout, done.stderr, done.exit_code) == (b"in", b"err\n", 3)


def test_failure_shows_command_and_stderr(tmp_path: Path) -> None:
    folder = tmp_path / "a b 中"
    folder.mkdir()
    with pytest.raises(ToolFailed, match=r"sh failed \(exit code 7\)") as caught:
        process.run(["sh", "-c", "echo why >&2; exit 7"], cwd=folder)
    assert caught.value.evidence == "sh -c 'echo why >&2; exit 7'\nwhy"


def test_missing_program_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="no-such-program was not found"):
        process.run(["no-such-program"])
    with pytest.raises(ToolFailed, match="does not exist"):
        process.run(["true"], cwd=tmp_path / "none")


def test_timeout_ends_the_children_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(OperationTimeout, match=r"0\.5 s"):
        process.run(["sh", "-c", f"sleep 60 & echo $! > '{pid_file}'; wait"], timeout_s=0.5)
    assert gone(int(pid_file.read_text()))


def test_end_group_reaches_what_ignores_sigterm() -> None:
    child = process.start(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"])
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    process.end_group(child, grace_s=0.3)
    assert gone(child.pid)


def test_stream_hands_lines_on_as_they_come() -> None:
    seen: list[tuple[float, str]] = []
    process.stream(
        ["sh", "-c", "echo one; sleep 0.4; echo two >&2"], lambda line: seen.append((time.monotonic(), line))
    )
    assert [line for _, line in seen] == ["one", "two"]
    assert seen[1][0] - seen[0][0] > 0.2


def test_an_exception_while_streaming_ends_the_program() -> None:
    pids: list[int] = []

    def stop(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.stream(["sh", "-c", "echo $$; sleep 60"], stop)
    assert gone(pids[0])


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux")
def test_die_with_parent_survives_no_sigkill() -> None:
    code = (
        "import time\nfrom devkit import process\n"
        "print(process.start(['sleep', '60'], die_with_parent=True).pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert process.is_alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child)


def test_is_alive_knows_zombies() -> None:
    child = subprocess.Popen(["true"])
    time.sleep(0.2)
    assert not process.is_alive(child.pid)
    child.wait()
    assert process.is_alive(os.getpid())
    assert not process.is_alive(0)


KILLED = """\
import os, signal, sys
from devkit import process
lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
script = "trap 'sleep 0.5; exit' TERM; sleep 60 & echo $!; echo $$; wait"
if sys.argv[2] == "deaf":
    # As ninja starts compilers: in a group of its own.
    script = "set -m; (trap '' TERM; sleep 60 & echo $!; exec sleep 61) & echo $!; wait"
pids = []
def take(line):
    pids.append(line)
    if len(pids) == 2:
        print(*pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
process.stream(["bash", "-c", script], take, hold=[lock])
"""


@pytest.mark.parametrize("kind", ["polite", "deaf"])
def test_a_streamed_program_ends_with_a_killed_devkit_and_holds_its_lock_until_then(
    tmp_path: Path, kind: str
) -> None:
    import fcntl

    lock = tmp_path / "lock"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(lock), kind], stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == -9
    pids = [int(pid) for pid in done.stdout.split()]
    with lock.open("r+") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX)
        assert [process.is_alive(pid) for pid in pids] == [False, False]


def test_a_guard_does_nothing_after_a_good_end(tmp_path: Path) -> None:
    """What a program leaves in its group on purpose stays."""
    done = process.stream(["sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!"], lambda line: None)
    child = int(done.text)
    time.sleep(0.3)
    assert process.is_alive(child)
    os.kill(child, 9)
