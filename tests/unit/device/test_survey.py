"""The first question to a phone: its parts, the trial that is left out, and how far away it is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from devkit.device import phone
from devkit.device.phone import Device
from devkit.device.servers import AdbServer
from devkit.device.survey import parse_survey, survey_script


@pytest.mark.parametrize("proven", [False, True])
def test_a_folder_that_was_good_before_is_not_tried_again(tmp_path: Path, proven: bool) -> None:
    folder = tmp_path / "it's 中"
    (folder / "app").mkdir(parents=True)
    if proven:
        (folder / "app/proof").write_text("")
    script, mark = survey_script(str(folder), 'echo "in $dir"', "app/proof")
    traced = subprocess.run(["sh", "-x", "-c", script], capture_output=True, check=False)
    said = parse_survey(traced.stdout, mark)
    assert said.trial == (f"yes {folder}",) and said.more.decode() == f"in {folder}\n"
    assert (b".devkit-trial-" in traced.stderr) is not proven


@pytest.mark.parametrize(("delays_s", "far"), [((), False), ((0.02, 0.03), True), ((0.03, 0.002), False)])
def test_a_phone_is_far_when_no_answer_came_quickly(
    monkeypatch: pytest.MonkeyPatch, delays_s: tuple[float, ...], far: bool
) -> None:
    now = [0.0]

    def open_service(*_args: Any, **_options: Any) -> None:
        now[0] += waits.pop(0)

    waits = list(delays_s)
    monkeypatch.setattr(phone, "open_service", open_service)
    monkeypatch.setattr(phone.time, "monotonic", lambda: now[0])
    device = Device("x", AdbServer("127.0.0.1", 1, "test"))
    for _ in delays_s:
        device.dial("sync:")
    assert device.is_far is far
