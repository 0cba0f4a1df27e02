"""The phone's log: read without loss, also across broken links; parsed, filtered, shown, saved.

The public face is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.logcat.binary import BinaryParser
    from devkit.logcat.filters import Filters
    from devkit.logcat.follow import Follower
    from devkit.logcat.layouts import TextParser
    from devkit.logcat.record import Marker, Record, Stray
    from devkit.logcat.save import Writer

_HOME = {
    "BinaryParser": "binary",
    "Filters": "filters",
    "Follower": "follow",
    "Marker": "record",
    "Record": "record",
    "Stray": "record",
    "TextParser": "layouts",
    "Writer": "save",
}

__all__ = ["BinaryParser", "Filters", "Follower", "Marker", "Record", "Stray", "TextParser", "Writer"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
