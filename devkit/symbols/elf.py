"""Reads the parts of an ELF file that decide where it runs and what it needs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from devkit.errors import FileError
from devkit.symbols.elf_file import ElfFile

_MAGIC = b"\x7fELF"

# e_machine → the name LLVM triples use. 164 is Hexagon (a QNN skel).
_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 164: "hexagon"}
_ET_REL, _ET_EXEC, _ET_CORE = 1, 2, 4
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NEEDED, _DT_SONAME = 1, 14
_NT_GNU_BUILD_ID, _NT_ANDROID_IDENT = 3, 1

# Android's names: https://developer.android.com/ndk/guides/abis
_ABIS = {
    "i386": "x86",
    "arm": "armeabi-v7a",
    "x86_64": "x86_64",
    "aarch64": "arm64-v8a",
    "riscv64": "riscv64",
}


@dataclass(frozen=True)
class ElfInfo:
    """What devkit needs to know of one ELF file.

    `machine` is LLVM's name of the architecture, `bits` 32 or 64, `build_id` lower-case hex. `load_align` is
    the smallest alignment of its segments to load, in bytes (0: none is loaded). `is_fixed` says that it runs
    at one address only (no PIE). `android_api` and `ndk_release` ("r27d") are what an NDK notes in it.
    """

    path: Path
    machine: str
    bits: int
    kind: str
    soname: str | None
    needed: tuple[str, ...]
    interpreter: str | None
    build_id: str | None
    has_debug_info: bool
    load_align: int = 0
    is_fixed: bool = False
    android_api: int | None = None
    ndk_release: str | None = None

    @property
    def abi(self) -> str | None:
        """Android's name of the ABI; None for what does not run on the phone's CPU (Hexagon)."""
        return _ABIS.get(self.machine)

    @property
    def describe(self) -> str:
        """'arm64-v8a (64-bit aarch64)', for messages."""
        return f"{self.abi or 'no Android ABI'} ({self.bits}-bit {self.machine})"


def is_elf(path: Path) -> bool:
    """Whether a file starts like an ELF file. False when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def read_elf(path: Path) -> ElfInfo:
    """Read one ELF file; answers come from a cache while its size and times stay the same.

    Raises:
        FileError: the file cannot be read, is no ELF file or is damaged.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=str(error)) from None
    return _read(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=4096)
def _read(path: Path, _size: int, _mtime_ns: int, _ctime_ns: int) -> ElfInfo:
    try:
        with path.open("rb") as file:
            return _parse(path, ElfFile(file))
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=str(error)) from None
    except (ValueError, struct.error) as error:
        raise FileError(
            f"{path} is not a usable ELF file",
            evidence=str(error),
            hints=[f"file {path}"],
        ) from None


def _parse(path: Path, elf: ElfFile) -> ElfInfo:
    interpreter: str | None = None
    build_id: str | None = None
    dynamic: list[tuple[int, int]] = []
    alignments: list[int] = []
    android: tuple[int | None, str | None] = (None, None)
    # Segments, not sections: what is stripped of section headers still runs.
    for segment in elf.segments:
        if segment.kind == _PT_LOAD:
            alignments.append(segment.alignment)
        elif segment.kind == _PT_DYNAMIC:
            dynamic = elf.dynamic_tags(segment)
        elif segment.kind == _PT_INTERP:
            interpreter = elf.content(segment).partition(b"\0")[0].decode("utf-8", "replace")
        elif segment.kind == _PT_NOTE:
            for owner, kind, description in elf.notes(segment):
                if (owner, kind) == (b"GNU", _NT_GNU_BUILD_ID):
                    build_id = build_id or description.hex()
                elif (owner, kind) == (b"Android", _NT_ANDROID_IDENT):
                    android = _android_ident(description, elf.little_endian)
    names = elf.dynamic_names(dynamic, (_DT_NEEDED, _DT_SONAME))
    sonames = [name for tag, name in names if tag == _DT_SONAME]
    kinds = {_ET_EXEC: "executable", _ET_REL: "object", _ET_CORE: "core"}
    return ElfInfo(
        path=path,
        machine=_MACHINES.get(elf.machine, f"machine {elf.machine}"),
        bits=elf.bits,
        kind=kinds.get(elf.kind, "executable" if interpreter else "shared"),
        soname=sonames[-1] if sonames else None,
        needed=tuple(name for tag, name in names if tag == _DT_NEEDED),
        interpreter=interpreter,
        build_id=build_id,
        has_debug_info=not {b".debug_info", b".zdebug_info"}.isdisjoint(elf.section_names()),
        load_align=min(alignments, default=0),
        is_fixed=elf.kind == _ET_EXEC,
        android_api=android[0],
        ndk_release=android[1],
    )


def _android_ident(description: bytes, little: bool) -> tuple[int | None, str | None]:
    """The API level and the NDK's release of .note.android.ident (crtbrand.S of bionic).

    Since r15 the number is followed by two fields of 64 bytes: release and build number.
    """
    if len(description) < 4:
        return None, None
    api = int.from_bytes(description[:4], "little" if little else "big")
    release = description[4:68].partition(b"\0")[0].decode("ascii", "replace")
    return api, release or None
