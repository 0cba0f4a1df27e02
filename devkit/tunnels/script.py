"""A tunnel with plain ssh and adb, as a script for a laptop without devkit.

The script does what `ssh -R` in a loop does, and mends what that leaves broken: a session that the
server still holds after the link broke keeps the port bound, and a port that nobody is told of is of
no use. On the server it leaves a note where devkit finds it, so `devkit device list` shows the phone.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from devkit import __version__
from devkit.errors import UsageError
from devkit.tunnels.spec import ADB_SERVER, ADBD, MODES

if TYPE_CHECKING:
    from jinja2 import Environment

SH, POWERSHELL = "sh", "powershell"
# On the server. Not 5037, where its own adb server is; the other is the articles'.
DEFAULT_PORTS = {ADB_SERVER: 15037, ADBD: 30303}
PHONE_PORT = 5555

# What ssh, sh and every PowerShell pass on as one word, and what no ssh takes for an option.
_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._@:%+,\[\]/-]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*\Z")
_TEMPLATES = {SH: "tunnel.sh.j2", POWERSHELL: "tunnel.ps1.j2"}


@dataclass(frozen=True)
class ScriptRequest:
    """What the script is to do.

    Attributes:
        host: the server, as the laptop's ssh knows it.
        jump: jump hosts in between, as `ssh -J` takes them.
        mode: ADB_SERVER (the laptop's adb server is at a port of the server) or ADBD (the phone's adbd is).
        port: on 127.0.0.1 of the server.
        serial: the phone, where the laptop has several.
        forwards: more ports of the phone that appear at the same ports of the server.
        name: what devkit on the server calls it; None: the laptop's host name.

    Raises:
        UsageError: a value cannot be part of a script.
    """

    host: str
    jump: str | None = None
    mode: str = ADB_SERVER
    port: int | None = None
    serial: str | None = None
    forwards: tuple[int, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        _check("a host", self.host, _HOST, "user@server, or a Host of your ~/.ssh/config")
        _check("jump hosts", self.jump, _HOST, "user@jump, or several with commas: jump1,jump2")
        _check("a serial", self.serial, _SERIAL, "adb devices lists them")
        _check("a name", self.name, _NAME, "letters, digits, dots, dashes and underscores")
        if self.mode not in MODES:
            raise UsageError(f"there is no mode {self.mode!r}", hints=[f"--mode {mode}" for mode in MODES])
        ports = [self.server_port, *self.forwards]
        for port in ports:
            if not 0 < port < 65536:
                raise UsageError(f"{port} is no port", hints=["a number from 1 to 65535"])
        if len(set(ports)) < len(ports):
            raise UsageError(
                "a port of the server can be used once only", evidence=", ".join(map(str, ports))
            )
        if self.mode == ADBD and self.server_port in range(5555, 5586):
            raise UsageError(
                f"port {self.server_port} of the server cannot be the phone's",
                evidence="adb servers take what listens from 5555 to 5585 for emulators",
                hints=[f"--port {DEFAULT_PORTS[ADBD]}"],
            )

    @property
    def server_port(self) -> int:
        """The port on the server."""
        return DEFAULT_PORTS[self.mode] if self.port is None else self.port


def render(request: ScriptRequest, language: str) -> str:
    """The script, in SH or POWERSHELL; plain ASCII with line feeds."""
    environment = _environment()
    context = {
        "version": __version__,
        "request": request,
        "is_adbd": request.mode == ADBD,
        "phone_port": PHONE_PORT,
        "phone_ports": [*([PHONE_PORT] if request.mode == ADBD else []), *request.forwards],
        "server_ports": [*([request.server_port] if request.mode == ADBD else []), *request.forwards],
    }
    hold = environment.get_template("hold.sh.j2").render(context)
    release = environment.get_template("release.sh.j2").render(context)
    return environment.get_template(_TEMPLATES[language]).render(context, hold=hold, release=release)


def quote_powershell(text: str) -> str:
    """One word for PowerShell. It takes typographic quotes for quotes as well."""
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", text) + "'"


def _check(what: str, text: str | None, pattern: re.Pattern[str], hint: str) -> None:
    if text is not None and not pattern.match(text):
        raise UsageError(f"{text!r} cannot be {what} in a script", hints=[hint])


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("devkit.tunnels"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # scripts, not HTML: the filters quote
    )
    environment.filters["sh"] = lambda value: shlex.quote(str(value))
    environment.filters["ps"] = lambda value: quote_powershell(str(value))
    return environment
