"""Plays what VS Code does at F5: preLaunchTask, its background pattern, the adapter, postDebugTask.

    python tests/tools/f5.py .vscode/launch.json "devkit: llm_demo on the phone" --break llm.cpp:12

The adapter is LLDB's API in CodeLLDB's order ("type": "lldb") or a real lldb-dap.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from devkit.vscode_templates.jsonc import parse
from tests.tools.dap import DapClient, DapFailed

TASK_TIMEOUT_S = 60.0
END_TIMEOUT_S = 20.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


Answer = tuple[str, str | Callable[[], object]]


class F5Failed(Exception):
    """What VS Code would show in a dialog."""


@dataclass
class Session:
    """How it went.

    Attributes:
        stops: a dict each: breakpoint, frames as [function, file, line], values by name, pid.
        program: what the program printed to the debug console.
        terminal: what the background task's terminal shows.
        task_exit: its exit code; None when it had to be killed.
    """

    stops: list[dict[str, Any]] = field(default_factory=list)
    exit: int | None = None
    program: str = ""
    console: str = ""
    terminal: str = ""
    task_exit: int | None = None


class BackgroundTask:
    """A task on a terminal of its own, watched by its background pattern."""

    def __init__(self, task: dict[str, Any], answers: Sequence[Answer]) -> None:
        self._task, self._answers = task, list(answers)
        self._text = ""
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
            return _ESCAPES.sub("", self._text).replace("\r\n", "\n")

    def wait_until_ready(self) -> None:
        """VS Code's rules: the end pattern, no problem found before it, and no end of the task."""
        ends = re.compile(self._matcher["background"]["endsPattern"])
        problem = re.compile(self._matcher["pattern"]["regexp"])
        deadline = time.monotonic() + TASK_TIMEOUT_S
        while True:
            text = self.text
            lines = text.split("\n")[:-1]
            over = any(ends.search(line) for line in lines)
            if over and any(problem.search(line) for line in lines):
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
                self._text += data.decode("utf-8", "replace")
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


def f5(
    launch: Path,
    name: str,
    breakpoints: Sequence[tuple[str, int]],
    *,
    stops: int = 1,
    then: str = "continue",
    restarts: int = 0,
    answers: Sequence[Answer] = (),
    adapter: str | Path | None = None,
    after_ready: Any = None,
) -> Session:
    """One session of a configuration.

    Args:
        breakpoints: file and line, set as the editor sets them.
        stops: how many are waited for.
        restarts: how often the restart button is pressed at the last of the stops.
        then: "continue" to the end of the program, or "disconnect" (the stop button).
        answers: a pattern of the task's terminal, and what is typed, or called, then.
        adapter: the lldb, or lldb-dap, to use.
        after_ready: called with the BackgroundTask when it is ready.

    Raises:
        F5Failed: VS Code would show an error.
    """
    folder = launch.absolute().parent.parent
    config = _by(_load(launch, folder)["configurations"], "name", name)
    tasks = _load(launch.with_name("tasks.json"), folder)["tasks"]
    before = BackgroundTask(_by(tasks, "label", config["preLaunchTask"]), answers)
    after = _by(tasks, "label", config["postDebugTask"])
    before.start()
    try:
        before.wait_until_ready()
        if after_ready is not None:
            after_ready(before)
        run = _codelldb if config["type"] == "lldb" else _lldb_dap
        session = run(config, breakpoints, _Steps(stops, then, restarts), adapter)
        _run_task(after)
        before.wait_for_end()
    finally:
        before.kill()
    session.terminal, session.task_exit = before.text, before.exit_code
    return session


@dataclass(frozen=True)
class _Steps:
    stops: int
    then: str
    restarts: int


