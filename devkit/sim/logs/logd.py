"""logd: takes messages from logdw, keeps them, hands them to readers, obeys commands on its socket.

One thread; a message costs a few microseconds, so that 50,000 a second go through.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from pathlib import Path

from devkit.sim.adbd import control
from devkit.sim.adbd.log import log
from devkit.sim.logs import chatty
from devkit.sim.logs.buffers import Buffers
from devkit.sim.logs.chatty import Folder, Message
from devkit.sim.logs.loggable import Loggable
from devkit.sim.logs.owners import Users, thread_name
from devkit.sim.logs.pruning import PruneList
from devkit.sim.logs.readers import MIN_BACKLOG_BYTES, Reader, parse_request
from devkit.sim.logs.statistics import package, statistics
from devkit.sim.logs.wire import (
    AUTHOR,
    AUTHOR_MAGIC,
    BINARY_BUFFERS,
    BUFFER_NAMES,
    CLEAR_LAST,
    CREDENTIALS,
    DATAGRAM,
    HAS_LAST,
    KERNEL,
    LOGD,
    LOGDR,
    LOGDW,
    MAX_ENTRY_BYTES,
    REBOOT,
    SECURITY,
    encode_entry,
)
from devkit.sim.places import is_reduced
from devkit.sim.services import PhoneFacts, Service, Sockets
from devkit.sim.users import ROOT_ID

_BATCH = 512
_MAX_COMMAND_BYTES = 4096
_RECEIVE_BYTES = 4 * 1024 * 1024
# Under load readers are served this often, not after every message.
_FLUSH_PAUSE_S = 0.002


def logd_service() -> Service:
    """The service."""
    kinds = {LOGDW: socket.SOCK_DGRAM, LOGDR: socket.SOCK_SEQPACKET, LOGD: socket.SOCK_STREAM}
    return Service("logd", kinds, as_root=True, run=_run)


def _run(facts: PhoneFacts, sockets: Sockets) -> None:
    # logd.statistics is on where the build is not for users.
    detailed = facts.properties.get("ro.debuggable") == "1"
    LogDaemon(
        sockets, api_level=facts.api_level, properties=control.CHANGED_PROPERTIES, detailed=detailed
    ).serve()


class LogDaemon:
    """The daemon.

    Args:
        sockets: logdw, logdr and logd, listening.
        api_level: decides whether repeated messages are folded.
        properties: the folder of changed properties.
        detailed: the statistics have tables of processes, threads and tags.
    """

    def __init__(self, sockets: Sockets, *, api_level: int, properties: Path, detailed: bool = True) -> None:
        self._input, self._listener, self._commands = (sockets[name] for name in (LOGDW, LOGDR, LOGD))
        self._buffers = Buffers()
        self._loggable = Loggable(properties)
        self._users = Users()
        self._prune_list = PruneList()
        self._detailed = detailed
        # Where all is one user of this machine, there is nobody to be distrusted.
        self._trusts = is_reduced()
        self._readers: dict[int, Reader] = {}
        self._clients: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self._flushed_at = 0.0
        self._flush_due = False
        self._folders: dict[int, Folder] = {}
        if api_level <= chatty.LAST_API_LEVEL:
            self._folders = {
                number: Folder(self._store_message, thread_name) for number in range(len(BUFFER_NAMES))
            }
        self._input.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._input.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        for sock in (self._input, self._listener, self._commands):
            sock.setblocking(False)
            self._poll.register(sock.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Serve for ever."""
        while True:
            self.serve_once(None)

    def serve_once(self, timeout_ms: int | None) -> None:
        """Wait for something to do, and do it."""
        if self._flush_due:
            timeout_ms = 1
        for fd, events in self._poll.poll(timeout_ms):
            if fd == self._input.fileno():
                self._receive()
            elif fd == self._listener.fileno():
                self._accept(self._listener)
            elif fd == self._commands.fileno():
                self._accept(self._commands)
            elif fd in self._readers:
                self._serve_reader(fd, events)
            elif fd in self._clients:
                self._serve_client(fd)
        if self._flush_due and time.monotonic() - self._flushed_at >= _FLUSH_PAUSE_S:
            self._flushed_at = time.monotonic()
            self._flush_due = False
            for reader_fd in list(self._readers):
                self._flush(reader_fd)

    # ---- messages

    def _receive(self) -> None:
        self._loggable.refresh()
        receive, space = self._input.recvmsg, socket.CMSG_SPACE(CREDENTIALS.size)
        now = time.monotonic()
        for _ in range(_BATCH):
            try:
                data, ancillary, _, _ = receive(MAX_ENTRY_BYTES, space)
            except BlockingIOError:
                break
            pid = CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else 0
            uid = None
            if self._trusts and data.startswith(AUTHOR_MAGIC) and len(data) > AUTHOR.size:
                _, pid, uid = AUTHOR.unpack_from(data)
                data = data[AUTHOR.size :]
            self._take(data, pid, now, uid)
        self._flush_due = bool(self._readers)

    def _take(self, data: bytes, pid: int, now: float, uid: int | None = None) -> None:
        if len(data) <= DATAGRAM.size:
            return
        log_id, tid, sec, nsec = DATAGRAM.unpack_from(data)
        # liblog's programs may neither fill the kernel's buffer nor the one of the device's owner.
        if log_id >= len(BUFFER_NAMES) or log_id == SECURITY or nsec >= 10**9:
            return
        uid = self._users.user_of(pid, now) if uid is None else uid
        if log_id == KERNEL and uid != ROOT_ID:
            return
        # The header has room for 16 bits of the thread; threads of a process have numbers near its own.
        if pid > 0xFFFF:
            tid |= pid & ~0xFFFF
        payload = data[DATAGRAM.size :]
        if log_id not in BINARY_BUFFERS and not self._loggable.everything:
            tag = payload[1:].partition(b"\0")[0]
            if not self._loggable.allows(payload[0], tag):
                return
        if self._folders:
            self._folders[log_id].add(Message(log_id, uid, pid, tid, sec, nsec, payload))
        else:
            self._store(log_id, uid, pid, tid, sec, nsec, payload)

    def _store_message(self, message: Message) -> None:
        self._store(
            *(message.log_id, message.uid, message.pid, message.tid),
            *(message.sec, message.nsec, message.payload),
        )

    def _store(self, log_id: int, uid: int, pid: int, tid: int, sec: int, nsec: int, payload: bytes) -> None:
        packet = encode_entry(log_id, uid, pid, tid, sec, nsec, payload)
        self._buffers.append(log_id, pid, sec * 10**9 + nsec, packet)
        for reader in self._readers.values():
            request = reader.request
            if request is not None and request.mask >> log_id & 1 and request.pid in (0, pid):
                reader.add(packet)

    # ---- readers

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if listener is self._listener:
            self._readers[sock.fileno()] = Reader(sock)
        else:
            self._clients[sock.fileno()] = sock
        self._poll.register(sock.fileno(), select.POLLIN)

    def _serve_reader(self, fd: int, events: int) -> None:
        reader = self._readers[fd]
        if events & select.POLLIN and reader.request is None:
            try:
                text = reader.socket.recv(_MAX_COMMAND_BYTES).decode("utf-8", "replace")
            except OSError:
                text = ""
            if not text:
                self._drop(fd)
                return
            reader.request = parse_request(text)
            wanted = reader.request
            selected = self._buffers.select(
                wanted.mask, wanted.pid, wanted.tail, wanted.start, last=wanted.last
            )
            for packet in selected or []:
                reader.add(packet)
        elif events & (select.POLLHUP | select.POLLERR) or (events & select.POLLIN and self._has_ended(fd)):
            self._drop(fd)
            return
        self._flush(fd)

    def _has_ended(self, fd: int) -> bool:
        try:
            return not self._readers[fd].socket.recv(_MAX_COMMAND_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _flush(self, fd: int) -> None:
        reader = self._readers[fd]
        if reader.request is None:
            return
        try:
            done = reader.flush()
        except OSError:
            self._drop(fd)
            return
        if done and reader.request.ends:
            self._drop(fd)
        elif reader.backlog_bytes > self._patience(reader.request.mask) and not reader.request.ends:
            log(f"a reader of the log is too slow: {reader.backlog_bytes} bytes wait for it")
            self._drop(fd)
        else:
            self._poll.modify(fd, select.POLLIN | (0 if done else select.POLLOUT))

    def _patience(self, mask: int) -> int:
        limits = [self._buffers.limit(log_id) for log_id in range(len(BUFFER_NAMES)) if mask >> log_id & 1]
        return max(MIN_BACKLOG_BYTES, 2 * sum(limits))

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._readers.pop(fd).socket.close()

    # ---- commands

    def _serve_client(self, fd: int) -> None:
        sock = self._clients[fd]
        try:
            text = sock.recv(_MAX_COMMAND_BYTES).rstrip(b"\0").decode("utf-8", "replace")
            if text:
                peer = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                sock.sendall(self.answer(text, by_init=peer in (1, os.getppid())).encode() + b"\0")
                return
        except OSError:
            pass
        self._poll.unregister(fd)
        self._clients.pop(fd).close()

    def answer(self, command: str, *, by_init: bool = False) -> str:
        """What a command of the `logd` socket is answered with.

        Args:
            by_init: it comes from init, which alone may say that the phone restarts.
        """
        words = command.split()
        name, numbers = (words[0] if words else ""), words[1:]
        if name == REBOOT and by_init:
            self._buffers.reboot()
            return "success"
        if name == "getPruneList":
            return package(self._prune_list.text())
        if name == "setPruneList":
            return "success" if self._prune_list.set(" ".join(numbers)) else "Invalid Argument"
        if name == "getStatistics":
            return self._statistics(numbers)
        if name == CLEAR_LAST:
            return "success" if self._buffers.clear_last() else "No such file or directory"
        if name == HAS_LAST:
            return "success" if self._buffers.has_last else "No such file or directory"
        if not all(word.isdigit() for word in numbers) or not numbers:
            return "Invalid Argument"
        log_id = int(numbers[0])
        if log_id >= len(BUFFER_NAMES):
            return "Range Error"
        if name == "clear":
            self._buffers.clear(log_id)
            return "success"
        if name == "getLogSize":
            return str(self._buffers.limit(log_id))
        if name in ("getLogSizeUsed", "getLogSizeReadable"):
            return str(self._buffers.used(log_id))
        if name == "setLogSize" and len(numbers) == 2:
            return "success" if self._buffers.set_limit(log_id, int(numbers[1])) else "Range Error"
        return "Invalid Argument"

    def _statistics(self, words: list[str]) -> str:
        mask, pid = (1 << len(BUFFER_NAMES)) - 1 if not words else 0, 0
        for word in words:
            number = word.removeprefix("pid=")
            if not number.isdecimal():
                return "Range Error"
            if number != word:
                pid = int(number)
                if pid == 0:
                    return "PID Error"
            elif int(number) >= len(BUFFER_NAMES):
                return "Range Error"
            else:
                mask |= 1 << int(number)
        uses = {number: self._buffers.use(number) for number in range(len(BUFFER_NAMES))}
        return package(statistics(uses, mask, self._users.names.get, detailed=self._detailed, pid=pid))
