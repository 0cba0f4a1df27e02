"""Logging in: which keys and questions, in which order, and what became of each."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.tunnels import keys
from devkit.tunnels.keys import Agent, KeyFile
from devkit.tunnels.model import HostPlan, Prompts

if TYPE_CHECKING:
    from paramiko.pkey import PKey

    from devkit.tunnels.transport import Transport

# sshd's LoginGraceTime is 120 s; a person may be typing, or look for the phone with the code.
AUTH_TIMEOUT_S = 120.0
_TRIES = 3


class LoginFailed(Exception):
    """All there was to try has been refused.

    Attributes:
        tried: one line for each key and question, with what became of it.
        offered: the methods the server would take.
        too_many: the server hung up because of the number of keys.
    """

    def __init__(self, tried: list[str], offered: list[str], *, too_many: bool, ended: str | None) -> None:
        super().__init__("login failed")
        self.tried = tried
        self.offered = offered
        self.too_many = too_many
        self.ended = ended


@dataclass
class _Offer:
    """A key that can be tried: one that is there, or a file that still needs its passphrase."""

    name: str
    key: PKey | None
    file: KeyFile | None = None
    certificate: Path | None = None


class Login:
    """One attempt to log in on one machine."""

    def __init__(self, transport: Transport, plan: HostPlan, prompts: Prompts) -> None:
        self._transport = transport
        self._plan = plan
        self._prompts = prompts
        self._tried: list[str] = []
        self._offered: list[str] = []

    def run(self, last: str | None = None) -> str:
        """Log in; returns what did it ("agent ssh-ed25519 SHA256:…", "password").

        Args:
            last: what did it the last time. A key is offered first then, without asking which methods
                there are: two round trips fewer.

        Raises:
            LoginFailed: nothing was accepted.
        """
        self._transport.auth_timeout = AUTH_TIMEOUT_S
        if last is not None and self._again(last):
            return last
        if self._attempt("none", lambda: self._transport.auth_none(self._plan.user), quiet=True):
            return "none"
        done: list[str] = []
        for method in self._plan.auth_methods:
            if method not in self._offered:
                continue
            by = {
                "publickey": self._publickey,
                "keyboard-interactive": self._interactive,
                "password": self._password,
            }[method]()
            if by is not None:
                done.append(by)
                if self._transport.is_authenticated():
                    return " and ".join(done)
        raise self._failed()

    def _again(self, last: str) -> bool:
        """Whether the key of that name is all that the server wants."""
        agent = Agent(self._plan.identity_agent)
        try:
            for offer in self._offers(agent):
                key = (offer.key or self._unlocked(offer)) if offer.name == last else None
                if key is not None:
                    signer: Any = _Careful(key)
                    call = functools.partial(self._transport.auth_publickey, self._plan.user, signer)
                    return self._attempt(last, call) and self._transport.is_authenticated()
        finally:
            agent.close()
            self._tried = []
        return False

    def _publickey(self) -> str | None:
        agent = Agent(self._plan.identity_agent)
        if agent.problem is not None:
            self._tried.append(agent.problem)
        try:
            for offer in self._offers(agent):
                key = offer.key or self._unlocked(offer)
                if key is None:
                    continue
                signer: Any = _Careful(key)
                if self._attempt(
                    offer.name, lambda k=signer: self._transport.auth_publickey(self._plan.user, k)
                ):
                    return offer.name
                if signer.problem:
                    self._tried[-1] = f"{offer.name}: {signer.problem}"
                if "publickey" not in self._offered:
                    return offer.name
        finally:
            agent.close()
        return None

    def _offers(self, agent: Agent) -> Iterator[_Offer]:
        """OpenSSH's order: agent keys that the configuration names, other agent keys, files.

        Files that need a passphrase come last: they are asked for only when nothing else fits.
        """
        files = [keys.read_key_file(path) for path in self._plan.identity_files]
        by_blob = {key.asbytes(): key for key in agent.keys}
        named = [file for file in files if file.public in by_blob]
        for file in named:
            key = by_blob.pop(file.public or b"")
            yield from self._with_certificate(f"agent {_short(file.path)}", key, file.path)
        for key in agent.keys if not self._plan.identities_only else ():
            if key.asbytes() in by_blob:
                yield _Offer(f"agent {keys.describe(key)} {key.comment}".rstrip(), key)
        locked: list[_Offer] = []
        for file in files:
            name = _short(file.path)
            if file in named:
                continue
            if file.problem is not None or not file.is_private:
                self._tried.append(
                    f"{name}: {file.problem or 'only a public key, and the agent does not have it'}"
                )
            elif file.encrypted:
                locked.append(_Offer(name, None, file))
            else:
                try:
                    key = keys.load_private(file.path, None)
                except (ValueError, PermissionError, OSError) as error:
                    self._tried.append(f"{name}: {error}")
                    continue
                yield from self._with_certificate(name, key, file.path)
        yield from locked

    def _with_certificate(self, name: str, key: Any, path: Path) -> Iterator[_Offer]:
        """The key with its certificate, if it has one, then the bare key."""
        beside = path.with_name(path.name.removesuffix(".pub") + "-cert.pub")
        for certificate in dict.fromkeys([*self._plan.certificate_files, beside]):
            blob = keys.certificate_blob(certificate)
            # A certificate holds the key it is for; an other key cannot use it.
            if blob is not None and _key_part(key.asbytes()) in blob:
                try:
                    key.load_certificate(str(certificate))
                except ValueError:
                    continue
                yield _Offer(f"{name} with {_short(certificate)}", key)
                key.public_blob = None
        yield _Offer(name, key)

    def _unlocked(self, offer: _Offer) -> PKey | None:
        """The key of an encrypted file, or None with the reason noted."""
        assert offer.file is not None
        for attempt in range(1, _TRIES + 1):
            passphrase = self._prompts.passphrase(offer.file.path, attempt)
            if passphrase is None:
                said = "no passphrase was given" if attempt == 1 else "wrong passphrase"
                self._tried.append(f"{offer.name}: encrypted, {said}")
                return None
            try:
                return keys.load_private(offer.file.path, passphrase)
            except PermissionError:
                continue
            except (ValueError, OSError) as error:
                self._tried.append(f"{offer.name}: {error}")
                return None
        self._tried.append(f"{offer.name}: wrong passphrase {_TRIES} times")
        return None

    def _interactive(self) -> str | None:
        for _ in range(_TRIES):
            asked = _Questions(self._prompts, self._plan.login)
            if self._attempt(
                "keyboard-interactive",
                lambda a=asked: self._transport.auth_interactive(self._plan.user, a.answer),
                note=asked.note,
            ):
                return "keyboard-interactive"
            if asked.gave_up or not asked.count or "keyboard-interactive" not in self._offered:
                break
        return None

    def _password(self) -> str | None:
        for attempt in range(1, _TRIES + 1):
            password = self._prompts.password(self._plan.login, attempt)
            if password is None:
                if attempt == 1:
                    self._tried.append("password: none was given")
                return None
            if self._attempt(
                "password",
                lambda p=password: self._transport.auth_password(self._plan.user, p, fallback=False),
            ):
                return "password"
        return None

    def _attempt(self, name: str, call: Any, *, quiet: bool = False, note: Any = None) -> bool:
        """Whether a method was accepted (a first of several counts); notes what became of it."""
        import paramiko

        try:
            more = call()
        except paramiko.BadAuthenticationType as error:
            self._offered = list(error.allowed_types)
            outcome = "the server does not take this method"
        except paramiko.AuthenticationException as error:
            if not self._transport.is_active():
                self._tried += [] if quiet else [f"{name}: the server hung up"]
                raise self._failed() from None
            outcome = "no answer in time" if "timeout" in str(error).lower() else "refused"
        except (paramiko.SSHException, EOFError, OSError):
            self._tried += [] if quiet else [f"{name}: the server hung up"]
            raise self._failed() from None
        else:
            if more:
                self._offered = list(more)
                self._tried.append(f"{name}: accepted, but the server wants {' or '.join(more)} as well")
                return True
            return True
        if not quiet:
            self._tried.append(f"{name}: {(note() if note else '') or outcome}")
        return False

    def _failed(self) -> LoginFailed:
        ended = self._transport.disconnect_text
        too_many = "too many" in (ended or "").lower()
        return LoginFailed(self._tried, self._offered, too_many=too_many, ended=ended)


class _Careful:
    """A key whose signing may fail: an agent that refuses must cost this key, not the connection.

    paramiko signs in its own thread, which ends with the connection when a key raises there.
    """

    def __init__(self, key: Any) -> None:
        self._key = key
        self.problem: str | None = None

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Any:
        """The signature, or one that is certainly refused."""
        try:
            return self._key.sign_ssh_data(data, algorithm)
        except Exception as error:
            self.problem = (
                f"cannot sign ({getattr(error, 'strerror', None) or error or type(error).__name__})"
            )
            return b"\0\0\0\0\0\0\0\0"

    def __bytes__(self) -> bytes:
        return bytes(self._key.asbytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)


class _Questions:
    """keyboard-interactive. Its answers are given in the transport's thread, where nothing may raise."""

    def __init__(self, prompts: Prompts, login: str) -> None:
        self._prompts = prompts
        self._login = login
        self._lock = threading.Lock()
        self.count = 0
        self.gave_up = False

    def answer(self, title: str, instructions: str, questions: list[tuple[str, bool]]) -> list[str]:
        """One answer a question; empty ones when nobody answers."""
        self.count += len(questions)
        if not questions:
            return []
        try:
            answers = self._prompts.answers(self._login, title, instructions, questions)
        except Exception:
            answers = None
        if answers is None or len(answers) != len(questions):
            self.gave_up = True
            return [""] * len(questions)
        return answers

    def note(self) -> str:
        """What became of it, if that is not the server's word."""
        return "nobody answered" if self.gave_up else ""


def _key_part(blob: bytes) -> bytes:
    """A public key's blob without its type: what a certificate of it holds, too."""
    length = int.from_bytes(blob[:4], "big")
    return blob[4 + length :]


def _short(path: Path) -> str:
    home = os.path.expanduser("~")
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + os.sep) else text
