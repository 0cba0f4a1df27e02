"""C and C++ compilers of this machine: CC/CXX, the usual names on PATH, else zig from PyPI."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit import paths, process
from devkit.engine.cmake_tools import package_folders
from devkit.errors import ToolMissing

PROBE_TIMEOUT_S = 20
_PAIRS = (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++"))
_C_TO_CXX = {"gcc": "g++", "clang": "clang++", "cc": "c++"}
_CXX_TO_C = {cxx: c for c, cxx in _C_TO_CXX.items()}
_RUNTIMES = ("libstdc++.so.6", "libgcc_s.so.1", "libc++.so.1")
_ZIG_TARGETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
# UBSan is on by default in zig's Debug mode and needs a runtime that other linkers do not have.
_ZIG_FLAGS = "-fno-sanitize=undefined"


@dataclass(frozen=True)
class HostCompilers:
    """A C and a C++ compiler, each with the arguments it always needs (`CC="gcc -m32"`)."""

    c: tuple[str, ...]
    cxx: tuple[str, ...]
    description: str
    archiver: Path | None = None
    ranlib: Path | None = None
    bundled_runtime: bool = False  # the C++ library is linked in: nothing to push

    @property
    def identity(self) -> str:
        """Changes when the compiler is another file: CMake cannot follow that in place."""
        parts = [self.description]
        for program in (self.c[0], self.cxx[0]):
            real = Path(os.path.realpath(program))
            status = real.stat()
            parts += [str(real), str(status.st_size), str(status.st_mtime_ns)]
        return hashlib.sha256("\n".join([*parts, *self.c[1:], *self.cxx[1:]]).encode()).hexdigest()[:16]

    def runtime_dirs(self) -> tuple[Path, ...]:
        """Folders with the C++ runtime that programs of this compiler load, as it names them itself."""
        if self.bundled_runtime:
            return ()
        found: list[Path] = []
        for name in _RUNTIMES:
            question = [*self.cxx, f"-print-file-name={name}"]
            answer = process.run(question, check=False, timeout_s=PROBE_TIMEOUT_S)
            file = Path(answer.text.strip())
            # A compiler that does not have it repeats the bare name.
            if file.is_absolute() and file.is_file():
                folder = Path(os.path.realpath(file.parent))
                if folder not in found:
                    found.append(folder)
        return tuple(found)


def find_host_compilers(environ: Mapping[str, str] | None = None) -> HostCompilers:
    """The compilers that CC and CXX name, else the first pair on PATH, else zig.

    Raises:
        ToolMissing: there is none, or CC or CXX name a program that does not exist.
    """
    environ = os.environ if environ is None else environ
    search = environ.get("PATH", "")
    if environ.get("CC") or environ.get("CXX"):
        return _from_variables(environ, search)
    for c, cxx in _PAIRS:
        c_path, cxx_path = shutil.which(c, path=search), shutil.which(cxx, path=search)
        if c_path and cxx_path:
            return HostCompilers((c_path,), (cxx_path,), _describe((cxx_path,)))
    zig = find_zig()
    if zig is not None:
        return zig_compilers(zig)
    raise ToolMissing(
        "no C++ compiler was found on this machine",
        evidence="not on PATH: " + ", ".join(cxx for _, cxx in _PAIRS) + "; no PyPI package ziglang either",
        hints=["sudo apt install g++", 'pip install "mnn-devkit[zig]"   (a compiler without root)'],
    )


def find_zig() -> Path | None:
    """The zig program of the PyPI package ziglang in devkit's Python, or None."""
    for folder in package_folders("ziglang"):
        if os.access(folder / "zig", os.X_OK):
            return folder / "zig"
    return None


