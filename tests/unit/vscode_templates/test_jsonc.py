"""What VS Code reads as JSON with comments, and where a mistake is."""

from __future__ import annotations

import pytest

from devkit.vscode_templates.jsonc import JsoncError, parse
from devkit.vscode_templates.jsonc_edit import insert, remove


def test_what_vscode_reads() -> None:
    text = '\ufeff// a\r\n{ "a": [1, -2.5e3, true, null,], /* b */ "b\\u00e9": {"c": "// no"} , }'
    document = parse(text)
    assert document.root is not None
    assert document.root.value == {"a": [1, -2500.0, True, None], "bé": {"c": "// no"}}
    assert [text[start:end] for start, end in document.comments] == ["// a", "/* b */"]
    assert document.newline == "\r\n"


@pytest.mark.parametrize("text", ["", " \n", "// only\n/* comments */", "\ufeff"])
def test_nothing_is_no_error(text: str) -> None:
    assert parse(text).root is None


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "a comma is missing"),
        ('{"a": 1,,}', 1, 9, "a name in double quotes"),
        ('{\r\n\t"a" 1}', 2, 6, "a colon must follow"),
        ('{"a": }', 1, 7, "a value is missing"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ('{a: 1}', 1, 2, "'a' cannot stand here"),
        ('{"a": "open\n"}', 1, 7, "no closing quote"),
        ('{"a": "\\x"}', 1, 7, "unknown \\escape"),
        ('\ufeff{"a": 01}', 1, 8, "a comma is missing"),
        ('{"a": 1} x', 1, 10, "'x' cannot stand here"),
        ('{"a": 1} {}', 1, 10, "nothing may follow"),
        ('{\n"a": [1, 2\n', 3, 1, "']' is missing for line 2"),
        ('{"a": 1', 1, 8, "'}' is missing"),
        ('{"a":', 1, 6, "ends in the middle"),
        ("{ /* open", 1, 3, "never closed"),
        ('{"a": NaN}', 1, 7, "'N' cannot stand here"),
        ("[" * 300, 1, 202, "nested more than 200"),
        ('{"a": 1}\x00', 1, 9, "cannot stand here"),
    ],
)  # fmt: skip
def test_a_mistake_has_a_place(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(JsoncError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert what in caught.value.what


def test_of_a_key_given_twice_the_last_counts() -> None:
    document = parse('{"a": 1,\n "a": 2, "b": 3}')
    assert document.root is not None and document.root.value == {"a": 2, "b": 3}
    assert document.duplicates() == (("a", 2),)


def test_insertion_follows_the_files_own_style() -> None:
    text = '{\r\n\t"a": 1 // one\r\n\t// last words\r\n}\r\n'
    assert insert(text, (), "b", {"c": [1]})[0] == (
        '{\r\n\t"a": 1, // one\r\n\t// last words\r\n'
        '\t"b": {\r\n\t\t"c": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}\r\n'
    )
    assert (
        insert('{\n  "a": [\n    1,\n  ],\n}', ("a",), None, 2)[0] == '{\n  "a": [\n    1,\n    2,\n  ],\n}'
    )


def test_a_line_comment_never_swallows_what_follows() -> None:
    text = '{ // x\n "ours": 1 }'
    assert remove(text, (), 0) == "{ // x\n  }"
    assert parse(remove(text, (), 0)).root is not None
    text = '{"a": 1, "ours": 2 // mine\n}'
    assert remove(text, (), 1) == '{"a": 1 // mine\n}'
