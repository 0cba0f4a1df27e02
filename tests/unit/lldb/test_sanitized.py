"""Options of sanitized programs, and where they stop."""

from __future__ import annotations

import pytest

from devkit.lldb.sanitized import Sanitizer


def test_the_users_options_come_last() -> None:
    sanitizer = Sanitizer("asan")
    own = {"ASAN_OPTIONS": sanitizer.options({"ASAN_OPTIONS": "symbolize=1"}), "X": "1"}
    found = sanitizer.environment({"ASAN_OPTIONS": "verbosity=1", "X": "0"}, own)
    assert found["X"] == "1" and ":abort_on_error=1:" in found["ASAN_OPTIONS"]
    assert found["ASAN_OPTIONS"].endswith(":symbolize=1")
    assert Sanitizer("hwasan").environment({}, {"HWASAN_OPTIONS": "a=1"}) == {"HWASAN_OPTIONS": "a=1"}


@pytest.mark.parametrize(
    ("options", "stops"),
    [("", ()), ("halt_on_error=1", ()), ("halt_on_error=0", 1), ("x=1:abort_on_error=false", 1), (None, 1)],
)
def test_where_it_stops_without_an_abort(options: str | None, stops: object) -> None:
    own = None if options is None else {"ASAN_OPTIONS": options}
    assert Sanitizer("asan").breakpoints(own) == (("__asan_on_error",) if stops else ())
    assert Sanitizer("hwasan").breakpoints(None) == ()
