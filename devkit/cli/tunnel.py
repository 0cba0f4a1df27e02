"""`devkit tunnel`: the phone on this laptop, usable on the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import tunnel_script
from devkit.errors import CheckFailed, DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.tunnels.model import Prompts
    from devkit.tunnels.spec import TunnelSpec
    from devkit.tunnels.state import TunnelRecord

app = typer.Typer(
    help="Make the phones of this laptop usable on the server.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit tunnel up build-server; then on the server: devkit device list",
)

_DOWN_TIMEOUT_S = 15.0


def _names(incomplete: str) -> list[str]:
    """For completion: the tunnels of this user."""
    from devkit.tunnels import state

    return [record.name for record in state.load_all() if record.name.startswith(incomplete)]


Host = Annotated[
    str | None,
    typer.Argument(metavar="[HOST]", help="The server, as ssh takes it; without: the one of last time."),
]
Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Which tunnel; without: all of them.", autocompletion=_names),
]
AcceptNew = Annotated[
    bool, typer.Option("--accept-new", help="Store unknown host keys without asking; never changed ones.")
]
SshConfig = Annotated[
    Path | None, typer.Option("-F", "--ssh-config", metavar="FILE", help="Read instead of ~/.ssh/config.")
]
Serial = Annotated[str | None, typer.Option("-s", "--serial", metavar="SERIAL", help="Which phone.")]


@app.command(
    epilog="Examples: devkit tunnel up build-server --detach; devkit tunnel up dev@10.0.0.5 --mode adbd "
    "-s R5CT10; devkit tunnel up build-server --forward 31313"
)
def up(
    host: Host = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Go on in the background.")] = False,
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="adb-server: this laptop's adb server, all its phones; adbd: one phone's adbd, which the "
            "server's own adb connects to.",
        ),
    ] = "adb-server",
    serial: Serial = None,
    forward: Annotated[
        list[str] | None,
        typer.Option(metavar="[SERVER:]PHONE", help="Also this port of the phone; repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on the server (0: a free one).")] = 0,
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address on the server; beyond loopback is dangerous.")
    ] = "127.0.0.1",
    from_: Annotated[
        str,
        typer.Option(
            "--from", metavar="SIDE", help="laptop (here), or server: run on the server, log in here."
        ),
    ] = "laptop",
    name: Annotated[str | None, typer.Option(help="How it is called (default: the host).")] = None,
    accept_new: AcceptNew = False,
    ssh_config: SshConfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
) -> None:
    """Bring a tunnel up and keep it up until Ctrl-C, or in the background with --detach."""
    from devkit import config as settings
    from devkit.tunnels import state

    config = settings.load()
    spec = _spec(config, host, mode, serial, forward or [], port, bind, from_, name, accept_new, ssh_config)
    sink = output.current()
    running = state.load(spec.name)
    if running is not None and running.alive:
        sink.note(
            f"the tunnel {spec.name} is up already: devkit tunnel status, devkit tunnel down {spec.name}"
        )
        if sink.json_mode:
            sink.data(running.as_dict())
        return
    if spec.is_exposed:
        sink.warn(
            f"the port will be open at {bind} of the server: whoever reaches it has a shell on the phone"
        )
    if dry_run:
        _show_plan(spec)
        return
    if detach:
        from devkit.tunnels.detach import start_detached

        start_detached(spec, prompts=_prompts(), say=sink.note)
        _remember(spec)
        _tell_up(spec)
        return

    def ready() -> None:
        _remember(spec)
        _tell_up(spec)

    _serve(config, spec, _prompts(), sink.note, ready)


@app.command(hidden=True)
def serve() -> None:
    """The process behind --detach. Reads what to do from stdin."""
    import sys

    from devkit import config as settings
    from devkit.tunnels import state
    from devkit.tunnels.detach import Upstream, leave_terminal

    upstream = Upstream(sys.stdin.buffer, sys.stdout.buffer)
    try:
        spec = upstream.read_spec()
    except (ValueError, TypeError, KeyError):
        raise UsageError("`devkit tunnel serve` is started by `devkit tunnel up --detach`") from None

    def say(text: str) -> None:
        output.current().note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")
        upstream.tell("say", text=text)

    def ready() -> None:
        output.current().note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} up")
        upstream.tell("up")
        leave_terminal()

    try:
        _serve(settings.load(), spec, upstream, say, ready, log=state.log_file(spec.name))
    except DevkitError as error:
        upstream.tell("failed", **error.as_dict())
        raise


@app.command()
def down(
    name: Name = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be ended.")] = False,
) -> None:
    """End tunnels and everything they made, here and on the server; nothing else."""
    from devkit.tunnels import state

    records = _records(name)
    sink = output.current()
    if not records:
        sink.note("no tunnel is up")
    ended = []
    for record in records:
        if dry_run:
            sink.note(f"would end {record.name} (pid {record.pid})")
            continue
        if record.alive:
            state.ask_to_stop(record)
            _wait_for_end(record)
        state.remove(record.name)
        ended.append(record.name)
        sink.note(f"the tunnel {record.name} is down")
    if sink.json_mode:
        sink.data({"ended": ended})


@app.command()
def status(name: Name = None) -> None:
    """Show each link of each tunnel: up since, latency, bytes, reconnects, last error.

    Exit code 1 when one of them is not up.
    """
    from devkit.device import known_servers
    from devkit.tunnels.report import describe_arrivals, describe_record

    records = _records(name)
    arrivals = [server for server in known_servers() if server.origin == "tunnel"]
    arrivals = [server for server in arrivals if name is None or server.label == name]
    sink = output.current()
    data = {
        "tunnels": [record.as_dict() for record in records],
        "arriving": [{"name": s.label, "address": s.address, "serials": list(s.serials)} for s in arrivals],
    }
    text = "".join(describe_record(record, sink) for record in records) + describe_arrivals(arrivals)
    sink.data(data, text)
    if not records and not arrivals:
        sink.note("no tunnel is up; devkit tunnel up HOST brings one up (on the laptop)")
    if any(not record.alive or record.state != "up" for record in records):
        raise typer.Exit(CheckFailed.exit_code)


@app.command()
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
    from devkit.tunnels.check import BROKEN, Measures, walk
    from devkit.tunnels.report import describe_step

    config = settings.load()
    target = _host(config, host)
    adb, serial = _phone(serial)
    sink = output.current()
    measures = Measures() if speed else None
    steps = []
    for step in walk(
        target,
        server_address(os.environ, adb or config.adb.server),
        prompts=_prompts(),
        accept_new=accept_new,
        config_file=ssh_config,
        serial=serial,
        measures=measures,
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
                "measures": measures.as_dict() if measures else None,
            }
        )
    elif broken is not None:
        sink.note(f"first broken link: {broken.title} (on {broken.machine})")
    if broken is not None:
        raise typer.Exit(CheckFailed.exit_code)


@app.command(epilog='Example: eval "$(devkit tunnel env)"; adb devices')
def env(
    name: Name = None,
    shell: Annotated[
        str | None, typer.Option(metavar="SHELL", help="sh, fish or powershell (default: yours).")
    ] = None,
) -> None:
    """Print the variables with which adb and other tools use the tunnel that arrives at this machine."""
    from devkit.device import known_servers
    from devkit.tunnels.report import render_exports

    arrivals = [server for server in known_servers() if server.origin == "tunnel"]
    wanted = [server for server in arrivals if name in (None, server.label)]
    if len(wanted) != 1:
        listed = ", ".join(str(server.label) for server in arrivals)
        raise UsageError(
            "several tunnels arrive here: say which one"
            if wanted
            else "no such tunnel arrives at this machine",
            evidence=listed or "no tunnel of adb-server mode arrives here",
            hints=[f"devkit tunnel env {wanted[0].label}"]
            if wanted
            else ["devkit tunnel up HOST (on the laptop)"],
        )
    output.current().data(wanted[0].environment, render_exports(wanted[0].environment, shell))


app.command(
    "script",
    epilog="Example: devkit tunnel script user@server --sh > tunnel.sh; on the laptop: sh tunnel.sh",
)(tunnel_script.script)


def _spec(
    config: Config, host: str | None, mode: str, serial: str | None, forward: list[str], port: int,
    bind: str, from_: str, name: str | None, accept_new: bool, ssh_config: Path | None,
) -> TunnelSpec:  # fmt: skip
    from devkit.tunnels import spec as specs

    for option, value, known in (("--mode", mode, specs.MODES), ("--from", from_, ("laptop", "server"))):
        if value not in known:
            raise UsageError(f"{option} {value} does not exist", hints=[f"{option} {word}" for word in known])
    import socket

    target = _host(config, host)
    # On the server it is called as what it leads to: this laptop, or the host that is the laptop.
    adb, serial = _phone(serial)
    far = socket.gethostname().partition(".")[0] if from_ == "laptop" else target
    return specs.TunnelSpec(
        host=target,
        name=specs.check_name(name or specs.name_for(target)),
        mode=mode,
        side=from_,
        adb=adb,
        serial=serial,
        label=specs.name_for(far),
        port=port,
        bind=bind,
        extra=tuple(specs.parse_extra_port(text) for text in forward),
        accept_new=accept_new,
        ssh_config=str(ssh_config.absolute()) if ssh_config else None,
    )


def _host(config: Config, host: str | None) -> str:
    found = host or config.tunnel.host
    if not found:
        raise UsageError(
            "which server? none was used before", hints=["devkit tunnel up HOST (as in `ssh HOST`)"]
        )
    return found


def _phone(serial: str | None) -> tuple[str | None, str | None]:
    """The adb server and serial that `-s` means; a virtual phone has a server of its own."""
    from devkit.device import known_servers

    for server in known_servers():
        if server.origin == "sim" and serial in (server.name, server.label):
            return server.address, None
    return None, serial


def _remember(spec: TunnelSpec) -> None:
    from devkit.ndk.user_config import get_user_value, set_user_value

    if spec.side == "laptop" and get_user_value("tunnel.host") != spec.host:
        try:
            set_user_value("tunnel.host", spec.host)
        except DevkitError as error:
            output.current().warn(f"{spec.host} is not remembered: {error.what}")


def _serve(
    config: Config,
    spec: TunnelSpec,
    prompts: Prompts,
    say: Callable[[str], None],
    ready: Callable[[], None],
    log: Path | None = None,
) -> None:
    import os

    from devkit.device import AdbServer, server_address
    from devkit.tunnels.supervise import Supervisor

    server = server_address(os.environ, spec.adb or config.adb.server)
    if spec.side == "server":
        # Of the laptop's adb server nothing is known but adb's own default port.
        server = AdbServer("127.0.0.1", 5037, "tunnel", spec.name)
    Supervisor(
        spec,
        server,
        prompts=prompts,
        say=say,
        ready=ready,
        adb=config.adb.path,
        log=log,
    ).run()


def _tell_up(spec: TunnelSpec) -> None:
    from devkit.tunnels import state

    record = state.load(spec.name)
    sink = output.current()
    if sink.json_mode:
        sink.data(record.as_dict() if record else {})
        return
    port = record.port if record else None
    sink.note(f"the tunnel to {spec.host} is up (port {port} on the server)")
    where = "there" if spec.side == "laptop" else "here"
    sink.note(f'  {where}: devkit device list; for other tools: eval "$(devkit tunnel env)"')


def _show_plan(spec: TunnelSpec) -> None:
    from devkit.tunnels.ssh_config import resolve_chain

    config = Path(spec.ssh_config) if spec.ssh_config else None
    chain = resolve_chain(spec.host, config_file=config)
    lines = [f"log in: {' → '.join(hop.login for hop in chain)}"]
    what = "the phone's adbd" if spec.mode == "adbd" else "the adb server"
    port = spec.port or "a free port"
    machine = "this machine" if spec.side == "server" else chain[-1].alias
    lines.append(f"listen: {spec.bind}, {port} on {machine} → {what} of the laptop")
    lines += [f"listen: {spec.bind}, {extra.server} → the phone's {extra.phone}" for extra in spec.extra]
    output.current().data(spec.as_dict(), "\n".join(lines))


def _records(name: str | None) -> list[TunnelRecord]:
    from devkit.tunnels import state

    records = state.load_all()
    if name is None:
        return records
    wanted = [record for record in records if record.name == name]
    from devkit.device import known_servers

    arrives = any(server.origin == "tunnel" and server.label == name for server in known_servers())
    if not wanted and not arrives:
        known = ", ".join(record.name for record in records)
        raise UsageError(
            f"no tunnel is called {name}",
            evidence=f"there are: {known or 'none'}",
            hints=["devkit tunnel status"],
        )
    return wanted


def _wait_for_end(record: TunnelRecord) -> None:
    import os
    import signal

    deadline = time.monotonic() + _DOWN_TIMEOUT_S
    while record.alive and time.monotonic() < deadline:
        time.sleep(0.1)
    if record.alive:
        os.kill(record.pid, signal.SIGTERM)
        time.sleep(1)
    if record.alive:
        raise DevkitError(
            f"the tunnel {record.name} does not end",
            evidence=f"pid {record.pid}",
            hints=[f"kill {record.pid}"],
        )


def _prompts() -> Prompts:
    from devkit.tunnels.model import NoPrompts
    from devkit.tunnels.prompts import terminal_prompts

    return NoPrompts() if output.current().json_mode else terminal_prompts()
