"""The daemon itself: accepts connections, finds the service for a stream, keeps imports early."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from devkit.sim.adbd.compression import Codec, available_codecs
from devkit.sim.adbd.log import log
from devkit.sim.adbd.reverse import Listeners
from devkit.sim.adbd.shell import parse_request, run_shell
from devkit.sim.adbd.sockets import parse_spec, serve_socket
from devkit.sim.adbd.streams import Stream, StreamClosed
from devkit.sim.adbd.sync import run_sync
from devkit.sim.adbd.transport import Authenticator, Transport

FEATURES = (
    "shell_v2",
    "cmd",
    "stat_v2",
    "ls_v2",
    "fixed_push_mkdir",
    "fixed_push_symlink_timestamp",
    "sendrecv_v2",
)

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
    """

    properties: Mapping[str, str]
    environment: Mapping[str, str]
    codecs: dict[int, Codec] = field(default_factory=dict)
    authenticator: Authenticator | None = None


class Daemon:
    """Serves adb connections until the process ends."""

    def __init__(self, config: DaemonConfig) -> None:
        self._config = config
        self._listeners = Listeners()

    def serve_forever(self, listener: socket.socket) -> None:
        """Accept connections on a listening socket for ever."""
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve_connection, args=(sock,), daemon=True).start()

    def serve_connection(self, sock: socket.socket) -> None:
        """Serve one connection to its end."""
        transport = Transport(sock, self.banner(), self._serve_stream, self._config.authenticator)
        transport.on_end.append(lambda: self._listeners.remove_all(transport.open))
        try:
            transport.run()
        except Exception:
            log("connection failed:\n" + traceback.format_exc())
            transport.kick()

    def banner(self) -> bytes:
        """The identity that CNXN carries."""
        properties = self._config.properties
        facts = [
            f"{key}={properties.get(key, '')}"
            for key in ("ro.product.name", "ro.product.model", "ro.product.device")
        ]
        features = [*FEATURES, *(codec.feature for codec in self._config.codecs.values())]
        return ("device::" + ";".join(facts) + ";features=" + ",".join(features)).encode()

    def _serve_stream(self, transport: Transport, stream: Stream, service: str) -> None:
        try:
            self._start_service(transport, stream, service)
        except StreamClosed:
            stream.close(flush=False)
        except Exception:
            log(f"service {service!r} failed:\n" + traceback.format_exc())
            stream.close(flush=False)

    def _start_service(self, transport: Transport, stream: Stream, service: str) -> None:
        shell = parse_request(service)
        if shell is not None:
            run_shell(stream, shell, dict(self._config.environment))
        elif service.startswith("sync:"):
            run_sync(stream, self._config.codecs)
        elif service.startswith("reverse:"):
            answer = self._listeners.answer(service.removeprefix("reverse:"), transport.open)
            stream.accept()
            stream.write(answer)
            stream.close()
        elif (spec := parse_spec(service)) is not None:
            serve_socket(stream, spec)
        else:
            log(f"no such service: {service[:500]!r}")
            stream.refuse()


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
