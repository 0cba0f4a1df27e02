"""Which QNN made a file: the version that Qualcomm's build leaves inside libraries and context binaries."""

from __future__ import annotations

import contextlib
import json
import mmap
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from devkit import paths
from devkit.errors import FileError

# v2.42.0.251225120000_100001: version, date and time, build.
_BUILD_ID = re.compile(rb"v\d{1,2}\.\d{1,3}\.\d{1,3}\.\d{6,14}(?:_\d+)*")
_PART_OF_A_WORD = re.compile(rb"[0-9A-Za-z.]")
_SOC = re.compile(rb"soc_type=(\w+);arch=(\d+);")
_VTCM = re.compile(rb"[;\x00]vtcm_size=(\d+);")
_HEAD_BYTES = 64 * 1024
# The options of the preparation follow the graph's description, before its data.
_OPTIONS_BYTES = 64 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_OVERLAP_BYTES = 512  # an option may lie across two blocks
_NAMES = re.compile(r"lib(Qnn\w+|\w*HtpPrepare|Genie)\.so")
_MAX_ENTRIES = 500


@dataclass(frozen=True)
class ContextFacts:
    """What a context binary says of itself.

    Attributes:
        build_id: the QNN that wrote it: v2.51.0.260929181845.
        soc: the chip it was prepared for, SM8750; None for another backend than HTP.
        arch: its Hexagon architecture, "v79", or None.
        vtcm_mb: megabytes of VTCM it counts on, or None.
    """

    build_id: str
    soc: str | None = None
    arch: str | None = None
    vtcm_mb: int | None = None


def is_qnn_name(name: str) -> bool:
    """Whether a file's name is that of a library of the QNN SDK."""
    return _NAMES.fullmatch(name) is not None


def short_version(build_id: str) -> str:
    """2.51.0 of v2.51.0.260929181845."""
    return ".".join(build_id.lstrip("v").split(".")[:3])


def read_build_id(library: Path) -> str | None:
    """The build id inside a library; None where there is none (libQnnSystem.so, the NetRun extensions).

    Answers are remembered by path, size and times: libQnnHtpPrepare.so alone is 90 MB.

    Raises:
        FileError: it cannot be read.
    """
    try:
        status = library.stat()
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        known = _remembered()
        entry = known.get(str(library.absolute()))
        if isinstance(entry, list) and entry[:-1] == stamp:
            return entry[-1] if isinstance(entry[-1], str) else None
        found = _scan(library) if status.st_size else None
    except OSError as error:
        raise FileError(f"{library} cannot be read", evidence=str(error)) from None
    _remember({**known, str(library.absolute()): [*stamp, found]})
    return found


def read_context(file: Path) -> ContextFacts | None:
    """What a context binary says of itself; None when the file is none.

    Raises:
        FileError: it cannot be read.
    """
    try:
        status = file.stat()
        return _read_context(file, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=str(error)) from None


@lru_cache(maxsize=1024)
def _read_context(file: Path, _size: int, _mtime_ns: int, _ctime_ns: int) -> ContextFacts | None:
    with file.open("rb") as stream:
        part = stream.read(_HEAD_BYTES)
        build_id = _BUILD_ID.search(part)
        if build_id is None or part.startswith(b"\x7fELF"):
            return None
        # A model has dozens of these files, with up to gigabytes: nothing is read beyond what is sought.
        soc, vtcm = _SOC.search(part), _VTCM.search(part)
        for _ in range(_OPTIONS_BYTES // _BLOCK_BYTES):
            if (soc and vtcm) or not (block := stream.read(_BLOCK_BYTES)):
                break
            part = part[-_OVERLAP_BYTES:] + block
            soc, vtcm = soc or _SOC.search(part), vtcm or _VTCM.search(part)
    return ContextFacts(
        build_id.group().decode(),
        soc.group(1).decode() if soc else None,
        f"v{soc.group(2).decode()}" if soc else None,
        int(vtcm.group(1)) >> 20 if vtcm else None,
    )


def _scan(library: Path) -> str | None:
    with (
        library.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        # A look-behind in the expression would cost it its fast search: 2 s for 90 MB.
        for found in _BUILD_ID.finditer(content):
            if not _PART_OF_A_WORD.match(content[found.start() - 1 : found.start()]):
                return found.group().decode()
    return None


def _cache_file() -> Path:
    return paths.cache_dir() / "qnn-build-ids.json"


def _remembered() -> dict[str, object]:
    try:
        loaded = json.loads(_cache_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _remember(known: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # only speed is lost
        paths.write_atomically(_cache_file(), json.dumps(dict(list(known.items())[-_MAX_ENTRIES:])))
