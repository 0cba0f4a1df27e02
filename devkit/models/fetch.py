"""`devkit model get`: a model from a hub into a folder; resumed after breaks, proved by its hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from devkit import output
from devkit.errors import FileError
from devkit.models.hub import HubFile, HubModel, HubUnreachable, list_model, pick_files, transfer

PART_FOLDER = ".devkit-get"
ATTEMPTS = 3
_WAIT_S = 2.0
_BLOCK = 1 << 20

NEW, SAME, CONFLICT = "fetch", "there", "differs"


@dataclass(frozen=True)
class PlannedFile:
    """One file: `action` is NEW, SAME (there and equal) or CONFLICT (there, but not the hub's)."""

    file: HubFile
    local: Path
    action: str
    partial: int = 0

    def as_dict(self) -> dict[str, object]:
        """The file as `--json` prints it."""
        return {
            "path": self.file.path,
            "size": self.file.size,
            "sha256": self.file.sha256,
            "action": self.action,
            "have_bytes": self.file.size if self.action == SAME else self.partial,
        }


@dataclass(frozen=True)
class FetchPlan:
    """What will be fetched, from where, and where to."""

    model: HubModel
    folder: Path
    files: tuple[PlannedFile, ...]

    @property
    def missing_bytes(self) -> int:
        """What still has to travel."""
        return sum(p.file.size - p.partial for p in self.files if p.action != SAME)

    def as_dict(self) -> dict[str, object]:
        """The plan as `--json` prints it."""
        return {
            "model": self.model.name,
            "commit": self.model.commit,
            "endpoint": self.model.endpoint,
            "folder": str(self.folder),
            "files": [planned.as_dict() for planned in self.files],
            "bytes": sum(planned.file.size for planned in self.files),
            "missing_bytes": self.missing_bytes,
        }


def plan_fetch(
    name: str,
    folder: Path,
    places: Sequence[str],
    *,
    revision: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> FetchPlan:
    """Ask the first endpoint that answers, and compare with what is in the folder. Nothing is changed.

    Raises:
        ToolMissing, UsageError: as `list_model`.
        HubUnreachable: no endpoint answers.
        FileError: the model names a file outside of its folder.
    """
    model = _first_that_answers(places, lambda place: list_model(name, revision, place))
    chosen = pick_files(model.files, include, exclude)
    if not chosen:
        raise FileError(
            f"{name} has no file to fetch",
            evidence=f"{len(model.files)} files in it",
            hints=["check --include and --exclude"],
        )
    return FetchPlan(model, folder, tuple(_planned(folder, file) for file in chosen))


def apply_fetch(plan: FetchPlan, places: Sequence[str], *, force: bool = False) -> None:
    """Fetch what the plan says. A file appears under its name when it is whole and its hash is right.

    Args:
        places: endpoints; when one breaks off, the next one goes on where it stopped.
        force: files that differ from the hub's are replaced.

    Raises:
        FileError: a file would be overwritten, the disk is too small, or a hash stays wrong.
        HubUnreachable: it broke off again and again; what has come is kept for the next time.
    """
    differing = [planned for planned in plan.files if planned.action == CONFLICT]
    if differing and not force:
        raise FileError(
            f"{len(differing)} files in {plan.folder} are not those of {plan.model.name}; they stay",
            evidence="\n".join(planned.file.path for planned in differing[:10]),
            hints=["--force replaces them", "--to DIR takes another folder"],
        )
    wanted = [planned for planned in plan.files if planned.action != SAME]
    if not wanted:
        return
    plan.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(plan.folder).free
    if free < plan.missing_bytes:
        raise FileError(
            f"{plan.folder} has too little space",
            evidence=f"{output.human_bytes(free)} free, {output.human_bytes(plan.missing_bytes)} to come",
            hints=["--to DIR takes another folder"],
        )
    order = [plan.model.endpoint, *(place for place in places if place != plan.model.endpoint)]
    label = f"fetching {plan.model.name}"
    with output.current().progress(label, plan.missing_bytes, unit="bytes") as bar:
        for planned in wanted:
            _fetch(plan, planned, order, bar.advance)
    parts = plan.folder / PART_FOLDER
    if parts.is_dir() and not any(parts.iterdir()):
        parts.rmdir()


def _fetch(
    plan: FetchPlan, planned: PlannedFile, places: Sequence[str], on_bytes: Callable[[float], None]
) -> None:
    file = planned.file
    part = _part(plan.folder, file)
    part.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(2):
        _whole(plan.model, file, places, part, on_bytes)
        if is_file(part, file):
            break
        # Somebody changed bytes on the way, or the part was of something else: from the start, once.
        part.unlink()
        if attempt:
            raise FileError(
                f"{file.path} came with the wrong content, twice",
                evidence=f"expected sha256 {file.sha256}" if file.sha256 else f"expected git {file.git_sha1}",
                hints=["take another endpoint: --endpoint URL"],
            )
        output.current().warn(f"{file.path} came with the wrong content; it is fetched again")
    planned.local.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, planned.local)


def _whole(
    model: HubModel, file: HubFile, places: Sequence[str], part: Path, on_bytes: Callable[[float], None]
) -> None:
    """All bytes of a file. After ATTEMPTS in which nothing comes the next endpoint has its turn."""
    part.touch()
    failure: HubUnreachable | None = None
    for place in places:
        left = ATTEMPTS
        while left:
            before = part.stat().st_size
            if before == file.size:
                return
            try:
                transfer(model, file, place, part, on_bytes)
                return
            except HubUnreachable as error:
                failure = error
                left = ATTEMPTS if part.stat().st_size > before else left - 1
                if left:
                    time.sleep(_WAIT_S)
    assert failure is not None
    raise failure


def is_file(path: Path, file: HubFile) -> bool:
    """Whether a local file is that of the hub: size, then SHA-256 or git's hash."""
    try:
        if path.stat().st_size != file.size:
            return False
        if file.sha256 is not None:
            return _digest(path, hashlib.sha256()) == file.sha256
        if file.git_sha1 is not None:
            return (
                _digest(path, hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)) == file.git_sha1
            )
    except OSError:
        return False
    return True


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _planned(folder: Path, file: HubFile) -> PlannedFile:
    relative = PurePosixPath(file.path)
    if relative.is_absolute() or ".." in relative.parts or "\\" in file.path:
        raise FileError(f"the model names a file outside of its folder: {file.path!r}")
    local = folder.joinpath(*relative.parts)
    if os.path.lexists(local):
        return PlannedFile(file, local, SAME if is_file(local, file) else CONFLICT)
    part = _part(folder, file)
    have = part.stat().st_size if part.is_file() else 0
    return PlannedFile(file, local, NEW, have if have <= file.size else 0)


def _part(folder: Path, file: HubFile) -> Path:
    """Named by content: a part of another revision of the file is never continued."""
    return folder / PART_FOLDER / f"{file.key}.part"


def _first_that_answers(places: Sequence[str], ask: Callable[[str], HubModel]) -> HubModel:
    failures: list[HubUnreachable] = []
    for place in places:
        try:
            return ask(place)
        except HubUnreachable as error:
            failures.append(error)
            if place != places[-1]:
                output.current().warn(f"{error.what}; trying {places[places.index(place) + 1]}")
    if len(failures) == 1:
        raise failures[0]
    raise HubUnreachable(
        f"none of {', '.join(places)} answers",
        evidence="\n".join(f"{failure.what}: {failure.evidence}" for failure in failures),
        hints=["check the network", "HF_ENDPOINT=URL names another mirror"],
    )
