"""Reads the parts of an ELF file that decide where it runs and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from devkit.errors import FileError

_MAGIC = b"\x7fELF"

# e_machine → the name LLVM triples use. 164 is Hexagon (a QNN skel).
_MACHINES = {
    "EM_386": "i386",
    "EM_ARM": "arm",
    "EM_X86_64": "x86_64",
    "EM_AARCH64": "aarch64",
    "EM_RISCV": "riscv64",
    "EM_QDSP6": "hexagon",
}

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
    from elftools.common.exceptions import ELFError

    try:
        with path.open("rb") as file:
            return _parse(path, file)
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=str(error)) from None
    except (ELFError, ValueError, KeyError, AssertionError, AttributeError, IndexError) as error:
        # pyelftools meets damaged files with whatever its parsing trips over.
        raise FileError(
            f"{path} is not a usable ELF file",
            evidence=f"{type(error).__name__}: {error}",
            hints=[f"file {path}"],
        ) from None


def _parse(path: Path, file: Any) -> ElfInfo:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(file)
    soname: str | None = None
    needed: list[str] = []
    interpreter: str | None = None
    build_id: str | None = None
    dynamic: Any = None
    alignments: list[int] = []
    android: tuple[int | None, str | None] = (None, None)
    segment: Any
    # Segments, not sections: what is stripped of section headers still runs.
    for segment in elf.iter_segments():
        kind = segment["p_type"]
        if kind == "PT_LOAD":
            alignments.append(int(segment["p_align"]))
        elif kind == "PT_DYNAMIC":
            dynamic = segment
        elif kind == "PT_INTERP":
            interpreter = segment.get_interp_name()
        elif kind == "PT_NOTE":
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                    build_id = build_id or str(note["n_desc"])
                # pyelftools names type 1 as GNU does, whoever wrote the note.
                elif note["n_name"] == "Android" and note["n_type"] in (1, "NT_GNU_ABI_TAG"):
                    android = _android_ident(note["n_descdata"], elf.little_endian)
    if dynamic is not None:
        for tag in dynamic.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
            elif tag.entry.d_tag == "DT_SONAME":
                soname = tag.soname
    debug = any(s.name in (".debug_info", ".zdebug_info") for s in elf.iter_sections())
    kinds = {"ET_EXEC": "executable", "ET_REL": "object", "ET_CORE": "core"}
    kind = kinds.get(elf["e_type"], "executable" if interpreter else "shared")
    machine = _MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
    return ElfInfo(
        path=path,
        machine=machine,
        bits=int(elf.elfclass),
        kind=kind,
        soname=soname,
        needed=tuple(needed),
        interpreter=interpreter,
        build_id=build_id,
        has_debug_info=debug,
        load_align=min(alignments, default=0),
        is_fixed=elf["e_type"] == "ET_EXEC",
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
