"""Choosing the one phone a command works on, and remembering a choice."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.device.failures import NoPhone
from devkit.device.listing import DeviceEntry, Inventory, list_devices, list_server
from devkit.device.servers import AdbServer, known_servers
from devkit.errors import DeviceError, DevkitError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device.phone import Device

REMEMBERED = "the remembered choice"


def no_device_hints() -> list[str]:
    """What to do when no phone is listed, on this kind of machine and with what devkit remembers."""
    from devkit.device.network_memory import remembered_phones
    from devkit.device.usb_hints import usb_hints

    return [
        *(
            ["devkit device connect (to the phone of last time, over the network)"]
            if remembered_phones()
            else []
        ),
        "connect a phone by USB and allow USB debugging on it (Settings > Developer options)",
        *usb_hints(),
        "devkit sim start (a virtual phone)",
    ]


@dataclass(frozen=True)
class Wish:
    """Which phone was asked for: a serial, `sim:NAME` or NAME, and who asked (for messages)."""

    text: str
    source: str


def select_device(
    serial: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config: Config | None = None,
    asked_by: str = "-s",
    may_start: bool = True,
) -> Device:
    """The phone to work on: `-s`, ANDROID_SERIAL, device.serial, the remembered choice, the only one.

    Args:
        serial: what `-s` said: a serial, or the name of a virtual phone or tunnel ("sim:NAME", "NAME").
        config: the settings (default: read them).
        asked_by: where `serial` comes from, for messages.
        may_start: False never starts an adb server (a build only wants to know whom it builds for).

    Raises:
        DeviceError: there is no such phone, it is not usable, or there are several to choose from;
            lists every phone with its state and what to do.
        ServerUnreachable, OperationTimeout: the adb server does not answer.
        ConfigError: the address of the adb server cannot be understood.
    """
    environ = os.environ if environ is None else environ
    if config is None:
        from devkit import config as settings

        config = settings.load(environ=environ)
    wish = Wish(serial, asked_by) if serial else find_wish(environ, config.device.serial)
    server = _server_called(wish.text) if wish else None
    if wish and server:
        return _open(_choose_behind(server, wish))
    if wish and wish.text.startswith("sim:"):
        raise _no_such_virtual_phone(wish)
    inventory = list_devices(
        environ=environ,
        configured_server=config.adb.server,
        configured_adb=config.adb.path,
        may_start=may_start,
    )
    return _open(choose(inventory, wish))


def _no_such_virtual_phone(wish: Wish) -> DeviceError:
    """Said at once: no adb server needs to be asked, let alone started."""
    name = wish.text.removeprefix("sim:")
    running = [server.name for server in known_servers() if server.origin == "sim"]
    nearest = difflib.get_close_matches(wish.text, running, n=1)
    return DeviceError(
        f"no virtual phone called {name} runs (asked for by {wish.source})",
        evidence="running: " + ", ".join(running) if running else "none is running",
        hints=[
            *(f"did you mean {near}?" for near in nearest),
            f"devkit sim start {name}",
            "devkit sim status",
        ],
    )


def find_wish(environ: Mapping[str, str], configured: str | None) -> Wish | None:
    """Who, apart from the command line, asks for which phone; None when nobody does."""
    if environ.get("ANDROID_SERIAL"):
        return Wish(environ["ANDROID_SERIAL"], "ANDROID_SERIAL")
    if configured:
        return Wish(configured, "device.serial")
    remembered = remembered_choice()
    return Wish(remembered, REMEMBERED) if remembered else None


def choose(inventory: Inventory, wish: Wish | None) -> DeviceEntry:
    """Pick one entry of an inventory.

    Raises:
        DeviceError, ServerUnreachable, OperationTimeout: as `select_device`.
    """
    entries = inventory.entries
    if wish is not None:
        named = [entry for entry in entries if entry.serial == wish.text]
        usable = [entry for entry in named if entry.usable]
        # The effective server's entries come first; of two servers' views one may be stale.
        if named:
            return _usable((usable or named)[0], wish)
        raise _not_found(inventory, wish)
    if inventory.effective_problem is not None and not (
        inventory.effective.is_default and any(entry.usable for entry in entries)
    ):
        # An address that somebody asked for must not be replaced silently by another phone.
        raise inventory.effective_problem
    usable = _distinct([entry for entry in entries if entry.usable])
    if len(usable) == 1:
        return usable[0]
    if usable:
        raise DeviceError(
            f"{len(usable)} phones are connected: say which one",
            evidence=describe(entries),
            hints=[
                f"repeat the command with -s {spoken_name(usable[0])}",
                f"devkit device select {spoken_name(usable[0])} (remembers it)",
            ],
        )
    if len(entries) == 1:
        return _usable(entries[0], None)
    if entries:
        raise DeviceError("no connected phone is usable", evidence=describe(entries))
    raise NoPhone(
        "no phone is connected",
        evidence="adb servers asked: " + ", ".join(server.name for server in inventory.servers),
        hints=no_device_hints(),
    )


def describe(entries: Sequence[DeviceEntry]) -> str:
    """One line for each phone: what to call it, its state, and what to do about that."""
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        about = entry.hint or " ".join(filter(None, (entry.model, entry.usb and f"usb:{entry.usb}")))
        rows.append((spoken_name(entry), entry.state, about))
    return output.table(rows)


def spoken_name(entry: DeviceEntry) -> str:
    """What `-s` takes for it: `sim:NAME` for a virtual phone, else the serial."""
    server = entry.server
    is_named = (
        server is not None and server.origin == "sim" and entry.serial in (server.serials or (entry.serial,))
    )
    return server.name if server is not None and is_named else entry.serial


def remember_choice(name: str) -> None:
    """Make `name` (a serial or `sim:NAME`) the phone of commands that name none."""
    paths.write_atomically(_choice_file(), json.dumps({"serial": name}, ensure_ascii=False) + "\n")


def forget_choice() -> None:
    """Undo `remember_choice`."""
    _choice_file().unlink(missing_ok=True)


def remembered_choice() -> str | None:
    """The remembered serial or `sim:NAME`."""
    try:
        serial = json.loads(_choice_file().read_text(encoding="utf-8"))["serial"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return serial if isinstance(serial, str) and serial else None


def _choice_file() -> Path:
    return paths.state_dir() / "device.json"


def _server_called(text: str) -> AdbServer | None:
    """The registered server with that name. The user's own adb server is not needed for it."""
    for server in known_servers():
        if server.label and text in (server.name, server.label):
            return server
    return None