def zig_compilers(zig: Path) -> HostCompilers:
    """zig as a compiler for this machine's own glibc.

    CMake wants one program for a compiler, so `zig cc -target …` becomes a script in the cache.

    Raises:
        ToolMissing: zig does not run, or this machine's architecture is not known.
    """
    target = _ZIG_TARGETS.get(platform.machine())
    if target is None:
        raise ToolMissing(
            f"devkit has no zig target for {platform.machine()}", hints=["install g++ or clang instead"]
        )
    version = process.run([zig, "version"], timeout_s=PROBE_TIMEOUT_S).text.strip()
    key = hashlib.sha256(f"{zig}\n{target}\n{_ZIG_FLAGS}".encode()).hexdigest()[:8]
    folder = paths.cache_dir() / "compilers" / f"zig-{version}-{key}"
    scripts = {}
    for name, words in (
        ("zig-cc", f"cc {_ZIG_FLAGS} -target {target}"),
        ("zig-c++", f"c++ {_ZIG_FLAGS} -target {target}"),
        ("zig-ar", "ar"),
        ("zig-ranlib", "ranlib"),
    ):
        scripts[name] = folder / name
        text = f'#!/bin/sh\nexec {shlex.quote(str(zig))} {words} "$@"\n'
        # Left alone when it is right: its age is part of the build's fingerprint.
        if not scripts[name].is_file() or scripts[name].read_text("utf-8") != text:
            paths.write_atomically(scripts[name], text, mode=0o755)
    return HostCompilers(
        (str(scripts["zig-cc"]),),
        (str(scripts["zig-c++"]),),
        f"zig {version} ({zig})",
        archiver=scripts["zig-ar"],
        ranlib=scripts["zig-ranlib"],
        bundled_runtime=True,
    )


def _from_variables(environ: Mapping[str, str], search: str) -> HostCompilers:
    c, cxx = _command(environ.get("CC")), _command(environ.get("CXX"))
    found = {}
    # The one that is set comes first: it is the one to name when it leads nowhere.
    pairs = [("CC", c or _partner(cxx, _CXX_TO_C)), ("CXX", cxx or _partner(c, _C_TO_CXX))]
    for variable, words in sorted(pairs, key=lambda pair: not environ.get(pair[0])):
        path = shutil.which(words[0], path=search)
        if path is None:
            other = "CXX" if variable == "CC" else "CC"
            what = f"{variable} names a compiler that does not exist: {words[0]}"
            if not environ.get(variable):
                what = f"{variable} is not set, and {words[0]}, which belongs to {other}, does not exist"
            given = "  ".join(f"{name}={environ[name]}" for name in ("CC", "CXX") if environ.get(name))
            raise ToolMissing(
                what,
                evidence=f"{given}   (looked on PATH)",
                hints=["set CC and CXX to compilers that are installed", "unset CC CXX"],
            )
        found[variable] = (path, *words[1:])
    return HostCompilers(found["CC"], found["CXX"], _describe(found["CXX"]))


def _command(text: str | None) -> tuple[str, ...]:
    words = shlex.split(text or "")
    # CMake has launchers for these; devkit sets ccache itself.
    if len(words) > 1 and Path(words[0]).name in ("ccache", "sccache", "distcc"):
        words = words[1:]
    return tuple(words)


def _partner(command: tuple[str, ...], rules: Mapping[str, str]) -> tuple[str, ...]:
    """The C++ compiler beside a C compiler, or the other way round: clang-18 ↔ clang++-18."""
    folder, slash, name = command[0].rpartition("/")
    for known, partner in rules.items():
        if re.search(rf"(^|[-_]){re.escape(known)}(-|$)", name):
            return (folder + slash + name.replace(known, partner), *command[1:])
    return command  # a compiler driver for both


def _describe(cxx: tuple[str, ...]) -> str:
    answer = process.run([*cxx, "--version"], check=False, timeout_s=PROBE_TIMEOUT_S)
    if answer.exit_code != 0:
        raise ToolMissing(
            f"the compiler {cxx[0]} does not run",
            evidence=process.tail(answer.stderr or answer.stdout),
            hints=["sudo apt install g++", "or set CC and CXX"],
        )
    first = answer.text.strip().splitlines()[0] if answer.text.strip() else Path(cxx[0]).name
    return f"{first} ({cxx[0]})"
