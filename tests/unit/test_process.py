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
