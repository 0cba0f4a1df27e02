"""A table whose cells may have several lines, fitted to a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_LEAST = 12


def side_by_side(head: Sequence[str], rows: Sequence[Sequence[Sequence[str]]], width: int) -> str:
    """Columns beside each other; a cell's lines are wrapped where they do not fit.

    Args:
        rows: each a sequence of cells, each of them a sequence of lines.
        width: of the terminal, in letters.
    """
    widths = [
        max([len(title), *(len(line) for row in rows for line in row[column])])
        for column, title in enumerate(head)
    ]
    room = width - 2 * (len(head) - 1)
    while sum(widths) > room and max(widths[1:], default=0) > _LEAST:
        # The widest gives way first; the first column names the row and stays.
        widest = max(range(1, len(widths)), key=lambda column: widths[column])
        widths[widest] -= 1
    lines = [_joined([[title] for title in head], widths)]
    for row in rows:
        cells = [
            [part for line in cell for part in _wrapped(line, w)] for cell, w in zip(row, widths, strict=True)
        ]
        lines += [_joined(cells, widths)]
    return "\n".join(lines) + "\n"


def _wrapped(line: str, width: int) -> list[str]:
    hanging = "  " if line.startswith("- ") else ""
    return textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False) or [""]


def _joined(cells: list[list[str]], widths: list[int]) -> str:
    height = max(1, *(len(cell) for cell in cells))
    return "\n".join(
        "  ".join(
            (cell[number] if number < len(cell) else "").ljust(w)
            for cell, w in zip(cells, widths, strict=True)
        ).rstrip()
        for number in range(height)
    )
