"""Asking a person at the terminal what a login needs. Nothing that is typed is shown or kept."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

from devkit.tunnels.model import HostKeyQuestion


class TerminalPrompts:
    """`Prompts` of a person; an empty answer or the end of the input means: not answered."""

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """As `Prompts`."""
        again = "wrong passphrase; " if attempt > 1 else ""
        return _secret(f"{again}passphrase of {key}: ")

    def password(self, login: str, attempt: int) -> str | None:
        """As `Prompts`."""
        again = "not accepted; " if attempt > 1 else ""
        return _secret(f"{again}password of {login}: ")

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """As `Prompts`."""
        for text in (title, instructions):
            if text:
                sys.stderr.write(f"{login}: {text}\n")
        given = []
        for question, echo in questions:
            answer = _plain(question) if echo else _secret(question)
            if answer is None:
                return None
            given.append(answer)
        return given

    def trust(self, question: HostKeyQuestion) -> bool:
        """As `Prompts`."""
        sys.stderr.write(
            f"{question.known_as} is not known yet.\n"
            f"Its {question.key_type} key is {question.fingerprint}\n"
            f"(compare it on that machine: ssh-keygen -lf /etc/ssh/ssh_host_{_file_word(question)}_key.pub)\n"
        )
        answer = _plain(f"Trust it and add it to {question.file}? [yes/no] ")
        return answer is not None and answer.strip().lower() in ("yes", "y")


def _file_word(question: HostKeyQuestion) -> str:
    for word in ("ed25519", "ecdsa", "rsa"):
        if word in question.key_type:
            return word
    return "*"


def _secret(prompt: str) -> str | None:
    try:
        return getpass.getpass(prompt, stream=sys.stderr) or None
    except EOFError:
        return None


def _plain(prompt: str) -> str | None:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None
