"""RSA authentication of adb hosts: known keys, and asking the phone's user about new ones.

Keys lie where Android's adbd has them, in /data/misc/adb. The "screen" is two folders beside them: a
new key appears in `pending/`, and whoever plays the user puts the answer for it into `answers/`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devkit.sim.adbd.log import log

TOKEN_BYTES = 20
KEYS_FILE, PENDING_DIR, ANSWERS_DIR = "adb_keys", "pending", "answers"
ALWAYS, ONCE, DENY = "always", "once", "deny"

# libcrypto_utils/android_pubkey.cpp: modulus size in words, n0inv, modulus, rr, exponent; little endian.
_MODULUS_BYTES = 256
_ENCODED_BYTES = 4 + 4 + _MODULUS_BYTES + _MODULUS_BYTES + 4
# RFC 8017, 9.2: the DER prefix of a SHA-1 DigestInfo. adb signs the token as if it were the digest.
_DIGEST_INFO = bytes.fromhex("3021300906052b0e03021a05000414")
_PADDING = b"\x00\x01" + b"\xff" * (_MODULUS_BYTES - 3 - len(_DIGEST_INFO) - TOKEN_BYTES) + b"\x00"
_LOOK_EVERY_S = 0.05
# adbd slows a peer down that keeps signing with keys nobody knows.
_PATIENT_FAILURES = 256
_FAILURE_PAUSE_S = 1.0


@dataclass(frozen=True)
class PublicKey:
    """An RSA key as adbkey.pub has it.

    Args:
        line: base64 and a comment ("user@host").
    """

    line: str
    modulus: int
    exponent: int

    @property
    def fingerprint(self) -> str:
        """The MD5 that Android's dialog shows: AA:BB:CC…"""
        digest = hashlib.md5(base64.b64decode(self.line.split()[0]), usedforsecurity=False).hexdigest()
        return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2)).upper()

    def verifies(self, token: bytes, signature: bytes) -> bool:
        """Whether this key's owner signed the token."""
        number = int.from_bytes(signature, "big")
        if len(signature) != _MODULUS_BYTES or number >= self.modulus:
            return False
        plain = pow(number, self.exponent, self.modulus).to_bytes(_MODULUS_BYTES, "big")
        return hmac.compare_digest(plain, _PADDING + _DIGEST_INFO + token)


def parse_public_key(line: str) -> PublicKey | None:
    """Understand a line of adb_keys or adbkey.pub; None when it is no such key."""
    words = line.split()
    try:
        data = base64.b64decode(words[0], validate=True)
    except (IndexError, ValueError, binascii.Error):
        return None
    if len(data) != _ENCODED_BYTES or int.from_bytes(data[:4], "little") * 4 != _MODULUS_BYTES:
        return None
    modulus = int.from_bytes(data[8 : 8 + _MODULUS_BYTES], "little")
    exponent = int.from_bytes(data[-4:], "little")
    # Without these an empty or even modulus would let anybody in.
    if modulus.bit_length() != _MODULUS_BYTES * 8 or modulus % 2 == 0 or exponent < 3:
        return None
    return PublicKey(" ".join(words), modulus, exponent)


class Keyring:
    """The folder with the known keys and the dialog."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Question]] = {}
        for name in (PENDING_DIR, ANSWERS_DIR):
            (folder / name).mkdir(exist_ok=True)
            # Questions of an adbd that has ended.
            for left in (folder / name).iterdir():
                left.unlink(missing_ok=True)

    def authenticator(self) -> KeyAuthenticator:
        """What decides over one connection."""
        return KeyAuthenticator(self)

    def known_keys(self) -> list[PublicKey]:
        """The keys that need not ask."""
        try:
            lines = (self._folder / KEYS_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        return [key for line in lines if (key := parse_public_key(line)) is not None]

    def ask(self, question: _Question) -> None:
        """Show a key on the "screen"; the question is answered from another thread."""
        name = question.key.fingerprint
        with self._lock:
            questions = self._waiting.setdefault(name, [])
            questions.append(question)
            if len(questions) > 1:
                return
            (self._folder / PENDING_DIR / name).write_text(question.key.line + "\n", encoding="utf-8")
        threading.Thread(target=self._wait, args=(name,), daemon=True).start()

    def withdraw(self, question: _Question) -> None:
        """Take a question back. The dialog goes when nobody waits for it any more."""
        name = question.key.fingerprint
        with self._lock:
            questions = self._waiting.get(name, [])
            if question in questions:
                questions.remove(question)
                if not questions:
                    self._close(name)

    def _wait(self, name: str) -> None:
        answer_file = self._folder / ANSWERS_DIR / name
        while True:
            with self._lock:
                if name not in self._waiting:
                    return
                try:
                    answer = answer_file.read_text(encoding="ascii").strip()
                except (OSError, ValueError):
                    answer = ""
                if answer:
                    questions = self._waiting[name]
                    if answer == ALWAYS:
                        self._remember(questions[0].key)
                    self._close(name)
                    break
            time.sleep(_LOOK_EVERY_S)
        log(f"the user says {answer} to {name}")
        # A refused host hears nothing, as on Android: it stays unauthorized until it connects anew.
        if answer in (ALWAYS, ONCE):
            for question in questions:
                question.let_in()

    def _close(self, name: str) -> None:
        self._waiting.pop(name, None)
        (self._folder / PENDING_DIR / name).unlink(missing_ok=True)
        # Last: whoever answered waits for this.
        (self._folder / ANSWERS_DIR / name).unlink(missing_ok=True)

    def _remember(self, key: PublicKey) -> None:
        with (self._folder / KEYS_FILE).open("a", encoding="utf-8") as file:
            file.write(key.line + "\n")


@dataclass(frozen=True, eq=False)
class _Question:
    key: PublicKey
    let_in: Callable[[], None]


class KeyAuthenticator:
    """One connection's authentication."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._token = b""
        self._failures = 0
        self._question: _Question | None = None

    def challenge(self) -> bytes:
        """A new token for the peer to sign."""
        self._token = secrets.token_bytes(TOKEN_BYTES)
        return self._token

    def accepts(self, signature: bytes) -> bool:
        """Whether the last token was signed with a known key. A token counts once."""
        token, self._token = self._token, b""
        if token and any(key.verifies(token, signature) for key in self._keyring.known_keys()):
            self._failures = 0
            return True
        self._failures += 1
        if self._failures > _PATIENT_FAILURES:
            time.sleep(_FAILURE_PAUSE_S)
        return False

    def ask(self, public_key: bytes, let_in: Callable[[], None]) -> None:
        """Ask the user about a new key; returns at once."""
        key = parse_public_key(os.fsdecode(public_key.rstrip(b"\0")))
        if key is None:
            log(f"that is no public key: {public_key[:60]!r}")
            return
        log(f"asking the user about {key.fingerprint}")
        self.withdraw()
        self._question = _Question(key, let_in)
        self._keyring.ask(self._question)

    def withdraw(self) -> None:
        """The connection is gone: the user need not answer any more."""
        if self._question is not None:
            self._keyring.withdraw(self._question)
            self._question = None
