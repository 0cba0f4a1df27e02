"""Outputs that come back after a run, as the command line tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devkit import output

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime.pulls import Outputs, PullResult
    from devkit.runtime.request import RunRequest


def fetch(
    config: Config, device: Device, app: str, outputs: Outputs, request: RunRequest
) -> PullResult | None:
    """Bring back what the run wrote and say what is missing; None when nothing was named."""
    from devkit.runtime.request import make_output_folder, output_folder

    if not outputs.patterns:
        return None
    folder = output_folder(config, app, request)
    make_output_folder(config, folder)
    result = outputs.fetch(device, folder)
    sink = output.current()
    lines = result.lines()
    if result.pulled or result.same:
        sink.note(lines.pop(0))
    for line in lines:
        sink.warn(line)
    return result
