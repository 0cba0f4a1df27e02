"""What travels to the phone and why: a plan first, then its execution. Only differences travel."""

from __future__ import annotations

import json
import os
import posixpath
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.config import FileMapping
from devkit.errors import DeployError, FileError
from devkit.runtime.app_folder import MANIFEST, AppFolder, look
from devkit.runtime.hashes import HashCache
from devkit.runtime.own_files import expand
from devkit.runtime.phone_scripts import disk_full
from devkit.runtime.preparing import Arrival
from devkit.runtime.staging import Manifest, part_name, place_files
from devkit.runtime.warmup import WarmUp

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.runtime.closure import Closure
    from devkit.symbols import Stripper

_SHOWN_SKIPPED = 3
_JUST_NOW_S, _HOUR_S = 5, 3600
NOT_THERE = "not on the phone"


@dataclass(frozen=True)
class DeployFile:
    """One file of a deployment.

    `remote` is relative to the app's folder on the phone, `reason` says why it is part of the
    deployment, `action` is "push" or "keep", `why` says why it travels or does not. `sent` is the file
    that stands for `local` on the phone: a stripped copy, or the file itself. `sha256` is `local`'s,
    `sent_sha256` that of `sent`, if it travels.
    """

    local: Path
    remote: str
    size: int
    sent: Path
    sent_size: int
    mode: int
    mtime_s: int
    sha256: str
    sent_sha256: str
    reason: str
    action: str
    why: str

    @property
    def is_stripped(self) -> bool:
        return self.sent != self.local


@dataclass(frozen=True)
class DeployPlan:
    """Everything `apply_plan` will do.

    `folder` is the app's absolute folder on the phone, `seen` what it held, `removed` names files below it
    that devkit has put there and nobody wants any more.
    """

    serial: str
    folder: str
    program: str
    files: tuple[DeployFile, ...]
    seen: AppFolder
    removed: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return not self.to_push and not self.removed

    @property
    def others(self) -> tuple[str, ...]:
        """Files in the folder that are no part of the plan and stay there, relative to it."""
        known = {file.remote for file in self.files} | {*self.removed, MANIFEST}
        return tuple(sorted(set(self.seen.present) - known))

    @property
    def to_push(self) -> tuple[DeployFile, ...]:
        return tuple(f for f in self.files if f.action == "push")

    @property
    def push_bytes(self) -> int:
        """Bytes of the files that travel, before the link compresses them."""
        return sum(f.sent_size for f in self.to_push)

    @property
    def program_path(self) -> str:
        """The program's absolute path on the phone."""
        return posixpath.join(self.folder, self.program)

    def as_dict(self) -> dict[str, Any]:
        """The plan as `--json` prints it."""
        return {
            "serial": self.serial,
            "folder": self.folder,
            "program": self.program,
            "push_files": len(self.to_push),
            "push_bytes": self.push_bytes,
            "removed": list(self.removed),
            "free_bytes": self.seen.free_bytes,
            "files": [
                {
                    "local": str(f.local),
                    "remote": f.remote,
                    "size": f.size,
                    "sent_size": f.sent_size,
                    "stripped": f.is_stripped,
                    "sha256": f.sha256,
                    "action": f.action,
                    "reason": f.reason,
                    "why": f.why,
                }
                for f in self.files
            ],
        }

    def as_text(self, wire: Mapping[str, int] | None = None) -> str:
        """The plan as a table for people; `wire`: bytes on the link by `remote`, where they are known."""
        wire = wire or {}
        rows: list[tuple[str, ...]] = [
            (f.action, f.remote, output.human_bytes(f.size), _sent(f, wire.get(f.remote)), f.reason, f.why)
            for f in self.files
        ]
        rows += [
            (
                "remove",
                name,
                output.human_bytes(self.seen.present[name][0]),
                "-",
                "--prune",
                "no longer wanted",
            )
            for name in self.removed
        ]
        total = f"{len(self.to_push)} of {len(self.files)} files, {output.human_bytes(self.push_bytes)}"
        return (
            output.table(rows, ("ACTION", "FILE", "SIZE", "SENT", "BECAUSE", "STATE"))
            + f"{total} travel to {self.folder} on {self.serial}\n"
        )


