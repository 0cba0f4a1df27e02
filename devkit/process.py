"""Programs on this machine: argv lists, streaming, timeouts, and an end for the whole group."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from devkit import output
from devkit.errors import OperationTimeout, ToolFailed, ToolMissing

TERMINATE_GRACE_S = 2.0
EVIDENCE_LINES = 15

Argv = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Completed:
    """A program that has ended. `exit_code` is negative when a signal ended it."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """stdout, decoded; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


def show(argv: Argv) -> str:
    """A command line a user can copy into a POSIX shell."""
    return shlex.join(os.fspath(a) for a in argv)


def tail(text: str | bytes, lines: int = EVIDENCE_LINES) -> str:
    """The last lines of a tool's output, for an error's evidence."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return "\n".join(text.strip().splitlines()[-lines:])


def run(
    argv: Argv,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    hints: Sequence[str] = (),
) -> Completed:
    """Run a program to its end and collect its output.

    Args:
        env: variables added to this process's environment.
        timeout_s: the whole process group is ended after this long.
        check: an exit code other than 0 raises.

    Raises:
        ToolMissing: the program does not exist or is not executable.
        ToolFailed: it ended with another exit code than 0 and `check` is set.
        OperationTimeout: it was still running after `timeout_s`.
    """
    process = start(
        argv, cwd=cwd, env=env, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end_group(process)
        raise OperationTimeout(
            f"{Path(os.fspath(argv[0])).name} did not finish in {timeout_s:g} s",
            evidence=show(argv),
            hints=hints,
        ) from None
    except BaseException:
        end_group(process)
        raise
    done = Completed(tuple(os.fspath(a) for a in argv), process.returncode, stdout, stderr)
    if check and done.exit_code != 0:
        raise failed(done, hints=hints)
    return done


def stream(
    argv: Argv,
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (),
) -> Completed:
    """Run a program and hand each line of its output (stdout and stderr together) on as it comes.

    Ctrl-C, or an exception of `on_line`, ends the program's whole group before it goes on; when this
    process is killed, a guard ends it.

    Args:
        hold: descriptors (of locks) that then stay open until the group has ended.

    Raises:
        ToolMissing: the program does not exist or is not executable.
    """
    process = start(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    guard = _start_guard(process.pid, hold)
    collected: list[bytes] = []
    assert process.stdout is not None
    try:
        for line in process.stdout:
            collected.append(line)
            on_line(line.decode("utf-8", "replace").rstrip("\r\n"))
        process.wait()
    except BaseException:
        end_group(process)
        raise
    finally:
        _dismiss(guard)
    return Completed(tuple(os.fspath(a) for a in argv), process.returncode, b"".join(collected), b"")


def start(
    argv: Argv,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = subprocess.PIPE,
    stderr: int | IO[Any] | None = subprocess.PIPE,
    own_group: bool = True,
    die_with_parent: bool = False,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program without waiting for it.

    Args:
        own_group: give it a process group (session) of its own, so that `end_group` ends its
            children too. False shares the terminal's group (an interactive debugger).
        die_with_parent: on Linux the kernel ends it when this process dies, even by SIGKILL.

    Raises:
        ToolMissing: the program does not exist or is not executable.
    """
    words = [os.fspath(a) for a in argv]
    output.current().command(show(words))
    full_env = None if env is None else {**os.environ, **env}
    preexec = _die_with_parent if die_with_parent and sys.platform == "linux" else None
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=full_env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=own_group and os.name == "posix",
            preexec_fn=preexec,
            pass_fds=tuple(pass_fds),
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise ToolFailed(f"the folder {cwd} does not exist", evidence=str(error)) from None
        raise ToolMissing(f"{words[0]} was not found", evidence=str(error)) from None
    except OSError as error:
        raise ToolMissing(f"{words[0]} cannot be started", evidence=str(error)) from None


def end_group(process: subprocess.Popen[bytes], *, grace_s: float = TERMINATE_GRACE_S) -> None:
    """End a started program and its children: SIGTERM, then SIGKILL after `grace_s`."""
    _signal_group(process, "SIGTERM")
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        pass
    # Children that outlived the leader are still in its group.
    _signal_group(process, "SIGKILL")
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass


def failed(done: Completed, *, hints: Sequence[str] = ()) -> ToolFailed:
    """The error that describes a program's failure, with the end of its output as evidence."""
    how = f"exit code {done.exit_code}" if done.exit_code >= 0 else f"signal {-done.exit_code}"
    evidence = show(done.argv) + "\n" + tail(done.stderr.strip() or done.stdout)
    return ToolFailed(f"{Path(done.argv[0]).name} failed ({how})", evidence=evidence, hints=hints)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine exists and is no zombie."""
    if pid <= 0:
        return False
    if sys.platform == "win32":
        listing = subprocess.run(
            ["tasklist", "/FI", f"PID eq {pid}", "/NH"], capture_output=True, check=False
        )
        return str(pid).encode() in listing.stdout
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        # No /proc (macOS), or it went away just now; the signal above has answered.
        return not os.path.isdir("/proc/self")


# Its stdin is a pipe that only this process can write to. PR_SET_PDEATHSIG would not do: it reaches
# the direct child alone (cmake), and ninja below it goes on. ninja ends its compilers on SIGTERM;
# each has a group of its own, but all are of one session. Daemons have left it (sccache).
_GUARD = """\
read -r word && [ "$word" = done ] && exit
group=$1 turns=$2
members() {
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- "${stat%/stat}" ${line##*) }
    [ "$5" = "$group" ] && [ "$2" != Z ] && echo "${1#/proc/}"
  done
}
busy() { if [ -d /proc/self ]; then [ -n "$(members)" ]; else kill -s 0 -- "-$group"; fi; }
kill -s TERM -- "-$group"
while busy && [ "$turns" -gt 0 ]; do sleep 0.1; turns=$((turns - 1)); done
turns=$2
while busy && [ "$turns" -gt 0 ]; do
  kill -s KILL -- "-$group" $(members)
  sleep 0.1; turns=$((turns - 1))
done
"""


def _start_guard(group: int, hold: Sequence[int]) -> subprocess.Popen[bytes] | None:
    """A shell that ends a process group when this process dies."""
    if os.name != "posix":
        return None
    turns = str(int(TERMINATE_GRACE_S * 10))
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "devkit-guard", str(group), turns],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Also Ctrl-C of the terminal is not meant for it.
            start_new_session=True,
            pass_fds=tuple(hold),
        )
    except OSError:
        return None


def _dismiss(guard: subprocess.Popen[bytes] | None) -> None:
    if guard is None:
        return
    try:
        guard.communicate(b"done\n")
    except OSError:
        guard.wait()


def _signal_group(process: subprocess.Popen[bytes], name: str) -> None:
    try:
        if os.name == "posix":
            number = getattr(signal, name)
            if os.getpgid(process.pid) == os.getpgrp():
                process.send_signal(number)
            else:
                os.killpg(process.pid, number)
        elif name == "SIGKILL":
            process.kill()
        else:
            process.terminate()
    except ProcessLookupError:
        # The leader is reaped; its group may still hold children.
        if os.name == "posix":
            try:
                os.killpg(process.pid, getattr(signal, name))
            except (ProcessLookupError, PermissionError):
                pass
    except PermissionError:
        pass


_PR_SET_PDEATHSIG = 1
_libc_lock = threading.Lock()
_libc: Any = None


def _die_with_parent() -> None:
    _load_libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _load_libc() -> Any:
    global _libc
    with _libc_lock:
        if _libc is None:
            import ctypes

            _libc = ctypes.CDLL(None)
        return _libc
