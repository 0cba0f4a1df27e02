"""The daemon itself: accepts connections, finds the service for a stream, keeps imports early."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from devkit.sim.adbd.auth import Keyring
from devkit.sim.adbd.compression import Codec, available_codecs
from devkit.sim.adbd.control import ControlAnswer, answer_control, set_property, tcp_port
from devkit.sim.adbd.faults import FaultBoard
from devkit.sim.adbd.handover import Handover
from devkit.sim.adbd.log import log
from devkit.sim.adbd.release import WireRelease
from devkit.sim.adbd.reverse import Listeners
from devkit.sim.adbd.shell import parse_request, run_shell
from devkit.sim.adbd.small_services import command_of, serve_small
from devkit.sim.adbd.sockets import parse_spec, serve_socket
from devkit.sim.adbd.streams import Stream, StreamClosed
from devkit.sim.adbd.sync import run_sync
from devkit.sim.adbd.transport import Transport

# Modules that the standard library imports only when it needs them, from inside our services.
_LATE_MODULES = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.utf_8",
    "grp",
    "linecache",
    "pwd",
    "shutil",
    "signal",
    "tokenize",
    "traceback",
    "warnings",
)


@dataclass
class DaemonConfig:
    """What distinguishes one phone's daemon from another's.

    Args:
        properties: the phone's properties; three of them go into the banner.
        environment: of the programs it starts.
        release: the adbd of which Android release it is.
        codecs: the compressions that can be had; the release decides which are offered.
        keyring: the hosts that are welcome, None when all are.
        faults: what goes wrong.
        own_network: the phone has a loopback of its own, on which it listens in TCP mode.
    """

    properties: Mapping[str, str]
    environment: Mapping[str, str]
    release: WireRelease
    codecs: dict[int, Codec] = field(default_factory=dict)
    keyring: Keyring | None = None
    faults: FaultBoard = field(default_factory=lambda: FaultBoard(None))
    own_network: bool = False


class Daemon:
    """Serves adb connections until the process ends."""

    def __init__(self, config: DaemonConfig) -> None:
        self._config = config
        self._listeners = Listeners()
        offered = config.release.features
        self._codecs = {flag: codec for flag, codec in config.codecs.items() if codec.feature in offered}

    def serve_forever(self, handover: Handover) -> None:
        """Accept connections for ever: over the cable, and in TCP mode over the Wi-Fi."""
        port = tcp_port()
        handover.listen(port)
        if port and self._config.own_network:
            threading.Thread(target=self._serve_own_loopback, args=(port,), daemon=True).start()
        while True:
            sock, _ = handover.accept()
            threading.Thread(target=self.serve_connection, args=(sock,), daemon=True).start()

    def _serve_own_loopback(self, port: int) -> None:
        """What `adb forward tcp:N tcp:5555` leads to: adbd inside a connection to adbd."""
        try:
            listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            log(f"cannot listen at port {port} of the phone: {error}")
            return
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve_connection, args=(sock,), daemon=True).start()

    def serve_connection(self, sock: socket.socket) -> None:
        """Serve one connection to its end."""
        keyring = self._config.keyring
        transport = Transport(
            sock,
            self.banner(),
            self._serve_stream,
            self._config.release,
            keyring.authenticator() if keyring is not None else None,
            self._config.faults,
        )
        transport.on_end.append(lambda: self._listeners.remove_all(transport.open))
        try:
            transport.run()
        except Exception:
            log("connection failed:\n" + traceback.format_exc())
            transport.kick()

    def banner(self) -> bytes:
        """The identity that CNXN carries."""
        properties = self._config.properties
        facts = "".join(
            f"{key}={properties.get(key, '')};"
            for key in ("ro.product.name", "ro.product.model", "ro.product.device")
        )
        features = ",".join(self.features())
        return f"device::{facts}{'features=' + features if features else ''}".encode()

    def features(self) -> list[str]:
        """What is offered: the release's features as far as the packages for them are installed."""
        possible = {codec.feature for codec in self._codecs.values()}
        return [
            feature
            for feature in self._config.release.features
            if not feature.startswith("sendrecv_v2_") or feature in possible | {"sendrecv_v2_dry_run_send"}
        ]

    def _serve_stream(self, transport: Transport, stream: Stream, service: str) -> None:
        try:
            self._start_service(transport, stream, service)
        except StreamClosed:
            stream.close(flush=False)
        except Exception:
            log(f"service {service!r} failed:\n" + traceback.format_exc())
            stream.close(flush=False)

    def _start_service(self, transport: Transport, stream: Stream, service: str) -> None:
        faults = self._config.faults
        if faults.refuses(service):
            log(f"refused by a fault: {service[:500]!r}")
            stream.refuse()
            return
        service = faults.changed(service)
        release = self._config.release
        command = command_of(service, release)
        shell = command or parse_request(service, old=release.old_shell)
        if shell is not None:
            run_shell(stream, shell, faults.environment(self._config.environment))
        elif service.startswith("sync:"):
            run_sync(stream, self._codecs, release.features)
        elif service.startswith("reverse:"):
            reply = self._listeners.answer(service.removeprefix("reverse:"), transport.open)
            stream.accept()
            stream.write(reply)
            stream.close()
        elif (spec := parse_spec(service)) is not None:
            serve_socket(stream, spec)
        elif answer := answer_control(service, self._config.properties, is_root=os.getuid() == 0):
            self._control(transport, stream, answer)
        elif serve_small(transport, stream, service):
            pass
        else:
            log(f"no such service: {service[:500]!r}")
            stream.refuse()

    def _control(self, transport: Transport, stream: Stream, answer: ControlAnswer) -> None:
        stream.accept()
        if answer.text:
            stream.write(answer.text.encode())
        for name, value in answer.changes.items():
            set_property(name, value)
        if not answer.silent:
            stream.close()
        if answer.ends:
            log(f"adbd ends: {dict(answer.changes)}")
            # Whatever was sent must not be lost in a reset: the peer closes first, or has had its time.
            transport.finish()
            os._exit(0)


def preload() -> dict[int, Codec]:
    """Import everything that serving needs, and the compressions there are."""
    for name in _LATE_MODULES:
        importlib.import_module(name)
    # Encodings are looked up by name, through a cache; an exotic one would be imported late.
    "".encode("idna")
    return available_codecs()


def forbid_late_imports() -> None:
    """From here on an import of something new is logged: the phone has no Python to load it from."""
    sys.meta_path.insert(0, _LateImports())


class _LateImports(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        log(f"late import of {fullname}")
        return None
