"""Three hosts on one machine: a server S, a jump host J and a laptop L, in namespaces of their own.

    L (10.77.1.2) ── laptop-jump ── J (10.77.1.1, 10.77.2.1) ── jump-server ── S (10.77.2.2)

J forwards no packets: L and S see J only. Each host has its own loopback, host name, /etc/passwd, home
folder and sshd; all see the same files. Works for root, and for users who may make user namespaces. All
of it, and everything that was started in it, ends with the process that made it, also by SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.host import IP, ORDINARY_NAME, ORDINARY_UID, SSHD, START_TIMEOUT_S, Host, Link

_HERE = Path(__file__).parent


class NoNamespaces(Exception):
    """This machine or user may not make hosts; says what was refused."""


class Hosts:
    """The three hosts and their links.

    Raises:
        NoNamespaces: they cannot be made here.
    """

    def __init__(self, base: Path) -> None:
        if IP is None or SSHD is None or shutil.which("nsenter") is None:
            raise NoNamespaces("ip (iproute2), sshd (openssh-server) and nsenter (util-linux) are needed")
        self.base = base
        self.is_root = os.geteuid() == 0
        self.user = pwd.getpwuid(0).pw_name if self.is_root else ORDINARY_NAME
        user_namespace = [] if self.is_root else ["--user", "--map-root-user"]
        kinds = [
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation",
            "private",
        ]
        self._init = subprocess.Popen(
            ["unshare", *user_namespace, *kinds, sys.executable, "-I", "-S", _HERE / "hosts_init.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert self._init.stdout is not None and self._init.stderr is not None
            if self._init.stdout.readline() != b"up\n":
                raise NoNamespaces(self._init.stderr.read().decode().strip())
            self._pid = _child_of(self._init.pid)
            self._build()
        except subprocess.CalledProcessError as error:
            self.close()
            raise NoNamespaces(f"{error.cmd}: {error.stderr.decode().strip()}") from None
        except BaseException:
            self.close()
            raise

    @property
    def links(self) -> tuple[Link, Link]:
        return self.laptop_jump, self.jump_server

    @property
    def all(self) -> tuple[Host, Host, Host]:
        return self.server, self.jump, self.laptop

    def close(self) -> None:
        """End everything that runs on the hosts, and the hosts."""
        assert self._init.stdin is not None
        self._init.stdin.close()
        try:
            self._init.wait(5)
        except subprocess.TimeoutExpired:
            self._init.kill()
            self._init.wait()
        for pipe in (self._init.stdout, self._init.stderr):
            assert pipe is not None
            pipe.close()

    def argv(self, argv: Sequence[str | Path]) -> list[str]:
        """The command line that runs another one in the world, beside the hosts."""
        user = [] if self.is_root else ["--user", "--preserve-credentials"]
        enter = ["nsenter", "-t", str(self._pid), *user, "-n", "-m", "-p", "--"]
        # nsenter forks here; what it runs must not outlive it.
        return [*enter, "setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)]

    def start(self, argv: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        """Start a program in the world, beside the hosts."""
        return subprocess.Popen(self.argv(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def ip(self, *words: str) -> None:
        """Run `ip` in the world's own network, where the cables are."""
        self._do([str(IP), *words])

    def program_of(self, started: subprocess.Popen[bytes]) -> int:
        """The id of a program that was started on a host: `started` itself is what brought it there."""
        return _child_of(started.pid)

    def pids_in(self, network: str) -> list[int]:
        """Processes of the tests' machine that are in a network, "net:[NUMBER]"."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/net") == network:
                    found.append(int(entry.name))
        return found

    # making it

    def _build(self) -> None:
        if self.is_root:
            # Where sshd separates its privileges; the machine's own /run stays as it is.
            self._do(["mount", "-t", "tmpfs", "none", "/run"])
            self._do(["mkdir", "-m", "755", "/run/sshd"])
        self.server, self.jump, self.laptop = (self._host(name) for name in ("server", "jump", "laptop"))
        self.laptop_jump = self._link("laptop-jump", "10.77.1", self.jump, self.laptop)
        self.jump_server = self._link("jump-server", "10.77.2", self.jump, self.server)
        self._keys()
        for host in (self.server, self.jump):
            host.start_sshd()

    def _host(self, name: str) -> Host:
        home = self.base / name / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        passwd, names = home.parent / "passwd", home.parent / "hosts"
        passwd.write_text(_passwd(home))
        names.write_text(f"127.0.0.1 localhost {name}\n::1 localhost\n")
        script = (
            f'mount --bind "$1" /etc/passwd && mount --bind "$2" /etc/hosts && hostname {name}'
            " && echo 0 >/proc/sys/net/ipv4/ip_forward"
            " && echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start"
            f" && {IP} link set lo up && echo $$ && exec sleep infinity"
        )
        holder = self.start(
            ["unshare", "--net", "--mount", "--uts", "sh", "-ec", script, "sh", passwd, names]
        )
        assert holder.stdout is not None
        said = holder.stdout.readline().strip()
        if not said:
            raise NoNamespaces(f"the host {name} does not start")
        return Host(self, name, home, int(said))

    @contextlib.contextmanager
    def vpn(self, network: str, first: Host, second: Host, interface: str = "tailscale0") -> Iterator[Link]:
        """A direct way between two hosts, as a VPN makes it: NETWORK.1 and NETWORK.2, each a /32."""
        link = self._link(f"vpn{network[-1]}", network, first, second, interface, 32)
        for host in (first, second):
            host.ip("route", "add", f"{network}.0/24", "dev", interface)
        try:
            yield link
        finally:
            for port in link.ports:
                self.ip("link", "del", "dev", port)
            self.ip("link", "del", "dev", link.bridge)

    def _link(
        self,
        name: str,
        network: str,
        first: Host,
        second: Host,
        interface: str | None = None,
        prefix: int = 24,
    ) -> Link:
        bridge = f"br-{name}"
        self.ip("link", "add", "name", bridge, "type", "bridge")
        ports = []
        for number, host in enumerate((first, second), 1):
            port = f"{network[-1]}-{host.name}"
            inside = interface or f"to-{(second if host is first else first).name}"
            self.ip(
                "link", "add", "name", port, "type", "veth", "peer", "name", inside, "netns", str(host.pid)
            )
            self.ip("link", "set", "dev", port, "master", bridge, "up")
            host.addresses[name] = f"{network}.{number}"
            host.ip("addr", "add", f"{network}.{number}/{prefix}", "dev", inside)
            host.ip("link", "set", "dev", inside, "up")
            ports.append(port)
        self.ip("link", "set", "dev", bridge, "up")
        return Link(self, name, bridge, (ports[0], ports[1]))

    def _keys(self) -> None:
        """The laptop's user may log in on J and S, knows both hosts, and calls them by name."""
        ssh = self.laptop.home / ".ssh"
        self._make_key(ssh / "id_ed25519", f"{self.user}@laptop")
        known = []
        for host in (self.jump, self.server):
            folder = host.home.parent
            self._make_key(folder / "host_ed25519", host.name)
            shutil.copy(ssh / "id_ed25519.pub", host.home / ".ssh/authorized_keys")
            key = " ".join((folder / "host_ed25519.pub").read_text().split()[:2])
            known += [f"{address} {key}" for address in host.addresses.values()]
        (ssh / "known_hosts").write_text("\n".join(known) + "\n")
        (ssh / "config").write_text(
            f"Host jump\n  HostName {self.jump.address(self.laptop_jump)}\n  User {self.user}\n"
            f"Host server\n  HostName {self.server.address(self.jump_server)}\n  User {self.user}\n"
            "  ProxyJump jump\n"
            f'Host *\n  IdentityFile "{ssh / "id_ed25519"}"\n  UserKnownHostsFile "{ssh / "known_hosts"}"\n'
        )
        for file in ssh.iterdir():
            file.chmod(0o600)

    def _make_key(self, path: Path, comment: str) -> None:
        # In the world: ssh-keygen wants its user to have a name.
        self._do(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])

    def _do(self, argv: Sequence[str | Path]) -> None:
        subprocess.run(self.argv(argv), check=True, capture_output=True, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def made_hosts() -> Iterator[Hosts]:
    """The hosts, for a fixture; where they cannot be made the test is skipped, which fails in CI."""
    # Not pytest's own folder: its path is long, and sockets' names are short.
    with tempfile.TemporaryDirectory(prefix="devkit-hosts-", ignore_cleanup_errors=True) as base:
        try:
            hosts = Hosts(Path(base))
        except NoNamespaces as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        with hosts:
            yield hosts


def _passwd(home: Path) -> str:
    """This machine's users, with the host's own home for the one who logs in."""
    lines = []
    for entry in pwd.getpwall():
        if entry.pw_uid not in (0, ORDINARY_UID):
            lines.append(f"{entry.pw_name}:x:{entry.pw_uid}:{entry.pw_gid}::{entry.pw_dir}:{entry.pw_shell}")
    root = pwd.getpwuid(0).pw_name
    lines.append(f"{root}:x:0:0:{root}:{home}:/bin/sh")
    lines.append(f"{ORDINARY_NAME}:x:{ORDINARY_UID}:{ORDINARY_UID}::{home}:/bin/sh")
    return "\n".join(lines) + "\n"


def _child_of(pid: int) -> int:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    return int(entry.name)
        time.sleep(0.01)
    raise NoNamespaces("the first process of the hosts is not there")
