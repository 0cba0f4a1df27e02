"""The service `sync:`: stat, list, send and receive files, versions 1 and 2.

Structures and error texts are those of daemon/file_sync_service.cpp and file_sync_protocol.h.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Collection

from devkit.sim.adbd import files
from devkit.sim.adbd.compression import Codec
from devkit.sim.adbd.files import SyncFailure, failure
from devkit.sim.adbd.log import log
from devkit.sim.adbd.streams import Stream, StreamClosed

MAX_PATH_BYTES = 1024
MAX_DATA_BYTES = 64 * 1024
FLAG_DRY_RUN = 0x80000000

_REQUEST = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT_V1 = struct.Struct("<4sIIII")
_DENT_V2 = struct.Struct("<4sIQQIIIIQqqqI")
_SEND_V2 = struct.Struct("<4sII")
_RECV_V2 = struct.Struct("<4sI")
_PULL_BUFFER_BLOCKS = 15
_DONE = _REQUEST.pack(b"DONE", 0)


def pack_stat_v1(result: os.stat_result | None) -> bytes:
    """The answer to STAT; all zero when there is no such file. Size and time are cut to 32 bits."""
    if result is None:
        return _STAT_V1.pack(b"STAT", 0, 0, 0)
    return _STAT_V1.pack(
        b"STAT", result.st_mode, result.st_size & 0xFFFFFFFF, int(result.st_mtime) & 0xFFFFFFFF
    )


def pack_stat_v2(kind: bytes, result: os.stat_result | int) -> bytes:
    """The answer to STA2 / LST2: the file's facts, or an errno."""
    if isinstance(result, int):
        return _STAT_V2.pack(kind, result, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return _STAT_V2.pack(
        kind,
        0,
        result.st_dev & 0xFFFFFFFFFFFFFFFF,
        result.st_ino,
        result.st_mode,
        result.st_nlink & 0xFFFFFFFF,
        result.st_uid,
        result.st_gid,
        result.st_size,
        int(result.st_atime),
        int(result.st_mtime),
        int(result.st_ctime),
    )


def parse_send_v1(spec: bytes) -> tuple[bytes, int]:
    """Path and mode of `path,mode`.

    Raises:
        SyncFailure: there is no mode in it.
    """
    path, comma, mode = spec.rpartition(b",")
    if not comma:
        raise SyncFailure("missing , in ID_SEND_V1")
    try:
        # strtoul with base 0, which knows C's notations: 33188, 0644, 0x1a4.
        return path, int(mode, 8) if mode.startswith(b"0") and mode.isdigit() else int(mode, 0)
    except ValueError:
        raise SyncFailure("bad mode") from None


def pushed_mode(mode: int) -> int:
    """The permission bits a pushed file gets: those of the user, copied to group and others."""
    mode &= 0o777
    mode |= (mode >> 3) & 0o070
    mode |= (mode >> 3) & 0o007
    return mode


def run_sync(stream: Stream, codecs: dict[int, Codec], features: Collection[str]) -> None:
    """Serve one sync session to its end.

    Args:
        features: requests that came with a later feature are unknown.
    """
    stream.accept()
    session = _Session(stream, codecs, features)
    try:
        while session.serve_request():
            pass
    except SyncFailure as error:
        session.fail(error)
    except StreamClosed:
        pass
    stream.close()


class _Session:
    def __init__(self, stream: Stream, codecs: dict[int, Codec], features: Collection[str]) -> None:
        self._stream = stream
        self._codecs = codecs
        self._features = features

    def fail(self, error: SyncFailure) -> None:
        text = str(error).encode("utf-8", "surrogateescape")
        log(f"sync failure: {error}")
        try:
            self._stream.write(_REQUEST.pack(b"FAIL", len(text)) + text)
        except StreamClosed:
            pass

    def serve_request(self) -> bool:
        kind, length = _REQUEST.unpack(self._stream.read(_REQUEST.size))
        if kind == b"QUIT":
            return False
        if length > MAX_PATH_BYTES:
            raise SyncFailure("path too long")
        # C ends a path at the first NUL.
        path = self._stream.read(length).partition(b"\0")[0]
        handler = _HANDLERS.get(kind)
        if handler is None or _FEATURES.get(kind, "") not in ("", *self._features):
            raise SyncFailure(f"unknown command {int.from_bytes(kind, 'little'):08x}")
        log(f"sync {kind.decode()} {path!r}")
        handler(self, path)
        return True

    def stat_v1(self, path: bytes) -> None:
        try:
            result: os.stat_result | None = self._stream.faults.sized(os.lstat(path))
        except OSError:
            result = None
        self._stream.write(pack_stat_v1(result))

    def stat_v2(self, path: bytes) -> None:
        self._stream.write(pack_stat_v2(b"STA2", self._facts(path, os.stat)))

    def lstat_v2(self, path: bytes) -> None:
        self._stream.write(pack_stat_v2(b"LST2", self._facts(path, os.lstat)))

    def list_v1(self, path: bytes) -> None:
        answer = bytearray()
        for name in _names(path):
            facts = self._facts(os.path.join(path, name), os.lstat)
            if not isinstance(facts, int):
                answer += pack_stat_v1(facts).replace(b"STAT", b"DENT", 1)
                answer += struct.pack("<I", len(name)) + name
        self._stream.write(answer + _DENT_V1.pack(b"DONE", 0, 0, 0, 0))

    def list_v2(self, path: bytes) -> None:
        answer = bytearray()
        for name in _names(path):
            answer += pack_stat_v2(b"DNT2", self._facts(os.path.join(path, name), os.lstat))
            answer += struct.pack("<I", len(name)) + name
        self._stream.write(answer + _DENT_V2.pack(b"DONE", *[0] * 12))

    def _facts(self, path: bytes, look: Callable[[bytes], os.stat_result]) -> os.stat_result | int:
        try:
            return self._stream.faults.sized(look(path))
        except OSError as error:
            return error.errno or 0

    def send_v1(self, spec: bytes) -> None:
        path, mode = parse_send_v1(spec)
        self._receive_file(path, mode, None, dry_run=False)

    def send_v2(self, path: bytes) -> None:
        _, mode, flags = _SEND_V2.unpack(self._stream.read(_SEND_V2.size))
        codec = self._codec(path, flags & ~FLAG_DRY_RUN, flags)
        self._receive_file(path, mode, codec, dry_run=bool(flags & FLAG_DRY_RUN))

    def recv_v1(self, path: bytes) -> None:
        self._send_file(path, None)

    def recv_v2(self, path: bytes) -> None:
        _, flags = _RECV_V2.unpack(self._stream.read(_RECV_V2.size))
        self._send_file(path, self._codec(path, flags, flags))

    def _codec(self, path: bytes, kinds: int, flags: int) -> Codec | None:
        if kinds == 0:
            return None
        codec = self._codecs.get(kinds)
        if codec is None:
            known = sum(self._codecs)
            if kinds & ~known:
                raise SyncFailure(f"unknown flags: {kinds & ~known}")
            raise SyncFailure(f"multiple compression flags received: {flags}")
        log(f"{os.fsdecode(path)!r} with {codec.feature}")
        return codec

    # ---- the phone receives

    def _receive_file(self, path: bytes, mode: int, codec: Codec | None, *, dry_run: bool) -> None:
        unlink = False
        if not dry_run:
            unlink = files.is_replaceable(path, link=stat.S_ISLNK(mode))
            if unlink:
                files.unlink(path)
        if stat.S_ISLNK(mode):
            mtime = self._receive_link(path, dry_run=dry_run)
        else:
            try:
                mtime = self._receive_data(path, pushed_mode(mode), codec, dry_run=dry_run)
            except SyncFailure as error:
                # The client may be in the middle of writing: tell it now, then swallow the rest.
                self.fail(error)
                self._swallow_data()
                if unlink:
                    files.unlink(path)
                raise StreamClosed from None
        # adbd sets the time after its OKAY, which lets a client on another stream see the wrong one.
        if not dry_run:
            try:
                files.renew_folder(path)
                os.utime(path, (mtime, mtime), follow_symlinks=False)
            except OSError:
                pass
        self._stream.write(_REQUEST.pack(b"OKAY", 0))

    def _receive_data(self, path: bytes, mode: int, codec: Codec | None, *, dry_run: bool) -> int:
        fd = -1 if dry_run else files.create(path, mode)
        try:
            decode = codec.decoder() if codec else None
            while True:
                kind, value = _REQUEST.unpack(self._stream.read(_REQUEST.size))
                if kind == b"DONE":
                    return int(value)
                if kind != b"DATA":
                    raise SyncFailure("invalid data message")
                if value > MAX_DATA_BYTES:
                    raise SyncFailure("oversize data message")
                # Read the message whole before writing: a failed write must not lose the framing.
                for piece in list(self._stream.pieces(value)):
                    data = memoryview(_decode(decode, piece)) if decode else piece
                    if fd >= 0:
                        files.write_all(fd, data)
        finally:
            if fd >= 0:
                os.close(fd)

    def _receive_link(self, path: bytes, *, dry_run: bool) -> int:
        kind, length = _REQUEST.unpack(self._stream.read(_REQUEST.size))
        if kind != b"DATA":
            raise SyncFailure("invalid data message: expected ID_DATA")
        if length > MAX_DATA_BYTES:
            raise SyncFailure("oversize data message")
        target = self._stream.read(length).partition(b"\0")[0]
        if not dry_run:
            files.make_link(target, path)
        kind, mtime = _REQUEST.unpack(self._stream.read(_REQUEST.size))
        if kind != b"DONE":
            raise SyncFailure("invalid data message: expected ID_DONE")
        return int(mtime)

    def _swallow_data(self) -> None:
        while True:
            kind, length = _REQUEST.unpack(self._stream.read(_REQUEST.size))
            if kind != b"DATA" or length > MAX_DATA_BYTES:
                return
            for _ in self._stream.pieces(length):
                pass

    # ---- the phone sends

    def _send_file(self, path: bytes, codec: Codec | None) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise failure("open failed", error) from None
        try:
            if codec is None:
                self._send_plain(fd)
            else:
                self._send_compressed(fd, codec)
        except OSError as error:
            raise failure("read failed", error) from None
        finally:
            os.close(fd)

    def _send_plain(self, fd: int) -> None:
        """Several DATA messages travel in one packet, the last with DONE: the stream is stop-and-wait."""
        block = _REQUEST.size + MAX_DATA_BYTES
        buffer = memoryview(bytearray(block * _PULL_BUFFER_BLOCKS + len(_DONE)))
        # What is no file may have nothing to say for a while: that travels as it comes.
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        ended = False
        while not ended:
            filled = 0
            while filled + block <= len(buffer) - len(_DONE):
                body = buffer[filled + _REQUEST.size : filled + block]
                count = os.readv(fd, [body])
                ended = count == 0
                if ended:
                    break
                _REQUEST.pack_into(buffer, filled, b"DATA", count)
                filled += _REQUEST.size + count
                if count < MAX_DATA_BYTES and not is_file:
                    break
            if ended:
                buffer[filled : filled + len(_DONE)] = _DONE
                filled += len(_DONE)
            self._stream.write(buffer[:filled])

    def _send_compressed(self, fd: int, codec: Codec) -> None:
        compress, finish = codec.encoder()
        while data := os.read(fd, MAX_DATA_BYTES):
            self._send_data(compress(data))
        self._send_data(finish(), _DONE)

    def _send_data(self, data: bytes, end: bytes = b"") -> None:
        message = bytearray()
        for start in range(0, len(data), MAX_DATA_BYTES):
            piece = data[start : start + MAX_DATA_BYTES]
            message += _REQUEST.pack(b"DATA", len(piece)) + piece
        if message or end:
            self._stream.write(message + end)


_HANDLERS: dict[bytes, Callable[[_Session, bytes], None]] = {
    b"STAT": _Session.stat_v1,
    b"STA2": _Session.stat_v2,
    b"LST2": _Session.lstat_v2,
    b"LIST": _Session.list_v1,
    b"LIS2": _Session.list_v2,
    b"SEND": _Session.send_v1,
    b"SND2": _Session.send_v2,
    b"RECV": _Session.recv_v1,
    b"RCV2": _Session.recv_v2,
}
_FEATURES = {
    b"STA2": "stat_v2",
    b"LST2": "stat_v2",
    b"LIS2": "ls_v2",
    b"SND2": "sendrecv_v2",
    b"RCV2": "sendrecv_v2",
}


def _names(path: bytes) -> list[bytes]:
    try:
        return [b".", b"..", *os.listdir(path)]
    except OSError:
        return []


def _decode(decode: Callable[[bytes], bytes], piece: memoryview) -> bytes:
    try:
        return decode(bytes(piece))
    # Every codec has an exception of its own.
    except Exception as error:
        log(f"decompress: {error}")
        raise SyncFailure("decompress failed") from None
