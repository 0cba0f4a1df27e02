"""Asking the person at the terminal. What is typed is neither shown, kept nor logged."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from devkit.tunnels.model import HostKeyQuestion, NoPrompts, Prompts


def terminal_prompts() -> Prompts:
    """Questions on the terminal if there is one to ask on, else nobody to ask."""
    return TerminalPrompts() if sys.stdin is not None and sys.stdin.isatty() else NoPrompts()


class TerminalPrompts:
    """Asks on stderr, so that results on stdout stay clean; Ctrl-D and an empty line mean no answer."""

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """The passphrase of an encrypted key file."""
        return self._hidden(f"{_again(attempt)}passphrase for {key}: ")

    def password(self, login: str, attempt: int) -> str | None:
        """The password of user@host."""
        return self._hidden(f"{_again(attempt)}password for {login}: ")

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """One answer for each question of the server; its own words are shown without control characters."""
        for text in (title, instructions):
            if text.strip():
                self._say(f"{login}: {_printable(text)}\n")
        replies = []
        for question, shown in questions:
            prompt = f"{login}: {_printable(question)} "
            reply = self._visible(prompt) if shown else self._hidden(prompt)
            if reply is None:
                return None
            replies.append(reply)
        return replies

    def trust(self, question: HostKeyQuestion) -> bool:
        """Whether an unknown host key is right: a yes, or its fingerprint typed or pasted."""
        self._say(
            f"the host key of {question.known_as} is not known yet\n"
            f"  {question.key_type} {question.fingerprint}\n"
            f"compare it with: ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub   (on {question.host})\n"
        )
        reply = self._visible(f"is it right, and to be added to {question.file}? [yes/no/fingerprint] ")
        return reply is not None and (reply.lower() == "yes" or reply == question.fingerprint)

    def _hidden(self, prompt: str) -> str | None:
        try:
            return getpass.getpass(prompt, stream=sys.stderr if os.name == "nt" else None) or None
        except EOFError:
            self._say("\n")
            return None

    def _visible(self, prompt: str) -> str | None:
        self._say(prompt)
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            self._say("\n")
        return line.strip() or None

    def _say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _again(attempt: int) -> str:
    return "" if attempt == 1 else "that was wrong; "


def _printable(text: str) -> str:
    """A server's text must not be able to move the cursor or rename the window."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text).strip()
