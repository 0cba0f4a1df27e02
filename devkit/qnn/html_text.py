"""The text of a page that Sphinx wrote: headings, paragraphs, lists, code and tables, in their order.

Enough for the SDK's documentation, whose HTML also nests lists inside of paragraphs; no general HTML reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

HEADING, TEXT, ITEM, TERM, CODE, TABLE = "heading", "text", "item", "term", "code", "table"
_BLOCKS = frozenset({"p", "div", "section", "blockquote", "dl", "table", "thead", "tbody"})
_MAIN = re.compile(rb'<(?:main\b|div[^>]*(?:role="main"|itemprop="articleBody"))[^>]*>')
_END = re.compile(rb"<footer\b|</main>|</body>")


@dataclass(frozen=True)
class Block:
    """One piece of a page.

    Attributes:
        kind: HEADING, TEXT, ITEM of a list, TERM of a definition list, CODE or TABLE.
        level: of a heading 1 to 6; else how many lists and definitions it stands in.
        rows: of a table, each a tuple of cells; a cell's paragraphs and items are lines.
        head: how many of the rows are its header.
    """

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    head: int = 0


def main_span(page: bytes) -> tuple[int, int]:
    """Where a page's content begins and ends, in bytes: without its navigation and footer."""
    found = _MAIN.search(page)
    begin = found.end() if found else 0
    end = _END.search(page, begin)
    return begin, end.start() if end else len(page)


def main_part(page: bytes) -> bytes:
    """A page without its navigation and footer."""
    begin, end = main_span(page)
    return page[begin:end]


def read_blocks(html: bytes) -> list[Block]:
    """The blocks of a page, or of a part of one."""
    reader = _Reader()
    reader.feed(html.decode("utf-8", "replace"))
    reader.close()
    reader.flush()
    return reader.blocks


def as_text(blocks: list[Block]) -> str:
    """Blocks for a terminal; two blanks for each level of lists and definitions."""
    lines: list[str] = []
    for block in blocks:
        indent = "  " * block.level
        if block.kind == HEADING:
            lines += ["", block.text]
        elif block.kind == ITEM:
            lines.append(f"{'  ' * max(0, block.level - 1)}- {block.text}")
        elif block.kind == CODE:
            lines += [f"{indent}    {line}" for line in block.text.splitlines()]
        elif block.kind == TABLE:
            lines += [indent + " | ".join(cell.replace("\n", "; ") for cell in row) for row in block.rows]
        else:
            lines.append(indent + block.text)
    return "\n".join(lines).strip("\n") + "\n"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._text: list[str] = []
        self._kind, self._heading, self._depth = TEXT, 0, 0
        self._skipped = ""
        self._code = False
        self._rows: list[tuple[str, ...]] | None = None
        self._row: list[str] = []
        self._cell: list[str] | None = None
        self._head = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            return
        if tag in ("script", "style") or (tag == "a" and "headerlink" in (dict(attrs).get("class") or "")):
            self._skipped = tag
            return
        if tag == "br":
            self._text.append("\n" if self._code else " ")
        if (
            tag in _BLOCKS
            or tag in ("ul", "ol", "li", "dt", "dd", "pre", "tr", "td", "th")
            or _is_heading(tag)
        ):
            self.flush()
        if _is_heading(tag):
            self._kind, self._heading = HEADING, int(tag[1])
        elif tag == "li":
            self._kind = ITEM
        elif tag == "dt":
            self._kind = TERM
        elif tag in ("ul", "ol", "dd"):
            self._depth += 1
        elif tag == "pre":
            self._code = True
        elif tag == "table":
            self._rows, self._head = [], 0
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th"):
            self._cell = []
            if tag == "th" and self._rows is not None and self._head == len(self._rows):
                self._head += 1

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag == self._skipped:
                self._skipped = ""
            return
        if tag in _BLOCKS or tag in ("ul", "ol", "li", "dt", "dd", "pre", "td", "th") or _is_heading(tag):
            self.flush()
        if tag in ("li", "dt"):
            self._kind = TEXT
        elif tag in ("ul", "ol", "dd"):
            self._depth = max(0, self._depth - 1)
        elif tag == "pre":
            self._code = False
        elif tag in ("td", "th") and self._cell is not None:
            self._row.append("\n".join(self._cell))
            self._cell = None
        elif tag == "tr" and self._rows is not None:
            self._rows.append(tuple(self._row))
        elif tag == "table" and self._rows is not None:
            self.blocks.append(Block(TABLE, level=self._depth, rows=tuple(self._rows), head=self._head))
            self._rows = None

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._text.append(data)

    def flush(self) -> None:
        """End the block that is being read."""
        text = "".join(self._text)
        self._text.clear()
        text = text.strip("\n") if self._code else " ".join(text.split())
        if not text:
            return
        if self._cell is not None:
            self._cell.append(text)
        elif self._code:
            self.blocks.append(Block(CODE, text, self._depth))
        elif self._kind == HEADING:
            self.blocks.append(Block(HEADING, text, self._heading))
        else:
            self.blocks.append(Block(self._kind, text, self._depth))
        self._kind = TEXT


def _is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
