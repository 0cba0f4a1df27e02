"""A tunnel in a process of its own, which goes on when the terminal is closed.

The two talk in lines of JSON over the new process' stdin and stdout until the tunnel is up: it asks
what only a person knows (passphrases never stand in a command line, a file or the environment), and
says what happens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from devkit import process
from devkit.errors import HERE, DevkitError, TunnelError
from devkit.tunnels import state
from devkit.tunnels.model import HostKeyQuestion, Prompts
from devkit.tunnels.spec import TunnelSpec

SERVE_COMMAND = ("tunnel", "serve")


def start_detached(spec: TunnelSpec, *, prompts: Prompts, say: Callable[[str], None]) -> int:
    """Start the process, answer what it asks, and return its pid when the tunnel is up.

    Raises:
        DevkitError: what the process could not do, as it says.
    """
    log = state.log_file(spec.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        before = sink.tell()
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
        child = subprocess.Popen(
            [sys.executable, "-m", "devkit", *SERVE_COMMAND],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, **options,
        )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    try:
        _send(child.stdin, spec.as_dict())
        for line in child.stdout:
            event = json.loads(line)
            kind = event.pop("event")
            if kind == "up":
                return child.pid
            if kind == "say":
                say(event["text"])
            elif kind == "failed":
                raise _error(event)
            else:
                _send(child.stdin, {"answer": _answer(prompts, kind, event)})
    except (OSError, ValueError) as error:
        raise _died(child, log, before, str(error)) from None
    except BaseException:
        child.terminate()
        raise
    finally:
        for pipe in (child.stdin, child.stdout):
            try:
                pipe.close()
            except OSError:
                pass
    raise _died(child, log, before, "")


class Upstream:
    """The detached process' side of the talk."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer

    def read_spec(self) -> TunnelSpec:
        """What shall be done.

        Raises:
            ValueError: nothing of that kind comes.
        """
        return TunnelSpec.from_dict(json.loads(self._reader.readline()))

    def tell(self, event: str, /, **values: Any) -> None:
        """Say something; nobody listening any more is no fault."""
        try:
            _send(self._writer, {**values, "event": event})
        except (OSError, ValueError):
            pass

    def ask(self, event: str, /, **values: Any) -> Any:
        """The answer of the person at the terminal, None when there is nobody."""
        try:
            _send(self._writer, {**values, "event": event})
            return json.loads(self._reader.readline())["answer"]
        except (OSError, ValueError, KeyError):
            return None

    # Prompts

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """As `Prompts`."""
        answer: str | None = self.ask("passphrase", key=str(key), attempt=attempt)
        return answer

    def password(self, login: str, attempt: int) -> str | None:
        """As `Prompts`."""
        answer: str | None = self.ask("password", login=login, attempt=attempt)
        return answer

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """As `Prompts`."""
        answer: list[str] | None = self.ask(
            "answers", login=login, title=title, instructions=instructions, questions=list(questions)
        )
        return answer

    def trust(self, question: HostKeyQuestion) -> bool:
        """As `Prompts`."""
        return self.ask("trust", **{**question.__dict__, "file": str(question.file)}) is True


def _answer(prompts: Prompts, kind: str, event: dict[str, Any]) -> Any:
    if kind == "passphrase":
        return prompts.passphrase(Path(event["key"]), event["attempt"])
    if kind == "password":
        return prompts.password(event["login"], event["attempt"])
    if kind == "answers":
        questions = [(text, echo) for text, echo in event["questions"]]
        return prompts.answers(event["login"], event["title"], event["instructions"], questions)
    if kind == "trust":
        return prompts.trust(HostKeyQuestion(**{**event, "file": Path(event["file"])}))
    return None


def _error(event: dict[str, Any]) -> DevkitError:
    """The error that the process met. What it says of the route stands in the evidence already."""
    if "reason" in event:
        return TunnelError(
            event["error"], reason=event["reason"], route=event.get("route", ()), where=event["where"],
            evidence=event.get("evidence"), hints=event.get("hints", ()),
        )  # fmt: skip
    return DevkitError(
        event["error"],
        where=event.get("where", HERE),
        evidence=event.get("evidence"),
        hints=event.get("hints", ()),
        exit_code=event.get("exit_code"),
    )


def _died(child: subprocess.Popen[bytes], log: Path, before: int, why: str) -> DevkitError:
    code = child.poll()
    text = log.read_bytes()[before:] if log.exists() else b""
    return DevkitError(
        "the tunnel's process ended before the tunnel was up",
        evidence=process.tail(text) or why or f"exit code {code}",
        hints=[f"the whole log: {log}", "without --detach it says more"],
    )


def _send(pipe: IO[bytes], value: Any) -> None:
    pipe.write(json.dumps(value).encode() + b"\n")
    pipe.flush()


def leave_terminal() -> None:
    """Let go of the starting process' pipes: nobody reads or answers any more."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    os.close(null)
