"""Plays what VS Code does at F5: preLaunchTask, its background pattern, the adapter, postDebugTask.

    python tests/tools/f5.py .vscode/launch.json "devkit: llm_demo on the phone" --break llm.cpp:12

The adapter is LLDB's API in CodeLLDB's order ("type": "lldb") or a real lldb-dap.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.tools.dap import DapClient, DapFailed
from tests.tools.vscode_tasks import Answer, BackgroundTask, F5Failed, Tasks, load, named, run_task

ADAPTER_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 300.0
CODELLDB = "1.12.2"


@dataclass
class Session:
    """How it went.

    Attributes:
        stops: a dict each: breakpoint, frames as [function, file, line], values by name, pid.
        program: what the program printed to the debug console.
        terminal: what the background task's terminal shows.
        problems: what VS Code's list of problems holds of it.
        task_exit: its exit code; None when it had to be killed.
    """

    stops: list[dict[str, Any]] = field(default_factory=list)
    exit: int | None = None
    program: str = ""
    console: str = ""
    terminal: str = ""
    problems: list[str] = field(default_factory=list)
    task_exit: int | None = None


def f5(
    launch: Path,
    name: str,
    breakpoints: Sequence[tuple[str, int]],
    *,
    stops: int = 1,
    then: str = "continue",
    restarts: int = 0,
    answers: Sequence[Answer] = (),
    inputs: Mapping[str, str] | None = None,
    adapter: str | Path | None = None,
    codelldb: str = CODELLDB,
    after_ready: Any = None,
) -> Session:
    """One session of a configuration.

    Args:
        breakpoints: file and line, set as the editor sets them.
        stops: how many are waited for.
        restarts: how often the restart button is pressed at the last of the stops.
        then: "continue" to the end of the program, "disconnect" (the stop button), or "wait" for its own end.
        answers: a pattern of the task's terminal, and what is typed, or called, then.
        inputs: what is picked where a task asks, by the input's id.
        adapter: the lldb, or lldb-dap, to use.
        codelldb: the version of CodeLLDB that is played.
        after_ready: called with the BackgroundTask when it is ready.

    Raises:
        F5Failed: VS Code would show an error.
    """
    config = named(load(launch, launch.absolute().parent.parent)["configurations"], "name", name)
    tasks = Tasks(launch.with_name("tasks.json"), inputs or {})
    task = tasks.named(config["preLaunchTask"])
    after = tasks.named(config["postDebugTask"]) if "postDebugTask" in config else None
    steps = _Steps(stops, then, restarts, codelldb, after)
    if not task.get("isBackground"):
        run_task(task, BUILD_TIMEOUT_S)
        return _codelldb(config, breakpoints, steps, adapter)
    assert after is not None
    before = BackgroundTask(task, answers)
    before.start()
    try:
        before.wait_until_ready()
        if after_ready is not None:
            after_ready(before)
        if config["type"] == "lldb":
            session = _codelldb(config, breakpoints, steps, adapter)
        else:
            session = _lldb_dap(config, breakpoints, steps, adapter)
        run_task(after)
        before.wait_for_end()
    finally:
        before.kill()
    session.terminal, session.task_exit = before.text, before.exit_code
    session.problems = before.problems
    return session


@dataclass(frozen=True)
class _Steps:
    stops: int
    then: str
    restarts: int
    codelldb: str
    before_restart: dict[str, Any] | None


def _codelldb(
    config: dict[str, Any],
    breakpoints: Sequence[tuple[str, int]],
    steps: _Steps,
    adapter: str | Path | None,
) -> Session:
    version = tuple(int(part) for part in steps.codelldb.split("."))
    by_commands = "processCreateCommands" in config
    # Its changelog, and complete_attach in debug_session/launch.rs of each version.
    if by_commands and version < (1, 9, 1) and config["request"] != "custom":
        raise F5Failed(f"CodeLLDB {steps.codelldb} knows processCreateCommands only in request custom")
    goes_on = by_commands and config["request"] == "attach" and (1, 9, 1) <= version < (1, 11, 5)
    lldb = str(adapter or shutil.which("lldb") or "lldb")
    with tempfile.TemporaryDirectory(prefix="f5 ") as folder:
        plan, report = Path(folder, "plan.json"), Path(folder, "report.json")
        text = {"config": config, "breakpoints": breakpoints, "goes_on": goes_on, **asdict(steps)}
        plan.write_text(json.dumps(text), "utf-8")
        script = Path(__file__).with_name("codelldb_like.py")
        done = subprocess.run(
            [lldb, "--no-lldbinit", "--batch", "-o", f'command script import "{script}"'],
            env={**os.environ, "F5_PLAN": str(plan), "F5_REPORT": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ADAPTER_TIMEOUT_S,
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
            for file in dict.fromkeys(file for file, _ in breakpoints):
                # All of a file at once: they replace those it had.
                lines = [{"line": line} for each, line in breakpoints if each == file]
                client.ask("setBreakpoints", {"source": {"path": file}, "breakpoints": lines})
            client.ask("configurationDone")
            client.answer(attach)
            while len(session.stops) < steps.stops:
                event = client.event("stopped", "exited", "terminated")
                if event["event"] != "stopped":
                    break
                session.stops.append(_dap_stop(client, event["body"]))
                if len(session.stops) < steps.stops:
                    client.ask("continue", {"threadId": event["body"]["threadId"]})
            if steps.then == "wait":
                client.event("exited", "terminated")
            elif steps.then == "continue" and session.stops:
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("launch", type=Path)
    parser.add_argument("config")
    parser.add_argument("--break", dest="breakpoints", action="append", default=[], metavar="FILE:LINE")
    parser.add_argument("--stops", type=int, help="how many are waited for (default: 1 with --break)")
    parser.add_argument("--answer", nargs=2, action="append", default=[], metavar=("PATTERN", "TEXT"))
    parser.add_argument("--input", nargs=2, action="append", default=[], metavar=("ID", "VALUE"))
    parser.add_argument("--then", choices=("continue", "disconnect", "wait"), default="continue")
    parser.add_argument("--adapter")
    parser.add_argument("--codelldb", default=CODELLDB, metavar="VERSION")
    given = parser.parse_args()
    points = [(file, int(line)) for file, _, line in (text.rpartition(":") for text in given.breakpoints)]
    stops = bool(points) if given.stops is None else given.stops
    try:
        session = f5(
            given.launch, given.config, points, stops=stops, then=given.then, inputs=dict(given.input),
            answers=[(pattern, text + "\n") for pattern, text in given.answer], adapter=given.adapter,
            codelldb=given.codelldb,
        )  # fmt: skip
    except F5Failed as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(asdict(session), indent=1, ensure_ascii=False))
    return 0 if len(session.stops) >= stops and session.task_exit in (0, None) else 1


if __name__ == "__main__":
    sys.exit(main())
