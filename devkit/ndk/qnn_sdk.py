"""Find Qualcomm's QNN SDK (also called QAIRT), tell its version, and say what its envsetup.sh would set."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.errors import ToolMissing
from devkit.ndk.candidates import (
    Candidate,
    choose_version,
    disagreements,
    each_once,
    named_folders,
    quoted,
    subfolders,
)
from devkit.ndk.layout import numbers

if TYPE_CHECKING:
    from devkit.config import Config

# In the order in which they are believed; MNN's CMake and scripts read the first.
QNN_VARIABLES = ("QNN_SDK_ROOT", "QAIRT_SDK_ROOT")
STORE_FOLDER = "qairt"  # below paths.data_dir()
HEADER = "include/QNN/QnnInterface.h"
HOST_TARGET = "x86_64-linux-clang"
PHONE_TARGET = "aarch64-android"
# Where Qualcomm's own installers put SDKs; ~/qairt is what its documentation uses.
SYSTEM_FOLDER = Path("/opt/qcom/aistack/qairt")
HOME_FOLDER = "qairt"
_DEPTH_BELOW = 3  # an archive unpacked into a folder: v2.42.0.251225/qairt/2.42.0.251225
_DEPTH_ABOVE = 4  # from include/QNN or lib/hexagon-v75/unsigned up to the root
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:\.\d+)?)")
# Any of these shows that somebody meant an SDK's root.
_SIGNS = ("sdk.yaml", "bin/envsetup.sh", f"lib/{PHONE_TARGET}", "include/QNN")
INSTALL_HINTS = (
    "export QNN_SDK_ROOT=…/qairt/<version>, or qnn.path in devkit.yaml",
    "devkit qnn sdk install 2.42.0.251225   (or --from FILE)",
)


@dataclass(frozen=True)
class QnnSdk:
    """A QNN SDK. `origin` says what named it; `others` are the ones that other variables name."""

    path: Path
    version: str
    origin: str
    others: tuple[Candidate, ...] = ()

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Variables that name another SDK than this one, with its version."""
        return disagreements(self.path, self.others)

    def target_folders(self) -> tuple[str, ...]:
        """The targets that have libraries: aarch64-android, x86_64-linux-clang, hexagon-v75, …"""
        try:
            found = [f.name for f in (self.path / "lib").iterdir() if f.is_dir() and f.name != "python"]
        except OSError:
            return ()
        return tuple(sorted(found, key=lambda name: (name.startswith("hexagon"), name)))

    def find_file(self, name: str, target: str | None = None) -> Path:
        """A program or library by its file name.

        Args:
            target: one of `target_folders`; None looks in this machine's first.

        Raises:
            ToolMissing: it is not there.
        """
        targets = [target] if target else [HOST_TARGET, PHONE_TARGET, *self.target_folders()]
        for folder in dict.fromkeys(targets):
            for candidate in (
                f"bin/{folder}/{name}",
                f"lib/{folder}/{name}",
                f"lib/{folder}/unsigned/{name}",
            ):
                if (self.path / candidate).is_file():
                    return self.path / candidate
        if target is None and (self.path / "bin" / name).is_file():
            return self.path / "bin" / name
        raise ToolMissing(
            f"no {name} in this QNN SDK" + (f" for {target}" if target else ""),
            evidence=f"QNN SDK {self.version} at {quoted(self.path)}",
            hints=["devkit qnn sdk check", "targets: " + ", ".join(self.target_folders())],
        )


def store_dir() -> Path:
    """Where devkit installs QNN SDKs."""
    return paths.data_dir() / STORE_FOLDER


def qnn_sdk_for(config: Config, environ: Mapping[str, str] | None = None) -> QnnSdk:
    """The SDK of a configuration; `find_qnn_sdk` with its `qnn.path` and `qnn.version`.

    Raises:
        ToolMissing: as `find_qnn_sdk`.
    """
    return find_qnn_sdk(config.qnn.path, environ, version=config.qnn.version)


