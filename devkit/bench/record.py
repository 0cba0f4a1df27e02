"""A finished benchmark as data, and the history of a project's benchmarks in the state folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.bench.metrics import Metric
from devkit.bench.spec import Cell
from devkit.bench.statistics import Summary, summarize
from devkit.errors import UsageError

FORMAT = 1
LAST = "last"


@dataclass(frozen=True)
class Sample:
    """One measured run of one cell.

    Attributes:
        number: its place in the whole benchmark, from 1.
        failure: why it does not count; None when it does.
        before, after: the phone's state as `PhoneState.as_dict` gives it.
    """

    cell: Cell
    number: int
    metrics: tuple[Metric, ...]
    exit_code: int
    failure: str | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One benchmark.

    Attributes:
        started: ISO 8601 with the zone of this machine.
        settings: what it was run with, for the record.
        phone: serial, model, chip, Android release.
    """

    id: str
    app: str
    started: str
    phone: Mapping[str, str]
    settings: Mapping[str, Any]
    samples: tuple[Sample, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order of their first run."""
        return tuple(dict.fromkeys(sample.cell for sample in self.samples))

    @property
    def failures(self) -> tuple[Sample, ...]:
        """Runs that do not count."""
        return tuple(sample for sample in self.samples if sample.failure)

    def names(self) -> tuple[tuple[str, str], ...]:
        """(name, unit) of all metrics, in the order in which they came."""
        return tuple(
            dict.fromkeys((m.name, m.unit) for s in self.samples if not s.failure for m in s.metrics)
        )

    def values(self, cell: Cell, name: str) -> list[float]:
        """All values of a metric in a cell, of runs that count."""
        return [
            m.value
            for s in self.samples
            if s.cell == cell and not s.failure
            for m in s.metrics
            if m.name == name
        ]

    def summary(self, cell: Cell, name: str) -> Summary | None:
        """The spread of a metric in a cell; None without values."""
        values = self.values(cell, name)
        return summarize(values) if values else None

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON, with summaries for those who do not want to compute them."""
        return {
            "format": FORMAT,
            "id": self.id,
            "app": self.app,
            "started": self.started,
            "phone": dict(self.phone),
            "settings": dict(self.settings),
            "samples": [
                {
                    "cell": s.cell.as_dict(),
                    "number": s.number,
                    "exit_code": s.exit_code,
                    "failure": s.failure,
                    "metrics": [{"name": m.name, "value": m.value, "unit": m.unit} for m in s.metrics],
                    "before": dict(s.before),
                    "after": dict(s.after),
                }
                for s in self.samples
            ],
            "summary": [
                {"cell": cell.as_dict(), "metric": name, "unit": unit, **found.as_dict()}
                for cell in self.cells
                for name, unit in self.names()
                if (found := self.summary(cell, name)) is not None
            ],
        }


def run_from_dict(content: Mapping[str, Any]) -> Run:
    """The run that `Run.as_dict` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is no such thing.
    """
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}")
    samples = tuple(
        Sample(
            Cell(**row["cell"]),
            int(row["number"]),
            tuple(Metric(str(m["name"]), float(m["value"]), str(m["unit"])) for m in row["metrics"]),
            int(row["exit_code"]),
            row["failure"],
            row["before"],
            row["after"],
        )
        for row in content["samples"]
    )
    return Run(
        str(content["id"]),
        str(content["app"]),
        str(content["started"]),
        content["phone"],
        content["settings"],
        samples,
    )


class History:
    """The benchmarks of one project, one JSON file each."""

    def __init__(self, project: Path) -> None:
        key = hashlib.sha256(str(project.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self.folder = paths.state_dir() / "bench" / f"{project.resolve().name or 'root'}-{key}"

    def save(self, run: Run) -> Path:
        """Keep a run; returns its file."""
        path = self.folder / f"{run.id}.json"
        paths.write_atomically(path, json.dumps(run.as_dict(), indent=1, ensure_ascii=False))
        return path

    def new_id(self, app: str, stamp: str) -> str:
        """A name for a run that starts now; `stamp` is its time, as 20261130-111500."""
        plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in re.split(r"[/\\]", app)[-1])
        wanted, number = f"{stamp}-{plain}", 1
        while (self.folder / f"{wanted}.json").exists():
            number += 1
            wanted = f"{stamp}-{plain}-{number}"
        return wanted

    def runs(self, app: str | None = None) -> list[Run]:
        """All runs, the oldest first; files that cannot be read are passed over."""
        found = []
        for path in sorted(self.folder.glob("*.json"), key=lambda path: path.stem):
            try:
                found.append(run_from_dict(json.loads(path.read_bytes())))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return [run for run in found if app in (None, run.app)]

    def find(self, wanted: str, app: str | None = None) -> Run:
        """A run by its id, the beginning of it, `last`, or the path of its JSON file.

        Raises:
            UsageError: there is none, or several begin like that.
        """
        path = Path(wanted).expanduser()
        if path.suffix == ".json" and path.is_file():
            try:
                return run_from_dict(json.loads(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path} holds no benchmark of devkit", evidence=str(error)) from None
        runs = self.runs(app)
        if wanted == LAST and runs:
            return runs[-1]
        fitting = [run for run in runs if run.id == wanted] or [
            run for run in runs if run.id.startswith(wanted)
        ]
        if len(fitting) == 1:
            return fitting[0]
        hint = ["devkit bench --list shows all of this project"]
        if fitting:
            raise UsageError(f"several runs begin with {wanted}", evidence=_ids(fitting), hints=hint)
        of = f" of {app}" if app else ""
        raise UsageError(f"there is no run {wanted}{of}", evidence=_ids(runs[-5:]) or None, hints=hint)


def _ids(runs: Sequence[Run]) -> str:
    return "\n".join(run.id for run in runs)
