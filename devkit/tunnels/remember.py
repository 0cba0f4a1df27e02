"""Answers that a person gave once, kept in this process' memory for the next login."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from devkit.tunnels.model import HostKeyQuestion, Prompts


class RememberingPrompts:
    """Asks `prompts` until the first login has succeeded; then answers what it was told, asks no more.

    Nothing is written anywhere: a reconnect in the night finds nobody at the keyboard.
    """

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._settled = False
        self._secrets: dict[object, str | list[str]] = {}

    def settle(self) -> None:
        """The answers were right; from now on nobody is asked."""
        self._settled = True

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """As `Prompts`."""
        return self._one(("passphrase", str(key)), attempt, lambda: self._prompts.passphrase(key, attempt))

    def password(self, login: str, attempt: int) -> str | None:
        """As `Prompts`."""
        return self._one(("password", login), attempt, lambda: self._prompts.password(login, attempt))

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """As `Prompts`. One-time codes are asked again and cannot be remembered: None then."""
        key = ("answers", login, tuple(questions))
        if self._settled:
            known = self._secrets.get(key)
            return known if isinstance(known, list) else None
        given = self._prompts.answers(login, title, instructions, questions)
        if given is not None:
            self._secrets[key] = given
        return given

    def trust(self, question: HostKeyQuestion) -> bool:
        """As `Prompts`; nothing new is trusted while nobody looks."""
        return not self._settled and self._prompts.trust(question)

    def _one(self, key: object, attempt: int, ask: Callable[[], str | None]) -> str | None:
        known = self._secrets.get(key)
        if attempt == 1 and isinstance(known, str):
            return known
        if self._settled:
            return None
        given: str | None = ask()
        if given is not None:
            self._secrets[key] = given
        return given
