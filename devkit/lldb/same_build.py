"""Whether the phone runs the build whose symbols are here: before a session, with both build-ids."""

from __future__ import annotations

import posixpath
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DebugError, FileError
from devkit.symbols import read_elf

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.symbols import SymbolIndex

# Linkers put the notes right behind the headers: they lie in the first page, or near it.
_HEAD_BYTES = 16384
_PT_NOTE, _NT_GNU_BUILD_ID = 4, 3
_SHOWN = 8
# Folders of a phone that hold nothing of ours.
_SYSTEM = ("/system/", "/apex/", "/vendor/", "/product/", "/odm/", "/dev/", "[", "/memfd:")


def check_same_build(
    device: Device, local: Mapping[str, Path], app: str, index: Callable[[], SymbolIndex]
) -> None:
    """Compare files on the phone with those here. One round trip.

    Files that are not on the phone, may not be read there, or have no build-id, are passed over.

    Args:
        local: files of this machine by their absolute paths on the phone.
        app: for the hints.
        index: makes the index of all builds of this machine.

    Raises:
        DebugError: at least one is of another build.
    """
    _refuse_other_builds(remote_build_ids(device, list(local)), local, app, index)


def _refuse_other_builds(
    remote: Mapping[str, str | None],
    local: Mapping[str, Path],
    app: str,
    index: Callable[[], SymbolIndex],
) -> None:
    differing, elsewhere = [], []
    for name, file in local.items():
        found = remote.get(name)
        try:
            here = read_elf(file).build_id
        except FileError:
            continue
        if found is None or here is None or found == here:
            continue
        differing.append(f"{name}\n  on the phone {found}\n  here         {here}  {file}")
        known = index().find(found)
        if known is not None:
            elsewhere.append(known.path)
            differing[-1] += f"\n  the phone's build is here too: {known.path}"
    if differing:
        more = [f"and {len(differing) - _SHOWN} more"] if len(differing) > _SHOWN else []
        raise DebugError(
            "the phone has another build than the one here: breakpoints and values would be wrong",
            where=PHONE,
            evidence="\n".join([*differing[:_SHOWN], *more]),
            hints=[
                f"devkit deploy {app} brings this build there; then start the program again",
                *(
                    ["or debug the other one: give its program's path instead of the app"]
                    if elsewhere
                    else []
                ),
            ],
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


def check_same_process(
    device: Device, pid: int, local: Mapping[str, Path], app: str, index: Callable[[], SymbolIndex]
) -> tuple[Path, ...]:
    """As check_same_build, for a process: what it runs may be older than the files on the phone.

    It may also run a copy of a library from elsewhere, of which LLDB would take the symbols here without a
    word, as they have its name. Two round trips.

    Args:
        local: files of this machine by their absolute paths on the phone, the program first.
        index: makes the index of all builds of this machine.

    Returns:
        files of this machine, found by their build-ids, for libraries the app does not have.

    Raises:
        DebugError: at least one is of another build, or was replaced since the process started.
    """
    text = device.shell(["cat", f"/proc/{pid}/maps"]).text
    mapped = {fields[5] for line in text.splitlines() if len(fields := line.split(maxsplit=5)) == 6}
    program, *libraries = local
    by_name = {posixpath.basename(name): local[name] for name in libraries}
    strange = sorted(name for name in mapped - set(local) if _may_be_ours(name))
    # /proc/PID/exe is the very file that runs, also when another has taken its name.
    same = {f"/proc/{pid}/exe": local[program], **{name: local[name] for name in libraries if name in mapped}}
    same |= {name: by_name[base] for name in strange if (base := posixpath.basename(name)) in by_name}
    found = remote_build_ids(device, [*same, *(name for name in strange if name not in same)])
    _refuse_other_builds(found, same, app, index)
    others = [found[name] for name in strange if name not in same and found[name]]
    extra = [info.path for each in others if each and (info := index().find(each)) is not None]
    replaced = [name for name in libraries if f"{name} (deleted)" in mapped]
    if replaced:
        raise DebugError(
            f"process {pid} still runs an older build: these were deployed after its start",
            where=PHONE,
            evidence="\n".join(replaced),
            hints=["start the program again, then attach", f"devkit debug {app} starts it itself"],
        )
    return tuple(dict.fromkeys(extra))


def _may_be_ours(name: str) -> bool:
    """Whether a mapped file may be one that was built here: a library, and not the system's."""
    return ".so" in posixpath.basename(name) and not name.startswith(_SYSTEM) and "(deleted)" not in name