def _run_task(task: dict[str, Any]) -> None:
    done = subprocess.run(
        [task["command"], *task["args"]],
        cwd=task["options"]["cwd"],
        capture_output=True,
        text=True,
        timeout=TASK_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise F5Failed(f"{task['label']} ended with {done.returncode}: {done.stdout}{done.stderr}")


def _codelldb(
    config: dict[str, Any],
    breakpoints: Sequence[tuple[str, int]],
    steps: _Steps,
    adapter: str | Path | None,
) -> Session:
    assert config["request"] in ("attach", "custom")
    lldb = str(adapter or shutil.which("lldb") or "lldb")
    with tempfile.TemporaryDirectory(prefix="f5 ") as folder:
        plan, report = Path(folder, "plan.json"), Path(folder, "report.json")
        plan.write_text(json.dumps({"config": config, "breakpoints": breakpoints, **asdict(steps)}), "utf-8")
        script = Path(__file__).with_name("codelldb_like.py")
        done = subprocess.run(
            [lldb, "--no-lldbinit", "--batch", "-o", f'command script import "{script}"'],
            env={**os.environ, "F5_PLAN": str(plan), "F5_REPORT": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TASK_TIMEOUT_S,
            check=False,
        )
        if not report.exists():
            raise F5Failed(f"the adapter failed: {done.stdout.decode('utf-8', 'replace')}")
        found = json.loads(report.read_text("utf-8"))
    if found["error"]:
        raise F5Failed(f"{found['error']}\n{found['console']}")
    return Session(found["stops"], found["exit"], found["program"], found["console"])


def _lldb_dap(
    config: dict[str, Any],
    breakpoints: Sequence[tuple[str, int]],
    steps: _Steps,
    adapter: str | Path | None,
) -> Session:
    assert not steps.restarts  # it knows no restart request; VS Code starts a new session then
    session = Session()
    try:
        with DapClient(adapter or shutil.which("lldb-dap") or "lldb-dap") as client:
            client.ask("initialize", {"adapterID": "lldb-dap", "pathFormat": "path", "linesStartAt1": True})
            attach = client.send("attach", config)
            client.event("initialized")
            for file, line in breakpoints:
                client.ask("setBreakpoints", {"source": {"path": file}, "breakpoints": [{"line": line}]})
            client.ask("configurationDone")
            client.answer(attach)
            while len(session.stops) < steps.stops:
                event = client.event("stopped", "exited", "terminated")
                if event["event"] != "stopped":
                    break
                session.stops.append(_dap_stop(client, event["body"]))
                if len(session.stops) < steps.stops:
                    client.ask("continue", {"threadId": event["body"]["threadId"]})
            if steps.then == "continue" and session.stops:
                for file, _ in breakpoints:
                    client.ask("setBreakpoints", {"source": {"path": file}, "breakpoints": []})
                client.ask("continue", {"threadId": event["body"]["threadId"]})
                session.exit = client.event("exited")["body"]["exitCode"]
            client.ask("disconnect", {"terminateDebuggee": False})
            session.program = client.output.get("stdout", "")
            session.console = client.output.get("console", "")
    except DapFailed as error:
        raise F5Failed(str(error)) from None
    return session


def _dap_stop(client: DapClient, body: dict[str, Any]) -> dict[str, Any]:
    trace = client.ask("stackTrace", {"threadId": body["threadId"], "levels": 20})["stackFrames"]
    scopes = client.ask("scopes", {"frameId": trace[0]["id"]})["scopes"]
    values = client.ask("variables", {"variablesReference": scopes[0]["variablesReference"]})["variables"]
    return {
        "breakpoint": body["reason"] == "breakpoint",
        "frames": [[f["name"], f.get("source", {}).get("path"), f.get("line")] for f in trace],
        "values": {v["name"]: v["value"] for v in values},
        "pid": None,
    }


def _load(file: Path, folder: Path) -> Any:
    root = parse(file.read_text("utf-8")).root
    assert root is not None
    return _resolved(root.value, folder)


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, str):
        return value.replace("${workspaceFolder}", str(folder))
    if isinstance(value, list):
        return [_resolved(item, folder) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, folder) for key, item in value.items()}
    return value


def _by(items: Sequence[dict[str, Any]], key: str, wanted: str) -> dict[str, Any]:
    for item in items:
        if item[key] == wanted:
            return item
    raise F5Failed(f"there is no {wanted!r}; there are: {', '.join(item[key] for item in items)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("launch", type=Path)
    parser.add_argument("config")
    parser.add_argument("--break", dest="breakpoints", action="append", default=[], metavar="FILE:LINE")
    parser.add_argument("--answer", nargs=2, action="append", default=[], metavar=("PATTERN", "TEXT"))
    parser.add_argument("--then", choices=("continue", "disconnect"), default="continue")
    parser.add_argument("--adapter")
    given = parser.parse_args()
    points = [(file, int(line)) for file, _, line in (text.rpartition(":") for text in given.breakpoints)]
    try:
        session = f5(
            given.launch, given.config, points, stops=1 if points else 0, then=given.then,
            answers=[(pattern, text + "\n") for pattern, text in given.answer], adapter=given.adapter,
        )  # fmt: skip
    except F5Failed as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(asdict(session), indent=1, ensure_ascii=False))
    return 0 if len(session.stops) >= bool(points) and session.task_exit == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
