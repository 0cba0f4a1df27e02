"""Files of the phone over adb's sync protocol: one connection for many files, nothing waits in turn.

Facts from AOSP's file_sync_protocol.h and file_sync_service.cpp. Not here: which files should travel.
"""

from __future__ import annotations

import os
import socket
import stat as modes
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from devkit.device import failures
from devkit.device.compression import Encoder, codec_for
from devkit.device.connection import acknowledge_now, wait_for
from devkit.device.servers import AdbServer
from devkit.errors import PHONE, DeviceError, FileError

DATA_BYTES = 64 * 1024  # SYNC_DATA_MAX: adbd ends the session at more
SEND_BYTES = 256 * 1024
PATH_BYTES = 1024  # adbd ends the session at more
IDLE_TIMEOUT_S = 60.0  # without a byte in either direction: flash may stall for seconds

_HEADER = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_ENTRY_V1 = struct.Struct("<4sIIII")
_ENTRY_V2 = struct.Struct("<4sIQQIIIIQqqqI")
_SEND_V2 = struct.Struct("<4sII")
# Below this a stream's frame eats what it saves.
_LEAST_BYTES = 256

# The phone's numbers are Linux's, which this machine's may not be.
_ENOENT, _ENOTDIR = 2, 20
_LINUX_ERRORS = {13: "Permission denied", 36: "File name too long", 40: "Too many levels of symbolic links"}


@dataclass(frozen=True)
class PushItem:
    """A file that travels to the phone.

    Attributes:
        local: a file of this machine, or the bytes themselves.
        remote: its absolute path there; the folder must exist.
        mode: permission bits. adbd copies the owner's bits to group and others.
        mtime_s: modification time on the phone, seconds since 1970.
    """

    local: Path | bytes
    remote: str
    mode: int
    mtime_s: int


@dataclass(frozen=True)
class FileStat:
    """What the phone says of a file. `size` is right above 4 GB only with stat_v2 (Android 8)."""

    mode: int
    size: int
    mtime_s: int

    @property
    def is_file(self) -> bool:
        return modes.S_ISREG(self.mode)

    @property
    def is_dir(self) -> bool:
        return modes.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return modes.S_ISLNK(self.mode)


