"""Keys to log in with: of the agent and of files. Reads them; offering them is `auth`."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.tunnels.known_hosts import fingerprint

if TYPE_CHECKING:
    from paramiko.pkey import PKey

AGENT_TIMEOUT_S = 10.0
# A person may have to touch a key or press a button before an agent signs.
AGENT_SIGN_TIMEOUT_S = 120.0
_OPENSSH_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class KeyFile:
    """An IdentityFile, as far as it can be read without a passphrase.

    Attributes:
        public: the public key's blob, None when only the passphrase would show it.
        problem: why it cannot be used, or None.
    """

    path: Path
    public: bytes | None
    encrypted: bool
    is_private: bool
    problem: str | None = None


class Agent:
    """The user's agent, or none. `problem` says why a configured one cannot be used."""

    def __init__(self, address: str | None) -> None:
        self.keys: tuple[Any, ...] = ()
        self.problem: str | None = None
        self._agent: Any = None
        if address is None:
            return
        try:
            self._connect(address)
        except Exception as error:  # whatever listens there may speak anything
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.problem = f"agent {address}: {reason}"
            self.close()

    def _connect(self, address: str) -> None:
        import paramiko
        from paramiko.agent import AgentSSH

        if os.name == "nt":
            self._agent = paramiko.Agent()
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(AGENT_TIMEOUT_S)
                sock.connect(address)
                self._agent = AgentSSH()
                self._agent._connect(sock)
                sock.settimeout(AGENT_SIGN_TIMEOUT_S)
            except BaseException:
                sock.close()
                raise
        self.keys = tuple(self._agent.get_keys())

    def close(self) -> None:
        """Close the connection to it."""
        if self._agent is not None:
            with contextlib.suppress(Exception):
                self._agent._close()
            self._agent = None


def read_key_file(path: Path) -> KeyFile:
    """What a file holds, without asking anybody."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return KeyFile(path, None, False, False, "not there")
    except OSError as error:
        return KeyFile(path, None, False, False, str(error.strerror or error))
    beside = _public_line(path.with_name(path.name + ".pub"))
    line = _public_blob(data)
    if line is not None:
        return KeyFile(path, line, False, False)
    text = data.decode("latin-1")
    if "PRIVATE KEY" not in text:
        return KeyFile(path, beside, False, False, "no private key")
    if "BEGIN OPENSSH PRIVATE KEY" in text:
        cipher, public = _openssh_header(text)
        return KeyFile(path, public or beside, cipher != "none", True)
    encrypted = "ENCRYPTED" in text
    return KeyFile(path, beside, encrypted, True)


def load_private(path: Path, passphrase: str | None) -> PKey:
    """The private key of a file.

    Raises:
        ValueError: with a text for people; never with what the file or the passphrase holds.
        PermissionError: the passphrase is wrong.
    """
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    secret = passphrase.encode("utf-8") if passphrase is not None else None
    try:
        loaded = _load(path.read_bytes(), secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if secret is not None:
            raise PermissionError("wrong passphrase") from None
        raise ValueError(f"cannot be read ({type(error).__name__})") from None
    kinds: tuple[tuple[type, type[PKey]], ...] = (
        (ed25519.Ed25519PrivateKey, paramiko.Ed25519Key),
        (ec.EllipticCurvePrivateKey, paramiko.ECDSAKey),
        (rsa.RSAPrivateKey, paramiko.RSAKey),
    )
    kind = next((ours for theirs, ours in kinds if isinstance(loaded, theirs)), None)
    if kind is None:
        raise ValueError(f"its kind is not supported ({type(loaded).__name__})")
    try:
        key: PKey = kind.from_private_key_file(str(path), passphrase)
    except paramiko.SSHException as error:
        raise ValueError(f"cannot be used ({type(error).__name__})") from None
    return key


def describe(key: PKey) -> str:
    """Type and fingerprint."""
    return f"{key.get_name()} {fingerprint(key.asbytes())}"


def certificate_blob(path: Path) -> bytes | None:
    """The public key's type and blob of a certificate file, or None when it is none."""
    try:
        words = path.read_text("utf-8").split()
        return base64.b64decode(words[1]) if "-cert-v01@" in words[0] else None
    except (OSError, ValueError, IndexError):
        return None


def _load(data: bytes, secret: bytes | None) -> object:
    from cryptography.hazmat.primitives import serialization

    if b"BEGIN OPENSSH PRIVATE KEY" in data:
        return serialization.load_ssh_private_key(data, secret)
    return serialization.load_pem_private_key(data, secret)


def _public_line(path: Path) -> bytes | None:
    try:
        return _public_blob(path.read_bytes())
    except OSError:
        return None


def _public_blob(data: bytes) -> bytes | None:
    words = data.split(None, 2)
    if len(words) < 2 or b"-----" in words[0]:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except ValueError:
        return None
    length = int.from_bytes(blob[:4], "big")
    return blob if blob[4 : 4 + length] == words[0] else None


def _openssh_header(text: str) -> tuple[str, bytes | None]:
    """Cipher and public key of OpenSSH's private key format: both stand before what is encrypted."""
    body = text.split("-----BEGIN OPENSSH PRIVATE KEY-----", 1)[1].split("-----END", 1)[0]
    try:
        data = base64.b64decode("".join(body.split()))
    except ValueError:
        return "none", None
    if not data.startswith(_OPENSSH_MAGIC):
        return "none", None
    rest, fields = data[len(_OPENSSH_MAGIC) :], []
    for position in range(4):
        if position == 3:
            rest = rest[4:]  # the number of keys, always 1
        length = int.from_bytes(rest[:4], "big")
        fields.append(rest[4 : 4 + length])
        rest = rest[4 + length :]
    return fields[0].decode("ascii", "replace"), fields[3] or None
