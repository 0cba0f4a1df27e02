"""A log in a file: the bytes of messages as they were written, a new file after so many bytes."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from devkit.errors import FileError, UsageError
from devkit.logcat.record import LETTERS, Record

DEFAULT_ROTATE_BYTES = 64_000_000
DEFAULT_KEPT = 4
_MAX_MIDDLES = 20_000


class TextForm:
    """`logcat -v threadtime -v year -v nsec -v zone`, byte for byte, in this machine's time zone.

    A message is not decoded: what it holds is in the file.
    """

    def __init__(self) -> None:
        self._second = -1
        self._head = b""
        self._zone = b""
        self._buffer: str | None = None
        self._begun: set[str] = set()
        # What lies between stamp and message: a few threads and tags make most of a log.
        self._middles: dict[tuple[int | None, int | None, int, bytes], bytes] = {}

    def lines(self, records: Sequence[Record]) -> bytes:
        """The lines of records, with a divider where the buffer changes."""
        parts: list[bytes] = []
        add, middles = parts.append, self._middles
        for time_ns, buffer, _uid, pid, tid, level, tag, message, _process in records:
            if buffer != self._buffer:
                add(self._divider(buffer))
            second, nanosecond = divmod(time_ns or 0, 1_000_000_000)
            if second != self._second:
                self._begin_second(second)
            middle = middles.get((pid, tid, level, tag)) or self._middle(pid, tid, level, tag)
            if b"\n" in message:
                for line in message.removesuffix(b"\n").split(b"\n"):
                    add(b"%b%09d%b%b\n" % (self._head, nanosecond, middle, line))
            else:
                add(b"%b%09d%b%b\n" % (self._head, nanosecond, middle, message))
        return b"".join(parts)

    def _begin_second(self, second: int) -> None:
        local = time.localtime(second)
        self._second = second
        self._head = time.strftime("%Y-%m-%d %H:%M:%S.", local).encode()
        zone = time.strftime("%z", local).encode()
        if zone != self._zone or len(self._middles) > _MAX_MIDDLES:
            self._zone = zone
            self._middles.clear()

    def _middle(self, pid: int | None, tid: int | None, level: int, tag: bytes) -> bytes:
        letter = LETTERS[level] if 0 <= level < 9 else "?"
        middle = b" %b %5d %5d %b %-8b: " % (self._zone, pid or 0, tid or 0, letter.encode(), tag)
        self._middles[(pid, tid, level, tag)] = middle
        return middle

    def _divider(self, buffer: str) -> bytes:
        self._buffer = buffer
        if not buffer:
            return b""
        words = "switch to" if buffer in self._begun else "beginning of"
        self._begun.add(buffer)
        return f"--------- {words} {buffer}\n".encode()


class Writer:
    """Appends to a file; when it is full it becomes FILE.1, FILE.1 becomes FILE.2, and so on.

    Nothing is lost at a rotation, and no line is cut. Memory does not grow with the log.

    Args:
        rotate_bytes: size after which a new file begins, 0: never.
        kept: how many full files are kept.

    Raises:
        FileError: the file cannot be written (also in `write`: the disk is full).
        UsageError: there is such a file already, and neither `append` nor `replace` was said.
    """

    def __init__(
        self,
        path: Path,
        *,
        rotate_bytes: int = DEFAULT_ROTATE_BYTES,
        kept: int = DEFAULT_KEPT,
        append: bool = False,
    ) -> None:
        self.path = path
        self._rotate = rotate_bytes
        self._kept = kept
        self.written = 0
        self.rotations = 0
        if path.is_dir():
            raise UsageError(f"{path} is a folder", hints=["name a file in it for --save"])
        if not append and path.exists() and path.stat().st_size:
            raise UsageError(
                f"{path} is there already", hints=["--append continues it", "name another file for --save"]
            )
        self._file, self._size = self._open()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: bytes, *, start: int = 0) -> None:
        """Append whole lines; they are in the file when this returns.

        Args:
            start: what lies before it is left out.
        """
        if self._rotate and self._size + len(data) > self._rotate:
            data, start = data[start:], 0
        try:
            while self._rotate and self._size + len(data) > self._rotate:
                # As many whole lines as still fit; at least one in an empty file.
                room = self._rotate - self._size
                cut = data.rfind(b"\n", 0, max(room, 0)) + 1
                if not cut and not self._size:
                    cut = data.find(b"\n") + 1 or len(data)
                self._put(data[:cut])
                data = data[cut:]
                if data:
                    self._turn()
            self._put(data, start)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _put(self, data: bytes, start: int = 0) -> None:
        view = memoryview(data)[start:]
        while view:
            count = self._file.write(view)
            self._size += count
            self.written += count
            view = view[count:]

    def _turn(self) -> None:
        self._file.close()
        if self._kept:
            for number in range(self._kept, 0, -1):
                newer = self._name(number - 1)
                if newer.exists():
                    os.replace(newer, self._name(number))
        else:
            self.path.unlink(missing_ok=True)
        self.rotations += 1
        self._file, self._size = self._open()

    def _name(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")

    def _open(self) -> tuple[BinaryIO, int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a batch is one write, and what was read is in the file after a kill -9.
            file = open(self.path, "ab", buffering=0)
            return file, os.fstat(file.fileno()).st_size
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> FileError:
        return FileError(
            f"the log cannot be written to {self.path}",
            evidence=os.strerror(error.errno or 0),
            hints=["make room, or save it elsewhere: df -h"]
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            else ["name another file for --save"],
        )
