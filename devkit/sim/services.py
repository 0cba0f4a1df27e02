"""The phone's services beside adbd: which there are, their sockets, and keeping them alive.

As with Android's init, the sockets are made before the services start and outlive them: what is sent
while a service is started again waits for it.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import namespaces, users
from devkit.sim.adbd.log import log
from devkit.sim.places import socket_path
from devkit.sim.users import ShellWorld

_RESTART_PAUSE_S = 0.1
_END_ROUNDS = 20


@dataclass(frozen=True)
class PhoneFacts:
    """What services need to know of their phone.

    Args:
        properties: those it was started with.
        environment: what its programs get.
        su: whether there is a `su`.
        memory_limit_bytes: what all programs together may use, None without a limit.
    """

    properties: Mapping[str, str]
    environment: Mapping[str, str]
    su: bool = False
    memory_limit_bytes: int | None = None

    @property
    def api_level(self) -> int:
        """The Android API level that is imitated."""
        return int(self.properties.get("ro.build.version.sdk", "34"))


Sockets = Mapping[str, socket.socket]


@dataclass(frozen=True)
class Service:
    """A process that init starts, and starts again when it ends.

    Args:
        name: as `ps` shows it.
        sockets: name below /dev/socket → its kind.
        as_root: it keeps root's capabilities and sees root's files.
        run: its body; it is not to return.
    """

    name: str
    sockets: Mapping[str, socket.SocketKind]
    as_root: bool
    run: Callable[[PhoneFacts, Sockets], None]


class Services:
    """The running services of a phone; to be used by init only.

    Args:
        prepare: called first in the process of each.
    """

    def __init__(
        self,
        facts: PhoneFacts,
        world: ShellWorld,
        services: list[Service],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._facts = facts
        self._prepare = prepare
        self._world = world
        self._sockets = {service.name: _open_sockets(service.sockets) for service in services}
        self._running: dict[int, Service] = {}
        for service in services:
            self._start(service)

    @property
    def pids(self) -> set[int]:
        """The processes of the services."""
        return set(self._running)

    def handle_end(self, pid: int, status: int) -> bool:
        """Start a service again that has ended; False when the process was none."""
        service = self._running.pop(pid, None)
        if service is None:
            return False
        log(f"{service.name} ended (status {status:#x}), starting it again")
        time.sleep(_RESTART_PAUSE_S)
        self._start(service)
        return True

    def end_programs(self) -> None:
        """Kill whatever adbd has started, root's programs too, as Android's init ends a service's
        control group.
        """
        for _ in range(_END_ROUNDS):
            kept = {1, *self._running}
            doomed = {int(name) for name in os.listdir("/proc") if name.isdigit()} - kept
            if not doomed:
                return
            for pid in doomed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            # Those whose parent is init are reaped by it alone.
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                self.handle_end(pid, status)
            time.sleep(0.005)

    def _start(self, service: Service) -> None:
        pid = os.fork()
        if pid:
            self._running[pid] = service
            return
        try:
            self._prepare()
            namespaces.set_process_title(service.name)
            if not service.as_root:
                users.become_shell(self._world)
            service.run(self._facts, self._sockets[service.name])
        except BaseException:
            log(f"{service.name} failed:\n{traceback.format_exc()}")
        finally:
            os._exit(70)


def _open_sockets(kinds: Mapping[str, socket.SocketKind]) -> dict[str, socket.socket]:
    opened = {}
    for name, kind in kinds.items():
        sock = socket.socket(socket.AF_UNIX, kind)
        path = Path(socket_path(name))
        sock.bind(os.fspath(path))
        # Whoever may connect must be able to write to it.
        path.chmod(0o666)
        if kind != socket.SOCK_DGRAM:
            sock.listen(128)
        opened[name] = sock
    return opened
