"""An Android NDK on disk: its version, and where its files are.

Paths inside an NDK move between releases (clang's folder, the host tag): they are looked up by
listing folders, never computed.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devkit.errors import ToolMissing
from devkit.ndk.candidates import Candidate, disagreements, quoted

# In the order in which they are believed; MNN's own scripts read the first.
VARIABLES = ("ANDROID_NDK", "ANDROID_NDK_ROOT", "ANDROID_NDK_HOME")
INSTALL_HINT = "set ANDROID_NDK to an NDK's folder, or ndk.path in devkit.yaml"
_TOOLCHAIN_FILE = "build/cmake/android.toolchain.cmake"
_PREBUILT = "toolchains/llvm/prebuilt"

_ARCHITECTURES = {
    "arm64-v8a": "aarch64",
    "armeabi-v7a": "arm",
    "x86": "i386",
    "x86_64": "x86_64",
    "riscv64": "riscv64",
}
_TRIPLES = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "arm-linux-androideabi",
    "x86": "i686-linux-android",
    "x86_64": "x86_64-linux-android",
    "riscv64": "riscv64-linux-android",
}


@dataclass(frozen=True)
class Ndk:
    """An Android NDK.

    `origin` says what named it; `others` are the NDKs that the remaining variables name.
    """

    path: Path
    revision: str
    origin: str
    others: tuple[Candidate, ...] = ()
    system: str = field(default_factory=platform.system, compare=False)
    machine: str = field(default_factory=platform.machine, compare=False)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Variables that name another NDK than this one, grouped by real path, with revisions."""
        return disagreements(self.path, self.others)

    @property
    def agreeing(self) -> tuple[str, ...]:
        """What names this NDK: its origin, and variables whose real path is the same."""
        same = [o.origin for o in self.others if os.path.realpath(o.path) == os.path.realpath(self.path)]
        return (self.origin, *same)

    @property
    def major(self) -> int:
        """27 for revision 27.1.12297006; 0 when the revision cannot be read."""
        found = re.match(r"\d+", self.revision)
        return int(found.group()) if found else 0

    @property
    def release(self) -> str:
        """The name people use: 27.1.… is r27b, 29.0.… is r29."""
        found = re.match(r"(\d+)\.(\d+)", self.revision)
        if not found:
            return self.revision
        minor = int(found.group(2))
        return f"r{found.group(1)}" + (chr(ord("a") + minor) if minor else "")

    @property
    def llvm(self) -> str | None:
        """The version of its clang as the folder is named (12.0.8, 18), or None when there is none."""
        found = {p.name: p for p in (self.path / _PREBUILT).glob("*/lib*/clang/*") if p.name[:1].isdigit()}
        return max(found, key=numbers, default=None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Parts that every build needs and this NDK lacks, as paths; empty when it is whole."""
        return missing_parts(self.path, self.system, self.machine)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for children: all three agree, so that no script picks another NDK."""
        return dict.fromkeys(VARIABLES, str(self.path))

    @property
    def host_tag(self) -> str:
        """The folder name of this machine's tools, for example linux-x86_64.

        Raises:
            ToolMissing: the NDK has no tools for this machine.
        """
        return choose_host_tag(
            _prebuilt_tags(self.path), self.system, self.machine, where=self.path / _PREBUILT
        )

    @property
    def prebuilt(self) -> Path:
        """The folder with `bin/`, `lib/` and `sysroot/`.

        Raises:
            ToolMissing: as `host_tag`.
        """
        return self.path / _PREBUILT / self.host_tag

    @property
    def toolchain_file(self) -> Path:
        """CMake's toolchain file.

        Raises:
            ToolMissing: the folder is no complete NDK.
        """
        file = self.path / _TOOLCHAIN_FILE
        if not file.is_file():
            raise self._missing(_TOOLCHAIN_FILE)
        return file

    def find_tool(self, name: str) -> Path | None:
        """A host program of the NDK by its file name, or None."""
        try:
            file = self.prebuilt / "bin" / name
        except ToolMissing:
            return None
        return file if file.is_file() else None

    def tool(self, name: str) -> Path:
        """A host program of the NDK: clang, lldb.sh, llvm-strip, llvm-symbolizer, …

        Raises:
            ToolMissing: this NDK does not have it.
        """
        file = self.prebuilt / "bin" / name
        if not file.is_file():
            raise self._missing(name, evidence=f"{file} does not exist")
        return file

    def lldb_server(self, abi: str) -> Path:
        """The lldb-server that runs on phones of this ABI.

        Raises:
            ToolMissing: unknown ABI, or the NDK has none for it.
        """
        pattern = f"lib*/clang/*/lib/linux/{_by_abi(_ARCHITECTURES, abi)}/lldb-server"
        base = self.path / _PREBUILT
        # Phone files are the same in every host's folder: any host tag will do.
        found = sorted(base.glob("*/" + pattern), key=_clang_version)
        if not found:
            raise self._missing("lldb-server", evidence=f"nothing matches {base}/*/{pattern}")
        return found[-1]

    def runtime_dir(self, abi: str) -> Path:
        """The folder that holds libc++_shared.so for this ABI.

        Raises:
            ToolMissing: unknown ABI, or the NDK has none for it.
        """
        return self.stl(abi).parent

    def compiler_runtime_dirs(self, abi: str) -> tuple[Path, ...]:
        """Folders with clang's own runtimes for phones: sanitizers, and libomp.so of this ABI.

        Raises:
            ToolMissing: unknown ABI.
        """
        name = _by_abi(_ARCHITECTURES, abi)
        found = sorted((self.path / _PREBUILT).glob("*/lib*/clang/*/lib/linux"), reverse=True,
                       key=lambda folder: numbers(folder.parts[-3]))  # fmt: skip
        return tuple(folder for linux in found for folder in (linux, linux / name) if folder.is_dir())

    def stl(self, abi: str) -> Path:
        """libc++_shared.so for this ABI.

        Raises:
            ToolMissing: unknown ABI, or the NDK has none for it.
        """
        base = self.path / _PREBUILT
        pattern = f"*/sysroot/usr/lib/{_by_abi(_TRIPLES, abi)}/libc++_shared.so"
        # Up to r22 the STLs were folders of their own.
        old = self.path / "sources" / "cxx-stl" / "llvm-libc++" / "libs" / abi / "libc++_shared.so"
        found = [*sorted(base.glob(pattern)), *([old] if old.is_file() else [])]
        if not found:
            raise self._missing("libc++_shared.so", evidence=f"nothing matches {base}/{pattern}")
        return found[0]

    def _missing(self, what: str, *, evidence: str | None = None) -> ToolMissing:
        lines = [f"NDK {self.revision} at {quoted(self.path)}", *([evidence] if evidence else [])]
        # A tool may never have been there; these must be.
        others = [part for part in self.missing if part != what]
        if others:
            lines.append("this NDK is not complete: it also lacks " + ", ".join(others))
        return ToolMissing(
            f"no {what} in this NDK",
            evidence="\n".join(lines),
            hints=["devkit ndk install r27d   (a complete NDK, r25 or later)", INSTALL_HINT],
        )


def read_revision(folder: Path) -> str | None:
    """`Pkg.Revision` of a folder's source.properties, or None when it is no NDK."""
    try:
        text = (folder / "source.properties").read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r"^\s*Pkg\.Revision\s*=\s*(\S+)", text, re.MULTILINE)
    return found.group(1) if found else None


