"""Whether the phone runs the build whose symbols are here: before a session, with both build-ids."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DebugError, FileError
from devkit.symbols import read_elf

if TYPE_CHECKING:
    from devkit.device import Device

# Linkers put the notes right behind the headers: they lie in the first page, or near it.
_HEAD_BYTES = 16384
_PT_NOTE, _NT_GNU_BUILD_ID = 4, 3
_SHOWN = 8


def check_same_build(device: Device, local: Mapping[str, Path], app: str) -> None:
    """Compare files on the phone with those here. One round trip.

    Files that are not on the phone, may not be read there, or have no build-id, are passed over.

    Args:
        local: files of this machine by their absolute paths on the phone.
        app: for the hints.

    Raises:
        DebugError: at least one is of another build.
    """
    differing = []
    for remote, found in remote_build_ids(device, list(local)).items():
        try:
            here = read_elf(local[remote]).build_id
        except FileError:
            continue
        if found is not None and here is not None and found != here:
            differing.append(f"{remote}\n  on the phone {found}\n  here         {here}  {local[remote]}")
    if differing:
        more = [f"and {len(differing) - _SHOWN} more"] if len(differing) > _SHOWN else []
        raise DebugError(
            "the phone has another build than the one here: breakpoints and values would be wrong",
            where=PHONE,
            evidence="\n".join([*differing[:_SHOWN], *more]),
            hints=[f"devkit deploy {app} brings this build there; then start the program again"],
        )


def remote_build_ids(device: Device, files: Sequence[str]) -> dict[str, str | None]:
    """The build-ids of files on the phone; None for one without, or that cannot be read."""
    from devkit.device import quote

    mark = secrets.token_hex(8)
    script = (
        f'for f in {quote(list(files))}; do echo; echo {mark}; head -c {_HEAD_BYTES} "$f" 2>/dev/null; done'
    )
    pieces = device.shell(script).stdout.split(f"\n{mark}\n".encode())[1:]
    return {file: build_id_of_head(piece) for file, piece in zip(files, pieces, strict=False)}


def build_id_of_head(data: bytes) -> str | None:
    """The build-id in the beginning of an ELF file (64-bit, little-endian), as lower-case hex."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return None
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for index in range(count):
        start = offset + index * size
        if start + 56 > len(data):
            return None
        kind, _flags, place, _vaddr, _paddr, length = struct.unpack_from("<IIQQQQ", data, start)
        found = _note(data[place : place + length]) if kind == _PT_NOTE else None
        if found:
            return found
    return None


def _note(notes: bytes) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        start = at + 12 + (name_size + 3) // 4 * 4
        if kind == _NT_GNU_BUILD_ID and name == b"GNU\0" and start + size <= len(notes):
            return notes[start : start + size].hex()
        at = start + (size + 3) // 4 * 4
    return None


def check_same_process(device: Device, pid: int, local: Mapping[str, Path], app: str) -> None:
    """As check_same_build, for a process: what it runs may be older than the files on the phone.

    Args:
        local: files of this machine by their absolute paths on the phone, the program first.

    Raises:
        DebugError: at least one is of another build, or was replaced since the process started.
    """
    text = device.shell(["cat", f"/proc/{pid}/maps"]).text
    mapped = {fields[5] for line in text.splitlines() if len(fields := line.split(maxsplit=5)) == 6}
    program, *libraries = local
    # /proc/PID/exe is the very file that runs, also when another has taken its name.
    check_same_build(
        device,
        {f"/proc/{pid}/exe": local[program], **{name: local[name] for name in libraries if name in mapped}},
        app,
    )
    replaced = [name for name in libraries if f"{name} (deleted)" in mapped]
    if replaced:
        raise DebugError(
            f"process {pid} still runs an older build: these were deployed after its start",
            where=PHONE,
            evidence="\n".join(replaced),
            hints=["start the program again, then attach", f"devkit debug {app} starts it itself"],
        )
