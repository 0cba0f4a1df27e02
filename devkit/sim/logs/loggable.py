"""Which messages are logged at all: the properties `log.tag` and `log.tag.TAG`, also with `persist.`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from devkit.sim.logs.wire import DEBUG, ERROR, FATAL, INFO, SILENT, VERBOSE, WARN

_RECHECK_S = 0.1
_LEVELS = {"V": VERBOSE, "D": DEBUG, "I": INFO, "W": WARN, "E": ERROR, "A": FATAL, "F": FATAL, "S": SILENT}
_PREFIX = "log.tag"


class Loggable:
    """Remembers the properties for a moment, so that asking costs nothing.

    Args:
        folder: where changed properties are files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._levels: dict[bytes, int] = {}
        self._default = VERBOSE
        self._checked_at = -_RECHECK_S

    def refresh(self) -> None:
        """Look at the properties again if that was long ago."""
        now = time.monotonic()
        if now - self._checked_at < _RECHECK_S:
            return
        self._checked_at = now
        found: dict[str, int] = {}
        try:
            names = os.listdir(self._folder)
        except OSError:
            names = []
        # persist. ones come second and lose: a property set for this boot counts more.
        for name in sorted(names, key=lambda name: name.startswith("persist.")):
            key = name.removeprefix("persist.")
            if key != _PREFIX and not key.startswith(_PREFIX + "."):
                continue
            level = self._read(name)
            if level is not None:
                found.setdefault(key.removeprefix(_PREFIX).removeprefix("."), level)
        self._default = found.pop("", VERBOSE)
        self._levels = {tag.encode(): level for tag, level in found.items()}

    @property
    def everything(self) -> bool:
        """Whether no property asks for less than everything."""
        return self._default == VERBOSE and not self._levels

    def allows(self, priority: int, tag: bytes) -> bool:
        """Whether a message of this tag and priority is logged."""
        return priority >= self._levels.get(tag, self._default)

    def _read(self, name: str) -> int | None:
        try:
            text = (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return _LEVELS.get(text.strip()[:1].upper())
