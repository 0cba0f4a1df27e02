"""A terminal on the phone that a program elsewhere writes to: its output comes here live, line by line."""

from __future__ import annotations

import threading
from collections.abc import Callable

from devkit.device.phone import Device
from devkit.errors import PHONE, DeviceError, OperationTimeout

START_TIMEOUT_S = 10.0
DRAIN_TIMEOUT_S = 2.0

# Raw, so that the output's line ends stay as they are. The shell holds the terminal until it reads a line.
_HOLD = "stty raw -echo 2>/dev/null; tty && read -r devkit_line"


class PhoneTerminal:
    """A terminal of the phone, held open by a shell. A context manager.

    Attributes:
        path: its name on the phone, as /dev/pts/3.

    Args:
        on_output: called with what is written to it, from another thread.
    """

    def __init__(self, device: Device, on_output: Callable[[bytes], None]) -> None:
        self.path = ""
        self._device = device
        self._on_output = on_output

    def __enter__(self) -> PhoneTerminal:
        self._stream = self._device.open_shell(_HOLD, pty=True, term="dumb")
        try:
            first, rest = self._first_line()
        except BaseException:
            self._stream.close()
            raise
        self.path = first
        if rest:
            self._on_output(rest)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            # The terminal ends when its last user is gone; until then everything written arrives.
            self._stream.write_stdin(b"\n")
            self._reader.join(DRAIN_TIMEOUT_S)
        except (DeviceError, OSError):
            pass
        finally:
            self._stream.close()

    def _first_line(self) -> tuple[str, bytes]:
        seen = b""
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
