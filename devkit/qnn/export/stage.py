"""The staging folder of one export: the layout that the script demands, with links to all that is large."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from devkit import output, process
from devkit.errors import FileError
from devkit.qnn.export.plan import ExportPlan, is_safe

_PREFIX = "export-"
_OWNER = "owner.pid"
# What an earlier export left in the model folder: the script is not to find it.
_LEFT_OUT = ("qnn", "config_qnn.json")


@dataclass(frozen=True)
class Stage:
    """Where an export works."""

    root: Path
    name: str

    @property
    def workdir(self) -> Path:
        """The script's working folder, as it demands."""
        return self.root / "mnn/transformers/llm/export"

    @property
    def script(self) -> Path:
        return self.workdir / "npu/generate_llm_qnn.py"

    @property
    def model(self) -> Path:
        return self.root / "model" / self.name

    @property
    def events(self) -> Path:
        """What the graph driver reports."""
        return self.root / "events.jsonl"


@contextlib.contextmanager
def staged(plan: ExportPlan, tools: Mapping[str, Path], key: str, *, keep: bool = False) -> Iterator[Stage]:
    """Make the staging folder, and remove it at the end, also those of exports that were killed.

    Args:
        tools: the host programs by name.
        key: changes with everything but the graphs that compiled graphs depend on.
        keep: leave it, and say where it is.

    Raises:
        FileError: it cannot be made.
    """
    try:
        plan.stage_parent.mkdir(parents=True, exist_ok=True)
        _sweep(plan.stage_parent)
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=plan.stage_parent))
        try:
            (root / _OWNER).write_text(f"{os.getpid()}\n")
            yield _fill(plan, tools, key, Stage(root, plan.name))
        finally:
            if keep:
                output.current().note(f"the staging folder is kept: {root}")
            else:
                shutil.rmtree(root, ignore_errors=True)
    except OSError as error:
        raise FileError(
            "the staging folder cannot be written",
            evidence=f"{error.filename or plan.stage_parent}: {error.strerror or error}",
            hints=["--stage DIR names another place"],
        ) from None


def _fill(plan: ExportPlan, tools: Mapping[str, Path], key: str, stage: Stage) -> Stage:
    build = stage.root / "mnn/build"
    build.mkdir(parents=True)
    for name, path in tools.items():
        (build / name).symlink_to(path)
    # A copy: the script of some revisions seeks npu_convert.py from where it really lies.
    stage.script.parent.mkdir(parents=True)
    for file in plan.script.path.parent.glob("*.py"):
        shutil.copyfile(file, stage.script.parent / file.name)
    convert = stage.root / "mnn/source/backend/qnn/npu_convert.py"
    convert.parent.mkdir(parents=True)
    convert.write_text(
        resources.files("devkit.qnn.export").joinpath("graph_driver.py").read_text("utf-8"), "utf-8"
    )
    # An empty folder of this name: the script then moves its result instead of copying it.
    (stage.model / "qnn").mkdir(parents=True)
    for file in plan.model.iterdir():
        if file.name not in _LEFT_OUT:
            (stage.model / file.name).symlink_to(file.resolve())
    settings = {
        "convert": str(plan.script.convert),
        "events": str(stage.events),
        "cache": str(plan.cache) if plan.cache else None,
        "tools": key,
        "jobs": plan.jobs,
        "memory_bytes": plan.memory_bytes,
    }
    (stage.root / "graphs.json").write_text(json.dumps(settings, indent=1), "utf-8")
    stage.events.touch()
    return stage


def environment(plan: ExportPlan, stage: Stage) -> dict[str, str]:
    """The SDK's variables; by a link where its path is more than one word."""
    root = plan.sdk.path
    found = dict(plan.environment)
    if not is_safe(root):
        link = stage.root / "sdk"
        if not link.is_symlink():
            link.symlink_to(root)
        found = {name: value.replace(str(root), str(link)) for name, value in found.items()}
    # Lines come when they are written, not when the script ends.
    return {**found, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"}


def _sweep(parent: Path) -> None:
    """Remove what exports left that were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            pid = int((folder / _OWNER).read_text())
        except (OSError, ValueError):
            continue  # just being made, or not devkit's
        if not process.is_alive(pid):
            shutil.rmtree(folder, ignore_errors=True)
