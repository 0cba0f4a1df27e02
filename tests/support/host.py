"""One host of hosts.py, and the cables between them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.support import eventually

if TYPE_CHECKING:
    from tests.support.hosts import Hosts

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
IP = shutil.which("ip", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
# The one user that exists on the hosts of an ordinary user, whose namespace maps no other.
ORDINARY_UID, ORDINARY_NAME = 1000, "dev"
START_TIMEOUT_S = 30.0
_HERE = Path(__file__).parent


@dataclass
class Link:
    """A cable between two hosts. Cut and healed, or made slow, while it is used.

    `ports`: its two ends in the world's own network; `bridge`: what joins them while it is not shaped.
    """

    world: Hosts
    name: str
    bridge: str
    ports: tuple[str, str]
    _wire: subprocess.Popen[bytes] | None = None
    _shape: tuple[float, float] = (0.0, 0.0)
    _is_cut: bool = False

    def cut(self) -> None:
        """From now on packets vanish, silently: neither host's interface goes down."""
        self._is_cut = True
        self._apply()

    def heal(self) -> None:
        """Undo `cut`."""
        self._is_cut = False
        self._apply()

    def shape(self, *, delay_s: float = 0.0, rate_bits_s: float = 0.0) -> None:
        """Make it slow.

        Args:
            delay_s: one way, each way.
            rate_bits_s: each way, 0 for no limit.
        """
        self._shape = (delay_s, rate_bits_s)
        self._apply()

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        """`cut` for the time of the block."""
        self.cut()
        try:
            yield
        finally:
            self.heal()

    def _apply(self) -> None:
        if self._wire is not None:
            self._wire.kill()
            self._wire.wait()
            self._wire = None
        shaped = any(self._shape)
        for port in self.ports:
            self.world.ip("link", "set", "dev", port, *(["nomaster"] if shaped else ["master", self.bridge]))
        self.world.ip("link", "set", "dev", self.bridge, "down" if self._is_cut or shaped else "up")
        if shaped and not self._is_cut:
            script = [sys.executable, "-I", "-S", _HERE / "hosts_wire.py"]
            self._wire = self.world.start([*script, *self.ports, *map(str, self._shape)])
            assert self._wire.stdout is not None and self._wire.stdout.readline() == b"up\n"


