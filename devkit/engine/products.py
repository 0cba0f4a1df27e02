"""What a build made, looked at: there, for the right machine, with a build-id, symbols, and up to date."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit import output, paths
from devkit.engine.fileapi import Artifact, Target
from devkit.engine.plan import BuildPlan
from devkit.errors import BuildError, FileError
from devkit.symbols import is_elf, read_elf

FACTS_FILE = ".devkit-products.json"
_CHECKED = ("executable", "shared", "module")


@dataclass(frozen=True)
class Product:
    """A program or library as it lies in the build folder.

    Attributes:
        abi: Android's name of the machine it is for; None when it is no ELF file.
        stale: a source that is newer, or None.
    """

    artifact: Artifact
    size: int
    abi: str | None = None
    build_id: str | None = None
    symbols: bool = False
    stale: Path | None = None

    def as_dict(self) -> dict[str, object]:
        """The product as `devkit build --json` prints it."""
        return {
            "path": str(self.artifact.path),
            "kind": self.artifact.kind,
            "target": self.artifact.target,
            "size": self.size,
            "abi": self.abi,
            "build_id": self.build_id,
            "symbols": self.symbols,
            "newer_source": str(self.stale) if self.stale else None,
        }


def look_at(plan: BuildPlan, targets: Sequence[Target]) -> tuple[Product, ...]:
    """What is there of the targets' files. ELF facts of files that have not changed are remembered."""
    known = _read_facts(plan.build_dir)
    products = [
        _look(target.artifact, target.sources, known)
        for target in targets
        if target.artifact is not None and target.artifact.path.is_file()
    ]
    facts = {
        str(p.artifact.path): [*_stamp(p.artifact.path.stat()), p.abi, p.build_id, p.symbols]
        for p in products
    }
    if facts != known:
        paths.write_atomically(plan.build_dir / FACTS_FILE, json.dumps(facts, ensure_ascii=False))
    return tuple(products)


def check(
    plan: BuildPlan,
    targets: Sequence[Target],
    products: Sequence[Product],
    wanted: Collection[str],
    log: Path,
) -> tuple[str, ...]:
    """Refuse what cannot be used, and say what will surprise.

    Args:
        wanted: the targets that were to be built; none means all.

    Returns:
        The warnings.

    Raises:
        BuildError: a file was not made, or is for another machine.
    """
    _refuse_missing(plan, targets, wanted, log)
    on_phone = plan.profile.target == "device"
    wrong = [p for p in products if p.abi is not None and p.abi != plan.toolchain.abi]
    if wrong and on_phone:
        raise BuildError(
            f"{wrong[0].artifact.name} is for {wrong[0].abi}, not for {plan.toolchain.abi}",
            evidence="\n".join(f"{p.artifact.path}: {p.abi}" for p in wrong),
            hints=[
                "devkit build --clean",
                f"the whole log: {log}",
                "devkit build --explain shows the options",
            ],
        )
    said = [f"{p.artifact.name} is for {p.abi}, this machine is {plan.toolchain.abi}" for p in wrong]
    checked = [p for p in products if p.artifact.kind in _CHECKED and p.abi is not None]
    said += _said(
        [p for p in checked if not p.build_id],
        "no build-id: symbols cannot be matched to what runs on the phone (-Wl,--build-id)",
    )
    if plan.build_type.symbols:
        said += _said(
            [p for p in checked if not p.symbols],
            f"no debug information, which the type {plan.build_type.name} promises: something strips it",
        )
    said += [
        f"{p.artifact.name} is older than {p.stale}, which was changed during the build, or is left out of "
        f"`all`: devkit build {plan.profile.name} --target {p.artifact.target}"
        for p in products
        if p.stale is not None and (not wanted or p.artifact.target in wanted)
    ]
    return (*said, *_unmade(plan, targets))


def _refuse_missing(plan: BuildPlan, targets: Sequence[Target], wanted: Collection[str], log: Path) -> None:
    # Without targets everything is built, except what a project leaves out of `all`.
    promised = wanted or plan.profile.products
    missing = [
        t.artifact for t in targets
        if t.name in promised and t.artifact is not None and not t.artifact.path.is_file()
    ]  # fmt: skip
    if missing:
        raise BuildError(
            f"the build succeeded, but {missing[0].name} was not made",
            evidence="\n".join(f"{a.target}: {a.path} does not exist" for a in missing),
            hints=[f"the whole log: {log}", "devkit build --clean"],
        )


def _unmade(plan: BuildPlan, targets: Sequence[Target]) -> tuple[str, ...]:
    """What the profile promises and the checkout does not have; with own options that is the user's will."""
    names = {target.name for target in targets}
    lacking = [name for name in plan.profile.products if name not in names]
    if not lacking:
        return ()
    text = f"profile {plan.profile.name} promises {', '.join(lacking)}, which this checkout does not make"
    if plan.user_options:
        output.current().detail(text)
        return ()
    return (text,)


def _said(products: Sequence[Product], what: str) -> list[str]:
    if not products:
        return []
    names = [p.artifact.name for p in products]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"{', '.join(names[:3])}{more}: {what}"]


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _look(artifact: Artifact, sources: Sequence[Path], known: Mapping[str, Any]) -> Product:
    status = artifact.path.stat()
    remembered = known.get(str(artifact.path))
    if remembered and remembered[:-3] == _stamp(status):
        abi, build_id, symbols = remembered[-3:]
    else:
        abi, build_id, symbols = _read_facts_of(artifact)
    newer = [s for s in sources if _mtime_ns(s) > status.st_mtime_ns]
    return Product(artifact, status.st_size, abi, build_id, symbols, newer[0] if newer else None)


def _read_facts_of(artifact: Artifact) -> tuple[str | None, str | None, bool]:
    if artifact.kind not in _CHECKED or not is_elf(artifact.path):
        return None, None, False
    try:
        elf = read_elf(artifact.path)
    except FileError as error:
        raise BuildError(f"{artifact.name} was made, but is damaged", evidence=error.evidence) from None
    return elf.abi or elf.machine, elf.build_id, elf.has_debug_info


def _read_facts(build_dir: Path) -> dict[str, list[Any]]:
    try:
        content: dict[str, list[Any]] = json.loads((build_dir / FACTS_FILE).read_bytes())
        return {path: row for path, row in content.items() if len(row) == 5}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _mtime_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
