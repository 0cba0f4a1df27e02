"""`devkit sim break`, `heal`, `slow` and `run`: what can go wrong with a virtual phone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devkit import output
from devkit.cli import sim_options as options
from devkit.cli.sim_options import DEFAULT_NAME, Phone
from devkit.errors import UsageError


def break_(
    fault: Annotated[
        str | None, typer.Argument(help="See --list.", autocompletion=options.complete_faults)
    ] = None,
    name: Phone = DEFAULT_NAME,
    everything: Annotated[bool, typer.Option("--list", help="List the faults and their options.")] = False,
    after: Annotated[str | None, typer.Option(metavar="SIZE", help="cut, hang: after so many bytes.")] = None,
    every: Annotated[str | None, typer.Option(metavar="SIZE", help="corrupt: one byte in so many.")] = None,
    direction: Annotated[
        str | None, typer.Option(metavar="up|down|both", help="cut, corrupt: up is towards the phone.")
    ] = None,
    repeat: Annotated[bool, typer.Option("--repeat", help="cut: again and again.")] = False,
    service: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="refuse, hang, endless: as 'sync:*' or 'shell*'.")
    ] = None,
    by: Annotated[int | None, typer.Option(help="sizes: bytes; clock: seconds; may be negative.")] = None,
    leave: Annotated[str | None, typer.Option(metavar="SIZE", help="disk-full: what stays free.")] = None,
    down: Annotated[float | None, typer.Option(metavar="SECONDS", help="reboot: how long.")] = None,
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="slow: each way, as 1mbit.")] = None,
    delay: Annotated[str | None, typer.Option(metavar="TIME", help="slow: one way, as 100ms.")] = None,
) -> None:
    """Make something go wrong with a virtual phone until `devkit sim heal`."""
    from devkit.sim import break_phone

    if everything:
        _list_faults()
        return
    if fault is None:
        raise UsageError("which fault?", hints=["devkit sim break --list"])
    given = {
        "after": after, "every": every, "direction": direction, "repeat": repeat or None, "service": service,
        "by": by, "leave": leave, "down": down, "rate": rate, "delay": delay,
    }  # fmt: skip
    done = break_phone(name, fault, {key: value for key, value in given.items() if value is not None})
    details = " ".join(f"{key}={value}" for key, value in done["options"].items())
    text = f"{name}: {fault}{' (' + details + ')' if details else ''}: {done['summary']}"
    output.current().data(done, text)


def heal(
    fault: Annotated[
        str | None, typer.Argument(help="Only this one.", autocompletion=options.complete_faults)
    ] = None,
    name: Phone = DEFAULT_NAME,
) -> None:
    """End a fault, or all of them."""
    from devkit.sim import heal_phone

    healed = heal_phone(name, fault)
    text = f"{name}: healed {', '.join(healed)}" if healed else f"{name}: nothing was broken"
    output.current().data({"healed": healed}, text)


def slow(
    name: Phone = DEFAULT_NAME,
    rate: options.Rate = None,
    rate_up: options.RateUp = None,
    rate_down: options.RateDown = None,
    delay: options.Delay = None,
    delay_up: options.DelayUp = None,
    delay_down: options.DelayDown = None,
) -> None:
    """Change the speed and the delay of a virtual phone's link while it is used."""
    from devkit.sim import slow_phone

    given = {
        "rate": rate, "rate_up": rate_up, "rate_down": rate_down,
        "delay": delay, "delay_up": delay_up, "delay_down": delay_down,
    }  # fmt: skip
    if not any(value is not None for value in given.values()):
        raise UsageError("how slow?", hints=["devkit sim slow --rate 20mbit --delay 10ms"])
    link = slow_phone(name, **given)
    output.current().data(link, f"{name}: {link['text']}")


def wifi(
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="Of 127.90.0.0/16; without one: its first one.")
    ] = None,
    name: Phone = DEFAULT_NAME,
    off: Annotated[bool, typer.Option("--off", help="It is on no Wi-Fi.")] = False,
) -> None:
    """Change a virtual phone's Wi-Fi address, where `adb tcpip` has its adbd listen."""
    from devkit.sim import change_wifi

    if off and address is not None:
        raise UsageError("an address or --off, not both", hints=["devkit sim wifi --off"])
    now = change_wifi(name, address, off=off)
    output.current().data({"wifi": now}, f"{name}: {now or 'on no Wi-Fi'}")


def run(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The steps.")],
) -> None:
    """Run a scenario: start phones, break them, use them, expect results. Exit code 1 if one differs."""
    from devkit.scenario import run_scenario_file

    result = run_scenario_file(scenario)
    output.current().data(result.as_dict(), result.summary())
    if not result.passed:
        raise typer.Exit(1)


def _list_faults() -> None:
    from devkit.sim.faults import FAULTS

    rows: list[tuple[str, ...]] = []
    for fault in FAULTS.values():
        rows.append((fault.name, fault.summary))
        for option in fault.options:
            default = "needed" if option.default is None else f"default {option.default}"
            flag = f"--{option.name.replace('_', '-')}"
            rows.append(("", f"  {flag}: {option.help} ({default})"))
    data = [
        {
            "fault": fault.name,
            "summary": fault.summary,
            "options": [
                {"name": option.name, "help": option.help, "default": option.default}
                for option in fault.options
            ],
        }
        for fault in FAULTS.values()
    ]
    output.current().data(data, output.table(rows))
