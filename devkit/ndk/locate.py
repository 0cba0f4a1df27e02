"""Find the Android NDK on this machine, and files inside it.

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

from devkit import output
from devkit.errors import ToolMissing

# In the order in which they are believed; MNN's own scripts read the first.
VARIABLES = ("ANDROID_NDK", "ANDROID_NDK_ROOT", "ANDROID_NDK_HOME")
DEFAULT_FOLDER = "android_ndk"  # below the home folder
INSTALL_HINT = "set ANDROID_NDK to an NDK's folder, or ndk.path in devkit.yaml"

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
class Candidate:
    """An NDK that something names: a flag, a variable or the default folder."""

    origin: str
    path: Path
    revision: str

    def __str__(self) -> str:
        return f"{self.origin} ({self.revision})"


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
        groups: dict[str, list[Candidate]] = {}
        for other in self.others:
            real = os.path.realpath(other.path)
            if real != os.path.realpath(self.path):
                groups.setdefault(real, []).append(other)
        return tuple(
            " / ".join(c.origin for c in group) + f" ({group[0].revision})" for group in groups.values()
        )

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
    def environment(self) -> dict[str, str]:
        """Variables for children: all three agree, so that no script picks another NDK."""
        return dict.fromkeys(VARIABLES, str(self.path))

    @property
    def host_tag(self) -> str:
        """The folder name of this machine's tools, for example linux-x86_64.

        Raises:
            ToolMissing: the NDK has no tools for this machine.
        """
        prebuilt = self.path / "toolchains" / "llvm" / "prebuilt"
        found = sorted(p.name for p in prebuilt.iterdir() if p.is_dir()) if prebuilt.is_dir() else []
        return choose_host_tag(found, self.system, self.machine, where=prebuilt)

    @property
    def prebuilt(self) -> Path:
        """The folder with `bin/`, `lib/` and `sysroot/`.

        Raises:
            ToolMissing: as `host_tag`.
        """
        return self.path / "toolchains" / "llvm" / "prebuilt" / self.host_tag

    @property
    def toolchain_file(self) -> Path:
        """CMake's toolchain file.

        Raises:
            ToolMissing: the folder is no complete NDK.
        """
        file = self.path / "build" / "cmake" / "android.toolchain.cmake"
        if not file.is_file():
            raise self._missing("build/cmake/android.toolchain.cmake")
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
        base = self.path / "toolchains" / "llvm" / "prebuilt"
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

    def stl(self, abi: str) -> Path:
        """libc++_shared.so for this ABI.

        Raises:
            ToolMissing: unknown ABI, or the NDK has none for it.
        """
        base = self.path / "toolchains" / "llvm" / "prebuilt"
        pattern = f"*/sysroot/usr/lib/{_by_abi(_TRIPLES, abi)}/libc++_shared.so"
        # Up to r22 the STLs were folders of their own.
        old = self.path / "sources" / "cxx-stl" / "llvm-libc++" / "libs" / abi / "libc++_shared.so"
        found = [*sorted(base.glob(pattern)), *([old] if old.is_file() else [])]
        if not found:
            raise self._missing("libc++_shared.so", evidence=f"nothing matches {base}/{pattern}")
        return found[0]

    def _missing(self, what: str, *, evidence: str | None = None) -> ToolMissing:
        return ToolMissing(
            f"no {what} in this NDK",
            evidence=f"NDK {self.revision} at {_quoted(self.path)}" + (f"\n{evidence}" if evidence else ""),
            hints=["install a complete NDK, r25 or later", INSTALL_HINT],
        )


def find_ndk(explicit: Path | None = None, environ: Mapping[str, str] | None = None) -> Ndk:
    """The NDK to use: `explicit`, then the first of VARIABLES that is set, then ~/android_ndk.

    A variable that names no NDK is an error when it would be chosen, as is a wrong `explicit`:
    taking another NDK silently is what mixes toolchains. Disagreeing variables are not an error;
    they are in `Ndk.conflicts`, and `warn_about_conflicts` says so.

    Args:
        environ: variables (default: the process's).

    Raises:
        ToolMissing: there is none, or the one named is no NDK.
    """
    environ = os.environ if environ is None else environ
    named: list[tuple[str, Path]] = []
    if explicit is not None:
        named.append((f"ndk.path {_quoted(explicit)}", explicit.expanduser()))
    named += [(name, Path(environ[name]).expanduser()) for name in VARIABLES if environ.get(name)]
    if not named:
        named = [(f"~/{DEFAULT_FOLDER}", folder) for folder in _default_folders(environ)]
    if not named:
        raise ToolMissing(
            "no Android NDK was found",
            evidence="not set: " + ", ".join(VARIABLES) + f"; ~/{DEFAULT_FOLDER} does not exist",
            hints=[INSTALL_HINT],
        )
    origin, path = named[0]
    others = [Candidate(name, folder, read_revision(folder) or "no NDK") for name, folder in named[1:]]
    revision = read_revision(path)
    if revision is None:
        raise ToolMissing(
            f"{origin} names no Android NDK",
            evidence=f"{_quoted(path)} has no source.properties with Pkg.Revision"
            + "".join(f"\n{other.origin} names {_quoted(other.path)} ({other.revision})" for other in others),
            hints=[INSTALL_HINT],
        )
    return Ndk(path.absolute(), revision, origin, tuple(others))


def warn_about_conflicts(ndk: Ndk) -> None:
    """Say that variables name different NDKs, and which one is used."""
    if ndk.conflicts:
        output.current().warn(
            f"the NDK variables disagree: {', '.join(ndk.conflicts)}; "
            f"devkit uses {' / '.join(ndk.agreeing)} ({ndk.revision}) for everything"
        )


def read_revision(folder: Path) -> str | None:
    """`Pkg.Revision` of a folder's source.properties, or None when it is no NDK."""
    try:
        text = (folder / "source.properties").read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r"^\s*Pkg\.Revision\s*=\s*(\S+)", text, re.MULTILINE)
    return found.group(1) if found else None


