"""`devkit sim`: virtual phones. What can go wrong with them is in `sim_faults`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import output
from devkit.cli import sim_faults
from devkit.cli import sim_options as options
from devkit.cli.sim_options import DEFAULT_NAME, Name

if TYPE_CHECKING:
    from devkit.sim import PhoneRecord

app = typer.Typer(
    help="Virtual phones: start and stop them, break and heal them.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit sim start; devkit device info; devkit sim break slow; devkit sim stop",
)

app.command("break", epilog="Example: devkit sim break cut --after 5mb --direction up; devkit sim heal")(
    sim_faults.break_
)
app.command("heal")(sim_faults.heal)
app.command("run", epilog="The language of scenarios: docs/virtual-phone.md")(sim_faults.run)
app.command("wifi", epilog="Example: devkit sim wifi 127.90.0.7; devkit sim wifi --off")(sim_faults.wifi)
app.command("slow", epilog="Example: devkit sim slow --rate 20mbit --delay 10ms")(sim_faults.slow)


@app.command("start")
def start(
    name: Name = DEFAULT_NAME,
    model: Annotated[
        str, typer.Option(help="What it looks like.", autocompletion=options.complete_models)
    ] = "generic",
    android: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="Android release to imitate: 6, 8, 11, 14…")
    ] = None,
    abi: Annotated[
        str | None,
        typer.Option(metavar="ABI", help="arm64-v8a runs such programs through qemu; else this machine's."),
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth", help="adb is unauthorized until `devkit sim allow`.")
    ] = False,
    su: Annotated[bool, typer.Option("--su", help="Commands can be run as root.")] = False,
    port: Annotated[int, typer.Option(help="TCP port of its adbd on 127.0.0.1 (0: any free one).")] = 0,
    storage: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of /data/local/tmp, then in memory, as 256mb."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of its programs together, as 512mb.")
    ] = None,
    reduced: Annotated[
        bool, typer.Option("--reduced", help="Without namespaces, as where a machine refuses them.")
    ] = False,
    rate: options.Rate = None,
    rate_up: options.RateUp = None,
    rate_down: options.RateDown = None,
    delay: options.Delay = None,
    delay_up: options.DelayUp = None,
    delay_down: options.DelayDown = None,
) -> None:
    """Start a virtual phone with an adb server of its own; it runs until `devkit sim stop`."""
    from devkit import config
    from devkit.device import find_private_adb
    from devkit.sim import link_from, start_phone
    from devkit.sim.links import parse_bytes

    link = link_from(
        rate=rate, rate_up=rate_up, rate_down=rate_down,
        delay=delay, delay_up=delay_up, delay_down=delay_down,
    )  # fmt: skip
    adb = find_private_adb(config.load().adb.path)
    phone = start_phone(
        name,
        model=model,
        android=android,
        abi=abi,
        auth=auth,
        su=su,
        port=port,
        adb=adb.path,
        data_limit_bytes=parse_bytes(storage) if storage is not None else None,
        memory_limit_bytes=parse_bytes(memory) if memory is not None else None,
        confinement="reduced" if reduced else None,
        link=link,
    )
    record = phone.record
    lines = [
        f"virtual phone {name} is up: serial {record.serial}, adb server {record.adb_host}:{record.adb_port}",
        *([f"its link: {link.describe()}"] if link.is_shaped else []),
        f"  devkit device info -s sim:{name}",
        f"  adb -H {record.adb_host} -P {record.adb_port} devices    # any other tool",
        f"  devkit sim stop {name}",
    ]
    output.current().data(record.as_dict(), "\n".join(lines))


@app.command("stop")
def stop(
    name: Name = DEFAULT_NAME,
    everything: Annotated[bool, typer.Option("--all", help="Stop every virtual phone.")] = False,
) -> None:
    """Stop a virtual phone and everything that runs on it."""
    from devkit.sim import list_phones, stop_phone

    names = [record.name for record in list_phones()] if everything else [name]
    stopped = [stop_phone(each).name for each in names]
    output.current().data(
        {"stopped": stopped}, "\n".join(f"{each} is stopped" for each in stopped) or "no virtual phone runs"
    )


@app.command("list")
def list_() -> None:
    """List running virtual phones."""
    from devkit.sim import list_phones

    _show(list_phones())


@app.command("status")
def status(
    name: Annotated[
        str | None, typer.Argument(help="Only this one.", autocompletion=options.complete_names)
    ] = None,
) -> None:
    """Show running virtual phones, their links, and the faults in force."""
    from devkit.sim import list_phones, state

    records = list_phones()
    if name is not None:
        records = [record for record in records if record.name == name]
        if not records:
            state.check_name(name)
            raise state.no_such_phone(name)
    _show(records)


@app.command("shell", epilog="Example: devkit sim shell phone -- getprop ro.soc.model")
def shell(
    name: Name = DEFAULT_NAME,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD…]", help="The command; none: a login shell.")
    ] = None,
) -> None:
    """Run a command on a virtual phone, or open a shell there."""
    from devkit.cli import device

    device.shell(command, serial=f"sim:{name}")


@app.command("logs")
def logs(
    name: Name = DEFAULT_NAME,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the phone ends.")] = False,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="Only so many of the last lines.")
    ] = None,
) -> None:
    """Show what a virtual phone's supervisor, adbd and adb server have logged."""
    from devkit.sim.logfiles import follow_logs, read_logs

    sink = output.current()
    if follow:
        for entry in follow_logs(name, lines):
            sink.raw(f"{entry.source:10} {entry.text}\n".encode("utf-8", "replace"))
        return
    entries = read_logs(name)
    if lines is not None:
        entries = entries[max(0, len(entries) - lines) :]
    shown = [f"{entry.source:10} {entry.text}" for entry in entries]
    sink.data([{"source": entry.source, "text": entry.text} for entry in entries], "\n".join(shown))


@app.command("allow")
def allow(
    name: Name = DEFAULT_NAME,
    deny: Annotated[bool, typer.Option("--deny", help="Tap Cancel instead.")] = False,
) -> None:
    """Tap Allow on a phone (of --auth) that asks whether this computer may debug it."""
    from devkit.sim import tap_allow, tap_deny

    key = (tap_deny if deny else tap_allow)(name)
    answer = "denied" if deny else "allowed"
    output.current().data(
        {"answer": answer, "fingerprint": key.fingerprint}, f"{key.fingerprint} is {answer}"
    )


def _show(records: list[PhoneRecord]) -> None:
    from devkit.errors import SimError
    from devkit.sim import phone_status

    data: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for record in records:
        try:
            facts = phone_status(record.name)
        except SimError as error:
            # It is ending just now, or stuck: the rest of the list is still wanted.
            facts = {"faults": None, "link": None, "problem": error.what}
        data.append({**record.as_dict(), **facts})
        rows.append(
            (
                record.name,
                record.serial,
                f"{record.adb_host}:{record.adb_port}",
                record.model,
                f"{time.time() - record.started_at:.0f} s",
                str(record.pid),
                facts["link"]["text"] if facts["link"] else "?",
                ", ".join(fault["fault"] for fault in facts["faults"] or ()) or "-",
            )
        )
    header = ("NAME", "SERIAL", "ADB SERVER", "MODEL", "UP", "PID", "LINK", "FAULTS")
    output.current().data(
        data, output.table(rows, header) if rows else "no virtual phone runs (devkit sim start)"
    )
