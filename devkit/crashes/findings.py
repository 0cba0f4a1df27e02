"""Known errors around a crash: what the linker, QNN and MNN print (the table of devkit.results)."""

from __future__ import annotations

from devkit.crashes.headers import Record
from devkit.results import NOTE, Finding
from devkit.results.findings import Finder, load_table, with_app

# Sanitizers' reports are crashes here.
_TOLD_ELSEWHERE = {"sanitizer"}
# Records are looked at together: a word that none of them has is looked for once, not once a line.
_TOGETHER = 256


class KnownErrors:
    """Collects them while the text is read: give `take` to `read_crashes`."""

    def __init__(self) -> None:
        self._finder = Finder()
        self._held: list[Record] = []

    def take(self, record: Record) -> None:
        """Look at one record."""
        if record.text:
            self._held.append(record)
            if len(self._held) >= _TOGETHER:
                self._look()

    def found(self) -> list[Finding]:
        """First causes before what follows from them, else in the order of the lines."""
        self._look()
        found = [f for f in self._finder.found() if f.severity != NOTE and f.kind not in _TOLD_ELSEWHERE]
        found = [with_app(finding, "APP") for finding in found]  # a text does not say which app it is
        return sorted(found, key=lambda f: f.consequence)

    def _look(self) -> None:
        held, self._held = self._held, []
        table = load_table()
        text = "\n".join(record.text for record in held)
        all_of_them = any(word in text for word in table.words)
        for record in held:
            if all_of_them or table.beginnings.match(record.text):
                self._finder.line(record.text, record.number, free_text=False)
