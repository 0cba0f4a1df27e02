"""Op packages in the layout of the SDK's examples: built with their own Makefile, brought to the phone."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import BuildError, FileError, ToolMissing, UsageError
from devkit.ndk.qnn_sdk import HOST_TARGET, PHONE_TARGET, QnnSdk, tool_environment
from devkit.qnn.inventory import MACHINE
from devkit.symbols import is_elf, read_elf

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

HEXAGON_VARIABLE = "HEXAGON_SDK_ROOT"
# Where Qualcomm's installers put the Hexagon SDK, each version in a folder of its own.
_HEXAGON_PLACES = (
    "/local/mnt/workspace/Qualcomm/Hexagon_SDK",
    "~/Qualcomm/Hexagon_SDK",
    "/opt/Qualcomm/Hexagon_SDK",
)
_TOOLS = "tools/HEXAGON_Tools"
_COMPILER = "Tools/bin/hexagon-clang++"
_PROVIDER = re.compile(r"\b(\w*InterfaceProvider)\s*\(")
_WANTED_TOOLS = re.compile(r"^\s*(HEXAGON_TOOLS_VERSION_V(\d+))\s*[:?]?=\s*([\w.]+)", re.MULTILINE)
# What qnn-net-run calls the processor that a library is registered for.
CPU, HTP = "CPU", "HTP"


@dataclass(frozen=True)
class Package:
    """An op package's sources.

    Attributes:
        provider: the function that the backend is given, or None when no source has one.
        wanted_tools: Hexagon tools' versions that the Makefile wants, architecture → (variable, version).
    """

    folder: Path
    provider: str | None
    wanted_tools: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Library:
    """A built library and what it is registered for."""

    path: Path
    processor: str
    remote: str


@dataclass(frozen=True)
class BuildPlan:
    """How a package is built.

    Attributes:
        goals: goals of its Makefile.
        makes: the folders below build/ in which a library must be afterwards.
        settings: variables of make beside the environment.
        environment: variables of the process.
    """

    package: Package
    goals: tuple[str, ...]
    makes: tuple[str, ...]
    settings: tuple[str, ...]
    environment: Mapping[str, str]
    hexagon: Path | None

    @property
    def argv(self) -> tuple[str, ...]:
        return ("make", "-C", str(self.package.folder), *self.goals, *self.settings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.package.folder),
            "command": process.show(self.argv),
            "makes": [f"build/{name}" for name in self.makes],
            "hexagon_sdk": str(self.hexagon) if self.hexagon else None,
            "provider": self.package.provider,
        }


def read_package(folder: Path) -> Package:
    """Look at an op package's folder.

    Raises:
        UsageError: it is none.
    """
    makefile = folder / "Makefile"
    if not makefile.is_file():
        raise UsageError(
            f"{folder} is no op package",
            evidence="it holds no Makefile" if folder.is_dir() else "there is no such folder",
            hints=["the SDK's own: examples/QNN/OpPackage/HTP", "qnn-op-package-generator makes new ones"],
        )
    sources = sorted(file for pattern in ("*.cpp", "src/**/*.cpp") for file in folder.glob(pattern))
    found = {
        name for file in sources for name in _PROVIDER.findall(file.read_text("utf-8", "replace"))
    }  # fmt: skip
    text = makefile.read_text("utf-8", "replace")
    wanted = {f"v{arch}": (variable, version) for variable, arch, version in _WANTED_TOOLS.findall(text)}
    return Package(folder, min(found, key=len) if found else None, wanted)


def plan_build(
    config: Config,
    sdk: QnnSdk,
    package: Package,
    target: str,
    arch: str | None,
    *,
    hexagon: Path | None = None,
) -> BuildPlan:
    """Plan to build a package for a phone. Runs nothing.

    Args:
        target: of the phone's libraries: aarch64-android, x86_64-linux-clang.
        arch: "v75"; None where there is no DSP.
        hexagon: the Hexagon SDK (default: HEXAGON_SDK_ROOT, then its usual places).

    Raises:
        ToolMissing: no make, no NDK, no Hexagon SDK, or one without a compiler.
    """
    if shutil.which("make") is None:
        raise ToolMissing("make was not found", hints=["sudo apt install make"])
    environment = {**tool_environment(sdk), "QNN_INCLUDE": str(sdk.path / "include/QNN"),
                   "QNN_TARGET_LIB": str(sdk.path / "lib" / target)}  # fmt: skip
    if target == HOST_TARGET or arch is None:
        return BuildPlan(package, ("htp_x86",), (HOST_TARGET,), (), environment, None)
    from devkit.ndk import ndk_for

    ndk = ndk_for(config)
    root = find_hexagon_sdk(hexagon)
    versions = _tools_of(root)
    settings: list[str] = []
    wanted = package.wanted_tools.get(arch)
    if wanted is not None and wanted[1] not in versions:
        settings.append(f"{wanted[0]}={versions[-1]}")
        output.current().warn(
            f"the Makefile wants Hexagon tools {wanted[1]}, which {root} has not: {versions[-1]} is taken"
        )
    environment |= {
        HEXAGON_VARIABLE: str(root),
        f"{HEXAGON_VARIABLE}_{arch.upper()}": str(root),
        "ANDROID_NDK_ROOT": str(ndk.path),
    }
    goals = ("htp_aarch64", f"htp_{arch}")
    return BuildPlan(package, goals, (target, f"hexagon-{arch}"), tuple(settings), environment, root)


def find_hexagon_sdk(explicit: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The Hexagon SDK: what is named, else HEXAGON_SDK_ROOT, else the newest in its usual places.

    Raises:
        ToolMissing: there is none, or the one that is named has no compiler.
    """
    environ = os.environ if environ is None else environ
    named = explicit or (Path(value) if (value := environ.get(HEXAGON_VARIABLE)) else None)
    if named is not None:
        if _tools_of(named):
            return named
        raise ToolMissing(
            f"{named} is no Hexagon SDK with a compiler",
            evidence=f"nothing matches {named / _TOOLS}/*/{_COMPILER}",
            hints=["--hexagon DIR, or export HEXAGON_SDK_ROOT=DIR"],
        )
    places = [paths.expand_user(place) for place in _HEXAGON_PLACES]
    found = [folder for place in places if place.is_dir() for folder in place.iterdir() if _tools_of(folder)]
    if not found:
        raise ToolMissing(
            "no Hexagon SDK was found, which compiles the part that runs on the DSP",
            evidence=f"{HEXAGON_VARIABLE} is not set; none in {', '.join(map(str, places))}",
            hints=["qpm-cli --install hexagonsdk5.x   (Qualcomm Package Manager)", "--hexagon DIR"],
        )
    return max(found, key=lambda folder: _numbers(folder.name))


