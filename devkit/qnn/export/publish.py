"""The result takes its place in the model folder: whole, checked, with the old one kept until then."""

from __future__ import annotations

import ctypes
import datetime
import errno
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devkit import output, paths
from devkit.errors import FileError
from devkit.models.mnn_file import read_mnn
from devkit.qnn.checks import BROKEN, Check
from devkit.qnn.export.plan import ExportPlan
from devkit.qnn.export.run import Watched, wrong_chip
from devkit.qnn.export.stage import Stage
from devkit.qnn.inspect import inspect

FOLDER, CONFIG = "qnn", "config_qnn.json"
PROVENANCE = "devkit-export.json"
_BACKUP, _NEW = "qnn.devkit-old", "qnn.devkit-new"
_LOOKED_AT = ("graphs", "context", "sdk", "inside")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
# Files that the engine finds by itself only under these names: a config that has another one must say it.
_CARRIED = (
    "tokenizer_file", "embedding_file", "context_file", "visual_model", "audio_model", "talker_model",
    "base_dir", "jinja", "system_prompt",
)  # fmt: skip


def recover(model: Path) -> None:
    """Put back what an export that was killed in the middle of its swap left.

    Raises:
        FileError: it cannot be put back.
    """
    old, place = model / _BACKUP, model / FOLDER
    try:
        if old.is_dir() and not place.exists():
            old.rename(place)
            output.current().warn(f"{place} was put back: an earlier export was killed while it replaced it")
        elif old.is_dir():
            shutil.rmtree(old)
        shutil.rmtree(model / _NEW, ignore_errors=True)
    except OSError as error:
        raise FileError(f"{error.filename} cannot be moved", evidence=error.strerror) from None


def publish(plan: ExportPlan, stage: Stage, seen: Watched, facts: Mapping[str, Any]) -> list[Check]:
    """Move the result into the model folder.

    The old `qnn/` and config_qnn.json stay until the new ones have been looked at in their place; where they
    are not good, the old ones come back.

    Returns:
        The checks that were made.

    Raises:
        FileError: the folder cannot be written, or the result is not usable; the old one is in its place.
    """
    new, place, old = plan.model / _NEW, plan.model / FOLDER, plan.model / _BACKUP
    problem = wrong_chip(plan, stage.model / FOLDER)
    if problem:
        raise FileError(f"the export made the wrong thing: {problem}", evidence=str(stage.model / FOLDER))
    config_file = plan.model / CONFIG
    before = config_file.read_bytes() if config_file.is_file() else None
    try:
        _bring(stage.model / FOLDER, new)
        carried = _carry_over(place, new)
        paths.write_atomically(new / PROVENANCE, json.dumps(dict(facts), indent=1, ensure_ascii=False) + "\n")
        config = complete_config(plan, stage, new)
        config |= {
            key: value
            for key, value in _read(config_file).items()
            if isinstance(value, str) and value in carried
        }
        had = place.exists()
        if had:
            _swap(new, place)
            new.rename(old)
        else:
            new.rename(place)
        paths.write_atomically(config_file, json.dumps(config, indent=4, ensure_ascii=False) + "\n")
        # Names of graphs, and whether a file is whole, as the SDK's own library tells them.
        looked = inspect(plan.model, sdk_version=plan.sdk.version, reader=plan.sdk)
        checks = [check for check in looked.checks if check.name in _LOOKED_AT]
        broken = [check for check in checks if check.state == BROKEN]
        if broken:
            _undo(plan.model, had, before)
            raise FileError(
                "the export's result is not usable; what was there before is in its place again",
                evidence="\n".join(check.text for check in broken),
                hints=[check.hint for check in broken if check.hint][:2],
            )
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise FileError(
            f"the result cannot take its place in {plan.model}",
            evidence=f"{error.filename or plan.model}: {error.strerror or error}",
            hints=["what was there before is still there"],
        ) from None
    return checks


