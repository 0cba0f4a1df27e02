"""Recordings that come from elsewhere: devkit's own files, perf.data, texts of simpleperf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from devkit.errors import FileError
from devkit.profiling import perf_file
from devkit.profiling.model import Profile
from devkit.profiling.perf_data import Locate, read_perf_data
from devkit.profiling.report_text import is_report, read_report
from devkit.profiling.store import is_profile, load_profile

_HEAD_BYTES = 65536


def is_ours(path: Path) -> bool:
    """Whether a file is one of devkit's own, whose frames have been looked up."""
    return is_profile(path)


def read_any(
    path: Path, *, locate: Locate | None = None, on_bytes: Callable[[int], None] | None = None
) -> Profile:
    """Read a recording, by what it begins with.

    Args:
        locate, on_bytes: as `read_perf_data`.

    Raises:
        FileError: it is none of these, damaged, or empty.
    """
    if is_profile(path):
        return load_profile(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=error.strerror) from None
    if head[:8] in (perf_file.MAGIC, perf_file.MAGIC[::-1]):
        return read_perf_data(path, locate=locate, on_bytes=on_bytes)
    if is_report(head.decode("utf-8", "replace")):
        return read_report(path)
    raise FileError(
        f"{path} is no recording that devkit knows",
        evidence=f"it begins with {head[:16]!r}",
        hints=[
            "a recording of devkit profile, a perf.data, or the text of simpleperf report or report-sample"
        ],
    )
