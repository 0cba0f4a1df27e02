"""`devkit debug --self-test`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from devkit.device import Device


def run_self_test(
    *, serial: str | None, device_dir: str | None, ndk: str | None, timeout_s: float | None
) -> None:
    """Try the chain link by link; exit code 1 when a link is broken."""
    from devkit.lldb.self_test import self_test
    from devkit.lldb.self_test_report import FAILED

    config = common.load_config(serial=serial, device_dir=device_dir, ndk=ndk)

    def find_phone() -> Device:
        return common.pick_device(config, serial)

    links = self_test(config, find_phone, timeout_s)
    broken = next((link.id for link in links if link.state == FAILED), None)
    seconds = sum(link.seconds for link in links)
    text = (
        f"the debugger works on this phone ({seconds:.1f} s)"
        if broken is None
        else f"the first broken link is: {broken}; what comes behind it may only follow from it"
    )
    output.current().data({"first_broken": broken, "links": [link.as_dict() for link in links]}, text)
    if broken is not None:
        raise typer.Exit(EXIT_CHECK_FAILED)