def _carry_over(old: Path, new: Path) -> set[str]:
    """Take along what an earlier export made of another model of this folder (llm.mnn beside visual.mnn).

    Returns:
        the models that were taken along, as a config names them.
    """
    carried = set()
    for model in sorted(old.glob("*.mnn")) if old.is_dir() else ():
        if (new / model.name).exists():
            continue
        try:
            graphs = {Path(op.path).name for op in read_mnn(model).npu if op.path}
        except FileError:
            continue
        names = [name for name in graphs if (old / name).is_file() and not (new / name).exists()]
        for name in (model.name, *sorted(names)):
            try:
                os.link(old / name, new / name)
            except OSError:
                shutil.copyfile(old / name, new / name)
        carried.add(f"{FOLDER}/{model.name}")
    return carried


def complete_config(plan: ExportPlan, stage: Stage, folder: Path) -> dict[str, Any]:
    """config_qnn.json: what the script wrote, and what it does not carry over from config.json."""
    config = _read(stage.model / CONFIG)
    given = _read(plan.model / "config.json")
    has_llm = (folder / "llm.mnn").is_file()
    config.setdefault("llm_model", f"{FOLDER}/llm.mnn" if has_llm else "llm.mnn")
    config.setdefault("llm_weight", given.get("llm_weight", "llm.mnn.weight"))
    config.setdefault("backend_type", "cpu")
    for key in _CARRIED:
        if key in given:
            config.setdefault(key, given[key])
    if "tokenizer_file" not in config and not (plan.model / "tokenizer.txt").is_file():
        found = next((f.name for f in sorted(plan.model.glob("tokenizer.m*"))), None)
        if found:
            config["tokenizer_file"] = found
    # The graphs' paths in llm.mnn begin with qnn/: they are sought from the model folder.
    config.setdefault("npu_model_dir", "")
    if has_llm:
        config["chunk_limits"] = _limits(folder) or config.get("chunk_limits") or [plan.chunk_size, 1]
    return config


def _limits(folder: Path) -> list[int]:
    """The numbers of tokens that all graphs take, largest first; empty when they do not tell."""
    model = folder / "llm.mnn"
    graphs = read_mnn(model).npu if model.is_file() else ()
    lengths = [set(graph.lengths) for graph in graphs if graph.lengths]
    common = set.intersection(*lengths) if lengths else set()
    return sorted(common, reverse=True) if len(common) > 1 else []


def _read(file: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _bring(source: Path, target: Path) -> None:
    """Move a folder; across file systems by copies, beside the place it will take."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(source, target)


def _swap(one: Path, other: Path) -> None:
    """Exchange two folders at once where the system can; else by two renames (`recover` mends a kill)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        call = getattr(libc, "renameat2", None)
        if call is not None and not call(
            _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
        ):
            return
    aside = other.with_name(_BACKUP)
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)


def _undo(model: Path, had: bool, config: bytes | None) -> None:
    place, old = model / FOLDER, model / _BACKUP
    shutil.rmtree(place, ignore_errors=True)
    if had:
        old.rename(place)
    if config is None:
        (model / CONFIG).unlink(missing_ok=True)
    else:
        paths.write_atomically(model / CONFIG, config)


def provenance(
    plan: ExportPlan, seen: Watched, commit: str | None, tools: Mapping[str, str]
) -> dict[str, Any]:
    """What made the graphs, for the file beside them."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "version": 1,
        "made_at": now.isoformat(timespec="seconds"),
        "sdk": {"version": plan.sdk.version, "path": str(plan.sdk.path)},
        "soc_id": plan.soc_id,
        "dsp_arch": plan.dsp_arch,
        "chip": plan.chip,
        "vtcm_mb": plan.vtcm_mb,
        "chunk_size": plan.chunk_size,
        "mnn": {"source": str(plan.source), "commit": commit},
        "arguments": list(plan.words),
        "tools": dict(tools),
        "graphs": {
            key: {name: value for name, value in fact.items() if name in ("size", "seconds", "cached")}
            for key, fact in sorted(seen.graphs.items())
        },
        "steps": [step.as_dict() for step in seen.steps],
    }
