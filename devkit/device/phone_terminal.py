"""A terminal on the phone that a program elsewhere writes to: its output comes here live.

Input, if there is to be any, is typed into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from devkit.device.phone import Device
from devkit.errors import PHONE, DeviceError, OperationTimeout

START_TIMEOUT_S = 10.0
DRAIN_TIMEOUT_S = 2.0

# Raw, so that the output's line ends stay as they are. The shell holds the terminal until it reads a line.
_HOLD = "stty raw -echo 2>/dev/null; tty && read -r devkit_line"
# With input: what is typed is the program's, so the shell may not read. In lines, because only then
# is there an end of input; nothing but that end has a meaning of its own.
_HOLD_TYPED = "stty -echo -onlcr -icrnl -isig -iexten -ixon 2>/dev/null; tty && echo $$ && exec sleep 1000000"
_END_OF_INPUT = b"\x04"


class PhoneTerminal:
    """A terminal of the phone, held open by a shell. A context manager.

    Attributes:
        path: its name on the phone, as /dev/pts/3.

    Args:
        on_output: called with what is written to it, from another thread.
        typed: the program will read from it.
    """

    def __init__(self, device: Device, on_output: Callable[[bytes], None], *, typed: bool = False) -> None:
        self.path = ""
        self._typed = typed
        self._holder = ""
        self._at_line_start = True
        self._device = device
        self._on_output = on_output

    def __enter__(self) -> PhoneTerminal:
        hold = _HOLD_TYPED if self._typed else _HOLD
        self._stream = self._device.open_shell(hold, pty=True, term="dumb")
        try:
            self.path, rest = self._next_line(b"")
            if self._typed:
                self._holder, rest = self._next_line(rest)
        except BaseException:
            self._stream.close()
            raise
        if rest:
            self._on_output(rest)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            # The terminal ends when its last user is gone; until then everything written arrives.
            if self._typed:
                self._device.shell(["kill", "-9", self._holder])
            else:
                self._stream.write_stdin(b"\n")
            self._reader.join(DRAIN_TIMEOUT_S)
        except (DeviceError, OSError):
            pass
        finally:
            self._stream.close()

    def type(self, data: bytes) -> None:
        """Let the program read this. Blocks while it does not."""
        if data:
            self._at_line_start = data.endswith(b"\n")
            self._stream.write_stdin(data)

    def end_input(self) -> None:
        """Let the program see the end of its input."""
        # In the middle of a line the first one only hands out what is there.
        self._stream.write_stdin(_END_OF_INPUT if self._at_line_start else _END_OF_INPUT * 2)

    def _next_line(self, seen: bytes) -> tuple[str, bytes]:
        while b"\n" not in seen:
            try:
                _, data = self._stream.read(START_TIMEOUT_S)
            except OperationTimeout:
                data = 0
            if isinstance(data, int):
                raise DeviceError(
                    "the phone gives no terminal for the program's output",
                    where=PHONE,
                    evidence=seen.decode("utf-8", "replace"),
                    hints=["devkit device shell -- tty"],
                )
            seen += data
        first, _, rest = seen.partition(b"\n")
        return first.decode("utf-8", "replace").strip(), rest

    def _read(self) -> None:
        try:
            for _, data in self._stream:
                if isinstance(data, int):
                    return
                self._on_output(data)
        except (DeviceError, OSError):
            pass