def choose_host_tag(prebuilt: list[str], system: str, machine: str, *, where: Path) -> str:
    """Which of the folders in `prebuilt/` runs on this machine.

    Apple silicon runs darwin-x86_64 through Rosetta; newer NDKs may bring darwin-arm64.

    Raises:
        ToolMissing: none does.
    """
    name = {"Darwin": "darwin", "Windows": "windows"}.get(system, "linux")
    wanted = [f"{name}-{'x86_64' if machine.lower() == 'amd64' else machine}"]
    if name != "linux":
        wanted.append(f"{name}-x86_64")
    for tag in wanted:
        if tag in prebuilt:
            return tag
    raise ToolMissing(
        f"this NDK has no tools for {system} {machine} (found {', '.join(prebuilt) or 'none'})",
        evidence=f"looked in {_quoted(where)}",
        hints=["Google publishes NDKs for Linux x86_64, macOS and Windows", INSTALL_HINT],
    )


def _default_folders(environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("HOME")
    base = (Path(home) if home else Path.home()) / DEFAULT_FOLDER
    if not base.is_dir() or read_revision(base) is not None:
        return [base] if base.is_dir() else []
    inside = [child for child in base.iterdir() if child.is_dir() and read_revision(child) is not None]
    newest = sorted(inside, key=lambda child: _numbers(read_revision(child) or ""))
    return newest[-1:] or [base]


def _by_abi(table: Mapping[str, str], abi: str) -> str:
    try:
        return table[abi]
    except KeyError:
        raise ToolMissing(f"the NDK knows no ABI {abi!r}", hints=["ABIs: " + ", ".join(table)]) from None


def _clang_version(path: Path) -> tuple[int, ...]:
    """The version folder between `clang/` and `lib/`: 12.0.8, 18."""
    return _numbers(path.parts[-5])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _quoted(path: Path) -> str:
    return f"'{path}'"
