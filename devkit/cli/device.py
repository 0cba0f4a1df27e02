"""`devkit device`: list, choose and look at phones; a shell on one. Networks: `device_network`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from devkit import config, output
from devkit.cli import device_network
from devkit.cli.common import DryRun
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.device.listing import DeviceEntry, Inventory
    from devkit.device.soc import SocFacts
    from devkit.errors import DevkitError

app = typer.Typer(
    help="List, choose, connect and look at phones; a shell on one.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit device list; devkit device select SERIAL; devkit device shell -- getprop",
)

_COMMAND = typer.Argument(
    None, metavar="[-- CMD…]", help="The command and its words, passed on exactly; none: a login shell."
)
for _command in ("tcpip", "connect", "pair", "disconnect", "usb"):
    app.command(_command, epilog=device_network.EXAMPLES[_command])(getattr(device_network, _command))

_SERIAL = typer.Option(None, "-s", "--serial", help="The phone: its serial, or sim:NAME.")


@app.command("list")
def list_() -> None:
    """List the phones of all adb servers devkit knows, with their state and what to do about it."""
    from devkit.device import select
    from devkit.device.listing import list_devices

    settings = config.load()
    inventory = list_devices(configured_server=settings.adb.server, configured_adb=settings.adb.path)
    sink = output.current()
    problem = inventory.effective_problem
    if problem is not None and not (inventory.servers and inventory.effective.is_default):
        if not inventory.entries:
            raise problem
        sink.warn(_with_reason(problem))
    for other in inventory.problems:
        sink.warn(_with_reason(other))
    rows: list[tuple[str, ...]] = [
        (
            select.spoken_name(entry),
            entry.state,
            entry.model or "",
            entry.server.name if entry.server else "",
            entry.hint,
        )
        for entry in inventory.entries
    ]
    data = {
        "devices": [_entry_data(entry) for entry in inventory.entries],
        "servers": [
            {"address": server.address, "origin": server.origin, "label": server.label}
            for server in inventory.servers
        ],
    }
    header = ("PHONE", "STATE", "MODEL", "ADB SERVER", "WHAT TO DO")
    sink.data(data, output.table(rows, header) if rows else "")
    if not rows:
        sink.note("no phone is connected")
        for hint in select.no_device_hints():
            sink.note(f"  try: {hint}")
    _warn_about_clash(inventory)


@app.command("select")
def select(
    serial: str | None = typer.Argument(None, help="A serial, or the name of a virtual phone (sim:NAME)."),
    clear: bool = typer.Option(False, "--clear", help="Forget the choice."),
    dry_run: DryRun = False,
) -> None:
    """Remember a phone for all commands that name none; without an argument, show the choice."""
    from devkit.device.select import (
        forget_choice,
        remember_choice,
        remembered_choice,
        select_device,
    )

    sink = output.current()
    if clear and serial is not None:
        raise UsageError("either a phone is selected, or the choice is forgotten")
    if clear:
        if dry_run:
            sink.data({"selected": None}, f"{remembered_choice() or 'nothing'} would be forgotten")
            return
        forget_choice()
        sink.data({"selected": None}, "no phone is selected")
    elif serial is None:
        chosen = remembered_choice()
        sink.data({"selected": chosen}, chosen or "no phone is selected")
    else:
        device = select_device(serial, asked_by="devkit device select", may_start=not dry_run)
        name = device.server.name if device.server.origin == "sim" else device.serial
        if not dry_run:
            remember_choice(name)
        sink.data({"selected": name}, f"{'would select' if dry_run else 'selected'} {name}")


@app.command("info")
def info(serial: str | None = _SERIAL) -> None:
    """Show what matters about one phone: chip (and what it is to QNN), ABI, Android, folder, page size."""
    from devkit.device.select import select_device
    from devkit.device.soc import soc_of

    settings = config.load()
    device = select_device(serial, config=settings)
    folder = device.writable_dir(settings.device.dir)
    facts = device.facts(folder)
    properties = device.properties
    soc = soc_of(device, settings, ask_kernel=True)
    data: dict[str, Any] = {
        "serial": device.serial,
        "adb_server": device.server.name,
        "model": device.model,
        "android": properties.get("ro.build.version.release"),
        "api_level": device.api_level,
        "soc": {
            "manufacturer": properties.get("ro.soc.manufacturer"),
            "model": properties.get("ro.soc.model"),
            "board": properties.get("ro.board.platform"),
        },
        "qnn": soc.as_dict(),
        "abi": device.abi,
        "abilist": list(device.abilist),
        "virtual": device.is_virtual,
        "libc": device.libc,
        "fingerprint": device.fingerprint,
        "folder": folder,
        "page_bytes": facts.page_bytes,
        "free_bytes": facts.free_bytes,
        "features": sorted(device.features),
    }
    rows: list[tuple[str, ...]] = [
        ("phone", f"{device.serial} at adb server {device.server.name}"),
        ("model", device.model + (" (virtual)" if device.is_virtual else "")),
        ("Android", f"{data['android'] or '?'} (API {device.api_level})"),
        ("SoC", _soc(properties)),
        ("QNN", _qnn(soc)),
        ("ABI", ", ".join(device.abilist) + ("" if device.libc == "bionic" else f" ({device.libc})")),
        ("fingerprint", device.fingerprint),
        ("folder", folder),
        ("page size", "?" if facts.page_bytes is None else f"{facts.page_bytes} bytes"),
        ("free space", "?" if facts.free_bytes is None else output.human_bytes(facts.free_bytes)),
        ("adb features", ", ".join(sorted(device.features))),
    ]
    sink = output.current()
    sink.data(data, output.table(rows))
    for warning in soc.warnings:
        sink.warn(warning)
    if soc.hint and soc.state != "no HTP":
        sink.note(f"  try: {soc.hint}")


def _qnn(soc: SocFacts) -> str:
    """What the chip is to QNN, and what decided it."""
    by = f", by {soc.decided_by}" if soc.decided_by else ""
    if soc.chip is None:
        maybe = f": {' or '.join(soc.candidates)}" if soc.candidates else ""
        return f"{soc.state}{maybe}{by}"
    chip = soc.chip
    name = f"{chip.chip} ({chip.name})" if chip.name else chip.chip
    vtcm = f"{chip.vtcm_mb} MB" if chip.vtcm_mb else "?"
    state = "" if soc.state == "known" else f"{soc.state}: "
    numbers = f"soc_model {chip.soc_model or '?'}, dsp_arch {chip.dsp_arch or '?'}, VTCM {vtcm}"
    return f"{state}{name}: {numbers}{by}"


def _soc(properties: Mapping[str, str]) -> str:
    """The chip, which phones tell since Android 12, and the board, which is all that older ones tell."""
    chip = f"{properties.get('ro.soc.manufacturer', '')} {properties.get('ro.soc.model', '')}".strip()
    board = properties.get("ro.board.platform", "")
    return f"{chip or '?'} (board {board})" if board else chip or "?"


@app.command(
    "ps", epilog="Examples: devkit device ps llm; devkit debug llm_demo --attach $(devkit device ps --pick)"
)
def ps(
    part: str | None = typer.Argument(None, metavar="[NAME]", help="Only those whose command line holds it."),
    serial: str | None = _SERIAL,
    pick: bool = typer.Option(False, "--pick", help="Ask which one, and print its pid."),
) -> None:
    """List the phone's programs that run, or let one be picked."""
    from devkit.device.picking import pick_process
    from devkit.device.select import select_device

    device = select_device(serial, config=config.load())
    entries = [entry for entry in device.list_processes() if entry.cmdline]
    if part:
        entries = [entry for entry in entries if part.lower() in " ".join(entry.cmdline).lower()]
    sink = output.current()
    if pick:
        chosen = pick_process(entries)
        sink.data({"pid": chosen.pid, "command": list(chosen.cmdline)}, str(chosen.pid))
        return
    rows: list[tuple[str, ...]] = [(str(e.pid), e.user, e.program, " ".join(e.cmdline)) for e in entries]
    data = [
        {"pid": e.pid, "parent": e.ppid, "user": e.user, "program": e.program, "command": list(e.cmdline)}
        for e in entries
    ]
    sink.data({"processes": data}, output.table(rows, ("PID", "USER", "PROGRAM", "COMMAND")) if rows else "")
    if not rows:
        sink.note(f"no program on the phone is called {part}" if part else "no program runs on the phone")


