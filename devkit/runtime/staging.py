"""How files get to the phone: all of them into a staging folder, and from there to their places."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DeployError, DeviceError, DevkitError
from devkit.runtime import commit
from devkit.runtime.app_folder import look
from devkit.runtime.commit import STAGING_PREFIX

if TYPE_CHECKING:
    from devkit.device import Device, PushItem, ShellResult

PART_PREFIX = ".devkit-partial-"
STALE_MINUTES = 60
_STALE_PART_MINUTES = 3 * 24 * 60
_PREPARE_TIMEOUT_S, _MOVE_TIMEOUT_S = 60.0, 120.0
# Hashing on the phone: a slow one's flash.
_HASH_BYTES_S = 20_000_000
_BACK_WITHIN_S = 15.0
# A command line that adb surely carries; a longer script goes through stdin, a round trip later.
_LINE_BYTES = 3000
_UNCHANGED = "what was there before is unchanged"


@dataclass(frozen=True)
class Arrival:
    """One file on its way: `remote` is its path relative to the app's folder, `sha256` that of `local`.

    `is_new` says that no file is there yet: something else might be in its place.
    """

    local: Path
    remote: str
    mode: int
    mtime_s: int
    sha256: str
    is_new: bool


@dataclass(frozen=True)
class Manifest:
    """The file that is moved when all others are in place.

    Attributes:
        id: stands in `content` and tells it from every other manifest.
        replaces: the id of the one that was there when the deployment was planned; "" for none.
    """

    name: str
    content: bytes
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
    script = commit.commit_script(folder, decided, moves, removed, manifest.name).encode(
        "utf-8", "surrogateescape"
    )
    items = {
        name: PushItem(a.local, _join(folder, staging, name), a.mode, a.mtime_s) for a, name in staged.items()
    }
    hashes = {name: a.sha256 for a, name in staged.items()}
    for name, content in ((manifest.name, manifest.content), (commit.SCRIPT, script)):
        items[name] = PushItem(content, _join(folder, staging, name), 0o644, 0)
        hashes[name] = hashlib.sha256(content).hexdigest()
    with _cleaned_up(device, posixpath.join(folder, staging)):
        _prepare(device, folder, staging, groups)
        label = f"pushing {len(arrivals)} files"
        with output.current().progress(label, total_bytes, unit="bytes") as bar:
            streamed = _stream(device, folder, staged, items, bar.advance)
            device.push([item for name, item in items.items() if name not in streamed], bar.advance)
        text = commit.decide_script(
            folder, staging, hashes, commit=decided, manifest=manifest.name, expected=manifest.replaces
        )
        timeout_s = _MOVE_TIMEOUT_S + total_bytes / _HASH_BYTES_S
        result = _decide(device, folder, staging, text, manifest, timeout_s)
        if result is not None and result.exit_code == commit.DAMAGED:
            _push_again(device, folder, staging, items, result)
            result = _decide(device, folder, staging, text, manifest, timeout_s)
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
    on_bytes: Callable[[int], None],
) -> set[str]:
    """Send what does better through a command's input; returns the names that have arrived."""
    from devkit.device import streamed

    done: set[str] = set()
    for arrival, name in staged.items():
        size = arrival.local.stat().st_size
        part = posixpath.join(folder, part_name(arrival.sha256))
        target, mode, mtime_s = items[name].remote, arrival.mode, arrival.mtime_s
        try:
            if streamed.wants_gzip(device, arrival.local, size):
                part += "-z" + secrets.token_hex(4)
                streamed.send_gzipped(
                    device, arrival.local, part, target, mode=mode, mtime_s=mtime_s, on_bytes=on_bytes
                )
            elif streamed.wants_resume(device, arrival.local, size):
                there = streamed.send_resumable(
                    device, arrival.local, part, target, mode=mode, mtime_s=mtime_s, on_bytes=on_bytes
                )
                if there:
                    kept = output.human_bytes(there)
                    output.current().note(f"{arrival.remote}: {kept} had arrived before, the rest followed")
            else:
                continue
        except streamed.PartInUse:
            continue
        done.add(name)
    return done


def _decide(
    device: Device, folder: str, staging: str, text: str, manifest: Manifest, timeout_s: float
) -> ShellResult | None:
    """Run the deciding script; None when the link broke, but the phone has done it all the same."""
    from devkit.device import PhoneLost

    try:
        return _run(device, [text], timeout_s)
    except PhoneLost as error:
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
    device: Device, folder: str, staging: str, items: Mapping[str, PushItem], result: ShellResult
) -> None:
    names = result.stdout.decode("utf-8", "surrogateescape").split("\n")
    damaged = [item for name, item in items.items() if posixpath.join(staging, name) in names]
    if not damaged:
        damaged = list(items.values())
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
            f"files arrived damaged twice; {_UNCHANGED}",
            where=PHONE,
            evidence=result.stdout.decode("utf-8", "replace"),
            hints=["another cable or port; devkit tunnel check", "adb -s … reconnect"],
        )
    _checked(device, result, "the files arrived, but could not be moved to their places", folder)


