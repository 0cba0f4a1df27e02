"""Links of devkit's own things on this machine: its folders, what was left behind, the shell's variables."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.doctor.report import BROKEN, NOT_NEEDED, OK, WARNING, Repair, Section, Wishes
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.config import Config

NO_SPACE_BYTES = 20_000_000  # indexes, locks and logs
LITTLE_SPACE_BYTES = 3_000_000_000  # an NDK unpacks to more than 2 GB, a Debug MNN builds to 1 GB


def examine_own(section: Section, config: Config, *, environ: Mapping[str, str], wishes: Wishes) -> None:
    """All three links."""
    _folders(section)
    _leftovers(section)
    _variables(section, config, environ=environ, wishes=wishes)


def _folders(section: Section) -> None:
    """Settings, state, cache and SDKs: folders that can be made or written."""
    folders = (paths.config_dir(), paths.state_dir(), paths.cache_dir(), paths.data_dir())
    problems: dict[str, None] = {}
    repairs: dict[str, Callable[[], None]] = {}
    for folder in folders:
        # Two of them may have one cause.
        problem, repair = _problem_of(folder)
        problems |= {problem: None} if problem else {}
        repairs |= dict([repair]) if repair else {}
    if problems:
        hints = ["XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_DATA_HOME name others"]
        text = "\n".join(problems)
        section.add("folders", "devkit's folders", BROKEN, text, hints, _together([*repairs.items()]))
        return
    large = (paths.data_dir(), paths.cache_dir())
    least, place = min((shutil.disk_usage(_nearest(folder)).free, folder) for folder in large)
    text = f"{output.human_bytes(least)} are free in {place.parent}"
    if least < LITTLE_SPACE_BYTES:
        section.add(
            "folders", "devkit's folders", BROKEN if least < NO_SPACE_BYTES else WARNING, text,
            ["free some space", "XDG_DATA_HOME and XDG_CACHE_HOME name folders on another disk"],
        )  # fmt: skip
    else:
        section.add("folders", "devkit's folders", OK, f"can be written; {text}")


def _problem_of(folder: Path) -> tuple[str | None, tuple[str, Callable[[], None]] | None]:
    """What is wrong with a folder, and how it is mended; one that can be made is fine."""
    nearest = _nearest(folder)
    below = nearest if nearest == folder else _first_missing(folder)
    if os.path.islink(below) and not os.path.exists(below):
        # A cache on a scratch disk that was cleaned, for example.
        target = Path(os.path.realpath(below))
        text = f"{below} points to {target}, which is not there"
        # Not what is above it: a disk may not be mounted.
        make = (f"make {target}", lambda: target.mkdir(mode=0o700, exist_ok=True))
        return text, make if target.parent.is_dir() else None
    if os.path.exists(below) and not os.path.isdir(below):
        return f"{below} is no folder: {folder} cannot be made", None
    mode = nearest.stat().st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU and _is_ours(nearest, folder):
        wanted = stat.S_IMODE(mode) | stat.S_IRWXU
        return f"{nearest} cannot be written", (f"make {nearest} writable", lambda: nearest.chmod(wanted))
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written by this user", None
    return None, None


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if os.path.isdir(path))


def _first_missing(folder: Path) -> Path:
    return next(path for path in reversed((folder, *folder.parents)) if not os.path.isdir(path))


def _is_ours(folder: Path, whole: Path) -> bool:
    """Whether it is devkit's own and not, say, the user's ~/.cache."""
    return folder == whole and hasattr(os, "geteuid") and folder.stat().st_uid == os.geteuid()


def _leftovers(section: Section) -> None:
    """Files of devkit's processes that were killed. None of them is in anybody's way but the disk's."""
    from devkit.device.servers import stale_registrations
    from devkit.lldb.session_folder import stale_folders
    from devkit.ndk import leftovers

    counted: list[str] = []
    repairs: list[tuple[str, Callable[[], None]]] = []

    def note(what: str, found: Sequence[Path], remove: Callable[[Path], object]) -> None:
        if found:
            text = f"{len(found)} {what}{'s' if len(found) > 1 else ''}"
            size = sum(map(_size, found))
            counted.append(text + (f" ({output.human_bytes(size)})" if size > 1_000_000 else ""))
            repairs.append((f"remove {text}", lambda: _each(found, remove)))

    note("folder of a killed debug session", stale_folders(), _remove)
    note("entry of an ended adb server", stale_registrations(), lambda file: file.unlink(missing_ok=True))
    note("unfinished installation", leftovers.unfinished(), leftovers.remove_unfinished)
    if os.name == "posix":
        from devkit.sim import state

        note("rest of a killed virtual phone", [state.phone_dir(name) for name in state.left_behind()],
             lambda _: state.sweep())  # fmt: skip
    partial = leftovers.partial_downloads()
    size = output.human_bytes(sum(map(_size, partial)))
    more = [f"{len(partial)} partial download(s), {size}: kept, to go on with"] if partial else []
    if counted:
        text = "\n".join([*counted, *more])
        section.add("leftovers", "leftovers", WARNING, text, repair=_together(repairs))
    else:
        section.add("leftovers", "leftovers", OK, "\n".join(["none", *more]))


