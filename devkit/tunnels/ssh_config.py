"""What the user's ssh configuration says about a host: `ssh -G` where there is one, else our own reader."""

from __future__ import annotations

import dataclasses
import getpass
import os
import re
import shutil
import socket
from pathlib import Path

from devkit import process
from devkit.errors import TunnelError
from devkit.tunnels import ssh_config_reader
from devkit.tunnels.model import HostPlan
from devkit.tunnels.ssh_config_reader import Values

DEFAULT_PORT = 22
_SSH_G_TIMEOUT_S = 20.0
# readconf.c: the order of fill_default_options; kinds paramiko has no code for are left out.
_DEFAULT_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ed25519")
_UNUSABLE_IDENTITIES = ("id_ecdsa_sk", "id_ed25519_sk", "id_xmss", "id_dsa")
_METHODS = {
    "publickey": "pubkeyauthentication",
    "keyboard-interactive": "kbdinteractiveauthentication",
    "password": "passwordauthentication",
}
_STRICT = {"false": "no", "off": "no", "no": "no", "true": "yes", "accept-new": "accept-new", "yes": "yes"}
_WINDOWS_AGENT = r"\\.\pipe\openssh-ssh-agent"
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def resolve(host: str, *, config_file: Path | None = None, openssh: bool = True) -> HostPlan:
    """How `ssh host` would reach a machine, its jump hosts not looked into.

    Args:
        host: an alias, or [user@]host[:port], or ssh://[user@]host[:port]
        config_file: read instead of the user's and the system's configuration (as `ssh -F`).
        openssh: False: never ask an OpenSSH client.

    Raises:
        TunnelError: "config": the configuration cannot be read, or `host` is no host.
    """
    user, name, port = parse_destination(host)
    given: Values = {}
    if user is not None:
        given["user"] = [user]
    if port is not None:
        given["port"] = [str(port)]
    if config_file is not None and not config_file.is_file():
        raise TunnelError(f"there is no ssh configuration {config_file}", reason="config")
    client = shutil.which("ssh") if openssh else None
    if client is not None:
        return _plan(name, host, _ask_openssh(client, name, given, config_file), "ssh -G")
    files = [config_file] if config_file is not None else [Path.home() / ".ssh/config", _system_config()]
    values, skipped = ssh_config_reader.read(name, files, given)
    for line in skipped:
        from devkit import output

        output.current().warn(line)
    return _plan(name, host, values, "devkit")


def resolve_chain(
    host: str, *, config_file: Path | None = None, openssh: bool = True
) -> tuple[HostPlan, ...]:
    """The machines on the way, first jump first, `host` last; each with its own configuration.

    As with OpenSSH the first of several jumps is reached as its own configuration says (which may
    name jumps of its own), the others through the one before them.

    Raises:
        TunnelError: "config": as `resolve`, or the jumps lead in a circle.
    """
    chain: list[HostPlan] = []
    seen: list[str] = []
    wanted, through = host, None
    while True:
        if wanted in seen:
            circle = " → ".join([*seen, wanted])
            raise TunnelError(
                f"the jump hosts of {host} lead in a circle",
                reason="config",
                evidence=f"{circle}, each through the next",
                hints=["correct ProxyJump in the ssh configuration"],
            )
        seen.append(wanted)
        plan = resolve(wanted, config_file=config_file, openssh=openssh)
        if through:
            plan = dataclasses.replace(plan, jumps=through, proxy_command=None)
        chain.insert(0, plan)
        if not plan.jumps:
            return tuple(chain)
        wanted, through = plan.jumps[-1], plan.jumps[:-1]


def parse_destination(text: str) -> tuple[str | None, str, int | None]:
    """User, host and port of [ssh://][user@]host[:port]; an IPv6 address with a port needs [brackets].

    Raises:
        TunnelError: "config": it is none.
    """
    body = text[6:] if text.startswith("ssh://") else text
    body = body.rstrip("/") if text.startswith("ssh://") else body
    user, _, rest = body.rpartition("@")
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+):(\d+)|(.+)", rest)
    name = next((part for part in (found[1], found[3], found[5]) if part), "") if found else ""
    port = (found[2] or found[4]) if found else None
    # A leading dash would be an option of the ssh program; control characters and blanks are no names.
    wrong = not name or name.startswith("-") or user.startswith("-")
    if wrong or not re.fullmatch(r"[^\s\x00-\x1f]+", name):
        hints = ["give [user@]host[:port], or a Host of ~/.ssh/config"]
        raise TunnelError(f"{text!r} is no host", reason="config", hints=hints)
    if port is not None and not 0 < int(port) < 65536:
        raise TunnelError(f"{text!r}: {port} is no port", reason="config")
    return user or None, name, int(port) if port else None


def _ask_openssh(client: str, name: str, given: Values, config_file: Path | None) -> Values:
    argv = [client, "-G"]
    if config_file is not None:
        argv += ["-F", str(config_file)]
    for option, keyword in (("-l", "user"), ("-p", "port")):
        if keyword in given:
            argv += [option, given[keyword][0]]
    done = process.run([*argv, "--", name], timeout_s=_SSH_G_TIMEOUT_S, check=False)
    if done.exit_code != 0:
        said = done.stderr.decode("utf-8", "replace").splitlines()
        lines = [line for line in said if "Pseudo-terminal" not in line]
        raise TunnelError(
            f"the ssh configuration for {name} cannot be used",
            reason="config",
            evidence=process.show(done.argv) + "\n" + "\n".join(lines),
        )
    values: Values = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword.lower(), []).append(value)
    for keyword in ("userknownhostsfile", "globalknownhostsfile"):
        # One line, blanks not quoted; but every path is absolute.
        values[keyword] = [
            path
            for line in values.get(keyword, [])
            for path in re.split(r"\s+(?=[/~]|[A-Za-z]:[\\/])", line)
            if path
        ]
    return values


