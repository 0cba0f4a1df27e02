"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

from devkit import output


def test_a_log_gets_a_line_now_and_then_with_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(output.time, "monotonic", lambda: now)
    with output.Output().progress("NDK r29", None, unit="bytes") as bar:
        bar.total(100e6)
        bar.skip(10e6)  # what an earlier run left
        for _ in range(20):
            now += 1.0
            bar.advance(2e6)
    assert capsys.readouterr().err.splitlines() == [
        "NDK r29: 30.0 MB of 100.0 MB, 2.0 MB/s, 35 s left",
        "NDK r29: 50.0 MB of 100.0 MB, 2.0 MB/s, 25 s left",
    ]


@pytest.mark.parametrize(("options", "unit"), [({"quiet": True}, "bytes"), ({}, "steps")])
def test_quiet_and_steps_say_nothing(
    options: dict[str, bool], unit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PROGRESS_NOTE_EVERY_S", 0.0)
    with output.Output(**options).progress("x", 10, unit=unit) as bar:
        bar.advance(5)
    assert capsys.readouterr().err == ""