def find_qnn_sdk(
    explicit: Path | None = None, environ: Mapping[str, str] | None = None, *, version: str | None = None
) -> QnnSdk:
    """The QNN SDK to use.

    The order: `explicit` (flag or devkit.yaml), QNN_SDK_ROOT, QAIRT_SDK_ROOT, then the newest of
    ~/qairt, of those that devkit installed, and of /opt/qcom/aistack/qairt.

    A folder that is named and is no SDK's root is an error: taking another one silently mixes
    versions, and the libraries on the phone must all come from one.

    Args:
        environ: variables (default: the process's).
        version: 2.42 or 2.42.0.251225: the first SDK in the order that is it.

    Raises:
        ToolMissing: there is none, or the one named is no SDK; says where the root is.
    """
    environ = os.environ if environ is None else environ
    pointed = _pointed(explicit, environ)
    if version is not None:
        return _of_version(version, pointed, environ)
    if pointed:
        return open_qnn_sdk(pointed[0].path, pointed[0].origin, pointed[1:])
    for found in _discovered(environ):
        return QnnSdk(found.path, found.revision, found.origin)
    raise ToolMissing(
        "no QNN SDK was found",
        evidence="not set: " + ", ".join(QNN_VARIABLES) + "\nno SDK in: " + ", ".join(_places(environ)),
        hints=INSTALL_HINTS,
    )


def known_qnn_sdks(explicit: Path | None = None, environ: Mapping[str, str] | None = None) -> list[Candidate]:
    """Every SDK that something names or that lies in a known place, in the order of `find_qnn_sdk`.

    A named folder that is no SDK is among them, with the revision "no QNN SDK".
    """
    environ = os.environ if environ is None else environ
    return [*_pointed(explicit, environ), *_discovered(environ)]


def warn_about_conflicts(sdk: QnnSdk) -> None:
    """Say that variables name different SDKs, and which one is used."""
    if sdk.conflicts:
        output.current().warn(
            f"the QNN variables and settings disagree: {', '.join(sdk.conflicts)}; "
            f"devkit uses {sdk.origin} ({sdk.version}) for everything"
        )


def is_sdk(path: Path) -> bool:
    """Whether a folder is an SDK's root: engines compile against its headers."""
    return (path / HEADER).is_file()


def looks_like_sdk(path: Path) -> bool:
    """Whether somebody meant an SDK's root, though it may lack its headers."""
    return any((path / sign).exists() for sign in _SIGNS)


def read_version(path: Path) -> str:
    """The version of an SDK: 2.42.0.251225; "unknown" when neither sdk.yaml nor the folder tells.

    sdk.yaml has `version: 2.42.0` and a `build_id`, which is the full version in some releases and
    a bare date in others.
    """
    try:
        text = (path / "sdk.yaml").read_text("utf-8", "replace")
    except OSError:
        text = ""
    values = dict(re.findall(r"^\s*(version|build_id)\s*:\s*[\"']?([\w.]+)", text, re.MULTILINE))
    name = _VERSION.fullmatch(path.absolute().name)
    folder = name.group(1) if name else None
    for value in (values.get("build_id"), values.get("version")):
        found = _VERSION.fullmatch(value) if value else None
        if found:
            # The folder's name is more exact than a version without its date.
            more_exact = folder is not None and folder.startswith(found.group(1) + ".")
            return folder if more_exact and folder is not None else found.group(1)
    return folder or "unknown"


def find_roots(path: Path, depth: int = _DEPTH_BELOW) -> list[Path]:
    """SDK roots in a folder, newest first, at most `depth` levels below it."""
    level = [path]
    for _ in range(depth + 1):
        roots = [folder for folder in level if is_sdk(folder)]
        if roots:
            return _newest_first(roots)
        level = [child for folder in level for child in subfolders(folder)]
    return []


