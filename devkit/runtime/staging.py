"""How files get to their places on the phone: all of them into a staging folder, then a move each."""

from __future__ import annotations

import contextlib
import posixpath
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DeployError, DeviceError

if TYPE_CHECKING:
    from devkit.device import Device, ShellResult

PREFIX = ".devkit-staging-"
STALE_MINUTES = 60
# Words of one command: a program is started for each command, and its arguments have a limit.
_WORDS = 100
_PREPARE_TIMEOUT_S, _MOVE_TIMEOUT_S = 60.0, 120.0


@dataclass(frozen=True)
class Arrival:
    """One file on its way: `remote` is its path relative to the app's folder.

    `is_new` says that no file is there yet: something else might be in its place.
    """

    local: Path
    remote: str
    mode: int
    mtime_s: int
    is_new: bool


def place_files(
    device: Device, folder: str, arrivals: Sequence[Arrival], last: tuple[str, bytes], total_bytes: int
) -> None:
    """Push files into the app's folder; each is seen there complete or not at all.

    Nothing is moved before everything has arrived: after a failure on the way the phone holds what
    it held before.

    Args:
        folder: the app's absolute folder on the phone.
        last: name and content of the file that is moved when all others are in place.

    Raises:
        DeployError: a folder cannot be made, a folder is in a file's place, or the disk is full.
        DeviceError: the phone or the link went away.
    """
    from devkit.device import PushItem

    staging = posixpath.join(folder, PREFIX + secrets.token_hex(6))
    groups: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        groups.setdefault(posixpath.dirname(posixpath.join(folder, arrival.remote)), []).append(arrival)
    staged = {
        arrival: posixpath.join(staging, str(number), posixpath.basename(arrival.remote))
        for number, group in enumerate(groups.values())
        for arrival in group
    }
    last_staged = posixpath.join(staging, last[0])
    with _cleaned_up(device, staging):
        _prepare(device, folder, staging, groups)
        items = [PushItem(a.local, remote, a.mode, a.mtime_s) for a, remote in staged.items()]
        items.append(PushItem(last[1], last_staged, 0o644, 0))
        label = f"pushing {len(arrivals)} files"
        with output.current().progress(label, total_bytes, unit="bytes") as bar:
            device.push(items, bar.advance)
        moves: list[str] = []
        for target, group in groups.items():
            moves += _commands(["mv", "-f"], [staged[a] for a in group], target + "/")
        moves += _commands(["mv", "-f"], [last_staged], folder + "/")
        _checked(
            device,
            _run(device, moves, _MOVE_TIMEOUT_S),
            "the files arrived, but could not be moved to their places",
            folder,
        )


def _prepare(device: Device, folder: str, staging: str, groups: dict[str, list[Arrival]]) -> None:
    from devkit.device import quote, quote_word

    places = [posixpath.join(staging, str(number)) for number in range(len(groups))]
    script = _commands(["mkdir", "-p"], [*places, *groups])
    # mv would put a file into a folder of its name without a word.
    script += [
        f"[ ! -d {quote_word(place)} ] || {{ echo {quote_word(place)} >&2; exit 99; }}"
        for target, group in groups.items()
        for place in (posixpath.join(target, posixpath.basename(a.remote)) for a in group if a.is_new)
    ]
    stale = ["find", folder, "-maxdepth", "1", "-name", PREFIX + "*", "-mmin", f"+{STALE_MINUTES}"]
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


def _commands(program: Sequence[str], words: Sequence[str], target: str | None = None) -> list[str]:
    """`program words… [target]`, as often as it takes to name all words."""
    from devkit.device import quote

    end = [] if target is None else [target]
    return [quote([*program, *words[start : start + _WORDS], *end]) for start in range(0, len(words), _WORDS)]


def _run(device: Device, lines: Iterable[str], timeout_s: float) -> ShellResult:
    # Through stdin: a command line has a limit that thousands of files pass.
    script = "\n".join(lines) + "\n"
    return device.shell("sh -e", stdin=script.encode("utf-8", "surrogateescape"), timeout_s=timeout_s)


def _checked(device: Device, result: ShellResult, what: str, folder: str) -> None:
    from devkit.device import quote

    if result.exit_code == 0:
        return
    words = result.stderr.decode("utf-8", "replace")
    if _says_full(words):
        raise _disk_full(device, folder, words)
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
    """Remove the staging folder afterwards, also when something failed."""
    from devkit.device import quote

    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            device.shell(quote(["rm", "-rf", staging]))
        if isinstance(error, DeviceError) and _says_full(f"{error.what} {error.evidence}"):
            raise _disk_full(device, posixpath.dirname(staging), error.evidence or error.what) from None
        raise
    device.shell(quote(["rm", "-rf", staging]))


def _says_full(words: str) -> bool:
    return "No space left on device" in words


def _disk_full(device: Device, folder: str, words: str) -> DeployError:
    from devkit.device import quote, quote_word

    try:
        free = device.shell(quote(["df", "-h", folder])).text
    except DeviceError:
        free = ""
    above = quote_word(posixpath.dirname(folder))
    return DeployError(
        "the phone's storage is full; what was there before is unchanged",
        where=PHONE,
        evidence=f"{words}\n{free}".strip(),
        hints=[f"make room: devkit device shell 'du -sh {above}/*'"],
    )
