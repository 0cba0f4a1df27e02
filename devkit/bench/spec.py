"""What a benchmark runs: its settings, and the matrix of profiles, backends, threads and prompts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from devkit.config import Config
from devkit.errors import UsageError

AS_IS = "as is"
DIMENSIONS = ("backend", "threads", "prompt")
_PLACE = re.compile(r"\{(profile|backend|threads|prompt)\}")


@dataclass(frozen=True)
class Cell:
    """One combination of the matrix. None: this program is not told; its own default counts."""

    profile: str
    backend: str | None = None
    threads: str | None = None
    prompt: str | None = None

    @property
    def label(self) -> str:
        """'cpu, 4 threads, prompt 512', for tables and charts."""
        words = [self.profile]
        if self.backend is not None and self.backend != self.profile:
            words.append(self.backend)
        if self.threads is not None:
            words.append(f"{self.threads} thread" + ("" if self.threads == "1" else "s"))
        if self.prompt is not None:
            words.append(f"prompt {self.prompt}")
        return ", ".join(words)

    def as_dict(self) -> dict[str, str | None]:
        """The cell as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Spec:
    """A benchmark's settings.

    Attributes:
        args: the program's arguments; `{backend}`, `{threads}`, `{prompt}`, `{profile}` are replaced.
        repeat: measured runs of each cell; `warmup` runs before them are thrown away.
        cooldown_s: the pause before each run.
        max_c: wait until the hottest part of the phone is below this many degrees Celsius.
        cooldown_limit_s: how long to wait for that at most.
        timeout_s: after this long a run is ended and counts as failed.
        metrics: regular expressions for numbers of the output; named groups name the metrics.
        taskset: processors it may run on, as `devkit run --taskset` takes them; None: all.
    """

    app: str
    profiles: tuple[str, ...]
    args: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    repeat: int = 5
    warmup: int = 1
    cooldown_s: float = 2.0
    max_c: float | None = None
    cooldown_limit_s: float = 300.0
    timeout_s: float = 600.0
    metrics: tuple[str, ...] = ()
    taskset: str | None = None

    def cells(self) -> tuple[Cell, ...]:
        """The whole matrix, profile by profile."""
        axes: list[Sequence[str | None]] = [
            self.backends or (None,),
            self.threads or (None,),
            self.prompts or (None,),
        ]
        return tuple(
            Cell(profile, *values) for profile in self.profiles for values in itertools.product(*axes)
        )

    def arguments(self, cell: Cell, program: str) -> tuple[str, ...]:
        """The program's arguments for one cell."""
        values = {name: value for name, value in cell.as_dict().items() if value is not None}
        words = [_fill(word, values) for word in self.args]
        placed = {name for word in self.args for name in _PLACE.findall(word)}
        for name in DIMENSIONS:
            if name in values and name not in placed:
                words += [_fill(word, values) for word in _flags(program).get(name, [])]
        return tuple(words)


def spec_for(config: Config, app: str, flags: Mapping[str, Any]) -> Spec:
    """The settings of a benchmark: `bench:` of devkit.yaml, with flags on top.

    Args:
        flags: fields of Spec by name; None and empty ones are ignored.

    Raises:
        UsageError: a metric is no regular expression, or has no group.
    """
    known = config.apps.get(app)
    # A finished program is of no profile that devkit knows.
    profile = known.profile if known else AS_IS if "/" in app else "cpu"
    spec = Spec(app, (profile,), args=known.args if known else ())
    given = {name: value for name, value in config.bench.get(app, {}).items() if value not in (None, ())}
    given = {
        name: float(value) if name in ("cooldown_s", "max_c", "timeout_s") else value
        for name, value in given.items()
    }
    given |= {name: value for name, value in flags.items() if value not in (None, ())}
    spec = replace(spec, **given)
    for pattern in spec.metrics:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise UsageError(
                f"the metric {pattern!r} is no regular expression", evidence=str(error)
            ) from None
        if not groups:
            raise UsageError(
                f"the metric {pattern!r} has no group: it would not say which number counts",
                hints=[r"devkit bench APP --metric 'decode speed = (?P<decode>[\d.]+) tok/s'"],
            )
    return spec


def check_dimensions(spec: Spec, program: str) -> None:
    """Refuse a matrix whose cells would all run the same command.

    Raises:
        UsageError: the program is not told a value that varies.
    """
    placed = {name for word in spec.args for name in _PLACE.findall(word)}
    for name, values in (("backend", spec.backends), ("threads", spec.threads), ("prompt", spec.prompts)):
        if values and name not in placed and name not in _flags(program):
            shown = " ".join(spec.args) or "(none)"
            raise UsageError(
                f"{program} is not told which {name} to use: {', '.join(values)} would be one and the same",
                evidence=f"its arguments: {shown}",
                hints=[
                    f"put {{{name}}} where it belongs: devkit bench {spec.app} -- ... {{{name}}}",
                    f"or in devkit.yaml: bench: {{{spec.app}: {{args: [..., '{{{name}}}']}}}}",
                ],
            )


def _fill(word: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), word)


def _flags(program: str) -> Mapping[str, list[str]]:
    return _programs().get(program, {})


@lru_cache(maxsize=1)
def _programs() -> Mapping[str, Mapping[str, list[str]]]:
    import yaml

    rows: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load(
        Path(__file__).with_name("programs.yaml").read_text(encoding="utf-8")
    )
    return rows
