"""`devkit device tcpip`, `connect`, `pair`, `disconnect`, `usb`: phones on a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import config, output
from devkit.cli.common import DryRun, Serial
from devkit.errors import EXIT_DEVKIT_FAILED, DeviceError, UsageError

if TYPE_CHECKING:
    from devkit.device.listing import Inventory
    from devkit.device.reconnect import Outcome

DEFAULT_PORT = 5555

EXAMPLES = {
    "tcpip": "Example: devkit device tcpip; pull the cable; devkit device info -s 192.168.1.23:5555",
    "connect": "Example: devkit device connect 192.168.1.23; next day: devkit device connect",
    "pair": "Example: devkit device pair 192.168.1.23:37123 482924; devkit device connect 192.168.1.23:41555",
    "disconnect": "Example: devkit device disconnect 192.168.1.23; devkit device disconnect SERIAL --forget",
    "usb": "Example: devkit device usb -s 192.168.1.23:5555",
}


def _complete_addresses(incomplete: str) -> list[str]:
    from devkit.device.network_memory import remembered_phones

    return [phone.address for phone in remembered_phones() if phone.address.startswith(incomplete)]


def _complete_network_phones(incomplete: str) -> list[str]:
    from devkit.device.network_memory import remembered_phones

    names = [name for phone in remembered_phones() for name in (phone.address, phone.serial_number) if name]
    return [name for name in names if name.startswith(incomplete)]


def tcpip(
    serial: Serial = None,
    port: Annotated[int, typer.Option(help="Where the phone's adbd is to listen.")] = DEFAULT_PORT,
    address: Annotated[
        str | None, typer.Option(metavar="IP", help="The phone's address, if it is not to be asked.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Put a phone that is on a cable on the network: find its address, switch adbd, connect, remember it."""
    from devkit.device import tcp_mode
    from devkit.device.select import select_device

    if not 0 < port < 65536:
        raise UsageError(f"{port} is no port", hints=["devkit device tcpip --port 5555"])
    device = select_device(serial, may_start=not dry_run)
    sink = output.current()
    if dry_run:
        look = tcp_mode.look_at(device)
        hosts = tcp_mode.choose_addresses(device, look, address)
        lines = [] if look.tcp_port == port else [f"adb -s {device.serial} tcpip {port}"]
        lines += [f"adb connect {host}:{port}" for host in hosts[:1]]
        lines += [f"  or, if that fails: adb connect {host}:{port}" for host in hosts[1:]]
        data = {"serial": device.serial, "tcp_port": look.tcp_port, "addresses": hosts, "commands": lines}
        sink.data(data, "\n".join(lines))
        return
    with sink.progress(f"switching {device.serial} to the network", None):
        phone = tcp_mode.go_to_network(device, port=port, address=address)
    lines = [
        f"{phone.title} is connected at {phone.address}: the cable may go",
        f"  devkit device select {phone.address}    # use it from now on",
        "  devkit device connect    # connects again, also when its address has changed",
        f"  devkit device usb -s {phone.address}    # takes it back: until then or until the phone restarts,",
        f"                          # everybody in its network can ask for a shell at port {port}",
    ]
    sink.data(
        {
            "serial": phone.address,
            "serial_number": phone.serial_number,
            "model": phone.model,
            "adb_server": device.server.name,
        },
        "\n".join(lines),
    )


def connect(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOST[:PORT]]", help="None: all remembered phones.", autocompletion=_complete_addresses
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Connect to a phone on the network, or again to all that devkit remembers."""
    from devkit.device import network, network_memory, reconnect

    wanted = network.parse_address(address) if address is not None else None
    phones = network_memory.remembered_phones()
    if wanted is None and not phones:
        raise UsageError(
            "no phone on a network is remembered yet: which one?",
            hints=[
                "devkit device tcpip (with the phone on a cable)",
                "devkit device connect 192.168.1.23:5555",
                "devkit device pair HOST:PORT (wireless debugging, Android 11 and later)",
            ],
        )
    if dry_run:
        lines = [f"adb connect {each}" for each in ([wanted] if wanted else [p.address for p in phones])]
        output.current().data({"commands": lines}, "\n".join(lines))
        return
    inventory = _look()
    sink = output.current()
    if wanted is not None:
        with sink.progress(f"connecting to {wanted}", None):
            outcomes = [_connect_one(wanted, inventory)]
    else:
        outcomes = []
        for phone in phones:
            with sink.progress(f"connecting to {phone.title} at {phone.address}", None):
                outcomes.append(reconnect.reconnect(phone, inventory))
        if len(outcomes) == 1 and outcomes[0].error is not None:
            raise outcomes[0].error
    _show(outcomes)
    if any(outcome.error for outcome in outcomes):
        raise typer.Exit(EXIT_DEVKIT_FAILED)


def pair(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="As the phone's pairing dialog shows.")],
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="The six digits; else asked.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Pair with a phone that has wireless debugging on (Android 11 and later); no cable is needed."""
    from devkit.device import network

    wanted = network.parse_address(address, default_port=None)
    if dry_run:
        line = f"adb pair {wanted}"
        output.current().data({"commands": [line]}, line)
        return
    code = (code if code is not None else typer.prompt("pairing code", err=True)).strip()
    if not (code.isascii() and code.isdigit()):
        # The colon, for one, would become part of the address.
        raise UsageError(
            "a pairing code has digits only", hints=[f"devkit device pair {wanted} (asks for it)"]
        )
    inventory = _look()
    with output.current().progress(f"pairing with {wanted}", None):
        said = network.pair(inventory.effective, wanted, code)
    host = wanted.rpartition(":")[0]
    output.current().data(
        {"address": wanted, "answer": said, "adb_server": inventory.effective.name},
        f"{said}\n  devkit device connect {host}:PORT    # the port of the Wireless debugging page itself",
    )


