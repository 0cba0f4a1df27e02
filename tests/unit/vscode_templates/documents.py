"""Random JSON-with-comments files, as people and formatters write them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from devkit.vscode_templates.merge import MARK, Slot

KEYS = st.sampled_from(
    [
        "editor.tabSize",
        "clangd.path",
        "clangd.arguments",
        "configurations",
        "名前",
        'a"b',
        "cmake.debugConfig",
        "",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["// no comment", "/* neither */", "--query-driver=/x", "-DA=1", MARK + "theirs", "}", ","]
    ),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 10**6), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A whole file's text: any blanks, comments, trailing commas, line endings, BOM, even none of it."""
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    # Mostly tidy: from nothing but a blank to every kind of trivia between all tokens.
    trivia = draw(st.sampled_from([["", " "], ["", " ", newline, newline + "  "], None]))

    def blank() -> str:
        if trivia is not None:
            return draw(st.sampled_from(trivia))
        pieces = st.sampled_from(
            [
                "",
                " ",
                "\t",
                newline,
                newline + "    ",
                "/* c, } */",
                f'// it\'s "a" {{ [,{newline}',
                f"//{newline}",
            ]
        )
        return "".join(draw(st.lists(pieces, max_size=3)))

    def value(depth: int) -> str:
        kind = draw(st.sampled_from(["scalar", "array", "object"])) if depth < 3 else "scalar"
        if kind == "scalar":
            return json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
        return container(kind, depth)

    def container(kind: str, depth: int) -> str:
        opening, closing = "{}" if kind == "object" else "[]"
        parts = []
        for _ in range(draw(st.integers(0, 3))):
            key = (
                json.dumps(draw(KEYS), ensure_ascii=False) + blank() + ":" + blank()
                if kind == "object"
                else ""
            )
            parts.append(blank() + key + value(depth + 1) + blank())
        text = ",".join(parts)
        if parts and draw(st.booleans()):
            text += "," + blank()
        return opening + (text or blank()) + closing

    bom = draw(st.sampled_from(["", "\ufeff"]))
    root = container("object", 0) if draw(st.integers(0, 9)) else ""
    text = bom + blank() + root + blank()
    # UTF-8 has no lone surrogates; such a file is refused before it is parsed.
    return text.encode("utf-8", "replace").decode("utf-8")


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 99), st.text("aé /", max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab", min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def wanted(draw: st.DrawFn) -> list[Slot]:
    """Slots of every kind, each identity once."""
    found: dict[str, Slot] = {}
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["member", "flag", "text", "name", "nested"]))
        if kind == "member":
            slot = Slot(
                (), draw(st.sampled_from(["clangd.path", "devkit.x", "editor.tabSize"])), draw(VALUES)
            )
        elif kind == "nested":
            slot = Slot(("cmake.debugConfig", "inner"), draw(st.sampled_from(["args", "cwd"])), draw(VALUES))
        elif kind == "name":
            name = MARK + draw(st.sampled_from(["app", "other"]))
            slot = Slot(("configurations",), name, {"name": name, "x": draw(VALUES)}, "name")
        elif kind == "flag":
            flag = draw(st.sampled_from(["--query-driver", "--compile-commands-dir", "-DA"]))
            value = f"{flag}={draw(st.integers(0, 3))}"
            slot = Slot(("clangd.arguments",), flag, value, "flag", beside=flag == "--query-driver")
        else:
            text = draw(st.sampled_from(["a.b", "c.d"]))
            slot = Slot(("recommendations",), text, text, "text")
        found[slot.id] = slot
    return list(found.values())
