"""devkit's own file of a profile: a ZIP of `profile.json` and the columns as little-endian numbers.

Anybody can look into it with unzip and a few lines of any language; 1,000,000 samples are about 10 MB.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from array import array
from dataclasses import asdict
from operator import lt
from pathlib import Path
from typing import Any

from devkit.errors import FileError
from devkit.paths import write_atomically
from devkit.profiling.model import (
    INDEX,
    NUMBER,
    REAL,
    Event,
    Frame,
    Meta,
    Module,
    Profile,
    Series,
    Span,
    Thread,
)

FORMAT = "devkit-profile"
VERSION = 1
ENDING = ".devkit-profile"

_HEAD = "profile.json"
# zlib's fastest: the higher levels take three times as long for a tenth less.
_LEVEL = 1
# A column of a hundred million samples: more than any recording, less than what stops a machine.
_MOST_BYTES = 800_000_000
_COLUMNS = {
    "stack_parent": INDEX, "stack_frame": INDEX, "sample_stack": INDEX, "sample_thread": INDEX,
    "sample_event": INDEX, "sample_weight": NUMBER, "sample_time_ns": NUMBER,
}  # fmt: skip


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile; the file appears whole or not at all.

    Raises:
        FileError: it cannot be written.
    """
    head = {
        "format": FORMAT,
        "version": VERSION,
        "meta": asdict(profile.meta),
        "modules": profile.modules,
        "frames": profile.frames,
        "threads": profile.threads,
        "events": profile.events,
        "series": [[s.kind, s.name, s.unit, len(s.times_ns)] for s in profile.series],
        "spans": profile.spans,
        "columns": {name: len(getattr(profile, name)) for name in _COLUMNS},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        # Names of files and functions need not be UTF-8: json writes what they hold as escapes.
        archive.writestr(_HEAD, json.dumps(head, separators=(",", ":")))
        for name in _COLUMNS:
            archive.writestr(name, _little_endian(getattr(profile, name)))
        for index, series in enumerate(profile.series):
            archive.writestr(f"series-{index}-times", _little_endian(series.times_ns))
            archive.writestr(f"series-{index}-values", _little_endian(series.values))
    try:
        write_atomically(path, buffer.getvalue())
    except OSError as error:
        raise FileError(f"the profile {path} cannot be written", evidence=error.strerror) from None


def is_profile(path: Path) -> bool:
    """Whether this is a file of `save_profile`, of any version."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _HEAD in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load_profile(path: Path) -> Profile:
    """Read what `save_profile` wrote.

    Raises:
        FileError: it cannot be read, is damaged, or is of a newer devkit.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(_read(archive, _HEAD, _MOST_BYTES))
            if head.get("format") != FORMAT:
                raise FileError(f"{path} is no profile of devkit")
            if head["version"] > VERSION:
                raise FileError(
                    f"{path} was written by a newer devkit",
                    evidence=f"format version {head['version']}; this devkit reads up to {VERSION}",
                    hints=["update devkit"],
                )
            profile = _parse(archive, head)
    except OSError as error:
        raise FileError(f"the profile {path} cannot be read", evidence=error.strerror or str(error)) from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FileError(f"{path} is no profile, or a damaged one", evidence=str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError) as error:
        raise FileError(f"the profile {path} is damaged", evidence=repr(error)) from None
    if fault := fault_of(profile):
        raise FileError(f"the profile {path} is damaged", evidence=fault)
    return profile


def fault_of(profile: Profile) -> str | None:
    """What is wrong with a profile whose columns do not fit together; None when all is well."""
    samples = {len(getattr(profile, name)) for name in _COLUMNS if name.startswith("sample")}
    if len(samples) != 1 or len(profile.stack_parent) != len(profile.stack_frame):
        return "columns of different lengths"
    stacks = len(profile.stack_parent)
    ranges = [
        ("stack_frame", 0, len(profile.frames)),
        ("stack_parent", -1, stacks),
        ("sample_stack", -1, stacks),
        ("sample_thread", 0, len(profile.threads)),
        ("sample_event", 0, len(profile.events)),
        ("sample_weight", 0, 1 << 63),
    ]
    for name, low, end in ranges:
        column = getattr(profile, name)
        if column and not (low <= min(column) and max(column) < end):
            return f"{name} points outside"
    if not all(map(lt, profile.stack_parent, range(stacks))):
        return "a stack comes before its parent"
    if any(not -1 <= frame.module < len(profile.modules) for frame in profile.frames):
        return "a frame points outside the modules"
    if any(len(s.times_ns) != len(s.values) for s in profile.series):
        return "a series has more times than values, or fewer"
    return None


def _parse(archive: zipfile.ZipFile, head: dict[str, Any]) -> Profile:
    meta = dict(head["meta"])
    meta["command"], meta["notes"] = tuple(meta["command"]), tuple(meta["notes"])
    columns = {name: _column(archive, name, kind, head["columns"][name]) for name, kind in _COLUMNS.items()}
    series = [
        Series(
            str(kind), str(name), str(unit),
            _column(archive, f"series-{index}-times", NUMBER, length),
            _column(archive, f"series-{index}-values", REAL, length),
        )
        for index, (kind, name, unit, length) in enumerate(head["series"])
    ]  # fmt: skip
    return Profile(
        meta=Meta(**meta),
        modules=[Module(str(path), str(build_id)) for path, build_id in head["modules"]],
        frames=[
            Frame(str(f), int(m), str(file), int(line), bool(inlined), int(address))
            for f, m, file, line, inlined, address in head["frames"]
        ],
        threads=[Thread(int(pid), int(tid), str(name)) for pid, tid, name in head["threads"]],
        events=[Event(str(name), str(unit), bool(off)) for name, unit, off in head["events"]],
        series=series,
        spans=[Span(str(t), str(n), int(start), int(end)) for t, n, start, end in head["spans"]],
        **columns,
    )


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A member's bytes. It may not be larger than `most`, whatever its header claims."""
    with archive.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{name} is larger than it can be")
    return data


def _column(archive: zipfile.ZipFile, name: str, kind: str, length: int) -> array[Any]:
    column: array[Any] = array(kind)
    expected = length * column.itemsize
    if not 0 <= expected <= _MOST_BYTES:
        raise ValueError(f"{name} cannot have {length} entries")
    data = _read(archive, name, expected)
    if len(data) != expected:
        raise ValueError(f"{name} has {len(data)} bytes, not {expected}")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _little_endian(column: array[Any]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()