def plan_deployment(
    device: Device,
    app: str,
    closure: Closure,
    files: Iterable[FileMapping] = (),
    *,
    device_dir: str,
    stripper: Stripper | None = None,
    extra: Iterable[tuple[str, Path, str]] = (),
    seen: AppFolder | None = None,
    warm_up: WarmUp | None = None,
    prune: bool = False,
) -> DeployPlan:
    """Compare what an app needs with what its folder on the phone holds. At most one round trip.

    Args:
        app: names the app's folder below `device_dir`.
        closure: the program and its libraries.
        stripper: makes the copies that travel instead of files with debug information; None: all travel
            as they are.
        files: data files and folders of the app.
        extra: (path on the phone, local file, reason) of further files.
        seen: what is there, as far as it is known; looked at again when that was a while ago.
        warm_up: what is already being hashed and stripped; waited for once the phone has answered.
        prune: remove what devkit has put there for an earlier deployment and nobody has changed since.

    Raises:
        DeployError: a data file does not exist, or two files want the same place.
    """
    folder = posixpath.join(device_dir, app)
    wanted: dict[str, tuple[Path, str]] = {}
    elves = {needed.name: needed.elf for needed in closure.files}
    for needed in closure.files:
        _claim(wanted, needed.name, needed.elf.path, needed.reason)
    for mapping in files:
        for remote, local in _expand(mapping):
            _claim(wanted, remote, local, "devkit.yaml files:")
    for remote, local, reason in extra:
        _claim(wanted, remote, local, reason)

    if seen is None or seen.path != folder or not (seen.is_fresh and seen.is_whole):
        seen = look(device, folder)
    if warm_up is not None:
        warm_up.wait()
    planned: list[DeployFile] = []
    statuses = {local: _status(local) for local, _ in wanted.values()}
    total = sum(status.st_size for status in statuses.values())
    with HashCache() as hashes, output.current().progress("hashing", total, unit="bytes") as bar:
        for remote, (local, reason) in wanted.items():
            status = statuses[local]
            digest = hashes.sha256(local, bar.advance)
            executable = bool(status.st_mode & stat.S_IXUSR) or remote == closure.files[0].name
            copy = stripper.stripped(elves[remote], hashes.sha256) if stripper and remote in elves else None
            sent_size = copy.stat().st_size if copy else status.st_size
            action, why = _compare(remote, digest, sent_size, copy is not None, seen)
            planned.append(
                DeployFile(
                    local=local,
                    remote=remote,
                    size=status.st_size,
                    sent=copy or local,
                    sent_size=sent_size,
                    mode=0o755 if executable else 0o644,
                    mtime_s=_stamp(status) if action == "push" else int(seen.manifest[remote]["mtime"]),
                    sha256=digest,
                    sent_sha256=hashes.sha256(copy) if copy and action == "push" else digest,
                    reason=reason,
                    action=action,
                    why=why,
                )
            )
    obsolete = [name for name in seen.manifest if name not in wanted and _is_ours(seen, name)]
    removed = tuple(sorted(obsolete)) if prune else ()
    return DeployPlan(device.serial, folder, closure.files[0].name, tuple(planned), seen, removed)


