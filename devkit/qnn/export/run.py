"""The script, run and watched: steps with their times, what each left, and the step that really failed."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit import output, process
from devkit.errors import ToolFailed
from devkit.ndk.qnn_version import read_context
from devkit.qnn.export.plan import CACHE_PATH, ExportPlan
from devkit.qnn.export.stage import Stage, environment
from devkit.qnn.export_log import ExportLog
from devkit.qnn.knowledge import causes_of, export_steps
from devkit.results import FAILED

_STEP = re.compile(r"^Step ?(\d)\s*: ?(.*)")
_POLL_S = 0.2
# As the check of model folders: what is smaller was left by an export that broke off.
LEAST_GRAPH_BYTES = 1024
_EVIDENCE_LINES = 12


@dataclass
class Step:
    """One step of the script. `seconds` is None while it runs."""

    number: str
    title: str
    started: float
    seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"number": self.number, "title": self.title, "seconds": self.seconds}


@dataclass
class Watched:
    """What was seen of a run.

    Attributes:
        graphs: the graph driver's word on each context binary, by its key in npu_postreat.json.
        inputs: what step 1 left, of sensible size; None when nobody could look.
        keys: the context binaries that npu_postreat.json asks for.
    """

    steps: list[Step] = field(default_factory=list)
    graphs: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    inputs: tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    plan_wrong: str | None = None
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def run_script(plan: ExportPlan, stage: Stage, log: Path) -> Watched:
    """Run the script in the staging folder and check what it left.

    Args:
        log: file that everything printed goes to.

    Raises:
        ToolFailed: a step failed, whatever the script ended with; names the first one.
    """
    sink, seen, export = output.current(), Watched(), ExportLog()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as saved:

        def take(line: str) -> None:
            saved.write(line + "\n")
            seen.lines.append(line)
            export.line(line, len(seen.lines))
            if step := _STEP.match(line):
                _begin(seen, step[1], step[2].strip())
                if step[1] == "2" and (work := stage.workdir / CACHE_PATH).is_dir():
                    seen.inputs = _inputs(work)
            sink.detail(line)

        argv = [plan.python, str(stage.script), *plan.words]
        with _follow(stage, seen):
            done = process.stream(argv, take, cwd=stage.workdir, env=environment(plan, stage))
    _end(seen)
    _judge(plan, stage, seen, export, done.exit_code, log)
    return seen


def _begin(seen: Watched, number: str, title: str) -> None:
    _end(seen)
    seen.steps.append(Step(number, title, time.monotonic()))
    program = export_steps().get(number, {}).get("program", "")
    output.current().note(f"step {number}: {title.rstrip(': ') or program}")


def _inputs(work: Path) -> tuple[str, ...]:
    return tuple(str(file) for file in work.glob("testdir/*/*.mnn") if file.stat().st_size)


def _end(seen: Watched) -> None:
    if seen.steps and seen.steps[-1].seconds is None:
        step = seen.steps[-1]
        step.seconds = round(time.monotonic() - step.started, 3)
        output.current().note(f"  {step.seconds:.1f} s")


@contextlib.contextmanager
def _follow(stage: Stage, seen: Watched) -> Iterator[None]:
    """Show the graph driver's progress: older revisions of the script print nothing until they end."""
    over = threading.Event()
    with output.current().progress("compiling graphs", None) as bar:

        def read(position: int) -> int:
            with stage.events.open("rb") as stream:
                stream.seek(position)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    _event(json.loads(line), seen)
            if seen.keys:
                bar.total(len(seen.keys))
                bar.advance(len(seen.graphs) - bar.done)
            return position

        def watch() -> None:
            position = 0
            while not over.wait(_POLL_S):
                position = read(position)
            read(position)

        thread = threading.Thread(target=watch, name="devkit graphs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _event(event: Mapping[str, Any], seen: Watched) -> None:
    kind = event["event"]
    if kind == "inputs":
        seen.inputs = tuple(event["files"])
    elif kind == "graphs":
        seen.keys, seen.plan_wrong = tuple(event["keys"]), event["wrong"]
    elif kind == "failed":
        seen.failures.append(dict(event))
    elif kind == "made":
        seen.graphs[event["key"]] = dict(event)
        how = "as before, from the cache" if event["cached"] else f"{event['seconds']:.1f} s"
        size = output.human_bytes(event["size"])
        output.current().note(f"  {len(seen.graphs)} of {event['of']}: {event['key']}, {size}, {how}")


def _judge(
    plan: ExportPlan, stage: Stage, seen: Watched, export: ExportLog, exit_code: int, log: Path
) -> None:
    """Refuse a run whose outputs are not all there, or that ended badly; name the first step that failed.

    The script's exit code, and the `End` that it prints, count for nothing (case K5).
    """
    findings = export.findings()
    seen.warnings += [finding.meaning for finding in findings if finding.severity != FAILED]
    said = next((finding for finding in findings if finding.severity == FAILED), None)
    left = _left(stage, seen)
    if exit_code == 0 and left is None:
        if said is not None:
            seen.warnings.append(f"line {said.line_number} of the log: {said.line}")
        return
    if said is not None and (left is None or said.values.get("step", "") <= left[0]):
        what, kind, values = said.meaning, said.kind, dict(said.values)
    elif left is not None:
        what, kind, values = f"{left[0]} failed: {left[1]}", "export-failed", {}
    else:
        at = f"Step{seen.steps[-1].number}" if seen.steps else "the script, before its first step,"
        what, kind, values = f"{at} failed: exit code {exit_code}", "export-failed", {}
    evidence = seen.lines[max(0, said.line_number - 3) : said.line_number] if said else _last(seen)
    if left is not None and left[1] not in what:
        evidence = [*evidence, f"not there: {left[1]}"]
    follows = f"the script ended with {exit_code}"
    evidence = [*evidence, follows if exit_code else f"{follows} all the same: that counts for nothing"]
    hints = [step for cause in causes_of(kind, values) for step in cause.next][:2]
    raise ToolFailed(
        f"the export failed: {what}",
        evidence="\n".join(evidence),
        hints=[*hints, f"the whole log: {log}", f"devkit qnn explain {log}"],
    )


def _last(seen: Watched) -> list[str]:
    return [line for line in seen.lines if line.strip()][-_EVIDENCE_LINES:]


def _left(stage: Stage, seen: Watched) -> tuple[str, str] | None:
    """The first thing that a step was to leave and did not: the step, and what."""
    if seen.inputs == () and (seen.plan_wrong or seen.failures or not seen.keys):
        return "Step1", "no inputs (testdir/*/input.mnn)"
    if seen.plan_wrong:
        return "Step2", f"npu_postreat.json: {seen.plan_wrong}"
    for failure in seen.failures:
        return f"Step{failure['step']}", f"{failure['key']}: {failure['why']}"
    if not seen.keys:
        return f"Step{seen.steps[-1].number if seen.steps else 1}", "no graph was ever compiled"
    result = stage.model / "qnn"
    for key in seen.keys:
        file = result / Path(key).name
        if key not in seen.graphs:
            return "Step3", f"{key} was not made"
        if not file.is_file():
            return "Step4", f"{file.name} is not in the result"
        if file.stat().st_size < LEAST_GRAPH_BYTES:
            size = file.stat().st_size
            return "Step3", f"{file.name} has {size} bytes, which cannot hold a compiled graph"
    if not any(file.stat().st_size for file in result.glob("*.mnn")):
        return "Step2", "no .mnn file beside the graphs"
    return None


def wrong_chip(plan: ExportPlan, folder: Path) -> str | None:
    """A context binary that says it is for another Hexagon than was asked for."""
    for file in sorted(folder.glob("*.bin")):
        facts = read_context(file)
        if facts is not None and facts.arch is not None and facts.arch != plan.dsp_arch:
            return f"{file.name} is for Hexagon {facts.arch} ({facts.soc}), not for {plan.dsp_arch}"
    return None