def _variables(section: Section, config: Config, *, environ: Mapping[str, str], wishes: Wishes) -> None:
    """The block of `devkit env --install`: there, and naming what is still on this machine."""
    from devkit.ndk import environment

    shell = environment.detect_shell(environ, environment.ancestor_names())
    file = environment.rc_file(shell, environ)
    try:
        block = environment.read_block(file)
    except DevkitError as error:
        section.broken("variables", "shell's variables", error, needed=False)
        return
    if block is None:
        # Writing into a file of the user's is for the user to ask for.
        write = Repair(f"write the variables into {file}", lambda: _write_block(config, environ, shell, file))
        section.add(
            "variables", "shell's variables", NOT_NEEDED, f"{file} has none of devkit (devkit env --install)",
            repair=write if wishes.shell_rc else None,
        )  # fmt: skip
        return
    gone = [f"{name}={value}" for name, value in block.items() if not Path(value).is_dir()]
    if not gone:
        section.add("variables", "shell's variables", OK, f"{file}: {', '.join(block)}")
        return
    # What the dead block itself has put into this environment must not be taken for a wish.
    clean = {name: value for name, value in environ.items() if block.get(name) != value}
    section.add(
        "variables", "shell's variables", WARNING, f"{file} names what is not there:\n" + "\n".join(gone),
        ["devkit env --install, or devkit env --uninstall"],
        Repair(f"write devkit's block in {file} anew", lambda: _write_block(config, clean, shell, file)),
    )  # fmt: skip


def _write_block(config: Config, environ: Mapping[str, str], shell: str, file: Path) -> str:
    from devkit.errors import ToolMissing
    from devkit.ndk import environment
    from devkit.ndk.exports import find_exports

    exports = find_exports(config, environ)
    if not exports.variables:
        raise ToolMissing("there is neither an NDK nor a QNN SDK to write", hints=["devkit env --uninstall"])
    environment.install_block(file, environment.render(exports, shell))
    return f"wrote devkit's block into {file}: " + ", ".join(f"{k}={v}" for k, v in exports.variables)


def _together(repairs: Sequence[tuple[str, Callable[[], None]]]) -> Repair | None:
    """Several small repairs as one."""
    if not repairs:
        return None
    text = ", ".join(what for what, _ in repairs)

    def apply() -> str:
        for _, do in repairs:
            do()
        return text

    return Repair(text, apply)


def _each(found: Sequence[Path], remove: Callable[[Path], object]) -> None:
    for path in found:
        remove(path)


def _remove(folder: Path) -> None:
    from devkit.ndk.unpack import remove_tree

    remove_tree(folder)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.lstat().st_size if path.exists() else 0
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in files if os.path.lexists(file))