def missing_parts(path: Path, system: str | None = None, machine: str | None = None) -> tuple[str, ...]:
    """What a folder lacks to be a whole NDK for this machine, as paths below it.

    Only what all of r21 to r30 have and every build needs. Interrupted copies, NDKs for another
    system and folders cleaned up by hand are found by it.
    """
    missing = []
    if read_revision(path) is None:
        missing.append("source.properties")
    if not (path / _TOOLCHAIN_FILE).is_file():
        missing.append(_TOOLCHAIN_FILE)
    system, machine = system or platform.system(), machine or platform.machine()
    found = _prebuilt_tags(path)
    try:
        tag = choose_host_tag(found, system, machine, where=path / _PREBUILT)
    except ToolMissing:
        wanted = _host_tags(system, machine)[-1]
        there = f" (found {', '.join(found)})" if found else ""
        return (*missing, f"{_PREBUILT}/{wanted}{there}")
    base = path / _PREBUILT / tag
    for name in ("clang", "clang++"):
        if not any((base / "bin" / (name + suffix)).is_file() for suffix in ("", ".exe")):
            missing.append(f"{_PREBUILT}/{tag}/bin/{name}")
    if not (base / "sysroot/usr/include").is_dir():
        missing.append(f"{_PREBUILT}/{tag}/sysroot/usr/include")
    new = any((base / f"sysroot/usr/lib/{triple}/libc++_shared.so").is_file() for triple in _TRIPLES.values())
    if not new and not any(path.glob("sources/cxx-stl/llvm-libc++/libs/*/libc++_shared.so")):
        missing.append(f"{_PREBUILT}/{tag}/sysroot/usr/lib/*/libc++_shared.so")
    return tuple(missing)


def choose_host_tag(prebuilt: list[str], system: str, machine: str, *, where: Path) -> str:
    """Which of the folders in `prebuilt/` runs on this machine.

    Apple silicon runs darwin-x86_64 through Rosetta; newer NDKs may bring darwin-arm64.

    Raises:
        ToolMissing: none does.
    """
    wanted = _host_tags(system, machine)
    for tag in wanted:
        if tag in prebuilt:
            return tag
    raise ToolMissing(
        f"this NDK has no tools for {system} {machine} (found {', '.join(prebuilt) or 'none'})",
        evidence=f"looked in {quoted(where)}",
        hints=["Google publishes NDKs for Linux x86_64, macOS and Windows", INSTALL_HINT],
    )


def architecture(abi: str) -> str:
    """The architecture's name in clang's folders: aarch64, arm, i386, x86_64, riscv64.

    Raises:
        ToolMissing: unknown ABI.
    """
    return _by_abi(_ARCHITECTURES, abi)


def triple(abi: str) -> str:
    """The ABI's folder below sysroot/usr/lib.

    Raises:
        ToolMissing: unknown ABI.
    """
    return _by_abi(_TRIPLES, abi)


def numbers(text: str) -> tuple[int, ...]:
    """All numbers in a version, for comparing: "27.3.1" is (27, 3, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _host_tags(system: str, machine: str) -> list[str]:
    name = {"Darwin": "darwin", "Windows": "windows"}.get(system, "linux")
    wanted = [f"{name}-{'x86_64' if machine.lower() == 'amd64' else machine}"]
    if name != "linux":
        wanted.append(f"{name}-x86_64")
    return wanted


def _prebuilt_tags(path: Path) -> list[str]:
    base = path / _PREBUILT
    try:
        return sorted(p.name for p in base.iterdir() if p.is_dir())
    except OSError:
        return []


def _by_abi(table: Mapping[str, str], abi: str) -> str:
    try:
        return table[abi]
    except KeyError:
        raise ToolMissing(f"the NDK knows no ABI {abi!r}", hints=["ABIs: " + ", ".join(table)]) from None


def _clang_version(path: Path) -> tuple[int, ...]:
    """The version folder between `clang/` and `lib/`: 12.0.8, 18."""
    return numbers(path.parts[-5])