def _choose_behind(server: AdbServer, wish: Wish) -> DeviceEntry:
    entries = list_server(server)
    usable = [entry for entry in entries if entry.usable]
    if len(usable) > 1:
        # A virtual phone that is on the network too is listed twice; its name means its cable.
        usable = [entry for entry in usable if entry.serial in server.serials] or usable
    if len(usable) == 1:
        return usable[0]
    if not entries:
        raise DeviceError(
            f"no phone is behind {server.name} (asked for by {wish.source})",
            evidence=f"adb server {server.address} lists none",
            hints=[f"devkit {server.origin} status"],
        )
    if not usable:
        return _usable(entries[0], wish)
    raise DeviceError(
        f"{len(usable)} phones are behind {server.name}: say which one",
        evidence="\n".join(f"{entry.serial}  {entry.state}" for entry in entries),
        hints=[f"repeat the command with -s {usable[0].serial}"],
    )


def _distinct(entries: Sequence[DeviceEntry]) -> list[DeviceEntry]:
    """Each phone once: it may be connected to two servers, or be on the cable and the network at a time.

    The cable wins: it is faster.
    """
    from devkit.device.network_memory import remembered_phones

    seen: dict[str, DeviceEntry] = {}
    for entry in entries:
        seen.setdefault(entry.serial, entry)
    if len(seen) > 1:
        for phone in remembered_phones():
            there = seen.get(phone.address)
            if phone.serial_number in seen or (there is not None and _is_cabled(there, phone.server, seen)):
                seen.pop(phone.address, None)
    return list(seen.values())


def _is_cabled(entry: DeviceEntry, server: str, seen: Mapping[str, DeviceEntry]) -> bool:
    """Whether a virtual phone's own adb server, from which it was put on the network, lists its cable, too.

    The serial of that cable is an address: it says nothing of the phone's own serial number.
    """
    own = entry.server
    if own is None or own.origin != "sim" or own.address != server or entry.serial in own.serials:
        return False
    return any(serial in seen for serial in own.serials)


def _usable(entry: DeviceEntry, wish: Wish | None) -> DeviceEntry:
    if entry.usable:
        return entry
    asked = f" (asked for by {wish.source})" if wish else ""
    server = f"adb server {entry.server.address}" if entry.server else ""
    raise DeviceError(
        f"the phone {entry.serial} is not usable: {entry.state}{asked}",
        evidence="\n".join(filter(None, (entry.detail, server))),
        hints=[entry.hint],
    )


def _not_found(inventory: Inventory, wish: Wish) -> DevkitError:
    names = [entry.serial for entry in inventory.entries]
    names += [server.name for server in inventory.servers if server.label]
    names += [server.label for server in inventory.servers if server.label]
    near = difflib.get_close_matches(wish.text, names, n=3, cutoff=0.5)
    hints = [f"did you mean {name}?" for name in near]
    if wish.source == REMEMBERED:
        hints += ["devkit device select SERIAL (choose again)", "devkit device select --clear"]
    evidence = describe(inventory.entries) or "no phone is connected"
    problem = inventory.effective_problem
    if problem is not None:
        evidence += f"\n{problem.what}"
        hints += problem.hints
    if not near and not inventory.entries:
        hints += no_device_hints()
    return DeviceError(
        f"the phone {wish.text} is not connected (asked for by {wish.source})",
        evidence=evidence,
        hints=hints or ["devkit device list"],
    )


def _open(entry: DeviceEntry) -> Device:
    from devkit.device.phone import Device

    assert entry.server is not None
    return Device(entry.serial, entry.server)
