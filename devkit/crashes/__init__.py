"""Crash texts: dumps, sanitizer reports, kills and stacks, read from any log and put into source lines.

Reading is pure: text in, data out. Only `symbolize` looks at files, and runs one program. The public face is
loaded on first use: who watches a log for crashes mostly meets none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.crashes.causes import Cause, cause_of
    from devkit.crashes.findings import KnownErrors
    from devkit.crashes.headers import Record, read_records
    from devkit.crashes.model import Crash, Frame, Reading, Stack
    from devkit.crashes.own import own_frame
    from devkit.crashes.reader import read_crashes
    from devkit.crashes.report import as_dict, as_text
    from devkit.crashes.summary import headline
    from devkit.crashes.symbolizing import SymbolFolders, symbolize

_HOME = {
    "Cause": "causes",
    "cause_of": "causes",
    "KnownErrors": "findings",
    "Record": "headers",
    "read_records": "headers",
    "Crash": "model",
    "Frame": "model",
    "Reading": "model",
    "Stack": "model",
    "own_frame": "own",
    "read_crashes": "reader",
    "as_dict": "report",
    "as_text": "report",
    "headline": "summary",
    "SymbolFolders": "symbolizing",
    "symbolize": "symbolizing",
}

__all__ = [
    "Cause",
    "Crash",
    "Frame",
    "KnownErrors",
    "Reading",
    "Record",
    "Stack",
    "SymbolFolders",
    "as_dict",
    "as_text",
    "cause_of",
    "headline",
    "own_frame",
    "read_crashes",
    "read_records",
    "symbolize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
