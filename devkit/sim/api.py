"""Starting, stopping and listing virtual phones, from any process of the user."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import devkit
from devkit import process
from devkit.errors import SimError
from devkit.sim import state
from devkit.sim.state import PhoneRecord

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 3.0


class Phone:
    """A phone that was started here. As a context manager it is stopped at the end.

    Args:
        record: what is known of it.
        lifeline: write end of the pipe whose end of file ends the phone, None without.
    """

    def __init__(self, record: PhoneRecord, lifeline: int | None, child: subprocess.Popen[bytes]) -> None:
        self.record = record
        self._lifeline = lifeline
        self._child = child

    def stop(self) -> None:
        """End the phone and wait until all of it is gone. Does nothing when it has ended already.

        Raises:
            SimError: something of it does not end.
        """
        if self._child.poll() is None:
            _end(self.record)
        self._child.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def __enter__(self) -> Phone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_phone(
    name: str = "phone",
    *,
    model: str = "generic",
    port: int = 0,
    adb: Path | None = None,
    connect_to: tuple[str, int] | None = None,
    lifeline: bool = False,
    data_limit_bytes: int | None = None,
    timeout_s: float = START_TIMEOUT_S,
) -> Phone:
    """Start a virtual phone and wait until it can be used.

    Args:
        name: what `stop_phone` calls it.
        model: a name from models.yaml.
        port: where its adbd listens on 127.0.0.1; 0 takes a free port.
        adb: give the phone a private adb server run by this adb program.
        connect_to: have the adb server at this host and port connect to the phone instead.
        lifeline: the phone ends when this process does, however that happens.
        data_limit_bytes: /data/local/tmp is memory of this size instead of a folder on the disk.

    Raises:
        SimError: the phone could not be started; nothing of it is left then.
    """
    if sys.platform != "linux":
        raise SimError(
            "virtual phones need Linux", hints=["use a Linux machine or WSL, or plug in a real phone"]
        )
    if adb is not None and connect_to is not None:
        raise SimError("a virtual phone has a private adb server or an existing one, not both")
    state.check_name(name)
    state.sweep()
    from devkit.sim.supervisor import PhoneRequest

    ready_read, ready_write = os.pipe()
    lifeline_read, lifeline_write = os.pipe() if lifeline else (None, None)
    handed_over = [fd for fd in (ready_write, lifeline_read) if fd is not None]
    try:
        request = PhoneRequest(
            name=name,
            model=model,
            port=port,
            adb=os.path.abspath(adb) if adb is not None else None,
            connect_to=connect_to,
            data_limit_bytes=data_limit_bytes,
            ready_fd=ready_write,
            lifeline_fd=lifeline_read,
        )
        child = _spawn(request.to_json(), name, handed_over)
    finally:
        for fd in handed_over:
            os.close(fd)
    try:
        with state.closing_fd(ready_read):
            _wait_ready(child, ready_read, name, timeout_s)
        record = state.read_record(name)
        if record is None:
            raise SimError(f"the virtual phone {name} ended right after its start", evidence=_log_tail(name))
    except BaseException:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
        child.wait()
        if lifeline_write is not None:
            os.close(lifeline_write)
        raise
    return Phone(record, lifeline_write, child)


def stop_phone(name: str) -> PhoneRecord:
    """End a phone, whoever started it, and wait until all of it is gone.

    Raises:
        SimError: there is no such phone, or something of it does not end.
    """
    state.check_name(name)
    record = state.read_record(name)
    if record is None or not state.is_locked(name):
        running = [other.name for other in list_phones()]
        state.sweep()
        raise SimError(
            f"no virtual phone named {name} is running",
            evidence=f"running: {', '.join(running)}" if running else None,
            hints=[f"devkit sim stop {running[0]}" if running else "devkit sim start"],
        )
    _end(record)
    return record


def list_phones() -> list[PhoneRecord]:
    """The phones of this user that are running."""
    records = [state.read_record(name) for name in state.known_names() if state.is_locked(name)]
    return [record for record in records if record is not None]


def _spawn(request: str, name: str, fds: list[int]) -> subprocess.Popen[bytes]:
    # Found by the supervisor too, even if devkit is run from a source tree that is not installed.
    package_root = str(Path(devkit.__file__).resolve().parent.parent)
    search = os.environ.get("PYTHONPATH")
    log = state.phone_dir(name) / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return process.start(
            [sys.executable, "-m", "devkit.sim.supervisor", request],
            cwd=Path("/"),
            env={"PYTHONPATH": package_root + (os.pathsep + search if search else "")},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            pass_fds=fds,
        )


def _wait_ready(child: subprocess.Popen[bytes], fd: int, name: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    answer = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise SimError(
                f"the virtual phone {name} did not come up within {timeout_s:.0f} s",
                evidence=_log_tail(name),
            )
        piece = os.read(fd, 65536)
        if not piece:
            break
        answer += piece
    if not answer:
        child.wait()
        raise SimError(
            f"the virtual phone {name} does not start (exit code {child.returncode})",
            evidence=_log_tail(name),
        )
    error = json.loads(answer)["error"]
    if error is not None:
        raise SimError(error["error"], where=error["where"], evidence=error["evidence"], hints=error["hints"])


def _log_tail(name: str) -> str | None:
    try:
        return process.tail((state.phone_dir(name) / "supervisor.log").read_bytes())
    except OSError:
        return None


def _end(record: PhoneRecord) -> None:
    """SIGTERM, then SIGKILL; the lock is free only once no process of the phone is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(record.pid, number)
        except ProcessLookupError:
            pass
        deadline = time.monotonic() + STOP_TIMEOUT_S / 2
        while time.monotonic() < deadline:
            if not state.is_locked(record.name):
                state.sweep()
                return
            time.sleep(0.01)
    raise SimError(
        f"the virtual phone {record.name} does not end",
        evidence=f"its supervisor, pid {record.pid}, still holds its lock",
        hints=[f"kill -9 {record.pid}"],
    )
