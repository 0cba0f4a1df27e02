"""The programs that build: cmake, ninja or make, ccache. From PATH, else from the PyPI packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit import process
from devkit.errors import ToolMissing

CMAKE_MINIMUM = (3, 21)
PROBE_TIMEOUT_S = 20


@dataclass(frozen=True)
class BuildTools:
    """`generator` is CMake's name for what `make_program` is; `launcher` is ccache or nothing."""

    cmake: Path
    cmake_version: str
    generator: str
    make_program: Path
    launcher: Path | None = None


def find_build_tools(environ: Mapping[str, str] | None = None) -> BuildTools:
    """The build programs of this machine.

    Raises:
        ToolMissing: no CMake of CMAKE_MINIMUM, or neither ninja nor make.
    """
    environ = os.environ if environ is None else environ
    cmake, version = find_cmake(environ)
    generator, make_program = find_make_program(environ)
    ccache = shutil.which("ccache", path=environ.get("PATH", ""))
    return BuildTools(cmake, version, generator, make_program, Path(ccache) if ccache else None)


def find_cmake(environ: Mapping[str, str]) -> tuple[Path, str]:
    """CMake and its version.

    Raises:
        ToolMissing: none, or only old ones.
    """
    seen: list[str] = []
    for candidate in _candidates("cmake", environ):
        answer = process.run([candidate, "--version"], check=False, timeout_s=PROBE_TIMEOUT_S)
        found = re.search(r"(\d+)\.(\d+)[.\d]*\S*", answer.text)
        if found and (int(found.group(1)), int(found.group(2))) >= CMAKE_MINIMUM:
            return candidate, found.group()
        seen.append(f"{candidate}: {found.group() if found else 'does not run'}")
    minimum = ".".join(map(str, CMAKE_MINIMUM))
    raise ToolMissing(
        f"no CMake {minimum} or later was found",
        evidence="\n".join(seen) or "not on PATH, and no PyPI package cmake in devkit's Python",
        hints=['pip install "mnn-devkit[sim]"   (brings cmake and ninja)', "sudo apt install cmake"],
    )


def find_make_program(environ: Mapping[str, str]) -> tuple[str, Path]:
    """CMake's generator name and the program behind it: ninja, else make.

    Raises:
        ToolMissing: neither is there.
    """
    for candidate in _candidates("ninja", environ):
        return "Ninja", candidate
    make = shutil.which("make", path=environ.get("PATH", ""))
    if make:
        return "Unix Makefiles", Path(make)
    raise ToolMissing(
        "neither ninja nor make was found",
        evidence="not on PATH, and no PyPI package ninja in devkit's Python",
        hints=['pip install "mnn-devkit[sim]"   (brings cmake and ninja)', "sudo apt install ninja-build"],
    )


def _candidates(name: str, environ: Mapping[str, str]) -> list[Path]:
    """The program on PATH, then the one that the PyPI package of that name brings.

    The package's command on PATH may be a Python script around the real program; the real one
    starts 0.1 s sooner, so it is taken in its place.
    """
    packaged: list[Path] = []
    for folder in package_folders(name):
        places = (folder / "data" / "bin", Path(sysconfig.get_path("scripts")), folder.parent / "bin")
        programs = [place / name for place in places]
        packaged += [p for p in programs if p.is_file() and os.access(p, os.X_OK) and not _is_script(p)][:1]
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    if on_path is None:
        return packaged
    if packaged and _is_script(Path(on_path)):
        return [*packaged, Path(on_path)]
    return [Path(on_path), *packaged]


def package_folders(name: str) -> list[Path]:
    """Folders of an installed Python package, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _is_script(program: Path) -> bool:
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
