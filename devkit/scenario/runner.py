"""Running a scenario: one step after the other, and whatever it started is ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit import output, process
from devkit.errors import DevkitError, FileError, UsageError
from devkit.scenario.language import Expectation, Scenario, Step, parse_scenario, text_test
from devkit.sim import count_bytes, phone_status
from devkit.virtual_device import VirtualDevice, start_virtual_device

_LOOK_EVERY_S = 0.05
_DEVKIT = [sys.executable, "-m", "devkit"]


@dataclass(frozen=True)
class StepResult:
    """How a step went; `problem` is None when it did what was expected."""

    line: int
    step: str
    seconds: float
    problem: str | None
    output: str = ""


@dataclass(frozen=True)
class ScenarioResult:
    """How a scenario went, up to the first step that failed."""

    file: str
    steps: tuple[StepResult, ...]
    total: int

    @property
    def passed(self) -> bool:
        """Whether every step did what was expected."""
        return len(self.steps) == self.total and all(step.problem is None for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "file": self.file,
            "passed": self.passed,
            "steps": [asdict(step) for step in self.steps],
            "total": self.total,
        }

    def summary(self) -> str:
        """For people: what failed, or how much was done."""
        for step in self.steps:
            if step.problem is not None:
                shown = "\n".join("  | " + line for line in process.tail(step.output).splitlines())
                failed = f"{self.file}:{step.line}: {step.step}: {step.problem}"
                return failed + (f"\n{shown}" if shown else "")
        seconds = sum(step.seconds for step in self.steps)
        return f"{self.file}: {len(self.steps)} steps passed in {seconds:.1f} s"


def run_scenario_file(path: Path) -> ScenarioResult:
    """Read and run a scenario.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is no scenario.
        SimError, ToolMissing: a phone does not start.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read the scenario {path}", evidence=str(error)) from None
    return run_scenario(parse_scenario(text, str(path)), folder=path.absolute().parent)


def run_scenario(scenario: Scenario, *, folder: Path) -> ScenarioResult:
    """Run a scenario; phones and programs that it started are ended.

    Args:
        folder: the working directory of programs of this machine.

    Raises:
        UsageError: a step is about a phone or a program that does not run.
        SimError, ToolMissing: a phone does not start.
    """
    results: list[StepResult] = []
    sink = output.current()
    with _Stage(scenario, folder) as stage:
        for step in scenario.steps:
            begun = time.monotonic()
            sink.note(f"{scenario.file}:{step.line}: {step.describe()}")
            problem, text = stage.perform(step)
            results.append(
                StepResult(step.line, step.describe(), round(time.monotonic() - begun, 3), problem, text)
            )
            if problem is not None:
                break
    return ScenarioResult(scenario.file, tuple(results), len(scenario.steps))


