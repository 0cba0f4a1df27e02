"""One export from its host programs to the swapped folder."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import BuildError, ToolMissing
from devkit.ndk.lock import exclusive
from devkit.qnn.checks import Check
from devkit.qnn.export.plan import PROFILE, ExportPlan
from devkit.qnn.export.publish import provenance, publish, recover
from devkit.qnn.export.run import Watched, run_script
from devkit.qnn.export.stage import staged
from devkit.runtime.hashes import HashCache

if TYPE_CHECKING:
    from devkit.config import Config

GIT_TIMEOUT_S = 10.0
CACHE_DAYS = 30


@dataclass(frozen=True)
class Exported:
    """A finished export."""

    plan: ExportPlan
    seen: Watched
    facts: Mapping[str, Any]
    checks: tuple[Check, ...]
    log: Path
    elapsed_s: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": str(self.plan.model),
            "elapsed_s": round(self.elapsed_s, 3),
            "log": str(self.log),
            "warnings": self.seen.warnings,
            "checks": [check.as_dict() for check in self.checks],
            **self.facts,
        }


def host_tools(config: Config, plan: ExportPlan, *, build: bool = True) -> dict[str, Path]:
    """The host programs that the script runs; built where they are not, or not up to date.

    Args:
        build: False takes what the last build made.

    Raises:
        BuildError: they cannot be built, or were not made.
        ToolMissing: no compiler or cmake.
    """
    from devkit import engine

    chosen = engine.plan_for(config, PROFILE, targets=plan.script.tools)
    result = engine.build(chosen) if build else engine.last_build(chosen)
    found = {a.path.name: a.path for a in result.artifacts if a.kind == "executable"}
    missing = [tool for tool in plan.script.tools if tool not in found]
    if missing:
        raise BuildError(
            f"{missing[0]} was not built, and generate_llm_qnn.py runs it",
            evidence=f"{result.build_dir} has: {', '.join(sorted(found)) or 'no program'}",
            hints=[f"devkit build {PROFILE} --target {missing[0]}"],
        )
    return {tool: found[tool] for tool in plan.script.tools}


def export(plan: ExportPlan, tools: Mapping[str, Path], *, keep_stage: bool = False) -> Exported:
    """Do an export: staging, the script, the checks of what it left, the swap.

    Two exports of one model folder wait for each other.

    Args:
        tools: of `host_tools`.
        keep_stage: leave the staging folder.

    Raises:
        ToolFailed: a step failed; names the first one.
        FileError: a folder cannot be written, or the result is not usable.
    """
    started = time.monotonic()
    missing = [name for name in plan.script.tools if name not in tools]
    if missing:
        raise ToolMissing(f"{missing[0]} is missing", hints=[f"devkit build {PROFILE}"])
    for warning in plan.warnings:
        output.current().warn(warning)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    log = paths.state_dir() / "qnn-export" / f"{plan.name}-{stamp}.log"
    lock = paths.state_dir() / "qnn-export" / f"{_short(str(plan.model.resolve()))}.lock"
    hashes = _hashes(plan, tools)
    with exclusive(lock, f"exporting {plan.model.name}"):
        recover(plan.model)
        before = _stamps(plan.model)
        _tidy_cache(plan.cache)
        with staged(plan, tools, _compilers_key(plan, hashes), keep=keep_stage) as stage:
            seen = run_script(plan, stage, log)
            facts = provenance(plan, seen, commit_of(plan.source), hashes)
            checks = publish(plan, stage, seen, facts)
    changed = [name for name, stamp in _stamps(plan.model).items() if before.get(name, stamp) != stamp]
    if changed:
        seen.warnings.append(f"the script changed {', '.join(changed)} of the model folder")
    for warning in seen.warnings:
        output.current().warn(warning)
    return Exported(plan, seen, facts, tuple(checks), log, time.monotonic() - started)


def commit_of(source: Path) -> str | None:
    """The commit of a checkout, with `-dirty` where it was changed; None without git."""
    try:
        done = process.run(
            ["git", "-C", source, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            check=False, timeout_s=GIT_TIMEOUT_S,
        )  # fmt: skip
    except ToolMissing:
        return None
    return done.text.strip() or None if done.exit_code == 0 else None


def _hashes(plan: ExportPlan, tools: Mapping[str, Path]) -> dict[str, str]:
    with HashCache() as cache:
        files = [*tools.values(), plan.script.path, plan.script.convert, *plan.sdk_files]
        return {file.name: cache.sha256(file.resolve()) for file in files}


def _compilers_key(plan: ExportPlan, hashes: Mapping[str, str]) -> str:
    """What a compiled graph depends on besides its source: the SDK's compilers and npu_convert.py."""
    names = [file.name for file in (*plan.sdk_files, plan.script.convert)]
    return _short("\n".join([plan.sdk.version, *(f"{name} {hashes[name]}" for name in names)]), 64)


def _stamps(model: Path) -> dict[str, tuple[int, int]]:
    return {f.name: (s.st_size, s.st_mtime_ns) for f in model.glob("*.mnn*") if (s := f.stat())}


def _tidy_cache(cache: Path | None) -> None:
    """Remove compiled graphs that no export has asked for in CACHE_DAYS days."""
    if cache is None or not cache.is_dir():
        return
    oldest = time.time() - CACHE_DAYS * 86400
    for stamp in cache.glob("*.json"):
        try:
            if stamp.stat().st_mtime < oldest:
                stamp.with_suffix(".bin").unlink(missing_ok=True)
                stamp.unlink()
        except OSError:
            continue


def _short(text: str, digits: int = 16) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:digits]
