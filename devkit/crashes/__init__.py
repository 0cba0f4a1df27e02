"""Crash texts: dumps, sanitizer reports, kills and stacks, read from any log and put into source lines.

Reading is pure: text in, data out. Only `symbolize` looks at files, and runs one program.
"""

from devkit.crashes.causes import Cause, cause_of
from devkit.crashes.findings import KnownErrors
from devkit.crashes.headers import Record, read_records
from devkit.crashes.model import Crash, Frame, Reading, Stack
from devkit.crashes.own import own_frame
from devkit.crashes.reader import read_crashes
from devkit.crashes.report import as_dict, as_text
from devkit.crashes.summary import headline
from devkit.crashes.symbolizing import SymbolFolders, symbolize

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
