"""Outputs that come back after a run: what matches `pull:` and was written by this run, verified.

A file is an output of a run when the phone changed it (its ctime) after the run's marker was made, so
that what an earlier run left, and what was deployed, is never taken for a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.errors import PHONE, DeployError, FileError
from devkit.runtime.pull_plan import STAT, PullPlan, changed_time, check_patterns, parse_listing, plan_pull

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.device.sync import SyncSession
    from devkit.runtime.run import Launch

MARKER_PREFIX = ".devkit-run-"
_LIST_TIMEOUT_S = 60.0
# Flash reads a few hundred MB a second, an old phone's processor hashes a hundred.
_HASH_TIMEOUT_S = 600.0
_HASH_PROGRAMS = {"sha256sum": "sha256", "md5sum": "md5"}
_FORGET_TIMEOUT_S = 3.0
_TRIES = 2
# From here on hashing takes longer than a person waits without a word.
_SAID_BYTES = 200_000_000


@dataclass(frozen=True)
class PullResult:
    """What came back. `pulled` are files that travelled, `same` those that were here already."""

    plan: PullPlan
    local: Path
    pulled: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    size: int = 0
    verified_by: str = "sha256"
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return self.plan.is_complete

    def as_dict(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return {
            "folder": str(self.local),
            "files": [
                {
                    "remote": posixpath.join(self.plan.folder, file.path),
                    "local": str(self.local / file.path),
                    "size": file.size,
                    "verified_by": self.verified_by,
                    "hash": self.hashes.get(file.path),
                    "action": "pull" if file.path in self.pulled else "keep",
                }
                for file in self.plan.files
            ],
            "missing": list(self.plan.missing),
            "not_written": list(self.plan.untouched),
        }

    def lines(self) -> list[str]:
        """What to tell people; the first line says what came back."""
        told = []
        if self.pulled or self.same:
            here = f"{len(self.pulled)} files ({output.human_bytes(self.size)})" if self.pulled else "no file"
            kept = f", {len(self.same)} were here already" if self.same else ""
            told.append(f"outputs: {here} to {self.local}{kept}")
        told += [f"output missing: nothing on the phone matches {p} in {self.plan.folder}" for p in
                 self.plan.missing]  # fmt: skip
        told += [f"output not written: what matches {p} on the phone is older than this run" for p in
                 self.plan.untouched]  # fmt: skip
        return told


class Outputs:
    """The outputs of one run that is about to start.

    `first` is shell text to put before the program: it makes the marker.
    """

    def __init__(self, launch: Launch, patterns: Sequence[str], *, marker: str | None = None) -> None:
        self.patterns = check_patterns(patterns)
        self.folder = launch.working_dir
        self._marker = marker or f"{launch.folder}/{MARKER_PREFIX}{secrets.token_hex(6)}"
        self._own_marker = marker is None

    @property
    def first(self) -> str:
        from devkit.device import quote_word

        return f": > {quote_word(self._marker)}; " if self.patterns else ""

    def fetch(self, device: Device, local: Path) -> PullResult:
        """Bring back what the run wrote. Each file appears under its name complete and verified, or not.

        Args:
            local: the folder on this machine; made when something comes back.

        Raises:
            DeployError: a file arrived otherwise than it is on the phone, twice.
            DeviceError: the phone or the link went away, or refused a file.
            FileError: a file cannot be written here.
        """
        plan = self._plan(device)
        if not plan.files:
            return PullResult(plan, local)
        hashes, verified_by = _hash_there(device, plan)
        return _bring(device, plan, local, hashes, verified_by)

    def forget(self, device: Device) -> None:
        """The run did not come to its end: nothing will be fetched."""
        from devkit.device import quote

        if self.patterns and self._own_marker:
            with contextlib.suppress(Exception):  # leftovers are found by the doctor as well
                device.shell(quote(["rm", "-f", self._marker]), timeout_s=_FORGET_TIMEOUT_S)

    def _plan(self, device: Device) -> PullPlan:
        from devkit.device import quote, quote_word

        marker = quote_word(self._marker)
        script = f"{STAT} {marker} 2>/dev/null || echo; "
        if self._own_marker:
            script += f"rm -f {marker}; "
        found = f"find . -name '.devkit-*' -prune -o -type f -exec {STAT} {{}} +"
        script += f"cd {quote([self.folder])} && {found}"
        said = device.shell(script, timeout_s=_LIST_TIMEOUT_S)
        lines = said.stdout.decode("utf-8", "surrogateescape").splitlines()
        started = changed_time(lines[0]) if lines else None
        if started is None:
            output.current().warn(
                "the mark of when the run started is gone: outputs may be of an earlier run"
            )
        return plan_pull(self.folder, self.patterns, parse_listing(lines[1:]), started or (0, 0))


def _hash_there(device: Device, plan: PullPlan) -> tuple[dict[str, str], str]:
    """The phone's own hashes of the outputs, and their kind ("size" where the phone cannot hash)."""
    from devkit.device import quote

    paths = [file.path for file in plan.files]
    total = sum(file.size for file in plan.files)
    if total > _SAID_BYTES:
        output.current().note(f"the phone hashes {output.human_bytes(total)} of outputs")
    lines = [f"cd {quote([plan.folder])} || exit 1"]
    lines.append('for h in sha256sum md5sum; do command -v $h >/dev/null 2>&1 && break; h=; done; echo "$h"')
    lines.append('[ -n "$h" ] || exit 0')
    # Each through its stdin: names with a backslash or a newline are written otherwise.
    lines += [f"$h < {quote(['./' + path])} || echo -" for path in paths]
    script = "\n".join(lines).encode("utf-8", "surrogateescape")
    said = device.shell("sh", stdin=script, timeout_s=_HASH_TIMEOUT_S).text.splitlines()
    program = said[0].strip() if said else ""
    if program not in _HASH_PROGRAMS:
        return {}, "size"
    hashes = [line.split()[0] if line.strip() else "" for line in said[1:]]
    return dict(zip(paths, hashes, strict=False)), _HASH_PROGRAMS[program]


