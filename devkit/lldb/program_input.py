"""Carries a program's input to its terminal on the phone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from devkit.device.phone_terminal import PhoneTerminal
from devkit.errors import DeviceError, FileError
from devkit.lldb.client import STDIN

_CHUNK_BYTES = 4096


class Typing:
    """Types what comes from a file, a pipe or another terminal. A context manager.

    Args:
        source: the file, or client.STDIN for this process's own input.

    Raises:
        FileError: it cannot be read.
    """

    def __init__(self, source: Path, terminal: PhoneTerminal) -> None:
        self._source = source
        self._terminal = terminal
        self._stopped = threading.Event()

    def __enter__(self) -> Typing:
        if self._source == STDIN:
            self._file = os.dup(0)
        else:
            try:
                # A terminal must not become this process's own; a pipe may get its writer later.
                flags = os.O_RDONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0)
                self._file = os.open(self._source, flags)
                os.set_blocking(self._file, True)
            except OSError as error:
                raise FileError(f"{self._source} cannot be read", evidence=str(error)) from None
        threading.Thread(target=self._carry, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        # The thread may wait for a key for ever: it ends with the process, or with the next one.
        self._stopped.set()

    def _carry(self) -> None:
        try:
            while data := os.read(self._file, _CHUNK_BYTES):
                if self._stopped.is_set():
                    return
                self._terminal.type(data)
            self._terminal.end_input()
        except (DeviceError, OSError):
            pass
        finally:
            os.close(self._file)
