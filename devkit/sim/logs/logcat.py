"""The `logcat` command."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from devkit.sim.logs.entry import Entry, parse_packet
from devkit.sim.logs.options import LogcatError, Options, parse
from devkit.sim.logs.readers import JOINED, LAST, MAX_JOINED_BYTES
from devkit.sim.logs.statistics import unpack
from devkit.sim.logs.usage import USAGE
from devkit.sim.logs.wire import (
    BUFFER_NAMES,
    CLEAR_LAST,
    ENTRY,
    HAS_LAST,
    LOGD,
    LOGDR,
    MAX_ENTRY_BYTES,
    MAX_PAYLOAD_BYTES,
)
from devkit.sim.places import socket_path

# Since Android 12 logcat also says how much can be read; up to Android 10 it wrote units its own way.
_READABLE_SINCE_API = 31
_OLD_UNITS_TO_API = 29
_KERNEL_SINCE_API = 26
_BATCH = 4096
_BUSY_PACKETS = 64
_BUSY_PAUSE_S = 0.004
_DUMP_TIMEOUT_S = 2.0
_CONTROL_TIMEOUT_S = 5.0
_FILE_MODE = 0o640
_TOO_SLOW = """Unexpected EOF!

This means that either the device shut down, logd crashed, or this instance of logcat was unable to read log
messages as quickly as they were being produced.