def _bring(
    device: Device, plan: PullPlan, local: Path, hashes: dict[str, str], verified_by: str
) -> PullResult:
    from devkit.device.sync import SyncSession

    pulled, same = [], []
    size = 0
    total = sum(file.size for file in plan.files)
    doing = f"pulling {len(plan.files)} outputs"
    with output.current().progress(doing, total, unit="bytes") as bar, contextlib.ExitStack() as stack:
        session: SyncSession | None = None
        for file in plan.files:
            target = _safe_target(local, file.path)
            wanted = hashes.get(file.path)
            if wanted and _has(target, file.size, wanted, verified_by):
                same.append(file.path)
                bar.advance(file.size)
                continue
            if session is None:
                sock = device.dial("sync:", doing=doing)
                made = SyncSession(sock, server=device.server, serial=device.serial, features=device.features)
                session = stack.enter_context(made)
            for attempt in range(_TRIES):
                remote = posixpath.join(plan.folder, file.path)
                problem = _pull_one(session, remote, target, file.size, wanted, verified_by)
                if problem is None:
                    break
                if attempt == _TRIES - 1:
                    raise DeployError(
                        f"{file.path} arrived otherwise than it is on the phone",
                        where=PHONE,
                        evidence=problem,
                        hints=["does a process still write it? The copy here, if any, is the one of before"],
                    )
            pulled.append(file.path)
            size += file.size
            bar.advance(file.size)
    return PullResult(plan, local, tuple(pulled), tuple(same), size, verified_by, hashes)


def _pull_one(
    session: SyncSession, remote: str, target: Path, size: int, wanted: str | None, verified_by: str
) -> str | None:
    """Pull into a file beside the target and move it there; what is wrong with it, if anything."""
    digest = hashlib.new(verified_by) if wanted else None
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:

            def write(data: bytes) -> None:
                file.write(data)
                if digest is not None:
                    digest.update(data)

            count = session.pull(remote, write)
        if count != size:
            return f"{count} bytes came, the phone counted {size}"
        if digest is not None and digest.hexdigest() != wanted:
            return f"{verified_by} here {digest.hexdigest()}, on the phone {wanted}"
        os.replace(temporary, target)
        return None
    except OSError as error:
        raise FileError(f"cannot write {target}", evidence=os.strerror(error.errno or 0)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _safe_target(local: Path, path: str) -> Path:
    # The phone's find prints only paths below its folder; a name with `..` in it would be no such path.
    if path.startswith("/") or ".." in path.split("/"):
        raise DeployError(f"the phone names an output outside its folder: {path}", where=PHONE)
    return local.joinpath(*path.split("/"))


def _has(target: Path, size: int, wanted: str, verified_by: str) -> bool:
    """Whether the file is here already."""
    digest = hashlib.new(verified_by)
    try:
        if target.stat().st_size != size:
            return False
        with open(target, "rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
    except OSError:
        return False
    return digest.hexdigest() == wanted
