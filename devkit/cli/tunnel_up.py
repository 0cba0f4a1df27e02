"""`devkit tunnel up`, and the process behind `--detach`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from devkit.errors import DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.tunnels.model import Prompts
    from devkit.tunnels.spec import TunnelSpec


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
    from devkit.tunnels import spec as specs
    from devkit.tunnels import state

    config = settings.load()
    spec = _spec(config, host, mode, serial, forward or [], port, bind, from_, name, accept_new, ssh_config)
    sink = output.current()
    running = state.load(spec.name)
    if running is not None and running.alive:
        specs.refuse_other(spec, specs.TunnelSpec.from_dict(running.spec), running.port)
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

        start_detached(spec, prompts=prompts(), say=sink.note)
        _remember(spec)
        _tell_up(spec)
        return

    def ready() -> None:
        _remember(spec)
        _tell_up(spec)

    _serve(config, spec, prompts(), sink.note, ready)


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


def _spec(
    config: Config, host: str | None, mode: str, serial: str | None, forward: list[str], port: int,
    bind: str, from_: str, name: str | None, accept_new: bool, ssh_config: Path | None,
) -> TunnelSpec:  # fmt: skip
    from devkit.tunnels import spec as specs

    for option, value, known in (("--mode", mode, specs.MODES), ("--from", from_, ("laptop", "server"))):
        if value not in known:
            raise UsageError(f"{option} {value} does not exist", hints=[f"{option} {word}" for word in known])
    import socket

    target = which_host(config, host)
    # On the server it is called as what it leads to: this laptop, or the host that is the laptop.
    adb, serial = which_phone(serial)
    far = socket.gethostname().partition(".")[0] if from_ == "laptop" else target
    spec = specs.TunnelSpec(
        host=target,
        name=specs.check_name(specs.name_for(target) if name is None else name),
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
    return specs.check_spec(spec)


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
    asked: Prompts,
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
        prompts=asked,
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