@dataclass
class Host:
    """One of the hosts.

    Attributes:
        name: "server", "jump" or "laptop"; its host name, and how the laptop's ssh config calls it.
        home: the home folder of its user.
        addresses: by the name of the link.
    """

    world: Hosts
    name: str
    home: Path
    pid: int
    addresses: dict[str, str] = field(default_factory=dict)
    _sshd: subprocess.Popen[bytes] | None = None

    @property
    def user(self) -> str:
        """Who logs in here."""
        return self.world.user

    def argv(self, argv: Sequence[str | Path], *, cwd: Path | None = None, **env: str) -> list[str]:
        """The command line that runs another one here, for subprocess. It is killed with its starter."""
        enter = ["nsenter", "-t", str(self.pid), "-n", "-m", "-u", "--"]
        return self.world.argv([*enter, *_with_environment(self, cwd or self.home, env), *map(str, argv)])

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
        **env: str,
    ) -> subprocess.Popen[bytes]:
        """Start a program here."""
        return subprocess.Popen(
            self.argv(argv, cwd=cwd, **env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=_outer_environment(),
        )

    def run(
        self,
        *argv: str | Path,
        stdin: bytes = b"",
        check: bool = True,
        timeout_s: float = 60,
        cwd: Path | None = None,
        **env: str,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program here to its end."""
        done = subprocess.run(
            self.argv(argv, cwd=cwd, **env),
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env=_outer_environment(),
        )
        assert not check or done.returncode == 0, (self.name, argv, done.returncode, done.stderr.decode())
        return done

    def ip(self, *words: str) -> str:
        """Run `ip` here."""
        return self.run(str(IP), *words).stdout.decode()

    def address(self, link: Link) -> str:
        """Its address on a link."""
        return self.addresses[link.name]

    def listens(self, port: int, address: str = "127.0.0.1") -> bool:
        """Whether something here listens at a port. Nothing is dialled."""
        wanted = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
        lines = self.run("cat", "/proc/net/tcp").stdout.decode().splitlines()[1:]
        return any(line.split()[1] == wanted and line.split()[3] == "0A" for line in lines)

    # sshd

    def start_sshd(self, **options: str) -> None:
        """Start its sshd on port 22. Options are those of sshd_config, as GatewayPorts="yes"."""
        folder = self.home.parent
        config = folder / "sshd_config"
        config.write_text(sshd_config(folder, self.world.is_root, options))
        command: list[str | Path] = [str(SSHD), "-D", "-e", "-f", config]
        if not self.world.is_root:
            # As an ordinary user of the host: to change users sshd would need more than one to be mapped.
            ids = [f"--map-user={ORDINARY_UID}", f"--map-group={ORDINARY_UID}"]
            command = ["unshare", "--user", *ids, "--", *command]
        with self.log.open("ab") as log:
            self._sshd = self.start(command, stdout=log.fileno(), stderr=log.fileno())
        sshd = self._sshd
        assert eventually(lambda: self.listens(22, "0.0.0.0") or sshd.poll() is not None, START_TIMEOUT_S)
        assert sshd.poll() is None, self.log.read_text()

    @property
    def log(self) -> Path:
        """What its sshd says."""
        return self.home.parent / "sshd.log"

    def stop_sshd(self) -> None:
        """End the sshd that listens; sessions live on, as after `systemctl stop ssh`."""
        if self._sshd is not None:
            self._sshd.kill()
            self._sshd.wait()
            self._sshd = None
        assert eventually(lambda: not self.listens(22, "0.0.0.0"), START_TIMEOUT_S)

    def kill_sshd(self) -> None:
        """End its sshd and all sessions at once, as a host that crashes."""
        self.stop_sshd()

        def none_left() -> bool:
            for pid in self.pids_called("sshd"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            return not self.pids_called("sshd")

        assert eventually(none_left, START_TIMEOUT_S)

    def restart_sshd(self, **options: str) -> None:
        """`kill_sshd`, then `start_sshd`."""
        self.kill_sshd()
        self.start_sshd(**options)

    def pids_called(self, start: str) -> list[int]:
        """Those of them whose name begins so."""
        return [pid for pid in self.pids() if _comm(pid).startswith(start)]

    def pids(self) -> list[int]:
        """All its processes; their ids are those of the tests' machine."""
        network = self.run("readlink", "/proc/self/ns/net").stdout.decode().strip()
        return self.world.pids_in(network)


def sshd_config(folder: Path, is_root: bool, options: Mapping[str, str]) -> str:
    """The text of an sshd_config for a host whose files are in a folder; `options` come before ours."""
    settings = {
        "Port": "22",
        "AddressFamily": "inet",
        "HostKey": f'"{folder / "host_ed25519"}"',
        "AuthorizedKeysFile": f'"{folder / "home/.ssh/authorized_keys"}"',
        "PidFile": "none",
        # The folders of tests belong to whoever runs them, often below a /tmp that all may write.
        "StrictModes": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "UsePAM": "no" if is_root else None,
        "PrintMotd": "no",
        "LogLevel": "VERBOSE",
        "MaxStartups": "1000",
    }
    lines = [f"{name} {value}" for name, value in options.items()]
    lines += [f"{name} {value}" for name, value in settings.items() if value is not None]
    return "\n".join(lines) + "\n"


def _with_environment(host: Host, cwd: Path, env: Mapping[str, str]) -> list[str]:
    settings = {"HOME": str(host.home), "USER": host.user, "LOGNAME": host.user, **env}
    return ["env", "-C", str(cwd), *(f"{name}={value}" for name, value in settings.items())]


def _outer_environment() -> dict[str, str]:
    """What programs on the hosts see of the tests' environment; images of virtual phones are shared."""
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "XDG_CACHE_HOME": cache}


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
