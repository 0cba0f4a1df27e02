"""devkit on a terminal, for tests that type and read as a person does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][0-9A-B]|[78=>])")


class Terminal:
    """One command line of devkit on a terminal of its own. A context manager: nothing outlives it."""

    def __init__(self, *args: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "TERM": "xterm"}
            os.execve(sys.executable, [sys.executable, "-m", "devkit", *args], env)
        # Without a size LLDB takes it for a terminal that cannot edit lines.
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.fresh = self.modes()
        self._raw = b""
        self._position = 0
        self._code: int | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self.end()

    @property
    def text(self) -> bytes:
        """All that was written, without colours and cursor movements."""
        return _ESCAPES.sub(b"", self._raw)

    def type(self, text: bytes) -> None:
        os.write(self._fd, text)

    def wait_for_all(self, *texts: bytes) -> None:
        """As `wait_for`, for texts that may come in any order."""
        start, end = self._position, self._position
        for text in texts:
            self._position = start
            self.wait_for(text)
            end = max(end, self._position)
        self._position = end

    def wait_for(self, text: bytes, within_s: float = 20) -> None:
        """Read until the text comes, behind what was waited for before."""
        deadline = time.monotonic() + within_s
        while (found := self.text.find(text, self._position)) < 0:
            left = deadline - time.monotonic()
            rest = self.text[self._position :]
            assert left > 0 and select.select([self._fd], [], [], left)[0], rest
            try:
                self._raw += os.read(self._fd, 4096)
            except OSError:
                raise AssertionError(rest) from None
        self._position = found + len(text)

    def modes(self) -> list[object]:
        """The terminal's modes, as `stty` shows them."""
        return list(termios.tcgetattr(self._fd))

    def hang_up(self) -> int:
        """Close the window; the exit code of devkit."""
        os.close(self._fd)
        return self._reap()

    def end(self) -> int:
        """Read what is left until devkit has ended; its exit code."""
        with contextlib.suppress(OSError):
            while select.select([self._fd], [], [], 20)[0] and (data := os.read(self._fd, 4096)):
                self._raw += data
        os.close(self._fd)
        return self._reap()

    def _reap(self) -> int:
        self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code