def build(plan: BuildPlan) -> list[Path]:
    """Run make and look at what it made.

    Raises:
        BuildError: it failed, or ended with 0 and left no library for one of the processors.
    """
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        output.current().detail(line)

    output.current().note(f"make {' '.join(plan.goals)} in {plan.package.folder}")
    done = process.stream(plan.argv, take, env={**plan.environment, "LC_ALL": "C.UTF-8"})
    if done.exit_code != 0:
        first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line, re.I)), None)
        shown = lines[first : first + 5] if first is not None else lines[-10:]
        raise BuildError(
            f"make failed in {plan.package.folder} (exit code {done.exit_code})",
            evidence="\n".join(shown),
            hints=["-v shows all of it", "devkit qnn sdk check"],
        )
    return [_built(plan.package.folder, name) for name in plan.makes]


def _built(folder: Path, name: str) -> Path:
    """The library in build/NAME, of the processor that the folder promises.

    Raises:
        BuildError: there is none, or it is for another one.
    """
    place = folder / "build" / name
    found = sorted(place.glob("libQnn*.so"))
    if not found or not is_elf(found[0]):
        raise BuildError(
            f"there is no op package in {place}",
            hints=[f"devkit qnn op-package build {process.show([folder])}"],
        )
    machine = read_elf(found[0]).machine
    wanted = {PHONE_TARGET: "aarch64", HOST_TARGET: "x86_64"}.get(name, MACHINE)
    if machine != wanted:
        raise BuildError(
            f"{found[0].name} in build/{name} is for {machine}, not for {wanted}",
            hints=["make clean there, and build again"],
        )
    return found[0]


def built_libraries(package: Package, target: str, arch: str | None) -> list[Library]:
    """The libraries for a phone, as they are to be called there: both have one name when they are built.

    Raises:
        BuildError: one is missing or for another processor.
    """
    main = _built(package.folder, target)
    if target == HOST_TARGET or arch is None:
        return [Library(main, CPU, main.name)]
    skel = _built(package.folder, f"hexagon-{arch}")
    return [Library(main, CPU, main.name), Library(skel, HTP, f"{skel.stem}_{HTP}.so")]


def registration(package: Package, libraries: Sequence[Library], folder: str = "") -> str:
    """The value of qnn-net-run's --op_packages; also what QnnBackend_registerOpPackage takes, in its order.

    Raises:
        FileError: no source tells the provider's name.
    """
    if package.provider is None:
        raise FileError(
            f"no source in {package.folder} has an interface provider",
            evidence="sought: a function whose name ends with InterfaceProvider",
        )
    return ",".join(
        f"{posixpath.join(folder, library.remote)}:{package.provider}:{library.processor}"
        for library in libraries
    )


def deploy(device: Device, libraries: Sequence[Library], folder: str) -> None:
    """Put the libraries into an app's folder on the phone, each whole or not at all.

    Raises:
        DeviceError: the phone refused a file, or does not have the folder.
    """
    from devkit.device import quote
    from devkit.device.sync import PushItem

    device.shell(f"mkdir -p {quote([folder])}", check=True)
    staged = [(library, posixpath.join(folder, f".{library.remote}.new")) for library in libraries]
    device.push(
        [PushItem(library.path, place, 0o755, int(library.path.stat().st_mtime)) for library, place in staged]
    )
    moves = "; ".join(
        "mv " + quote([place, posixpath.join(folder, library.remote)]) for library, place in staged
    )
    device.shell(f"set -e; {moves}", check=True)


def _tools_of(root: Path) -> list[str]:
    """Versions of the Hexagon tools in a Hexagon SDK, the newest last."""
    found = [file.parents[2].name for file in root.glob(f"{_TOOLS}/*/{_COMPILER}")]
    return sorted(found, key=_numbers)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
