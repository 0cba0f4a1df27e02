"""The little that the phone's system image needs to know of ELF files: needs, search paths, build-id."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SALT = b"vphone"


@dataclass(frozen=True)
class ElfFacts:
    """What the loader reads of a file.

    Args:
        search_dirs: RUNPATH (or RPATH) with $ORIGIN filled in.
    """

    needed: tuple[str, ...]
    search_dirs: tuple[Path, ...]


def is_elf(path: Path) -> bool:
    """Whether a file starts like an ELF file; False when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def interpreter(path: Path) -> Path | None:
    """The dynamic loader a program asks for (PT_INTERP), None when it is static or no ELF file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    segment: Any
    try:
        with path.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_INTERP"):
                return Path(segment.get_interp_name())
    except (OSError, ELFError):
        pass
    return None


def read_facts(path: Path) -> ElfFacts:
    """Read a file's dynamic section. A static program needs nothing."""
    from elftools.elf.elffile import ELFFile

    needed: list[str] = []
    dirs: list[Path] = []
    segment: Any
    with path.open("rb") as file:
        for segment in ELFFile(file).iter_segments("PT_DYNAMIC"):
            for tag in segment.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(tag.needed)
                elif tag.entry.d_tag in ("DT_RUNPATH", "DT_RPATH"):
                    text = tag.runpath if tag.entry.d_tag == "DT_RUNPATH" else tag.rpath
                    for part in text.split(":"):
                        origin = str(path.resolve().parent)
                        dirs.append(Path(part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)))
    return ElfFacts(tuple(needed), tuple(dirs))


def with_own_build_id(data: bytes) -> bytes:
    """The same file under another, always the same, build-id.

    A debugger identifies a library by its build-id. If the phone's libc carried the one of this
    machine's, LLDB would take the local file for it and hide the mistakes that happen with a real phone.
    """
    found = _build_id_span(data)
    if found is None:
        return data
    start, length = found
    old = data[start : start + length]
    new = hashlib.sha1(old + _SALT).digest()
    while len(new) < length:
        new += hashlib.sha1(new).digest()
    return data[:start] + new[:length] + data[start + length :]


def _build_id_span(data: bytes) -> tuple[int, int] | None:
    from elftools.elf.elffile import ELFFile

    segment: Any
    for segment in ELFFile(io.BytesIO(data)).iter_segments("PT_NOTE"):
        for note in segment.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                # A note is three words, the padded name, then the description.
                name_size = (note["n_namesz"] + 3) & ~3
                return note["n_offset"] + 12 + name_size, note["n_descsz"]
    return None