If you have enabled significant logging, look into using the -G option to increase log buffer sizes."""


def main(arguments: list[str], environment: Mapping[str, str], *, api_level: int, user_build: bool) -> int:
    """Run logcat on this process's standard files.

    Args:
        arguments: without the program's name.
        user_build: on such builds the shell may not see the kernel's messages.

    Returns:
        the exit code.
    """
    try:
        kernel = api_level >= _KERNEL_SINCE_API and not user_build
        options = parse(arguments, environment, kernel_by_default=kernel)
        for warning in options.warnings:
            os.write(2, warning.encode("utf-8", "replace") + b"\n")
        if options.help:
            os.write(1, USAGE.encode())
            return 0
        # The phone has no time zone but the one it is told.
        os.environ["TZ"] = options.layout.zone or environment.get("TZ", "UTC0")
        time.tzset()
        if _control(options, api_level):
            return 0
        _Run(options).run()
    except LogcatError as error:
        os.write(2, f"logcat: {error}\n".encode("utf-8", "surrogateescape"))
        return 1
    return 0


# ---- commands to logd


def _control(options: Options, api_level: int) -> bool:
    """Do what is done without reading the log; False when the log is to be read."""
    if options.clear and options.file is not None:
        for name in [options.file, *(f"{options.file}.{n}" for n in range(1, options.rotated_files + 1))]:
            if os.path.exists(name):
                os.unlink(name)
        return True
    chosen = [log_id for log_id in range(len(BUFFER_NAMES)) if options.mask >> log_id & 1]
    if options.last and options.clear:
        # That there is nothing to clear is no error.
        _ask(CLEAR_LAST)
        return True
    if options.last and _ask(HAS_LAST) != "success":
        raise LogcatError("Logcat read failure: No such file or directory")
    if options.clear:
        failed = [BUFFER_NAMES[n] for n in chosen if _ask(f"clear {n}") != "success"]
        if failed:
            plural = "s" if len(failed) > 1 else ""
            raise LogcatError(f"failed to clear the '{','.join(failed)}' log{plural}.")
    if options.set_size:
        failed = [BUFFER_NAMES[n] for n in chosen if _ask(f"setLogSize {n} {options.set_size}") != "success"]
        if failed:
            raise LogcatError(f"failed to set the '{','.join(failed)}' log size{'s' * (len(failed) > 1)}.")
    if options.get_size:
        os.write(1, "".join(_size_line(log_id, api_level) for log_id in chosen).encode())
    if options.set_prune_list is not None:
        if _ask(f"setPruneList {options.set_prune_list}") != "success":
            raise LogcatError(f"Failed to set the prune list to '{options.set_prune_list}'.")
        return True
    if options.statistics or options.get_prune_list:
        lids = " ".join(str(number) for number in chosen)
        text = unpack(_ask("getPruneList" if options.get_prune_list else f"getStatistics {lids}"))
        if text is None:
            raise LogcatError("Failed to read data.")
        _write_all(text.encode("utf-8", "replace"))
        return True
    return options.clear or options.get_size or bool(options.set_size)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _ask(command: str) -> str:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_CONTROL_TIMEOUT_S)
            sock.connect(socket_path(LOGD))
            sock.sendall(command.encode("utf-8", "surrogateescape") + b"\0")
            answer = b""
            while not answer.endswith(b"\0") and (piece := sock.recv(65536)):
                answer += piece
            return answer.rstrip(b"\0").decode("utf-8", "replace")
    except OSError as error:
        raise LogcatError(f"Logcat read failure: {error.strerror}") from None


def _size_line(log_id: int, api_level: int) -> str:
    total, used, readable = (
        int(_ask(f"{name} {log_id}")) for name in ("getLogSize", "getLogSizeUsed", "getLogSizeReadable")
    )
    name = BUFFER_NAMES[log_id]
    if api_level <= _OLD_UNITS_TO_API:
        return (
            f"{name}: ring buffer is {_in_units(total, '')}b ({_in_units(used, '')}b consumed), "
            f"max entry is {MAX_ENTRY_BYTES}b, max payload is {MAX_PAYLOAD_BYTES}b\n"
        )
    parts = f"{_in_units(used)}B consumed"
    if api_level >= _READABLE_SINCE_API:
        parts += f", {_in_units(readable)}B readable"
    return (
        f"{name}: ring buffer is {_in_units(total)}B ({parts}), "
        f"max entry is {MAX_ENTRY_BYTES} B, max payload is {MAX_PAYLOAD_BYTES} B\n"
    )


def _in_units(value: int, binary: str = "i") -> str:
    blank = " " if binary else ""
    for unit in ("", "K", "M"):
        if value < 1024:
            return f"{value}{blank}{unit}{binary if unit else ''}"
        value //= 1024
    return f"{value}{blank}G{binary}"


# ---- reading


class _Run:
    """One reading of the log."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._format: Callable[[Entry], bytes] = options.layout.formatter()
        self._out = 1
        self._out_bytes = 0
        self._printed = 0
        self._last_id: int | None = None
        self._begun: set[int] = set()

    def run(self) -> None:
        options = self._options
        if options.file is not None:
            self._open_file(options.file)
        with self._connect() as sock:
            while not options.max_count or self._printed < options.max_count:
                packets, ended = self._read(sock)
                self._show(packets)
                self._take_breath(len(packets))
                if ended and options.ends:
                    return
                if ended:
                    raise LogcatError(_TOO_SLOW)

    def _connect(self) -> socket.socket:
        options = self._options
        lids = ",".join(str(n) for n in range(len(BUFFER_NAMES)) if options.mask >> n & 1)
        request = f"{'dumpAndClose' if options.ends else 'stream'} lids={lids}"
        # A time counts more than a number of lines, as in liblog's two ways to open the log.
        if options.start:
            request += f" start={options.start // 10**9}.{options.start % 10**9:09}"
        elif options.tail:
            request += f" tail={options.tail}"
        if options.pid:
            request += f" pid={options.pid}"
        request += (LAST if options.last else "") + JOINED
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.connect(socket_path(LOGDR))
            sock.send(request.encode())
        except OSError as error:
            sock.close()
            raise LogcatError(f"Logcat read failure: {error.strerror}") from None
        sock.setblocking(False)
        return sock

    def _read(self, sock: socket.socket) -> tuple[list[bytes], bool]:
        """What has come, waiting if need be, and whether it was the end."""
        packets: list[bytes] = []
        receive = sock.recv
        try:
            while len(packets) < _BATCH:
                joined = receive(MAX_JOINED_BYTES)
                if not joined:
                    return packets, True
                packets.extend(_split(joined))
        except BlockingIOError:
            if not packets:
                timeout = _DUMP_TIMEOUT_S if self._options.ends else None
                ready, _, _ = select.select([sock], [], [], timeout)
                return [], not ready
        except ConnectionResetError:
            return packets, True
        return packets, False

    def _take_breath(self, count: int) -> None:
        """Under load wait a moment, so that more is written at once."""
        if count >= _BUSY_PACKETS and not self._options.ends:
            time.sleep(_BUSY_PAUSE_S)

    def _show(self, packets: list[bytes]) -> None:
        options, parts = self._options, []
        shows = None if options.filters.everything else options.filters.shows
        for packet in packets:
            if options.uids and ENTRY.unpack_from(packet)[7] not in options.uids:
                continue
            if options.binary:
                parts.append(packet)
                continue
            entry = parse_packet(packet)
            if entry is None or (shows is not None and not shows(entry.priority, entry.tag)):
                continue
            if options.regex is not None:
                if options.regex.search(entry.message):
                    self._printed += 1
                elif not options.print_all:
                    continue
            else:
                self._printed += 1
            if entry.log_id != self._last_id:
                parts.append(self._divider(entry.log_id))
            parts.append(self._format(entry))
            if options.max_count and self._printed >= options.max_count:
                break
            if options.rotate_kib:
                self._write(b"".join(parts))
                parts = []
        self._write(b"".join(parts))

    def _divider(self, log_id: int) -> bytes:
        self._last_id = log_id
        begun = log_id in self._begun
        self._begun.add(log_id)
        if begun and not self._options.dividers:
            return b""
        words = "switch to" if begun else "beginning of"
        return f"--------- {words} {BUFFER_NAMES[log_id]}\n".encode()

    def _write(self, data: bytes) -> None:
        self._out_bytes += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]
        limit = self._options.rotate_kib
        if limit and self._out_bytes // 1024 >= limit:
            self._rotate()

    # ---- files

    def _open_file(self, path: str) -> None:
        try:
            self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise LogcatError(f"couldn't open output file '{path}': {error.strerror}") from None
        self._out_bytes = os.fstat(self._out).st_size

    def _rotate(self) -> None:
        path, count = self._options.file, self._options.rotated_files
        assert path is not None
        os.close(self._out)
        digits = len(str(count))
        names = [path, *(f"{path}.{number:0{digits}}" for number in range(1, count + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if os.path.exists(newer):
                os.rename(newer, older)
        self._open_file(path)


def _split(joined: bytes) -> Iterator[bytes]:
    """The entries of a packet."""
    at = 0
    while at + ENTRY.size <= len(joined):
        length, head = ENTRY.unpack_from(joined, at)[:2]
        end = at + head + length
        yield joined[at:end]
        at = end
