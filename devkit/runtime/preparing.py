"""What a deployment needs on the phone before its files take their places: folders, and free places."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DeployError
from devkit.runtime import commit
from devkit.runtime.commit import STAGING_PREFIX
from devkit.runtime.phone_scripts import check_script, run_script

if TYPE_CHECKING:
    from devkit.device import Device, ShellStream

PART_PREFIX = ".devkit-partial-"
STALE_MINUTES = 60
_STALE_PART_MINUTES = 3 * 24 * 60
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Arrival:
    """One file on its way.

    Attributes:
        remote: its path relative to the app's folder.
        size: in bytes; of `local`, as `sha256`.
        is_new: no file is there yet: something else might be in its place.
    """

    local: Path
    remote: str
    mode: int
    mtime_s: int
    size: int
    sha256: str
    is_new: bool


class Preparation:
    """The folders of a deployment, made beside its transfer (sync makes those it needs by itself), and a
    shell that waits for the script which decides. Use it as a context manager: leaving closes the shell.

    Args:
        folder: the app's absolute folder on the phone.
        staging: the name of the folder in it where the files go first.
        groups: the files by the absolute folder in which each takes its place.
        is_short: the transfer takes seconds; beside one of hours a shell would wait for nothing.
    """

    def __init__(
        self,
        device: Device,
        folder: str,
        staging: str,
        groups: Mapping[str, Sequence[Arrival]],
        *,
        is_short: bool,
    ) -> None:
        self._error: BaseException | None = None
        self._shell: ShellStream | None = None
        self._closed = False

        def prepare() -> None:
            try:
                _prepare(device, folder, staging, groups)
                if is_short and "shell_v2" in device.features:
                    self._shell = device.open_shell("sh", doing="deploying")
            except BaseException as error:
                self._error = error
            if self._closed:
                self.__exit__()

        self._thread = threading.Thread(target=prepare, name="devkit prepare", daemon=True)
        self._thread.start()

    def __enter__(self) -> Preparation:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self._closed = True
        shell = self.take_shell()
        if shell is not None:
            shell.close()

    def check(self) -> None:
        """Raise what has gone wrong so far; does not wait.

        Raises:
            DeployError: a folder cannot be made, or a folder is in a file's place.
            DeviceError: the phone or the link went away.
        """
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Until it is done. Raises as `check`."""
        self._thread.join()
        self.check()

    def take_shell(self) -> ShellStream | None:
        """The shell, after `wait`; whoever takes it closes it. None: there is none, or it is taken."""
        shell, self._shell = self._shell, None
        return shell


def _prepare(device: Device, folder: str, staging: str, groups: Mapping[str, Sequence[Arrival]]) -> None:
    from devkit.device import quote, quote_word

    places = [posixpath.join(folder, staging)]
    places += [posixpath.join(folder, staging, str(number)) for number in range(len(groups))]
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
    result = run_script(device, script, _TIMEOUT_S)
    if result.exit_code == 99:
        place = result.stderr.decode("utf-8", "replace").strip()
        raise DeployError(
            f"a folder is where a file is to be: {place}",
            where=PHONE,
            evidence="files of an earlier deployment, or what a program wrote; devkit leaves it alone",
            hints=[f"devkit device shell -- {quote(['rm', '-r', place])}", "or give it another `remote:`"],
        )
    check_script(device, result, f"the folder {folder} cannot be made on the phone", folder)


def _commands(program: Sequence[str], words: Sequence[str]) -> list[str]:
    """`program words…`, as often as it takes to name all words."""
    from devkit.device import quote

    size = commit.WORDS
    return [quote([*program, *words[start : start + size]]) for start in range(0, len(words), size)]
