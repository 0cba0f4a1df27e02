"""The real OpenSSH server on loopback: own host keys, own configuration, the current user logs in."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "/usr/sbin/sshd"
START_TIMEOUT_S = 30.0
# An RSA key takes a second to make, so it is made for the tests that ask for it.
HOST_KEY_TYPES = ("ed25519", "ecdsa")


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A fresh key pair; the public part is beside it with .pub."""
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "devkit test", "-f", str(path)]
    argv += ["-b", "2048"] if kind == "rsa" else []
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


def public(path: Path) -> str:
    """Type and key of a public key file, without its comment."""
    return " ".join(path.with_name(path.name + ".pub").read_text("utf-8").split()[:2])


def fingerprint(path: Path) -> str:
    """SHA256:… of a public key file, as ssh-keygen says it."""
    done = subprocess.run(["ssh-keygen", "-lf", f"{path}.pub"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


class Sshd:
    """One server. Everything it needs is in `folder`; `options` are lines of sshd_config.

    Args:
        options: take precedence over the defaults here (in sshd_config the first value wins).
        uid: run it as this user instead of the current one (root only); that user logs in then.
    """

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = (),
        *,
        uid: int | None = None,
        host_keys: Sequence[str] = HOST_KEY_TYPES,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._options = tuple(options)
        self._uid = uid
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "log"
        self.authorized_keys = folder / "authorized_keys"
        self.authorized_keys.touch()
        self.port = _free_port()
        self._host_keys = tuple(host_keys)
        for kind in host_keys:
            if not self.host_key(kind).exists():
                make_key(self.host_key(kind), kind)
        if uid is not None:
            for path in [folder, *folder.iterdir()]:
                os.chown(path, uid, -1)

    @property
    def user(self) -> str:
        """Who can log in."""
        if self._uid is None:
            return getpass.getuser()
        import pwd

        return pwd.getpwuid(self._uid).pw_name

    @property
    def pid(self) -> int:
        """The listening process."""
        assert self._process is not None
        return self._process.pid

    def host_key(self, kind: str) -> Path:
        """Its private host key of one type."""
        return self.folder / f"host_{kind}"

    def known_hosts_line(self, kind: str = "ed25519") -> str:
        """What the user's known_hosts holds after a first login."""
        return f"[127.0.0.1]:{self.port} {public(self.host_key(kind))}\n"

    def authorize(self, key: Path, options: str = "") -> None:
        """Let a key log in."""
        with self.authorized_keys.open("a", encoding="utf-8") as file:
            file.write(f"{options} {public(key)}\n".lstrip())

    def start(self) -> Sshd:
        """Start it and wait until it accepts connections."""
        config = self.folder / "sshd_config"
        lines = [
            *self._options,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            *(f"HostKey {self.host_key(kind)}" for kind in self._host_keys),
            f"AuthorizedKeysFile {self.authorized_keys}",
            f"PidFile {self.folder / 'pid'}",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "LogLevel VERBOSE",
            "MaxStartups 200",
            "PrintMotd no",
        ]
        config.write_text("\n".join(lines) + "\n", "utf-8")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        argv = [PROGRAM, "-D", "-e", "-f", str(config)]
        if self._uid is not None:
            import pwd

            group = pwd.getpwuid(self._uid).pw_gid
            argv = ["setpriv", f"--reuid={self._uid}", f"--regid={group}", "--clear-groups", *argv]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return self
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd does not start:\n{self.log.read_text('utf-8', 'replace')}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the listener and every session."""
        if self._process is None:
            return
        for pid in [*self.session_pids(), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def session_pids(self) -> list[int]:
        """Processes that serve one connection each (the listener is none of them)."""
        assert self._process is not None
        found, parents = [], [self._process.pid]
        while parents:
            children = _children(parents.pop())
            parents += children
            found += [pid for pid in children if _name(pid).startswith("sshd")]
        return found

    def signal_sessions(self, number: int) -> None:
        """Send a signal to every connection's process (SIGKILL: cut; SIGSTOP: a link that went silent)."""
        for pid in self.session_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def __enter__(self) -> Sshd:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return ""
