"""What a program's output says: its numbers with units, and whether it did what its exit code claims.

Parsers and known findings only read text; nothing here runs a program, and nothing prints.
"""

from devkit.results.custom import CustomParser, LinePattern
from devkit.results.findings import KnownFinding, own_finding
from devkit.results.model import (
    FAILED,
    NOTE,
    OK,
    WARNING,
    Finding,
    Measurement,
    Report,
)
from devkit.results.reader import NO_PARSER, OutputReader, parse
from devkit.results.registry import parser_for_program, parser_names

__all__ = [
    "FAILED",
    "NOTE",
    "NO_PARSER",
    "OK",
    "WARNING",
    "CustomParser",
    "Finding",
    "KnownFinding",
    "LinePattern",
    "Measurement",
    "OutputReader",
    "Report",
    "own_finding",
    "parse",
    "parser_for_program",
    "parser_names",
]
