"""How files get to the phone: all of them into a staging folder, and from there to their places."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DeployError, DeviceError, DevkitError
from devkit.runtime import commit
from devkit.runtime.app_folder import look
from devkit.runtime.commit import STAGING_PREFIX
from devkit.runtime.phone_scripts import UNCHANGED, check_script, disk_full, run_script, says_full
from devkit.runtime.preparing import PART_PREFIX, Arrival, Preparation

if TYPE_CHECKING:
    from devkit.device import Device, PushItem, ShellResult, ShellStream

_MOVE_TIMEOUT_S = 120.0
# Hashing on the phone: a slow one's flash.
_HASH_BYTES_S = 20_000_000
_BACK_WITHIN_S = 15.0
_SHORT_BYTES = 64_000_000


@dataclass(frozen=True)
class Manifest:
    """The file that is moved when all others are in place.

    Attributes:
        id: stands in `content` and tells it from every other manifest.
        replaces: the id of the one that was there when the deployment was planned; "" for none.
    """

    name: str
    content: str
    id: str
    replaces: str


def place_files(
    device: Device,
    folder: str,
    arrivals: Sequence[Arrival],
    manifest: Manifest,
    total_bytes: int,
    *,
    removed: Sequence[str] = (),
) -> None:
    """Push files into the app's folder; all of them take their places, or none does.

    Args:
        folder: the app's absolute folder on the phone.
        removed: files below it that go away.

    Raises:
        DeployError: a folder cannot be made, a folder is in a file's place, the disk is full, files arrive
            damaged, or somebody else deployed at the same time. What was there before is unchanged.
        DeviceError: the phone or the link went away; says what the phone holds.
    """
    from devkit.device import PushItem
    from devkit.device.streamed import finish_line

    staging = STAGING_PREFIX + secrets.token_hex(6)
    decided = commit.COMMIT_PREFIX + manifest.id
    groups: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        groups.setdefault(posixpath.dirname(posixpath.join(folder, arrival.remote)), []).append(arrival)
    # Names below the staging folder.
    staged = {
        arrival: f"{number}/{posixpath.basename(arrival.remote)}"
        for number, group in enumerate(groups.values())
        for arrival in group
    }
    moves = {target: [staged[a] for a in group] for target, group in groups.items()}
    moving = commit.commit_script(folder, decided, moves, removed, manifest.name, manifest.content)
    script = moving.encode("utf-8", "surrogateescape")
    # Small ones first: the phone's word for each travels while the next is on its way, but that of the last.
    staged = dict(sorted(staged.items(), key=lambda pair: pair[0].size))
    items = {commit.SCRIPT: PushItem(script, _join(folder, staging, commit.SCRIPT), 0o644, 0)}
    hashes = {commit.SCRIPT: hashlib.sha256(script).hexdigest()}
    hashes |= {name: a.sha256 for a, name in staged.items()}
    items |= {
        name: PushItem(a.local, _join(folder, staging, name), a.mode, a.mtime_s) for a, name in staged.items()
    }
    with (
        _cleaned_up(device, posixpath.join(folder, staging)),
        Preparation(device, folder, staging, groups, is_short=total_bytes < _SHORT_BYTES) as preparation,
    ):
        label = f"pushing {len(arrivals)} files"
        with output.current().progress(label, total_bytes, unit="bytes") as bar:

            def advance(count: int) -> None:
                preparation.check()
                bar.advance(count)

            arrived = _stream(device, folder, staged, items, preparation, advance)
            device.push([item for name, item in items.items() if name not in arrived], advance)
        preparation.wait()
        places = {name: arrived.get(name) or posixpath.join(staging, name) for name in items}

        def text() -> str:
            gather = [
                finish_line(places[name], posixpath.join(staging, name), mode=item.mode, mtime_s=item.mtime_s)
                for name, item in items.items()
                if not places[name].startswith(staging)
            ]
            return commit.decide_script(
                folder, staging, {places[name]: hashes[name] for name in items}, gather,
                commit=decided, manifest=manifest.name, expected=manifest.replaces,
            )  # fmt: skip

        timeout_s = _MOVE_TIMEOUT_S + total_bytes / _HASH_BYTES_S
        shell = preparation.take_shell()
        result = _decide(device, folder, staging, text(), manifest, timeout_s, shell)
        if result is not None and result.exit_code == commit.DAMAGED:
            _push_again(device, folder, staging, items, places, result)
            result = _decide(device, folder, staging, text(), manifest, timeout_s)
        if result is not None:
            _check_decision(device, folder, result)


def part_name(sha256: str) -> str:
    """The name below the app's folder of what has arrived of a big file.

    By content: another deployment goes on where one has broken off.
    """
    return PART_PREFIX + sha256[:32]


def _stream(
    device: Device,
    folder: str,
    staged: Mapping[Arrival, str],
    items: Mapping[str, PushItem],
    preparation: Preparation,
    on_bytes: Callable[[int], None],
) -> dict[str, str | None]:
    """Send what does better through a command's input.

    Returns:
        the names that have arrived; those of big files with their place below `folder`, where they stay
        until everything is decided: what ends devkit before does not cost them.
    """
    from devkit.device import streamed

    done: dict[str, str | None] = {}
    for arrival, name in staged.items():
        size = arrival.size
        part = posixpath.join(folder, part_name(arrival.sha256))
        target, mode, mtime_s = items[name].remote, arrival.mode, arrival.mtime_s
        try:
            if streamed.wants_gzip(device, arrival.local, size):
                preparation.wait()
                part += "-z" + secrets.token_hex(4)
                streamed.send_gzipped(
                    device, arrival.local, part, target, mode=mode, mtime_s=mtime_s, on_bytes=on_bytes
                )
            elif streamed.wants_resume(device, arrival.local, size):
                if part_name(arrival.sha256) in done.values():
                    continue  # another file with this content
                preparation.wait()
                there = streamed.send_resumable(
                    device, arrival.local, part, None, mode=mode, mtime_s=mtime_s, on_bytes=on_bytes
                )
                done[name] = part_name(arrival.sha256)
                if there:
                    kept = output.human_bytes(there)
                    output.current().note(f"{arrival.remote}: {kept} had arrived before, the rest followed")
            else:
                continue
        except streamed.PartInUse:
            continue
        done.setdefault(name, None)
    return done


def _decide(
    device: Device,
    folder: str,
    staging: str,
    text: str,
    manifest: Manifest,
    timeout_s: float,
    shell: ShellStream | None = None,
) -> ShellResult | None:
    """Run the deciding script; None when the link broke, but the phone has done it all the same."""
    try:
        return run_script(device, [text], timeout_s, shell)
    except DeviceError as error:
        state = _state_after(device, folder, staging)
        if state == manifest.id:
            output.current().note("the link broke at the end, but everything is in its place on the phone")
            return None
        if state is None:
            error.hints = (
                "whether the new files took their places is not known: all did, or none; the next "
                "deployment finds out (and finishes what was begun)",
                *error.hints,
            )
        raise


def _state_after(device: Device, folder: str, staging: str) -> str | None:
    """The id of the manifest that counts, once the phone is back; None when it does not come back."""
    from devkit.device import quote

    # Renamed: a deciding script that is still at work finds it whole, or not at all.
    place, revoked = (posixpath.join(folder, name) for name in (staging, staging + "-revoked"))
    revoke = f"{quote(['mv', place, revoked])} 2>/dev/null; {quote(['rm', '-rf', revoked])}"
    deadline = time.monotonic() + _BACK_WITHIN_S
    while time.monotonic() < deadline:
        try:
            device.shell(revoke, timeout_s=_BACK_WITHIN_S)
            seen = look(device, folder)
            if seen.is_whole:
                return seen.manifest_id
        except DevkitError:
            pass
        time.sleep(0.5)
    return None


def _push_again(
    device: Device,
    folder: str,
    staging: str,
    items: Mapping[str, PushItem],
    places: dict[str, str],
    result: ShellResult,
) -> None:
    """Push what arrived damaged, all of it into the staging folder; `places` says so afterwards."""
    from devkit.device import quote

    lines = result.stdout.decode("utf-8", "surrogateescape").split("\n")
    names = [name for name in items if places[name] in lines] or list(items)
    damaged = [items[name] for name in names]
    for name in names:
        if not places[name].startswith(staging):
            device.shell(quote(["rm", "-f", posixpath.join(folder, places[name])]))
            places[name] = posixpath.join(staging, name)
    shown = ", ".join(posixpath.basename(item.remote) for item in damaged[:3])
    output.current().warn(f"arrived damaged and travels again: {shown}" + (" …" if len(damaged) > 3 else ""))
    device.push(damaged)


def _check_decision(device: Device, folder: str, result: ShellResult) -> None:
    if result.exit_code == commit.OVERTAKEN:
        raise DeployError(
            f"somebody else deployed to {folder} at the same time; their files are in place, these are not",
            where=PHONE,
            evidence="the manifest there is not the one this deployment was planned with",
            hints=["repeat the command, or use a folder of your own: --device-dir"],
        )
    if result.exit_code == commit.DAMAGED:
        raise DeployError(
            f"files arrived damaged twice; {UNCHANGED}",
            where=PHONE,
            evidence=result.stdout.decode("utf-8", "replace"),
            hints=["another cable or port; devkit tunnel check", "adb -s … reconnect"],
        )
    check_script(device, result, "the files arrived, but could not be moved to their places", folder)


def _join(folder: str, staging: str, name: str) -> str:
    return posixpath.join(folder, staging, name)


@contextlib.contextmanager
def _cleaned_up(device: Device, staging: str) -> Iterator[None]:
    """Remove the staging folder when something failed; what was decided has no staging folder any more."""
    from devkit.device import quote

    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            device.shell(quote(["rm", "-rf", staging]), timeout_s=10)
        if isinstance(error, DeviceError) and says_full(f"{error.what} {error.evidence}"):
            raise disk_full(device, posixpath.dirname(staging), error.evidence or error.what) from None
        # Lost in the middle of a transfer, or before the phone opened anything for it.
        if isinstance(error, DeviceError) and not any("took their places" in hint for hint in error.hints):
            error.hints = (
                f"{UNCHANGED}: repeat the command when the phone is back; big files go on from there",
                *error.hints,
            )
        raise
