"""What is printed for people."""

from __future__ import annotations

import json

import pytest

from devkit import output
from devkit.errors import DevkitError


def test_columns_stay_columns_with_chinese_letters() -> None:
    """A terminal shows them two columns wide; a combining accent takes none."""
    rows: list[tuple[str, ...]] = [("/opt/安卓", "a"), ("/opt/ndk", "b"), ("e\u0301", "c")]
    assert output.table(rows) == "/opt/安卓  a\n/opt/ndk   b\ne\u0301          c\n"


def test_an_error_after_rows_is_one_more_line(capsys: pytest.CaptureFixture[str]) -> None:
    sink = output.Output(json_mode=True)
    sink.rows([{"line": 1}, {"line": 2}], "")
    sink.error(DevkitError("interrupted"))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [{"line": 1}, {"line": 2}]
    assert lines[2]["error"] == "interrupted" and len(lines) == 3
