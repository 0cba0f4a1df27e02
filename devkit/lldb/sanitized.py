"""Programs built with a sanitizer: what makes them stop at a report.

The report is printed before `abort`, so a debugger that stops there shows both: what the sanitizer found, and
the process as it found it. (LLDB 23 knows the runtime and stops just before, also after the report.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit.runtime.sanitizers import OPTIONS, kinds_among
from devkit.symbols import read_elf

_VARIABLES = {"asan": "ASAN_OPTIONS", "hwasan": "HWASAN_OPTIONS"}
# abort_on_error: a signal a debugger stops at. detect_leaks: under ptrace it fails, and says so at the end.
# symbolize: a runtime that can would take seconds for names that the stripped files do not have.
_OPTIONS = ("abort_on_error=1", "detect_leaks=0", "symbolize=0")
# Called for each error just before its report is printed (compiler-rt's asan_interface.h; gcc's is the same).
_ON_ERROR = {"asan": "__asan_on_error"}
_GOES_ON = re.compile(r"(?:^|[:,\s])(?:halt_on_error|abort_on_error)\s*=\s*(?:0|no|false)\b")


@dataclass(frozen=True)
class Sanitizer:
    """The sanitizer of a program: "asan" or "hwasan"."""

    kind: str

    @property
    def variable(self) -> str:
        """The environment variable with its options."""
        return _VARIABLES[self.kind]

    def options(self, own: Mapping[str, str]) -> str:
        """The variable's value for a launch: of two of one name the runtime takes the last, the user's.

        Args:
            own: the user's variables.
        """
        return ":".join(filter(None, [OPTIONS[self.variable], *_OPTIONS, own.get(self.variable, "")]))

    def environment(self, phone: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """The phone's variables and those of the launch; the phone's options come before the launch's."""
        values = [phone.get(self.variable, ""), own.get(self.variable, "")]
        return {**phone, **own, self.variable: ":".join(filter(None, values))}

    def breakpoints(self, own: Mapping[str, str] | None) -> tuple[str, ...]:
        """Where to stop when there may be no abort: the user's options go on after errors, or are not known.

        Args:
            own: the user's variables; None: somebody else starts the program.
        """
        goes_on = own is None or _GOES_ON.search(own.get(self.variable, ""))
        return (_ON_ERROR[self.kind],) if goes_on and self.kind in _ON_ERROR else ()


def sanitizer_of(files: Iterable[Path]) -> Sanitizer | None:
    """The sanitizer that one of these files needs.

    Raises:
        FileError: a file cannot be read.
    """
    names = [name for file in files for name in (file.name, *read_elf(file).needed)]
    kinds = kinds_among(names)
    return Sanitizer("hwasan") if "hwa" in kinds else Sanitizer("asan") if "a" in kinds else None