def _prepare(device: Device, folder: str, staging: str, groups: dict[str, list[Arrival]]) -> None:
    from devkit.device import quote, quote_word

    places = [posixpath.join(folder, staging)]
    places += [_join(folder, staging, str(number)) for number in range(len(groups))]
    script = _commands(["mkdir", "-p"], [*places, *groups])
    # mv would put a file into a folder of its name without a word.
    script += [
        f"[ ! -d {quote_word(place)} ] || {{ echo {quote_word(place)} >&2; exit 99; }}"
        for target, group in groups.items()
        for place in (posixpath.join(target, posixpath.basename(a.remote)) for a in group if a.is_new)
    ]
    for prefix, minutes in ((STAGING_PREFIX, STALE_MINUTES), (PART_PREFIX, _STALE_PART_MINUTES)):
        stale = ["find", folder, "-maxdepth", "1", "-name", prefix + "*", "-mmin", f"+{minutes}"]
        script.append(f"{quote([*stale, '-exec', 'rm', '-rf', '{}', '+'])} 2>/dev/null || true")
    result = _run(device, script, _PREPARE_TIMEOUT_S)
    if result.exit_code == 99:
        place = result.stderr.decode("utf-8", "replace").strip()
        raise DeployError(
            f"a folder is where a file is to be: {place}",
            where=PHONE,
            evidence="files of an earlier deployment, or what a program wrote; devkit leaves it alone",
            hints=[f"devkit device shell -- {quote(['rm', '-r', place])}", "or give it another `remote:`"],
        )
    _checked(device, result, f"the folder {folder} cannot be made on the phone", folder)


def _join(folder: str, staging: str, name: str) -> str:
    return posixpath.join(folder, staging, name)


def _commands(program: Sequence[str], words: Sequence[str]) -> list[str]:
    """`program words…`, as often as it takes to name all words."""
    from devkit.device import quote

    size = commit.WORDS
    return [quote([*program, *words[start : start + size]]) for start in range(0, len(words), size)]


def _run(device: Device, lines: Sequence[str], timeout_s: float) -> ShellResult:
    script = "set -e\n" if len(lines) > 1 else ""
    script += "\n".join(lines) + "\n"
    data = script.encode("utf-8", "surrogateescape")
    if len(data) <= _LINE_BYTES:
        return device.shell(script, timeout_s=timeout_s)
    # A command line has a limit that thousands of files pass.
    return device.shell("sh", stdin=data, timeout_s=timeout_s)


def _checked(device: Device, result: ShellResult, what: str, folder: str) -> None:
    from devkit.device import quote

    if result.exit_code == 0:
        return
    words = result.stderr.decode("utf-8", "replace")
    if _says_full(words):
        raise disk_full(device, folder, words)
    raise DeployError(
        what,
        where=PHONE,
        evidence=words,
        hints=[
            f"devkit device shell -- {quote(['ls', '-la', folder])}",
            "or choose another folder: device.dir in devkit.yaml, --device-dir",
        ],
    )


@contextlib.contextmanager
def _cleaned_up(device: Device, staging: str) -> Iterator[None]:
    """Remove the staging folder when something failed; what was decided has no staging folder any more."""
    from devkit.device import PhoneLost, quote

    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            device.shell(quote(["rm", "-rf", staging]), timeout_s=10)
        if isinstance(error, DeviceError) and _says_full(f"{error.what} {error.evidence}"):
            raise disk_full(device, posixpath.dirname(staging), error.evidence or error.what) from None
        if isinstance(error, PhoneLost) and not any("took their places" in hint for hint in error.hints):
            error.hints = (
                f"{_UNCHANGED}: repeat the command when the phone is back; big files go on from there",
                *error.hints,
            )
        raise


def _says_full(words: str) -> bool:
    return "No space left on device" in words


def disk_full(device: Device, folder: str, words: str) -> DeployError:
    """The error for a phone without room."""
    from devkit.device import quote, quote_word

    try:
        free = device.shell(quote(["df", "-h", folder])).text
    except DeviceError:
        free = ""
    above = quote_word(posixpath.dirname(folder))
    return DeployError(
        f"the phone's storage is full; {_UNCHANGED}",
        where=PHONE,
        evidence=f"{words}\n{free}".strip(),
        hints=[f"make room: devkit device shell 'du -sh {above}/*'"],
    )
