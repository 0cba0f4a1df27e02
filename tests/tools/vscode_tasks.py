"""VS Code's tasks as F5 runs them: on a terminal, watched by their patterns, with their inputs asked."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from devkit.vscode_templates.jsonc import parse

TASK_TIMEOUT_S = 60.0
END_TIMEOUT_S = 20.0
_TOKENS = re.compile(
    r"\x1b\[(?P<given>[0-9;?]*)(?P<command>[A-Za-z])|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+|.)"
)
_INPUT = re.compile(r"\$\{input:([^}]+)\}")


Answer = tuple[str, str | Callable[[], object]]


class F5Failed(Exception):
    """What VS Code would show in a dialog."""


class Screen:
    """As much of a terminal as a progress bar needs. `lines` are those of which a line feed has made an end:
    VS Code matches its patterns against them, as they look then."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._rows = [""]
        self._row = self._column = 0

    def write(self, text: str) -> None:
        for token in _TOKENS.finditer(text):
            if token["control"] == "\r":
                self._column = 0
            elif token["control"] == "\n":
                self.lines.append(self._rows[self._row])
                self._row, self._column = self._row + 1, 0
                self._rows += [""] * (self._row + 1 - len(self._rows))
            elif token["command"] == "A":
                self._row = max(0, self._row - int(token["given"] or 1))
            elif token["command"] == "K":
                self._rows[self._row] = "" if token["given"] == "2" else self._rows[self._row][: self._column]
            elif token["text"]:
                before = self._rows[self._row].ljust(self._column)
                end = self._column + len(token["text"])
                self._rows[self._row] = before[: self._column] + token["text"] + before[end:]
                self._column = end

    @property
    def text(self) -> str:
        return "\n".join(self._rows)


class BackgroundTask:
    """A task on a terminal of its own, watched by its background pattern."""

    def __init__(self, task: dict[str, Any], answers: Sequence[Answer]) -> None:
        self._task, self._answers = task, list(answers)
        self._screen = Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.exit_code: int | None = None
        matchers = task["problemMatcher"]
        [self._matcher] = [m for m in matchers if isinstance(m, dict) and "background" in m]
        assert self._matcher["background"]["activeOnStart"] is True
        self._changed = threading.Condition()

    def start(self) -> None:
        self._terminal, side = pty.openpty()
        self._child = subprocess.Popen(
            [self._task["command"], *self._task["args"]],
            cwd=self._task["options"]["cwd"],
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        with self._changed:
            return self._screen.text

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._screen.lines)

    @property
    def problems(self) -> list[str]:
        """The messages of the problems that VS Code lists."""
        problem, message = re.compile(self._matcher["pattern"]["regexp"]), self._matcher["pattern"]["message"]
        lines = (problem.search(line) for line in self.lines)
        return [found[message] for found in lines if found]

    def wait_until_ready(self) -> None:
        """VS Code's rules: the end pattern, no problem found before it, and no end of the task."""
        ends = re.compile(self._matcher["background"]["endsPattern"])
        deadline = time.monotonic() + TASK_TIMEOUT_S
        while True:
            over, text = any(ends.search(line) for line in self.lines), self.text
            if over and self.problems:
                self.wait_for_end()
                raise F5Failed(f"errors exist after running the preLaunchTask:\n{text}")
            if over:
                return
            if self.exit_code is not None:
                raise F5Failed(f"the preLaunchTask terminated with exit code {self.exit_code}:\n{text}")
            if time.monotonic() > deadline:
                raise F5Failed(f"the preLaunchTask is not ready within {TASK_TIMEOUT_S:g} s:\n{text}")
            with self._changed:
                self._changed.wait(0.1)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + END_TIMEOUT_S
        while text not in self.text:
            if time.monotonic() > deadline:
                raise F5Failed(f"{text!r} does not appear in the task's terminal:\n{self.text}")
            time.sleep(0.05)

    def wait_for_end(self) -> None:
        self._reader.join(END_TIMEOUT_S)

    def kill(self) -> None:
        """As the trash can of VS Code's terminal does."""
        if self.exit_code is None:
            self._child.send_signal(signal.SIGHUP)
            self.wait_for_end()
        if self.exit_code is None:
            self._child.kill()
            self._reader.join(5)

    def _read(self) -> None:
        while True:
            try:
                select.select([self._terminal], [], [])
                data = os.read(self._terminal, 65536)
            except OSError:
                data = b""
            if not data:
                break
            with self._changed:
                self._screen.write(self._decoder.decode(data))
                self._changed.notify_all()
            self._answer()
        code = self._child.wait()
        os.close(self._terminal)
        with self._changed:
            self.exit_code = code
            self._changed.notify_all()

    def _answer(self) -> None:
        if self._answers and re.search(self._answers[0][0], self.text):
            answer = self._answers.pop(0)[1]
            if callable(answer):
                answer()
            else:
                self.type(answer)


class Tasks:
    """The tasks.json of a folder.

    Args:
        inputs: what the user picks when a task asks, by the input's id.
    """

    def __init__(self, file: Path, inputs: Mapping[str, str]) -> None:
        found = load(file, file.absolute().parent.parent)
        self._tasks = found["tasks"]
        self._inputs = {entry["id"]: entry for entry in found.get("inputs", ())}
        self._picks = inputs

    def named(self, label: str) -> dict[str, Any]:
        """A task as VS Code starts it: its inputs are asked now."""
        task: dict[str, Any] = replaced(named(self._tasks, "label", label), self._asked)
        return task

    def _asked(self, text: str) -> str:
        return _INPUT.sub(lambda match: self._pick(match[1]), text)

    def _pick(self, name: str) -> str:
        asked = self._inputs.get(name)
        if asked is None:
            raise F5Failed(f"undefined input variable {name!r}")
        assert asked["type"] == "pickString"
        values = [option if isinstance(option, str) else option["value"] for option in asked["options"]]
        pick = self._picks.get(name, asked.get("default", values[0]))
        if pick not in values:
            raise F5Failed(f"{pick!r} cannot be picked; there are: {values}")
        return pick


def run_task(task: dict[str, Any], timeout_s: float = TASK_TIMEOUT_S) -> None:
    """A task to its end.

    Raises:
        F5Failed: it failed.
    """
    done = subprocess.run(
        [task["command"], *task["args"]],
        cwd=task["options"]["cwd"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise F5Failed(f"{task['label']} ended with {done.returncode}: {done.stdout}{done.stderr}")


def load(file: Path, folder: Path) -> Any:
    """A file of .vscode, with ${workspaceFolder} replaced."""
    root = parse(file.read_text("utf-8")).root
    assert root is not None
    return replaced(root.value, lambda text: text.replace("${workspaceFolder}", str(folder)))


def replaced(value: Any, change: Callable[[str], str]) -> Any:
    """A value with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [replaced(item, change) for item in value]
    if isinstance(value, dict):
        return {key: replaced(item, change) for key, item in value.items()}
    return value


def named(items: Sequence[dict[str, Any]], key: str, wanted: str) -> dict[str, Any]:
    for item in items:
        if item[key] == wanted:
            return item
    raise F5Failed(f"there is no {wanted!r}; there are: {', '.join(item[key] for item in items)}")
