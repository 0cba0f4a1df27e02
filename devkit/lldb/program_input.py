"""Carries a program's input to its terminal on the phone."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from devkit.device.phone_terminal import PhoneTerminal
from devkit.errors import DeviceError, FileError
from devkit.lldb.client import STDIN

_CHUNK_BYTES = 4096
_POLL_S, _JOIN_S = 0.1, 0.5


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
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self._carrier.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        # Elsewhere than on POSIX it may wait for a key, and ends with the process.
        self._carrier.join(_JOIN_S)

    def _carry(self) -> None:
        try:
            while not self._stopped.is_set():
                # What comes after the end is for the next session: it is not taken here.
                if os.name == "posix" and not select.select([self._file], [], [], _POLL_S)[0]:
                    continue
                data = os.read(self._file, _CHUNK_BYTES)
                if not data:
                    self._terminal.end_input()
                    return
                self._terminal.type(data)
        except (DeviceError, OSError):
            pass
        finally:
            os.close(self._file)
