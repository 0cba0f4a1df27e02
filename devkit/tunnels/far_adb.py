"""adb on the server: its program, and the adb server that listens there, if one does. Nothing is started.

The address may lead to a laptop: people forward 5037 by hand (`ssh -R 5037:localhost:5037`). An adb program
of another version ends what it finds there and starts a server in its place, so it is asked before.
"""

from __future__ import annotations

from dataclasses import dataclass

from devkit.device.adb_program import VersionClash, parse_version
from devkit.device.connection import server_version
from devkit.device.servers import AdbServer, server_address
from devkit.errors import SERVER, DevkitError, TunnelError
from devkit.tunnels.connection import Link

_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 5.0
_MARK = "devkit-adb"
# In sh, whatever the login shell is; its start-up files may talk first. 0A is "listens".
_SCRIPT = (
    "exec sh -c '"
    "port=${ANDROID_ADB_SERVER_PORT:-5037}; "
    f'echo "{_MARK} socket=$ADB_SERVER_SOCKET"; echo "{_MARK} port=$port"; '
    f'echo "{_MARK} path=$(command -v adb)"; '
    "if [ -r /proc/net/tcp ]; then "
    'hex=$(printf %04X "$port" 2>/dev/null); '
    f'grep -q ":$hex [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null'
    f' && echo "{_MARK} listens=yes" || echo "{_MARK} listens=no"; fi; '
    "adb version 2>/dev/null'"
)


@dataclass(frozen=True)
class FarAdb:
    """adb as the server's shell finds it.

    Attributes:
        path: the program, None: there is none on its PATH.
        release, protocol: its platform-tools release and protocol version; None where it does not run.
        address: of the adb server that it would use.
        listens: whether something listens there; None: not known.
        server: the protocol version of what answers there; None: nothing answers as an adb server.
        problem: why it does not, where something listens.
    """

    path: str | None
    release: str | None
    protocol: int | None
    address: str
    listens: bool | None
    server: int | None
    problem: str | None

    @property
    def clash(self) -> VersionClash | None:
        """The two versions, when the program would end that server."""
        if self.server is None or self.protocol is None or self.server == self.protocol:
            return None
        return VersionClash(server=self.server, client=self.protocol)

    @property
    def danger(self) -> str | None:
        """Why running adb there could end or hide somebody's adb server; None: it does no harm."""
        if self.clash is not None:
            return (
                f"the adb server at {self.address} of the server speaks version {self.clash.server}, "
                f"{self.path} (platform-tools {self.release}) speaks version {self.clash.client}"
                " and would end it"
            )
        if self.server is None and self.listens:
            return (
                f"something at {self.address} of the server does not answer as an adb server: {self.problem}"
            )
        return None


def look_at_far_adb(link: Link) -> FarAdb:
    """What adb is on the machine at the end of a connection.

    Raises:
        TunnelError: the connection broke, or the account may run nothing.
    """
    said = link.run(_SCRIPT, timeout_s=_TIMEOUT_S).stdout.decode("utf-8", "replace")
    facts = dict(
        line.removeprefix(f"{_MARK} ").split("=", 1) for line in said.splitlines() if line.startswith(_MARK)
    )
    server = _server_of(facts)
    listens = {"yes": True, "no": False}.get(facts.get("listens", ""))
    version, problem = (None, None) if listens is False else _ask(link, server)
    release, protocol = parse_version(said) or (None, None)
    return FarAdb(facts.get("path") or None, release, protocol, server.address, listens, version, problem)


def refuse_danger(far: FarAdb) -> None:
    """Before adb is run on the server.

    Raises:
        TunnelError: it would end or hide an adb server that is not ours.
    """
    if far.danger is not None:
        raise TunnelError(
            "adb on the server is not run: it would take the place of an adb server",
            reason="refused",
            where=SERVER,
            evidence=far.danger,
            hints=[
                "install the same platform-tools on both machines",
                "or use the adb-server mode, which needs no adb on the server: devkit tunnel up HOST",
            ],
        )


def _server_of(facts: dict[str, str]) -> AdbServer:
    environ = {
        "ADB_SERVER_SOCKET": facts.get("socket", ""),
        "ANDROID_ADB_SERVER_PORT": facts.get("port", "") if facts.get("port") != "5037" else "",
    }
    try:
        return server_address(environ, None)
    except DevkitError:
        return server_address({}, None)


def _ask(link: Link, server: AdbServer) -> tuple[int | None, str | None]:
    try:
        with link.local_forward((server.host, server.port)) as forward:
            near = AdbServer("127.0.0.1", forward.port, server.origin)
            try:
                return server_version(near, timeout_s=_ANSWER_TIMEOUT_S), None
            except DevkitError as error:
                return None, forward.why() or error.evidence or error.what
    except TunnelError as error:
        if not link.alive:
            raise
        return None, error.what