class SyncSession:
    """One `sync:` connection. Use it as a context manager, for one kind of work, from one thread.

    Args:
        sock: an opened `sync:` service; the session closes it.
        features: the phone's, which decide between the old and the new requests, and on compression.
        far: as `codec_for`.

    Attributes:
        sent_bytes: what has gone over the wire so far, requests and compressed files together.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        server: AdbServer,
        serial: str,
        features: frozenset[str],
        far: bool = False,
    ) -> None:
        self._sock = sock
        sock.setblocking(False)
        self._server, self._serial, self._features = server, serial, features
        self._codec = codec_for(features, far=far)
        self.sent_bytes = 0
        self._inbox = bytearray()
        self._doing = "talking to its file service"

    def __enter__(self) -> SyncSession:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._sock.close()

    def push(self, items: Sequence[PushItem], on_bytes: Callable[[int], None] | None = None) -> None:
        """Send files, many in flight at once; returns when the phone has confirmed the last.

        They travel compressed where the phone can unpack and the file's beginning shrinks. A file that
        fails ends the session: those before it are there, it and the rest are not.

        Raises:
            DeviceError: the phone refused a file; carries the path and the phone's words.
            FileError: a local file cannot be read.
            PhoneLost, OperationTimeout: the connection broke off or stood still.
        """
        waiting: deque[PushItem] = deque()
        out = bytearray()
        payload = 0

        def acknowledge() -> None:
            while waiting and self._take_verdict(waiting[0].remote):
                waiting.popleft()

        def flush() -> None:
            nonlocal payload
            self._write(out, acknowledge)
            self.sent_bytes += len(out)
            out.clear()
            if on_bytes is not None and payload:
                on_bytes(payload)
            payload = 0

        def add_data(data: bytes) -> None:
            for start in range(0, len(data), DATA_BYTES):
                piece = data[start : start + DATA_BYTES]
                out.extend(_HEADER.pack(b"DATA", len(piece)) + piece)

        for item in items:
            self._doing = f"pushing {item.remote}"
            path, mode = _encode(item.remote), modes.S_IFREG | (item.mode & 0o777)
            with _open(item.local) as source:
                # Known to be readable before the phone replaces its file.
                chunk = _read(source, item)
                waiting.append(item)
                encoder: Encoder | None = None
                if self._codec is not None and len(chunk) >= _LEAST_BYTES and self._codec.shrinks(chunk):
                    encoder = self._codec.make()
                    out += _HEADER.pack(b"SND2", len(path)) + path
                    out += _SEND_V2.pack(b"SND2", mode, self._codec.flag)
                else:
                    spec = path + b",%d" % mode
                    out += _HEADER.pack(b"SEND", len(spec)) + spec
                while chunk:
                    payload += len(chunk)
                    add_data(chunk if encoder is None else encoder.compress(chunk))
                    if len(out) >= SEND_BYTES:
                        flush()
                    chunk = _read(source, item)
                if encoder is not None:
                    add_data(encoder.flush())
            out += _HEADER.pack(b"DONE", min(max(item.mtime_s, 0), 0xFFFFFFFF))
        flush()
        while waiting:
            self._doing = f"pushing {waiting[0].remote}"
            self._receive()
            acknowledge()

    def pull(self, remote: str, write: Callable[[bytes], object]) -> int:
        """Receive a file in pieces of up to 64 KiB; returns the number of bytes.

        Raises:
            DeviceError: the phone cannot read it; carries its words.
            PhoneLost, OperationTimeout: the connection broke off or stood still.
        """
        self._doing = f"pulling {remote}"
        path = _encode(remote)
        self._write(_HEADER.pack(b"RECV", len(path)) + path)
        total = 0
        while True:
            kind, count = _HEADER.unpack(self._read(_HEADER.size))
            if kind == b"DATA":
                write(self._read(count))
                total += count
            elif kind == b"DONE":
                return total
            elif kind == b"FAIL":
                raise self._refused(remote, self._read(count))
            else:
                raise self._nonsense(kind)

    def stat(self, paths: Sequence[str], *, follow: bool = True) -> dict[str, FileStat | None]:
        """What is at each path, None where nothing is. All questions are sent before any answer.

        Without stat_v2 links are never followed, and sizes are modulo 4 GB.

        Raises:
            DeviceError: a path cannot be looked at (permission, a loop of links).
            PhoneLost, OperationTimeout: the connection broke off or stood still.
        """
        self._doing = f"looking at {len(paths)} files" if len(paths) != 1 else f"looking at {paths[0]}"
        v2 = "stat_v2" in self._features
        request, record = (b"STAT", _STAT_V1) if not v2 else (b"STA2" if follow else b"LST2", _STAT_V2)
        out = bytearray()
        for path in paths:
            encoded = _encode(path)
            out += _HEADER.pack(request, len(encoded)) + encoded
        self._write(out, lambda: None)
        answers: dict[str, FileStat | None] = {}
        for path in paths:
            fields = record.unpack(self._read(record.size))
            if fields[0] != request:
                raise self._nonsense(fields[0])
            answers[path] = self._stat_v2(path, fields) if v2 else _stat_v1(fields)
        return answers

    def list_dir(self, remote: str) -> dict[str, FileStat]:
        """What is in a folder, by name, without `.` and `..`; links are not followed.

        Raises:
            DeviceError: there is no such folder.
            PhoneLost, OperationTimeout: the connection broke off or stood still.
        """
        # adbd answers an empty listing for what is no folder, so the question is asked along.
        about = self.stat([remote.rstrip("/") + "/"])[remote.rstrip("/") + "/"]
        if about is None or not about.is_dir:
            raise DeviceError(f"there is no folder {remote} on the phone {self._serial}", where=PHONE)
        self._doing = f"listing {remote}"
        v2 = "ls_v2" in self._features
        request, record = (b"LIS2", _ENTRY_V2) if v2 else (b"LIST", _ENTRY_V1)
        path = _encode(remote)
        self._write(_HEADER.pack(request, len(path)) + path)
        found: dict[str, FileStat] = {}
        while True:
            # The closing DONE has the size of an entry too.
            fields = record.unpack(self._read(record.size))
            if fields[0] == b"DONE":
                return found
            if fields[0] != (b"DNT2" if v2 else b"DENT"):
                raise self._nonsense(fields[0])
            name = self._read(fields[-1]).decode("utf-8", "surrogateescape")
            if name in (".", ".."):
                continue
            if not v2:
                found[name] = FileStat(fields[1], fields[2], fields[3])
            elif fields[1] == 0:
                found[name] = FileStat(fields[4], fields[8], fields[10])

    def _stat_v2(self, path: str, fields: tuple[int, ...]) -> FileStat | None:
        code = fields[1]
        if code in (_ENOENT, _ENOTDIR):
            return None
        if code:
            evidence = _LINUX_ERRORS.get(code, f"errno {code}")
            raise DeviceError(f"the phone cannot look at {path}", where=PHONE, evidence=evidence)
        return FileStat(fields[4], fields[8], fields[10])

    def _take_verdict(self, remote: str) -> bool:
        """Whether the phone's OKAY for the oldest file has come.

        Raises:
            DeviceError: it said FAIL.
        """
        if len(self._inbox) < _HEADER.size:
            return False
        kind, count = _HEADER.unpack_from(self._inbox)
        if kind == b"OKAY":
            del self._inbox[: _HEADER.size]
            return True
        if kind != b"FAIL":
            raise self._nonsense(kind)
        del self._inbox[: _HEADER.size]
        raise self._refused(remote, self._read(count))

    def _write(self, data: bytes | bytearray, on_input: Callable[[], None] | None = None) -> None:
        """Send everything; take in answers meanwhile, so that neither side can block the other."""
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                readable, writable = wait_for(self._sock, read=True, write=True, timeout_s=IDLE_TIMEOUT_S)
                if readable:
                    self._take_in()
                    if on_input is not None:
                        on_input()
                if writable:
                    try:
                        sent += self._sock.send(view[sent:])
                    except BlockingIOError:
                        pass
                    except OSError as error:
                        # What the phone said before it hung up explains more than our EPIPE.
                        self._take_in()
                        if on_input is not None:
                            on_input()
                        raise self._lost(os.strerror(error.errno or 0)) from None
                elif not readable:
                    raise self._silent()

    def _read(self, count: int) -> bytes:
        while len(self._inbox) < count:
            self._receive()
        data = bytes(self._inbox[:count])
        del self._inbox[:count]
        return data

    def _receive(self) -> None:
        readable, _ = wait_for(self._sock, read=True, timeout_s=IDLE_TIMEOUT_S)
        if not readable:
            raise self._silent()
        self._take_in()

    def _take_in(self) -> None:
        try:
            data = self._sock.recv(SEND_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(os.strerror(error.errno or 0)) from None
        if not data:
            raise self._lost()
        acknowledge_now(self._sock)
        self._inbox += data

    def _refused(self, remote: str, words: bytes) -> DeviceError:
        text = words.decode("utf-8", "replace")
        hints = []
        if "No space left" in text:
            hints.append("free space on the phone: adb shell df -h " + (remote.rpartition("/")[0] or "/"))
        elif "Read-only" in text or "Permission denied" in text:
            hints.append("choose a folder that the shell user may write: device.dir in your settings")
        action, _, _ = self._doing.partition(" ")
        return DeviceError(
            f"{action} {remote} failed on the phone {self._serial}", where=PHONE, evidence=text, hints=hints
        )

    def _nonsense(self, kind: bytes) -> DeviceError:
        return self._lost(f"unexpected answer {kind!r} of the file service")

    def _lost(self, reason: str = "the connection was closed") -> DeviceError:
        return failures.broke_off(self._server, serial=self._serial, doing=self._doing, reason=reason)

    def _silent(self) -> Exception:
        return failures.silent(self._server, serial=self._serial, doing=self._doing, timeout_s=IDLE_TIMEOUT_S)


def _stat_v1(fields: tuple[int, ...]) -> FileStat | None:
    # do_lstat_v1 answers zeros for what is not there.
    return FileStat(fields[1], fields[2], fields[3]) if any(fields[1:]) else None


def _encode(remote: str) -> bytes:
    data = remote.encode("utf-8", "surrogateescape")
    if len(data) > PATH_BYTES or b"\0" in data:
        reason = f"{len(data)} bytes; adb allows {PATH_BYTES}" if b"\0" not in data else "it holds a NUL"
        raise DeviceError(f"this path cannot exist on a phone: {remote[:80]!r}…", evidence=reason)
    return data


class _Bytes:
    """Bytes that are read like a file."""

    def __init__(self, data: bytes) -> None:
        self._chunks: Iterator[bytes] = (
            data[start : start + DATA_BYTES] for start in range(0, len(data), DATA_BYTES)
        )

    def read(self, _count: int) -> bytes:
        return next(self._chunks, b"")

    def __enter__(self) -> _Bytes:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


def _open(local: Path | bytes) -> BinaryIO | _Bytes:
    if isinstance(local, bytes):
        return _Bytes(local)
    try:
        return open(local, "rb")
    except OSError as error:
        raise FileError(f"cannot read {local}", evidence=os.strerror(error.errno or 0)) from None


def _read(source: BinaryIO | _Bytes, item: PushItem) -> bytes:
    try:
        return source.read(DATA_BYTES)
    except OSError as error:
        raise FileError(f"cannot read {item.local!s}", evidence=os.strerror(error.errno or 0)) from None


def total_bytes(items: Iterable[PushItem]) -> int:
    """How many bytes `push` will report, for a progress bar.

    Raises:
        FileError: a local file cannot be looked at.
    """
    total = 0
    for item in items:
        try:
            total += len(item.local) if isinstance(item.local, bytes) else item.local.stat().st_size
        except OSError as error:
            raise FileError(f"cannot read {item.local!s}", evidence=os.strerror(error.errno or 0)) from None
    return total
