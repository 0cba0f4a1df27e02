"""A place in the source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A function, and the line in it, that an address belongs to. `line` and `column` count from 1."""

    function: str | None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str | None:
        """`FILE:LINE:COLUMN` as compilers print it; None without a line."""
        if not self.file or not self.line:
            return None
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {"function": self.function, "file": self.file, "line": self.line, "column": self.column}
