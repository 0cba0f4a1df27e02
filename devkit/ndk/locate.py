"""Find the Android NDK to use, and all the others on this machine, in one documented order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.errors import ToolMissing
from devkit.ndk.candidates import (
    SETTINGS_HINT,
    Candidate,
    choose_version,
    each_once,
    named_folders,
    quoted,
    subfolders,
)
from devkit.ndk.layout import (
    INSTALL_HINT,
    VARIABLES,
    Ndk,
    missing_parts,
    numbers,
    read_revision,
)
from devkit.ndk.releases import revision_matches

if TYPE_CHECKING:
    from devkit.config import Config

DEFAULT_FOLDER = "android_ndk"  # below the home folder
STORE_FOLDER = "ndk"  # below paths.data_dir()
SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
# Where Android Studio puts the SDK when nobody says otherwise.
_SDK_DEFAULTS = {"darwin": "Library/Android/sdk", "win32": "AppData/Local/Android/Sdk"}
_SUGGEST_DEPTH = 2
_SUGGEST_PARENTS = 6  # from toolchains/llvm/prebuilt/linux-x86_64/bin up to the root


def store_dir() -> Path:
    """Where devkit installs NDKs."""
    return paths.data_dir() / STORE_FOLDER


def ndk_for(config: Config, environ: Mapping[str, str] | None = None) -> Ndk:
    """The NDK of a configuration; `find_ndk` with its `ndk.path` and `ndk.version`.

    Raises:
        ToolMissing: as `find_ndk`.
    """
    by_flag = config.origins.get("ndk.path", "").startswith("flag")
    key = "--ndk" if by_flag else "ndk.path"
    return find_ndk(config.ndk.path, environ, version=config.ndk.version, key=key)


def find_ndk(
    explicit: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    version: str | None = None,
    key: str = "ndk.path",
) -> Ndk:
    """The NDK to use.

    The order: `explicit` (flag or devkit.yaml), the first of VARIABLES that is set, side-by-side
    NDKs of Android's SDK manager, NDKs that devkit installed, ~/android_ndk. In the last three,
    which nobody has named, the newest complete NDK is taken.

    A variable that names no NDK is an error when it would be chosen, as is a wrong `explicit`:
    taking another NDK silently is what mixes toolchains. Disagreeing variables are not an error;
    they are in `Ndk.conflicts`, and `warn_about_conflicts` says so.

    Args:
        environ: variables (default: the process's).
        version: a release or revision (r27d, 27.3, 27): the first NDK in the order that is it.
        key: what named `explicit`, for messages.

    Raises:
        ToolMissing: there is none, or the one named is no NDK.
    """
    environ = os.environ if environ is None else environ
    pointed = _pointed(explicit, environ, key)
    if version is not None:
        return _of_version(version, pointed, environ)
    if pointed:
        return open_ndk(pointed[0].path, pointed[0].origin, pointed[1:])
    found = list(_discovered(environ))
    complete = [c for c in found if not missing_parts(c.path)]
    for chosen in (*complete, *found):
        for broken in found[: found.index(chosen)]:
            output.current().detail(f"passed over: {broken.path} lacks {missing_parts(broken.path)[0]}")
        return Ndk(chosen.path, chosen.revision, chosen.origin)
    raise ToolMissing(
        "no Android NDK was found",
        evidence="not set: " + ", ".join(VARIABLES) + "\nno NDK in: " + _places(environ),
        hints=["devkit ndk install r27d", INSTALL_HINT],
    )


def known_ndks(explicit: Path | None = None, environ: Mapping[str, str] | None = None) -> list[Candidate]:
    """Every NDK that something names or that lies in a known place, in the order of `find_ndk`.

    A named folder that is no NDK is among them, with the revision "no NDK".
    """
    environ = os.environ if environ is None else environ
    return [*_pointed(explicit, environ), *_discovered(environ)]


def warn_about_conflicts(ndk: Ndk) -> None:
    """Say that variables name different NDKs, and which one is used."""
    if ndk.conflicts:
        output.current().warn(
            f"the NDK variables and settings disagree: {', '.join(ndk.conflicts)}; "
            f"devkit uses {' / '.join(ndk.agreeing)} ({ndk.revision}) for everything"
        )


def _pointed(explicit: Path | None, environ: Mapping[str, str], key: str = "ndk.path") -> list[Candidate]:
    named = named_folders(key, explicit, VARIABLES, environ)
    return [Candidate(origin, path, read_revision(path) or "no NDK") for origin, path in named]


def open_ndk(path: Path, origin: str, others: Sequence[Candidate] = (), *, hint: str | None = None) -> Ndk:
    """The NDK in a folder that somebody names; it may be incomplete.

    Args:
        hint: what to try when there is none (default: where it can be named).

    Raises:
        ToolMissing: it is none; says where one is a few levels above or below.
    """
    revision = read_revision(path)
    if revision is None:
        by_origin = {"ndk.path": SETTINGS_HINT, "--ndk": "devkit ndk list"}
        raise _no_ndk(origin, path, others, hint or by_origin.get(origin.split(" ")[0], INSTALL_HINT))
    return Ndk(path.absolute(), revision, origin, tuple(others))


def _no_ndk(origin: str, path: Path, others: Sequence[Candidate], hint: str) -> ToolMissing:
    if not path.is_dir():
        seen = f"{quoted(path)} does not exist"
    elif (path / "source.properties").is_file():
        seen = f"{quoted(path / 'source.properties')} has no Pkg.Revision: the NDK is damaged"
    else:
        seen = f"{quoted(path)} has no source.properties with Pkg.Revision"
    hints = [f"an NDK is at {quoted(root)}: name that folder" for root in _suggestions(path)]
    return ToolMissing(
        f"{origin} names no Android NDK",
        evidence=seen
        + "".join(f"\n{other.origin} names {quoted(other.path)} ({other.revision})" for other in others),
        hints=[*hints, hint],
    )


def _suggestions(path: Path) -> list[Path]:
    """NDK roots a few levels above or below a folder: what the user most likely meant."""
    above = [parent for parent in list(path.parents)[:_SUGGEST_PARENTS] if read_revision(parent)]
    level = [path]
    for _ in range(_SUGGEST_DEPTH):
        level = [child for folder in level for child in subfolders(folder)]
        below = [child for child in level if read_revision(child)]
        if below:
            return [*above, *_newest_first(below)]
    return above


def _of_version(version: str, pointed: Sequence[Candidate], environ: Mapping[str, str]) -> Ndk:
    chosen, others = choose_version(
        version,
        pointed,
        _discovered(environ),
        what="NDK",
        install="devkit ndk install",
        matches=lambda revision: revision_matches(revision, version),
        prefer=lambda candidate: not missing_parts(candidate.path),
    )
    return Ndk(chosen.path.absolute(), chosen.revision, chosen.origin, others)


def _discovered(environ: Mapping[str, str]) -> Iterator[Candidate]:
    """NDKs that nobody has named, place after place, newest first in each."""
    return each_once(
        Candidate(origin, folder, read_revision(folder) or "")
        for origin, folders in _known_places(environ)
        for folder in _newest_first(folders)
    )


def _known_places(environ: Mapping[str, str]) -> Iterator[tuple[str, list[Path]]]:
    home = Path(environ.get("HOME") or Path.home())
    for origin, sdk in _sdk_folders(environ, home):
        yield f"{origin}/ndk", _ndks_in(sdk / "ndk")
        # The SDK manager's only NDK before there were several.
        yield f"{origin}/ndk-bundle", [sdk / "ndk-bundle"] if read_revision(sdk / "ndk-bundle") else []
    yield "installed by devkit", _ndks_in(store_dir())
    base = home / DEFAULT_FOLDER
    yield f"~/{DEFAULT_FOLDER}", [base] if read_revision(base) is not None else _ndks_in(base)


def _sdk_folders(environ: Mapping[str, str], home: Path) -> Iterator[tuple[str, Path]]:
    for name in SDK_VARIABLES:
        if environ.get(name):
            yield f"${name}", paths.expand_user(environ[name])
    default = _SDK_DEFAULTS.get(sys.platform, "Android/Sdk")
    yield f"~/{default}", home / default


def _places(environ: Mapping[str, str]) -> str:
    home = Path(environ.get("HOME") or Path.home())
    sdks = [f"{origin}/ndk" for origin, _ in _sdk_folders(environ, home)]
    return ", ".join([*sdks, str(store_dir()), f"~/{DEFAULT_FOLDER}"])


def _ndks_in(folder: Path) -> list[Path]:
    return [child for child in subfolders(folder) if read_revision(child) is not None]


def _newest_first(folders: Sequence[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: numbers(read_revision(folder) or ""), reverse=True)