def apply_plan(device: Device, plan: DeployPlan) -> None:
    """Make the phone's folder what the plan says: all of it, or after a failure nothing.

    Raises:
        DeployError: no room, no permission, files arrive damaged, or somebody else deployed meanwhile.
        DeviceError: the phone or the link went away; says what the phone holds.
    """
    if plan.is_done:
        return
    pushing, free = plan.to_push, plan.seen.free_bytes
    parts = {part_name(f.sha256): f.sent_size for f in pushing}
    there = sum(plan.seen.present[part][0] for part in parts if part in plan.seen.present)
    if free is not None and plan.push_bytes - there > free:
        needed, left = output.human_bytes(plan.push_bytes - there), output.human_bytes(free)
        raise disk_full(device, plan.folder, f"{needed} have to travel, {left} are free")
    entries = {
        f.remote: {"sha256": f.sha256, "size": f.sent_size, "mtime": f.mtime_s, "stripped": f.is_stripped}
        for f in plan.files
    }
    # What stays there from earlier deployments is still devkit's: a later --prune may remove it.
    kept = {
        name: entry
        for name, entry in plan.seen.manifest.items()
        if name not in entries and name not in plan.removed and _is_ours(plan.seen, name)
    }
    arrivals = [
        Arrival(f.sent, f.remote, f.mode, f.mtime_s, f.sent_size, f.sent_sha256, is_new=f.why == NOT_THERE)
        for f in pushing
    ]
    number = secrets.token_hex(8)
    content = json.dumps({"version": 1, "id": number, "files": {**kept, **entries}}, indent=1, sort_keys=True)
    manifest = Manifest(MANIFEST, content, number, plan.seen.manifest_id)
    place_files(device, plan.folder, arrivals, manifest, plan.push_bytes, removed=plan.removed)


def _is_ours(seen: AppFolder, name: str) -> bool:
    """Whether a file is as devkit has put it there."""
    known = seen.manifest[name]
    return seen.present.get(name) == (known.get("size"), known.get("mtime"))


def _claim(wanted: dict[str, tuple[Path, str]], remote: str, local: Path, reason: str) -> None:
    other = wanted.get(remote)
    if other is not None and other[0].resolve() != local.resolve():
        raise DeployError(
            f"two files want to be {remote} on the phone",
            evidence=f"{other[0]} ({other[1]})\n{local} ({reason})",
            hints=["give one of them another `remote:` in devkit.yaml"],
        )
    wanted[remote] = (local, reason)


def _expand(mapping: FileMapping) -> Iterator[tuple[str, Path]]:
    skipped: list[str] = []
    yield from expand(mapping, lambda path, why: skipped.append(f"{path.name} ({why})"))
    if skipped:
        more = f" and {len(skipped) - _SHOWN_SKIPPED} more" if len(skipped) > _SHOWN_SKIPPED else ""
        shown = ", ".join(skipped[:_SHOWN_SKIPPED])
        output.current().warn(f"not everything in {mapping.local} can travel: {shown}{more}")


def _sent(file: DeployFile, wire: int | None = None) -> str:
    if file.action != "push":
        return "-"
    text = output.human_bytes(file.sent_size) + (" stripped" if file.is_stripped else "")
    return text if wire is None or wire == file.sent_size else f"{text}, ~{output.human_bytes(wire)} packed"


def _status(local: Path) -> os.stat_result:
    try:
        return local.stat()
    except OSError as error:
        raise FileError(f"{local} cannot be read", evidence=str(error)) from None


def _stamp(status: os.stat_result) -> int:
    """The modification time, in seconds, that a file gets on the phone.

    What was written just now is made an hour older: stamps are told in whole seconds, and what somebody
    changes on the phone within the same second would look as it was sent.
    """
    is_new = time.time() - status.st_mtime < _JUST_NOW_S
    return int(status.st_mtime) - (_HOUR_S if is_new else 0)


def _compare(
    remote: str,
    digest: str,
    size: int,
    stripped: bool,
    seen: AppFolder,
) -> tuple[str, str]:
    known, there = seen.manifest.get(remote), seen.present.get(remote)
    if there is None:
        return "push", NOT_THERE
    if known is None:
        return "push", "on the phone, but not by devkit"
    if known.get("sha256") != digest:
        return "push", "content changed"
    if bool(known.get("stripped")) != stripped:
        return "push", "stripped now" if stripped else "with its symbols now"
    if there != (known.get("size"), known.get("mtime")) or there[0] != size:
        return "push", "changed on the phone"
    return "keep", "unchanged"
