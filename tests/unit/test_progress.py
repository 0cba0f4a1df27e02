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


def test_steps_are_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(output.time, "monotonic", lambda: now)
    with output.Output().progress("building cpu", None) as bar:
        for step in range(1, 26):
            now += 1.0
            bar.total(640)
            bar.advance(step - bar.done)
    assert capsys.readouterr().err.splitlines() == [
        "building cpu: 10 of 640 steps, 630 s left",
        "building cpu: 20 of 640 steps, 620 s left",
    ]


@pytest.mark.parametrize("unit", ["bytes", "steps"])
def test_quiet_says_nothing(
    unit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PROGRESS_NOTE_EVERY_S", 0.0)
    with output.Output(quiet=True).progress("x", 10, unit=unit) as bar:
        bar.advance(5)
    assert capsys.readouterr().err == ""
