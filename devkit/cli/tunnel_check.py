"""`devkit tunnel check`: the links to the server and to the phone, one by one."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.cli.tunnel_options import (
    AcceptNew,
    Host,
    Serial,
    SshConfig,
    prompts,
    which_host,
    which_phone,
)
from devkit.errors import CheckFailed


def check(
    host: Host = None,
    serial: Serial = None,
    speed: Annotated[bool, typer.Option(help="Measure latency and throughput (about 8 MB).")] = True,
    accept_new: AcceptNew = False,
    ssh_config: SshConfig = None,
) -> None:
    """Walk the links to the server and to the phone one by one; exit code 1 when one is broken."""

    import os

    from devkit import config as settings
    from devkit.device import server_address
    from devkit.tunnels.check import Findings, Measures, walk
    from devkit.tunnels.report import describe_step
    from devkit.tunnels.step import BROKEN

    config = settings.load()
    target = which_host(config, host)
    adb, serial = which_phone(serial)
    sink = output.current()
    measures = Measures() if speed else None
    found = Findings()
    steps = []
    for step in walk(
        target,
        server_address(os.environ, adb or config.adb.server),
        prompts=prompts(),
        accept_new=accept_new,
        config_file=ssh_config,
        serial=serial,
        measures=measures,
        adb=config.adb.path,
        found=found,
    ):
        steps.append(step)
        if not sink.json_mode:
            # Each line when it is known: a dead hop takes a while.
            sink.data(None, describe_step(step, sink))
    broken = next((step for step in steps if step.state == BROKEN), None)
    if sink.json_mode:
        sink.data(
            {
                "host": target,
                "first_broken": broken.id if broken else None,
                "links": [step.as_dict() for step in steps],
                "direct": found.direct.as_dict() if found.direct else None,
                "measures": measures.as_dict() if measures else None,
            }
        )
    elif broken is not None:
        sink.note(f"first broken link: {broken.title} (on {broken.machine})")
    if broken is not None:
        raise typer.Exit(CheckFailed.exit_code)
