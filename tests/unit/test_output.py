"""What is printed for people."""

from __future__ import annotations

from devkit import output


def test_columns_stay_columns_with_chinese_letters() -> None:
    """A terminal shows them two columns wide; a combining accent takes none."""
    rows: list[tuple[str, ...]] = [("/opt/安卓", "a"), ("/opt/ndk", "b"), ("e\u0301", "c")]
    assert output.table(rows) == "/opt/安卓  a\n/opt/ndk   b\ne\u0301          c\n"