def disconnect(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="[PHONE]",
            help="Address or serial number; none: all remembered phones.",
            autocompletion=_complete_network_phones,
        ),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Do not connect to it again either.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Disconnect a phone on the network; on the phone nothing changes (see `devkit device usb`)."""
    from devkit.device import network, network_memory, reconnect

    known = network_memory.remembered_phones()
    phones = [phone for phone in known if which is None or network_memory.is_called(phone, which)]
    if not phones:
        if which is None:
            raise UsageError("no phone on a network is remembered", hints=["devkit device list"])
        phones = [network_memory.NetworkPhone(network.parse_address(which))]
    if dry_run:
        lines = [f"adb disconnect {phone.address}" for phone in phones]
        output.current().data({"commands": lines}, "\n".join(lines))
        return
    inventory = _look()
    rows: list[dict[str, Any]] = []
    for phone in phones:
        server = reconnect.server_of(phone, inventory)
        was_connected = network.disconnect(server, phone.address)
        if not was_connected and phone not in known:
            raise DeviceError(
                f"no phone on a network is called {which}",
                evidence=f"the adb server at {server.address} is not connected to {phone.address}, and devkit"
                " does not remember it",
                hints=["devkit device list"],
            )
        forgotten = bool(network_memory.forget_phone(phone.address)) if forget else False
        rows.append({"address": phone.address, "was_connected": was_connected, "forgotten": forgotten})
    output.current().data(
        {"phones": rows},
        "\n".join(
            f"{row['address']}: {'disconnected' if row['was_connected'] else 'was not connected'}"
            f"{', forgotten' if row['forgotten'] else ''}"
            for row in rows
        ),
    )


def usb(serial: Serial = None, dry_run: DryRun = False) -> None:
    """Switch a phone's adbd back to the cable: nobody on its network can reach it any more."""
    from devkit.device import network, network_memory, tcp_mode
    from devkit.device.select import select_device

    device = select_device(serial, may_start=not dry_run)
    sink = output.current()
    if dry_run:
        line = f"adb -s {device.serial} usb"
        sink.data({"serial": device.serial, "commands": [line]}, line)
        return
    look = tcp_mode.look_at(device)
    said = tcp_mode.switch(device, "usb:")
    gone = [
        phone.address
        for phone in network_memory.remembered_phones()
        if phone.address == device.serial
        or (look.serial_number and phone.serial_number == look.serial_number)
    ]
    for address in gone:
        network.disconnect(device.server, address)
        network_memory.forget_phone(address)
    lines = [f"{device.serial}: {said}"]
    if device.serial in gone:
        lines.append("  plug the cable in to go on working with it")
    sink.data({"serial": device.serial, "answer": said, "forgotten": gone}, "\n".join(lines))


def _look() -> Inventory:
    """What the adb servers list. The user's own is started if it is the default one and not running.

    Raises:
        DevkitError: the user's own does not answer.
    """
    from devkit.device import failures
    from devkit.device.listing import list_devices, start_default_server

    settings = config.load()

    def look() -> Inventory:
        return list_devices(configured_server=settings.adb.server, configured_adb=settings.adb.path)

    inventory = look()
    problem = inventory.effective_problem
    if isinstance(problem, failures.ServerUnreachable) and problem.refused and inventory.effective.is_default:
        # Next to a virtual phone's server the user's own is not started for a mere look.
        start_default_server(inventory.effective, settings.adb.path)
        inventory = look()
    if inventory.effective_problem is not None:
        raise inventory.effective_problem
    return inventory


def _connect_one(address: str, inventory: Inventory) -> Outcome:
    from devkit.device import network, network_memory, tcp_mode
    from devkit.device.reconnect import Outcome, server_of

    before = next((each for each in network_memory.remembered_phones() if each.address == address), None)
    phone = before or network_memory.NetworkPhone(address)
    server = server_of(phone, inventory)
    found = network.bring_online(server, address)
    # Whoever names an address means the phone that is there now.
    stranger = network_memory.NetworkPhone(found.serial)
    look = tcp_mode.check_identity(server, stranger, is_new=False)
    phone = network_memory.NetworkPhone(found.serial, look.serial_number, look.model, server.address)
    network_memory.remember_phone(phone)
    return Outcome(phone, found.how)


def _show(outcomes: list[Outcome]) -> None:
    from devkit.device.network import reason_of

    sink = output.current()
    rows: list[tuple[str, ...]] = []
    for outcome in outcomes:
        phone = outcome.phone
        how = f"{outcome.how} (asked over {outcome.via})" if outcome.via else outcome.how
        about = reason_of(outcome.error) if outcome.error else phone.model
        rows.append((phone.address, how, phone.serial_number, about))
    data = {
        "phones": [
            {
                "address": outcome.phone.address,
                "serial_number": outcome.phone.serial_number or None,
                "model": outcome.phone.model or None,
                "outcome": outcome.how,
                "via": outcome.via,
                "error": outcome.error.as_dict() if outcome.error else None,
            }
            for outcome in outcomes
        ]
    }
    sink.data(data, output.table(rows))
    for hint in dict.fromkeys(hint for each in outcomes if each.error for hint in each.error.hints):
        sink.note(f"  try: {hint}")
