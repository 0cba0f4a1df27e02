"""Starting, stopping and listing virtual phones, from any process of the user."""

from __future__ import annotations

import contextlib
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
from devkit import output, process
from devkit.errors import SimError, UsageError
from devkit.sim import state
from devkit.sim.links import LinkSettings
from devkit.sim.request import AUTO, NAMESPACES, REDUCED, ROOT_NAMESPACES, PhoneRequest
from devkit.sim.state import PhoneRecord

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 3.0
LOCK_PATIENCE_S = 0.3
# What the phone's own shell and tools take.
MIN_MEMORY_BYTES = 16_000_000
MIN_STORAGE_BYTES = 4096
CONFINEMENT_VARIABLE = "DEVKIT_SIM_CONFINEMENT"


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
    android: str | None = None,
    abi: str | None = None,
    auth: bool = False,
    port: int = 0,
    adb: Path | None = None,
    connect_to: tuple[str, int] | None = None,
    lifeline: bool = False,
    data_limit_bytes: int | None = None,
    memory_limit_bytes: int | None = None,
    su: bool = False,
    link: LinkSettings | None = None,
    confinement: str | None = None,
    timeout_s: float = START_TIMEOUT_S,
) -> Phone:
    """Start a virtual phone and wait until it can be used.

    Args:
        name: what `stop_phone` calls it.
        model: a name from models.yaml.
        android: the release to imitate ("6", "8", "11", "14"…), None for the model's own.
        abi: "arm64-v8a" runs such programs through qemu, None takes those of this machine.
        auth: adb hosts are unauthorized until `tap_allow`.
        port: where its adbd listens on 127.0.0.1; 0 takes a free port.
        adb: give the phone a private adb server run by this adb program.
        connect_to: have the adb server at this host and port connect to the phone instead.
        lifeline: the phone ends when this process does, however that happens.
        data_limit_bytes: /data/local/tmp is memory of this size instead of a folder on the disk.
        memory_limit_bytes: when its programs use more together, the biggest is killed.
        su: commands can be run as root.
        link: how fast and how far away it is; None for no limits.
        confinement: "namespaces" (those of a user, else those of root), "root-namespaces", "reduced" (a
            plain folder) or "auto" (the first that this machine allows, with a warning if it is the last);
            None for what DEVKIT_SIM_CONFINEMENT says.

    Raises:
        UsageError: a limit is too small, or there is no such confinement.
        SimError: the phone could not be started; nothing of it is left then.
    """
    if sys.platform != "linux":
        raise SimError(
            "virtual phones need Linux", hints=["use a Linux machine or WSL, or plug in a real phone"]
        )
    if adb is not None and connect_to is not None:
        raise SimError("a virtual phone has a private adb server or an existing one, not both")
    state.check_name(name)
    _check_limit("--memory", memory_limit_bytes, MIN_MEMORY_BYTES)
    _check_limit("--storage", data_limit_bytes, MIN_STORAGE_BYTES)
    state.sweep()
    with contextlib.ExitStack() as cleanup:
        # The supervisor inherits these, so that none of its ends stays open here.
        handed_over = cleanup.enter_context(contextlib.ExitStack())
        lock = handed_over.enter_context(state.closing_fd(_lock(name)))
        ready_read, ready_write = os.pipe()
        cleanup.callback(os.close, ready_read)
        handed_over.callback(os.close, ready_write)
        lifeline_read, lifeline_write = os.pipe() if lifeline else (None, None)
        if lifeline_read is not None:
            handed_over.callback(os.close, lifeline_read)
        request = PhoneRequest(
            name=name,
            model=model,
            android=android,
            abi=abi,
            auth=auth,
            port=port,
            adb=os.path.abspath(adb) if adb is not None else None,
            connect_to=connect_to,
            data_limit_bytes=data_limit_bytes,
            memory_limit_bytes=memory_limit_bytes,
            su=su,
            link=link.as_dict() if link is not None else None,
            confinement=_confinement(confinement),
            lock_fd=lock,
            ready_fd=ready_write,
            lifeline_fd=lifeline_read,
        )
        try:
            child = _spawn(request)
            handed_over.close()
            record = _wait_ready(child, ready_read, name, timeout_s)
        except BaseException:
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


