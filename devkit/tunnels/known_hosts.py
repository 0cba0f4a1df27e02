"""known_hosts files: is this host key the one we know, and adding a new one without losing a byte."""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import FileError
from devkit.tunnels.ssh_config_reader import matches

DEFAULT_PORT = 22
_HASHED = "|1|"


@dataclass(frozen=True)
class Entry:
    """One line. `marker` is "", "@revoked" or "@cert-authority"."""

    file: Path
    line: int
    marker: str
    key_type: str
    blob: bytes

    @property
    def place(self) -> str:
        """file:line"""
        return f"{self.file}:{self.line}"

    @property
    def fingerprint(self) -> str:
        """SHA256:…"""
        return fingerprint(self.blob)


@dataclass(frozen=True)
class Verdict:
    """What the files say of a key.

    Attributes:
        state: "known", "unknown", "changed" or "revoked".
        entries: the lines that decide it: those with other keys for "changed".
    """

    state: str
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class KnownHosts:
    """The lines about one host, and what could not be read on the way."""

    name: str
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]

    @property
    def key_types(self) -> tuple[str, ...]:
        """Types of the keys that are known: the server has to be asked for one of these."""
        return tuple(dict.fromkeys(entry.key_type for entry in self.entries if not entry.marker))

    def judge(self, key_type: str, blob: bytes) -> Verdict:
        """Whether a key the host showed is right."""
        same = [entry for entry in self.entries if entry.blob == blob]
        revoked = tuple(entry for entry in same if entry.marker == "@revoked")
        if revoked:
            return Verdict("revoked", revoked)
        known = tuple(entry for entry in same if not entry.marker)
        if known:
            return Verdict("known", known)
        # The server is asked for the types that are known first: one that shows another has lost those.
        others = tuple(entry for entry in self.entries if not entry.marker)
        if others:
            return Verdict("changed", others)
        return Verdict("unknown")


def known_as(host: str, port: int) -> str:
    """The name a host is stored under: `host`, or `[host]:port` for another port than 22."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def fingerprint(blob: bytes) -> str:
    """SHA256:…, as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def load(name: str, files: Sequence[Path]) -> KnownHosts:
    """The lines about `name` (as `known_as` makes it). Files that do not exist are skipped.

    Raises:
        FileError: a file is there but cannot be read: nothing could be decided then.
    """
    entries: list[Entry] = []
    warnings: list[str] = []
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise FileError(f"{file} cannot be read", evidence=str(error.strerror or error)) from None
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            marker = words.pop(0) if words[0].startswith("@") else ""
            if len(words) < 3:
                warnings.append(f"{file}:{number} is no known_hosts line and is skipped")
                continue
            names, key_type, encoded = words[:3]
            fits = _fits(name, names)
            if fits is None:
                warnings.append(f"{file}:{number}: the hashed name is damaged; the line is skipped")
                continue
            blob = _decoded(key_type, encoded) if fits else None
            if fits and blob is None:
                warnings.append(f"{file}:{number}: the key is damaged; the line is skipped")
            elif blob is not None:
                entries.append(Entry(file, number, marker, key_type, blob))
    return KnownHosts(name, tuple(entries), tuple(warnings))


def add(file: Path, name: str, key_type: str, blob: bytes, *, hashed: bool) -> None:
    """Append a line; every byte that was there stays, links, owner and permissions too.

    It is appended in one write, not by replacing the file: an ssh that adds its own line just now
    would lose it.

    Raises:
        FileError: it cannot be read or written; it is unchanged then.
    """
    shown = _hash(name, secrets.token_bytes(20)) if hashed else name
    encoded = base64.b64encode(blob).decode("ascii")
    line = f"{shown} {key_type} {encoded}\n".encode("utf-8", "surrogateescape")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            size = os.fstat(handle).st_size
            if size:
                os.lseek(handle, size - 1, os.SEEK_SET)
                line = line if os.read(handle, 1) == b"\n" else b"\n" + line
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
    except OSError as error:
        raise FileError(
            f"the host key cannot be added to {file}", evidence=str(error.strerror or error)
        ) from None


def _fits(name: str, names: str) -> bool | None:
    """Whether a line's first field names the host; None when it is damaged."""
    if not names.startswith("|"):
        return matches(name, [pattern.lower() for pattern in names.split(",")])
    parts = names.split("|")
    if not names.startswith(_HASHED) or len(parts) != 4:
        return None
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except ValueError:
        return None
    return hmac.compare_digest(
        hmac.new(salt, name.encode("utf-8", "surrogateescape"), "sha1").digest(), digest
    )


def _hash(name: str, salt: bytes) -> str:
    parts = (salt, _digest(name, salt))
    return _HASHED + "|".join(base64.b64encode(part).decode("ascii") for part in parts)


def _digest(name: str, salt: bytes) -> bytes:
    return hmac.new(salt, name.encode("utf-8", "surrogateescape"), "sha1").digest()


def _decoded(key_type: str, encoded: str) -> bytes | None:
    try:
        blob = base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
    # The blob begins with its own type; a line whose two types differ cannot be trusted.
    length = int.from_bytes(blob[:4], "big")
    return blob if blob[4 : 4 + length] == key_type.encode("ascii", "replace") else None
