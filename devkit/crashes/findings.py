"""Known errors around a crash: what the linker, QNN and MNN print (the table of devkit.results)."""

from __future__ import annotations

from devkit.crashes.headers import Record
from devkit.results import NOTE, Finding
from devkit.results.findings import Finder

# Sanitizers' reports are crashes here.
_TOLD_ELSEWHERE = {"sanitizer"}


class KnownErrors:
    """Collects them while the text is read: give `take` to `read_crashes`."""

    def __init__(self) -> None:
        self._finder = Finder()

    def take(self, record: Record) -> None:
        """Look at one record."""
        if record.text:
            self._finder.line(record.text, record.number, free_text=False)

    def found(self) -> list[Finding]:
        """First causes before what follows from them, else in the order of the lines."""
        found = [f for f in self._finder.found() if f.severity != NOTE and f.kind not in _TOLD_ELSEWHERE]
        return sorted(found, key=lambda f: f.consequence)