def _check_limit(option: str, count: int | None, least: int) -> None:
    if count is not None and count < least:
        raise UsageError(
            f"a virtual phone does not work with {option} {count}", hints=[f"{option} {least} is the least"]
        )


def _confinement(wanted: str | None) -> str:
    known = (AUTO, NAMESPACES, ROOT_NAMESPACES, REDUCED)
    chosen = wanted or os.environ.get(CONFINEMENT_VARIABLE) or AUTO
    if chosen not in known:
        raise UsageError(
            f"a virtual phone cannot be confined by {chosen!r}", hints=[f"one of: {', '.join(known)}"]
        )
    return chosen


def _lock(name: str) -> int:
    """The phone's lock; the supervisor inherits it. Those who only look hold it for an instant."""
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while (fd := state.lock_phone(name)) is None:
        if time.monotonic() >= deadline:
            record = state.read_record(name)
            raise SimError(
                f"a virtual phone named {name} is already running",
                evidence=f"{record.serial}, supervisor pid {record.pid}" if record else None,
                hints=[f"devkit sim stop {name}", "choose another name: devkit sim start phone-2"],
            )
        time.sleep(0.02)
    return fd


def _spawn(request: PhoneRequest) -> subprocess.Popen[bytes]:
    # Found by the supervisor too, even if devkit is run from a source tree that is not installed.
    package_root = str(Path(devkit.__file__).resolve().parent.parent)
    search = os.environ.get("PYTHONPATH")
    log = state.phone_dir(request.name) / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    fds = [request.lock_fd, request.ready_fd, request.lifeline_fd]
    with log.open("ab") as file:
        return process.start(
            [sys.executable, "-m", "devkit.sim.supervisor", request.to_json()],
            cwd=Path("/"),
            env={"PYTHONPATH": package_root + (os.pathsep + search if search else "")},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            pass_fds=[fd for fd in fds if fd is not None],
        )


def _wait_ready(child: subprocess.Popen[bytes], fd: int, name: str, timeout_s: float) -> PhoneRecord:
    """Wait for the supervisor's answer; on any failure nothing of the phone is left.

    Raises:
        SimError: the phone did not start.
    """
    try:
        answer = _read_all(fd, timeout_s)
        if answer is None:
            what = f"the virtual phone {name} did not come up within {timeout_s:.0f} s"
            raise SimError(what, evidence=_log_tail(name))
        if not answer:
            what = f"the virtual phone {name} does not start (exit code {child.wait()})"
            raise SimError(what, evidence=_log_tail(name))
        report = json.loads(answer)
        error = report["error"]
        if error is not None:
            raise SimError(
                error["error"],
                evidence=error["evidence"],
                hints=error["hints"],
                exit_code=error["exit_code"],
            )
        record = state.read_record(name)
        if record is None:
            raise SimError(f"the virtual phone {name} ended right after its start", evidence=_log_tail(name))
        if report["notice"] is not None:
            output.current().warn(report["notice"])
        return record
    except BaseException:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        state.sweep()
        raise


def _read_all(fd: int, timeout_s: float) -> bytes | None:
    """Everything up to the end of file; None when that does not come in time."""
    deadline = time.monotonic() + timeout_s
    content = b""
    while select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(fd, 65536)
        if not piece:
            return content
        content += piece
    return None


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
            # The kernel frees the lock a moment before the process is gone.
            if not state.is_locked(record.name) and not process.is_alive(record.pid):
                state.sweep()
                return
            time.sleep(0.01)
    raise SimError(
        f"the virtual phone {record.name} does not end",
        evidence=f"its supervisor, pid {record.pid}, still holds its lock",
        hints=[f"kill -9 {record.pid}"],
    )