def _plan(alias: str, asked: str, values: Values, source: str) -> HostPlan:
    def one(keyword: str, default: str) -> str:
        return values.get(keyword, [default])[0]

    port = int(one("port", str(DEFAULT_PORT)))
    hostname = one("hostname", "%h").replace("%%", "\0").replace("%h", alias).replace("\0", "%")
    user = one("user", "") or getpass.getuser()
    tokens = _tokens(alias, hostname, port, user)
    jumps = one("proxyjump", "none")
    command = one("proxycommand", "none")
    defaults = [f"~/.ssh/{name}" for name in _DEFAULT_IDENTITIES]
    identities = [
        name
        for name in values.get("identityfile", defaults)
        if Path(name).name not in _UNUSABLE_IDENTITIES and name != "none"
    ]
    default_known = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
    strict = one("stricthostkeychecking", "ask").lower()
    return HostPlan(
        alias=asked,
        hostname=hostname,
        port=port,
        user=user,
        identity_files=tuple(dict.fromkeys(_path(name, tokens) for name in identities)),
        certificate_files=tuple(
            _path(name, tokens) for name in values.get("certificatefile", []) if name != "none"
        ),
        identities_only=one("identitiesonly", "no").lower() in ("yes", "true"),
        identity_agent=_agent(values.get("identityagent"), tokens),
        jumps=() if jumps.lower() == "none" else tuple(_bare(jump) for jump in jumps.split(",")),
        proxy_command=None if command.lower() == "none" else _expand(command, tokens),
        user_known_hosts=tuple(
            _path(name, tokens) for name in values.get("userknownhostsfile", default_known) if name != "none"
        ),
        global_known_hosts=tuple(
            _path(name, tokens)
            for name in values.get("globalknownhostsfile", _global_known_hosts())
            if name != "none"
        ),
        host_key_alias=one("hostkeyalias", "") or None,
        hash_known_hosts=one("hashknownhosts", "no").lower() in ("yes", "true"),
        strict=_STRICT.get(strict, "ask"),
        connect_timeout_s=_seconds(one("connecttimeout", "none")),
        keepalive_s=_seconds(one("serveraliveinterval", "0")),
        keepalive_count=int(one("serveralivecountmax", "3")),
        auth_methods=_methods(values),
        source=source,
    )


def _methods(values: Values) -> tuple[str, ...]:
    def on(keyword: str, default: str = "yes") -> bool:
        return values.get(keyword, [default])[0].lower() in ("yes", "true", "unbound", "host-bound")

    asked = values.get("preferredauthentications", ["publickey,keyboard-interactive,password"])[0]
    batch = on("batchmode", "no")
    return tuple(
        name
        for name in asked.split(",")
        if name in _METHODS and on(_METHODS[name]) and not (batch and name != "publickey")
    )


def _tokens(alias: str, hostname: str, port: int, user: str) -> dict[str, str]:
    """ssh_config(5), TOKENS; %C (a hash for socket names) is of no use here."""
    here = socket.gethostname()
    return {
        "%": "%",
        "d": os.path.expanduser("~"),
        "h": hostname,
        "i": str(getattr(os, "getuid", lambda: 0)()),
        "k": alias,
        "L": here.split(".")[0],
        "l": here,
        "n": alias,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
    }


def _expand(text: str, tokens: dict[str, str]) -> str:
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)


def _path(name: str, tokens: dict[str, str]) -> Path:
    text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], found[0]), name)
    return Path(os.path.expanduser(_expand(text, tokens)))


def _agent(values: list[str] | None, tokens: dict[str, str]) -> str | None:
    name = values[0] if values else "SSH_AUTH_SOCK"
    if name.lower() == "none":
        return None
    if name == "SSH_AUTH_SOCK":
        return os.environ.get(name) or (_WINDOWS_AGENT if os.name == "nt" else None)
    if re.fullmatch(r"\$\w+", name):
        return os.environ.get(name[1:]) or None
    return str(_path(name, tokens))


def _seconds(text: str) -> float | None:
    """sshd_config(5), TIME FORMATS: "90", "1m30s"; 0 and "none" are None."""
    total = sum(
        int(number) * _UNITS_S[unit.lower()] for number, unit in re.findall(r"(\d+)([smhdwSMHDW]?)", text)
    )
    return float(total) or None


def _bare(jump: str) -> str:
    return jump.strip().removeprefix("ssh://").rstrip("/")


def _system_config() -> Path:
    if os.name == "nt":
        return Path(os.environ.get("PROGRAMDATA", "C:\\ProgramData")) / "ssh" / "ssh_config"
    return Path("/etc/ssh/ssh_config")


def _global_known_hosts() -> list[str]:
    folder = _system_config().parent
    return [str(folder / "ssh_known_hosts"), str(folder / "ssh_known_hosts2")]
