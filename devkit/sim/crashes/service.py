"""tombstoned and crash_dump64: answer crashing programs, write tombstones to the log and a file."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import namespaces
from devkit.sim.adbd.log import log
from devkit.sim.crashes.collect import Collector
from devkit.sim.crashes.registers import processor
from devkit.sim.crashes.report import fatal_line, lines_of
from devkit.sim.crashes.signals import SignalInfo, parse_siginfo
from devkit.sim.crashes.threads import StoppedThreads, thread_name, tracer_of
from devkit.sim.logs.wire import CRASH, ERROR, FATAL, INFO, LogWriter
from devkit.sim.places import is_reduced, tombstones
from devkit.sim.services import PhoneFacts, Service, Sockets
from devkit.sim.users import user_of

CRASH_SOCKET = "tombstoned_crash"
LINKER_SOCKET = "linker"
# tombstoned.max_tombstone_count
_MAX_TOMBSTONES = 32
# struct crash_report of native/linker_hook.c.
_REPORT = struct.Struct("<IIQ128s")
_REPORT_VERSION = 1
_REQUEST_TIMEOUT_S = 2.0
_PROTO_SINCE_API = 31
_SHORT_NAME_SINCE_API = 30


@dataclass(frozen=True)
class CrashRequest:
    """What a crashing program said of itself.

    Args:
        context: where its ucontext_t lies.
        message: why it aborts, if the linker said so.
    """

    pid: int
    tid: int
    context: int
    signal: SignalInfo
    message: str = ""


# Checks the libraries of a process: what it is told, and what the linker aborts it with.
LinkCheck = Callable[[int], tuple[bytes, str]]


def tombstoned_service(make_check: Callable[[PhoneFacts], LinkCheck]) -> Service:
    """The service.

    Args:
        make_check: makes the function that looks at a starting program's libraries.
    """
    kinds = {CRASH_SOCKET: socket.SOCK_STREAM, LINKER_SOCKET: socket.SOCK_STREAM}

    def run(facts: PhoneFacts, sockets: Sockets) -> None:
        _Tombstoned(facts, sockets, make_check(facts)).serve()

    return Service("tombstoned", kinds, as_root=True, run=run)


class _Tombstoned:
    def __init__(self, facts: PhoneFacts, sockets: Sockets, check: LinkCheck) -> None:
        self._facts = facts
        self._crashes, self._starts = sockets[CRASH_SOCKET], sockets[LINKER_SOCKET]
        self._check = check
        self._dumping: dict[int, int] = {}
        # Connections of further threads of a process that is being dumped: they wait for its end.
        self._waiting: dict[int, list[socket.socket]] = {}
        self._aborting: dict[int, str] = {}
        short = facts.api_level >= _SHORT_NAME_SINCE_API
        self._log = LogWriter("tombstoned" if short else "/system/bin/tombstoned")
        self._libc = LogWriter("libc")
        self._next = 0

    def serve(self) -> None:
        poll = select.poll()
        for sock in (self._crashes, self._starts):
            poll.register(sock.fileno(), select.POLLIN)
        while True:
            # Ended dumps are looked at once a second at the latest.
            for fd, _ in poll.poll(1000 if self._dumping else None):
                self._accept(self._crashes if fd == self._crashes.fileno() else self._starts)
            self._reap()

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        try:
            if listener is self._starts:
                self._answer_start(connection, pid)
            else:
                self._answer_crash(connection, pid)
        except Exception:
            log(f"tombstoned: pid {pid}:\n{traceback.format_exc()}")
            connection.close()

    def _answer_start(self, connection: socket.socket, pid: int) -> None:
        with connection:
            answer, message = self._check(pid)
            if message:
                self._aborting[pid] = message
            try:
                connection.sendall(answer)
            except OSError:
                pass

    def _answer_crash(self, connection: socket.socket, pid: int) -> None:
        connection.settimeout(_REQUEST_TIMEOUT_S)
        data = b""
        while len(data) < _REPORT.size and (piece := connection.recv(_REPORT.size - len(data))):
            data += piece
        if len(data) != _REPORT.size:
            connection.close()
            return
        version, tid, context, info = _REPORT.unpack(data)
        if version != _REPORT_VERSION:
            connection.close()
            return
        if pid in self._dumping.values():
            self._waiting.setdefault(pid, []).append(connection)
            return
        request = CrashRequest(pid, tid, context, parse_siginfo(info), self._aborting.pop(pid, ""))
        names = (thread_name(pid, tid), thread_name(pid, pid))
        self._libc.write(FATAL, fatal_line(request.signal, pid, tid, names), log_id=CRASH, author=(pid, tid))
        number, self._next = self._next, (self._next + 1) % _MAX_TOMBSTONES
        child = os.fork()
        if child == 0:
            self._dump(connection, request, number)
        self._dumping[child] = pid
        connection.close()

    def _reap(self) -> None:
        while self._dumping:
            try:
                child, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            for connection in self._waiting.pop(self._dumping.pop(child, 0), []):
                connection.close()

    # ---- crash_dump64

    def _dump(self, connection: socket.socket, request: CrashRequest, number: int) -> None:
        try:
            namespaces.set_process_title("crash_dump64")
            _CrashDump(self._facts, self._log, request).run(tombstones() / f"tombstone_{number:02}")
        except BaseException:
            log(f"crash_dump64 failed:\n{traceback.format_exc()}")
        finally:
            try:
                connection.sendall(b"\0")
            finally:
                os._exit(0)


class _CrashDump:
    def __init__(self, facts: PhoneFacts, tombstoned: LogWriter, request: CrashRequest) -> None:
        self._facts = facts
        self._request = request
        self._own = LogWriter("crash_dump64")
        self._debug = LogWriter("DEBUG")
        self._tombstoned = tombstoned
        self._tombstoned_pid = os.getppid()

    def run(self, path: Path) -> None:
        pid, tid = self._request.pid, self._request.tid
        if not _is_native(pid):
            # Under qemu the registers are the emulator's.
            self._own.write(FATAL, f"cannot dump process {pid}: it is emulated")
            return
        try:
            stopped = StoppedThreads(pid, tid)
        except OSError as error:
            self._explain(error)
            return
        try:
            self._announce()
            collector = Collector(
                *(pid, tid, self._request.signal, self._request.context),
                processor(os.uname().machine),
                stopped,
            )
            try:
                crash = collector.collect(
                    dict(self._facts.properties),
                    api_level=self._facts.api_level,
                    uid=user_of(pid),
                    message=self._request.message,
                )
            finally:
                collector.close()
        finally:
            stopped.release()
        lines = list(lines_of(crash))
        for line, to_log in lines:
            if to_log:
                self._debug.write(FATAL, line, log_id=CRASH)
        _write_complete(path, "".join(line + "\n" for line, _ in lines))
        self._say(ERROR, f"Tombstone written to: {path.name}")

    def _announce(self) -> None:
        request = self._request
        proto = "Proto" if self._facts.api_level >= _PROTO_SINCE_API else ""
        self._own.write(INFO, f"obtaining output fd from tombstoned, type: kDebuggerdTombstone{proto}")
        self._say(INFO, f"received crash request for pid {request.tid}")
        self._own.write(INFO, f"performing dump of process {request.pid} (target tid = {request.tid})")

    def _explain(self, error: OSError) -> None:
        tid = self._request.tid
        tracer = tracer_of(self._request.pid)
        if tracer is not None and error.errno == errno.EPERM:
            text = f"failed to attach to thread {tid}, already traced by {tracer[0]} ({tracer[1]})"
        else:
            text = f"failed to attach to thread {tid}: {error.strerror or error}"
        self._own.write(FATAL, text)

    def _say(self, priority: int, text: str) -> None:
        self._tombstoned.write(priority, text, author=(self._tombstoned_pid, self._tombstoned_pid))


def _write_complete(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.chmod(0o640)
    os.replace(temporary, path)


def _is_native(pid: int) -> bool:
    """Whether a process runs on this processor: an emulator is no file of the phone."""
    if is_reduced():
        return True
    try:
        return os.readlink(f"/proc/{pid}/exe").startswith(("/system/", "/data/", "/sdcard/", "/storage/"))
    except OSError:
        return False
