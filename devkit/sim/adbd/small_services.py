"""Services of a few lines each: debuggable apps (there are none), devices, programs with their own name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from devkit.sim.adbd.bridge import bridge
from devkit.sim.adbd.log import log
from devkit.sim.adbd.release import WireRelease
from devkit.sim.adbd.shell import ShellRequest
from devkit.sim.adbd.streams import Stream, StreamClosed
from devkit.sim.adbd.transport import Transport

# Service → program of the phone, as in daemon/services.cpp.
_PROGRAMS = {
    "remount": "/system/bin/remount",
    "disable-verity": "/system/bin/disable-verity",
    "enable-verity": "/system/bin/enable-verity",
    "backup": "/system/bin/bu backup",
    "restore": "/system/bin/bu restore",
}


def command_of(service: str, release: WireRelease) -> ShellRequest | None:
    """The program behind a service that has one of its own; None when it has none."""
    name, colon, argument = service.partition(":")
    if not colon:
        return None
    if name in _PROGRAMS:
        command = f"{_PROGRAMS[name]} {argument}".rstrip()
        return ShellRequest(command, terminal=False, protocol=False, term=None)
    if name in ("abb", "abb_exec") and name in release.features:
        # adbd asks the service manager itself; `cmd` does the same in a process of its own.
        command = shlex.join(["cmd", *argument.split("\0")])
        return ShellRequest(command, terminal=False, protocol=name == "abb", term=None)
    return None


def serve_small(transport: Transport, stream: Stream, service: str) -> bool:
    """Serve one of the services here to its end. False when it is none of them."""
    if service in _HANDLERS:
        _HANDLERS[service](transport, stream)
        return True
    for prefix in ("dev:", "dev-raw:"):
        if service.startswith(prefix):
            _serve_device(stream, service.removeprefix(prefix))
            return True
    return False


def _list_debuggable(_: Transport, stream: Stream) -> None:
    stream.accept()
    stream.close()


def _track_debuggable(_: Transport, stream: Stream) -> None:
    """The list as it is now, with its length; a new one would follow whenever it changes."""
    stream.accept()
    stream.write(b"0000")
    try:
        while True:
            stream.read(1)
    except StreamClosed:
        stream.close(flush=False)


def _reconnect(transport: Transport, stream: Stream) -> None:
    stream.accept()
    stream.write(b"done")
    stream.close()
    transport.finish()
    transport.kick()


def _serve_device(stream: Stream, path: str) -> None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        log(f"cannot open {path!r}: {error}")
        stream.refuse()
        return
    try:
        stream.accept()
        bridge(stream, fd)
    finally:
        os.close(fd)
    stream.close()


_HANDLERS: dict[str, Callable[[Transport, Stream], None]] = {
    "jdwp": _list_debuggable,
    "track-jdwp": _track_debuggable,
    "track-app": _track_debuggable,
    "reconnect": _reconnect,
}