def qnn_environment(sdk: QnnSdk) -> dict[str, str]:
    """What the SDK's `envsetup.sh` would set, without sourcing it.

    QNN_SDK_ROOT and QAIRT_SDK_ROOT are values; PATH, PYTHONPATH and LD_LIBRARY_PATH are additions
    (joined with `os.pathsep`). LD_LIBRARY_PATH is for the SDK's own tools: exported to a shell it
    would change which libraries every other program loads. Folders that are missing are left out.
    """
    root = sdk.path
    folders = {
        "PATH": [root / "bin" / HOST_TARGET, root / "bin"],
        "PYTHONPATH": [root / "lib/python", root / "benchmarks/QNN"],
        "LD_LIBRARY_PATH": [root / "lib" / HOST_TARGET],
    }
    joined = {name: os.pathsep.join(str(f) for f in wanted if f.is_dir()) for name, wanted in folders.items()}
    return {
        **dict.fromkeys(QNN_VARIABLES, str(root)),
        **{name: value for name, value in joined.items() if value},
    }


def tool_environment(sdk: QnnSdk, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for running one of the SDK's tools or scripts: additions put before what is set."""
    environ = os.environ if environ is None else environ
    result = {}
    for name, value in qnn_environment(sdk).items():
        before = environ.get(name, "") if name not in QNN_VARIABLES else ""
        result[name] = os.pathsep.join([value, *([before] if before else [])])
    return result


def open_qnn_sdk(path: Path, origin: str, others: Sequence[Candidate] = ()) -> QnnSdk:
    """The SDK whose root somebody names.

    Raises:
        ToolMissing: it is none; says where the root is.
    """
    if not is_sdk(path):
        raise _no_sdk(origin, path)
    return QnnSdk(path.absolute(), read_version(path), origin, tuple(others))


def _pointed(explicit: Path | None, environ: Mapping[str, str]) -> list[Candidate]:
    named = named_folders("qnn.path", explicit, QNN_VARIABLES, environ)
    return [Candidate(origin, path, _describe(path)) for origin, path in named]


def _no_sdk(origin: str, path: Path) -> ToolMissing:
    roots = find_roots(path)
    roots += [parent for parent in list(path.absolute().parents)[:_DEPTH_ABOVE] if is_sdk(parent)]
    if not path.is_dir():
        what, seen = f"{origin} names no QNN SDK", f"{quoted(path)} does not exist"
    elif looks_like_sdk(path) and not roots:
        what, seen = f"{origin} names an incomplete QNN SDK: {HEADER} missing", quoted(path)
    else:
        what, seen = f"{origin} names no QNN SDK", f"{quoted(path)} holds no {HEADER}"
    flag, _, _ = origin.partition(" ")
    name = f"{flag} " if flag.startswith("--") else f"export {QNN_VARIABLES[0]}="
    name = f"export {origin}=" if origin in QNN_VARIABLES else name
    return ToolMissing(
        what,
        evidence=seen,
        hints=[*(f"{name}{quoted(root)}" for root in dict.fromkeys(roots)), *INSTALL_HINTS],
    )


def _of_version(version: str, pointed: Sequence[Candidate], environ: Mapping[str, str]) -> QnnSdk:
    wanted = version.strip().removeprefix("v").rstrip(".")
    chosen, others = choose_version(
        version,
        pointed,
        _discovered(environ),
        what="QNN SDK",
        install="devkit qnn sdk install",
        matches=lambda revision: revision == wanted or revision.startswith(wanted + "."),
    )
    return QnnSdk(chosen.path.absolute(), chosen.revision, chosen.origin, others)


def _discovered(environ: Mapping[str, str]) -> Iterator[Candidate]:
    return each_once(
        Candidate(origin, root, read_version(root))
        for origin, folder in _known_places(environ)
        for root in _newest_first(root for child in subfolders(folder) for root in find_roots(child, 2))
    )


def _newest_first(roots: Iterable[Path]) -> list[Path]:
    return sorted(roots, key=lambda root: numbers(read_version(root)), reverse=True)


def _known_places(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    yield f"~/{HOME_FOLDER}", Path(environ.get("HOME") or Path.home()) / HOME_FOLDER
    yield "installed by devkit", store_dir()
    yield str(SYSTEM_FOLDER), SYSTEM_FOLDER


def _places(environ: Mapping[str, str]) -> list[str]:
    return [str(folder) for _, folder in _known_places(environ)]


def _describe(path: Path) -> str:
    return read_version(path) if is_sdk(path) else "no QNN SDK"