class _Program:
    """A program of the phone or of this machine, running in the background."""

    def __init__(self, argv: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.child = process.start(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            die_with_parent=True,
        )
        self._text = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def check(self, expect: Expectation) -> tuple[str | None, str]:
        """Wait for its end; what differs from the expectation, and its output."""
        try:
            code = self.child.wait(expect.within_s)
        except subprocess.TimeoutExpired:
            self.end()
            return f"still running after {expect.within_s:g} s", self.text
        self._reader.join(expect.within_s)
        code = code if code >= 0 else 128 - code
        if expect.exit_code is not None and code != expect.exit_code:
            return f"exit code {code}, expected {expect.exit_code}", self.text
        if expect.output is not None and not text_test(expect.output)(self.text):
            return f"its output does not hold {expect.output!r}", self.text
        if expect.not_output is not None and text_test(expect.not_output)(self.text):
            return f"its output holds {expect.not_output!r}", self.text
        return None, self.text

    def end(self) -> None:
        process.end_group(self.child)

    @property
    def text(self) -> str:
        return self._text.decode("utf-8", "replace")

    def _read(self) -> None:
        assert self.child.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while chunk := self.child.stdout.read1(65536):  # type: ignore[attr-defined]
                self._text += chunk


class _Stage:
    """What a scenario has started so far."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._file = scenario.file
        self._folder = folder
        self._phones: dict[str, VirtualDevice] = {}
        self._programs: dict[str, _Program] = {}
        self._begun = time.monotonic()

    def __enter__(self) -> _Stage:
        return self

    def __exit__(self, *_error: object) -> None:
        for program in self._programs.values():
            program.end()
        for phone in self._phones.values():
            phone.stop()

    def perform(self, step: Step) -> tuple[str | None, str]:
        """Do a step; returns the problem, if any, and output that belongs to it."""
        if step.kind == "start":
            self._start(step)
        elif step.kind == "at":
            time.sleep(max(0.0, self._begun + step.value - time.monotonic()))
        elif step.kind == "join":
            return self._join(step)
        elif step.kind == "wait" and not isinstance(step.value, str):
            time.sleep(step.value)
        elif step.kind == "run":
            phone = self._phones.get(step.phone)
            return self._program(step, list(step.value), phone.environment() if phone else {})
        else:
            return self._on_phone(step, self._phone(step))
        return None, ""

    def _on_phone(self, step: Step, phone: VirtualDevice) -> tuple[str | None, str]:
        if step.kind == "stop":
            self._phones.pop(step.phone).stop()
        elif step.kind == "break":
            phone.break_(step.value, **step.options)
        elif step.kind == "heal":
            phone.heal(step.value)
        elif step.kind == "slow":
            phone.slow(**step.value)
        elif step.kind == "shell":
            shell = [*_DEVKIT, "device", "shell", "-s", f"sim:{phone.name}", "--"]
            return self._program(step, [*shell, step.value], {})
        elif step.kind == "wait":
            return self._await_state(step, phone), ""
        else:
            return self._await_bytes(step, phone), ""
        return None, ""

    def _start(self, step: Step) -> None:
        if step.phone in self._phones:
            raise self._error(step, f"the phone {step.phone} runs already")
        # A name of its own: scenarios may run side by side.
        name = f"{step.phone}-{os.getpid()}"
        self._phones[step.phone] = start_virtual_device(name, **step.options)

    def _program(self, step: Step, argv: list[str], environment: dict[str, str]) -> tuple[str | None, str]:
        if argv[0] in ("python", "devkit"):
            # Those that run this scenario, not others on PATH.
            argv = [*(_DEVKIT if argv[0] == "devkit" else _DEVKIT[:1]), *argv[1:]]
        program = _Program(argv, self._folder, environment)
        if step.name is None:
            try:
                return program.check(step.expect)
            finally:
                program.end()
        if step.name in self._programs:
            program.end()
            raise self._error(step, f"there is a program named {step.name} already")
        self._programs[step.name] = program
        return None, ""

    def _join(self, step: Step) -> tuple[str | None, str]:
        program = self._programs.pop(step.value, None)
        if program is None:
            running = ", ".join(self._programs) or "none"
            raise self._error(step, f"there is no program named {step.value}", f"running: {running}")
        try:
            return program.check(step.expect)
        finally:
            program.end()

    def _await_state(self, step: Step, phone: VirtualDevice) -> str | None:
        from devkit.device.listing import list_server

        deadline = time.monotonic() + step.options["within"]
        state = "unknown"
        while time.monotonic() < deadline:
            with contextlib.suppress(DevkitError):
                entries = [entry for entry in list_server(phone.server) if entry.serial == phone.serial]
                state = entries[0].state if entries else "gone"
            if state == step.value:
                return None
            time.sleep(_LOOK_EVERY_S)
        return f"the phone is {state} after {step.options['within']:g} s"

    def _await_bytes(self, step: Step, phone: VirtualDevice) -> str | None:
        key = f"bytes_{step.options['direction']}"
        before = count_bytes(phone.name)[key]
        deadline = time.monotonic() + step.options["within"]
        passed = 0
        while time.monotonic() < deadline:
            passed = phone_status(phone.name)[key] - before
            if passed >= step.value:
                return None
            time.sleep(_LOOK_EVERY_S / 5)
        return f"{passed} of {step.value} bytes after {step.options['within']:g} s"

    def _phone(self, step: Step) -> VirtualDevice:
        if step.phone not in self._phones:
            running = ", ".join(self._phones) or "none"
            raise self._error(step, f"the phone {step.phone} does not run", f"running: {running}")
        return self._phones[step.phone]

    def _error(self, step: Step, what: str, *hints: str) -> UsageError:
        return UsageError(f"{self._file}:{step.line}: {what}", hints=hints)