# What follows the first word of the command is the command's: `devkit device shell ls -la`.
@app.command("shell", context_settings={"allow_interspersed_args": False})
def shell(
    command: list[str] | None = _COMMAND,
    serial: str | None = _SERIAL,
) -> None:
    """Run a command on the phone, with its own exit code, or open a shell there."""
    from devkit.device.quoting import quote
    from devkit.device.select import select_device
    from devkit.device.terminal import join_terminal

    # One word is a line for the phone's shell, as users of `adb shell "a | b"` expect.
    line = "" if not command else command[0] if len(command) == 1 else quote(command)
    device = select_device(serial)
    sink = output.current()
    if sink.json_mode:
        result = device.shell(line, timeout_s=None)
        sink.data(
            {
                "exit_code": result.exit_code,
                "stdout": result.text,
                "stderr": result.stderr.decode("utf-8", "replace"),
            }
        )
        raise typer.Exit(result.exit_code)
    raise typer.Exit(join_terminal(device, line))


def _with_reason(problem: DevkitError) -> str:
    return f"{problem.what}: {problem.evidence}" if problem.evidence else problem.what


def _entry_data(entry: DeviceEntry) -> dict[str, Any]:
    return {
        "serial": entry.serial,
        "state": entry.state,
        "detail": entry.detail,
        "usable": entry.usable,
        "model": entry.model,
        "product": entry.product,
        "device": entry.device,
        "usb": entry.usb,
        "transport_id": entry.transport_id,
        "server": entry.server.name if entry.server else None,
        "hint": entry.hint or None,
    }


def _warn_about_clash(inventory: Inventory) -> None:
    """A clash does not hinder devkit, but the next `adb` the user types would kill the server."""
    from devkit.device.adb_program import find_adb, find_version_clash
    from devkit.device.connection import server_version
    from devkit.errors import ToolMissing

    if inventory.effective not in inventory.servers:
        return
    try:
        program = find_adb(config.load().adb.path)
    except ToolMissing:
        return
    clash = find_version_clash(server_version(inventory.effective), program)
    if clash is not None:
        output.current().warn(clash.explain(program, inventory.effective))
