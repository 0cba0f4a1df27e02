"""All built-in parsers, and which of them reads a program's output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.results.custom import CustomParser
from devkit.results.parser import Parser
from devkit.results.parsers.llm_bench import LlmBench
from devkit.results.parsers.llm_demo import LlmDemo
from devkit.results.parsers.mnn import BenchmarkOut, V2Basic
from devkit.results.parsers.qnn import QnnNetRun, QnnProfileViewer
from devkit.results.parsers.qnn_tables import QnnTables

BUILT_IN: tuple[type[Parser], ...] = (
    LlmDemo,
    LlmBench,
    BenchmarkOut,
    V2Basic,
    QnnNetRun,
    QnnProfileViewer,
    QnnTables,
)


def parser_names() -> tuple[str, ...]:
    """The names of the built-in parsers, as `results:` of an app takes them."""
    return tuple(parser.name for parser in BUILT_IN)


def parser_for_program(program: str, custom: Sequence[CustomParser] = ()) -> str | None:
    """The parser that reads this program's output, by its file name; a user's own come first."""
    name = re.split(r"[/\\]", program)[-1]
    for described in custom:
        if any(re.fullmatch(pattern, name) for pattern in described.programs):
            return described.name
    for parser in BUILT_IN:
        if any(re.fullmatch(pattern, name) for pattern in parser.programs):
            return parser.name
    return None


def make_parser(name: str, custom: Sequence[CustomParser] = ()) -> Parser | None:
    """A parser by its name; None when there is none."""
    for described in custom:
        if described.name == name:
            return described.make()
    for parser in BUILT_IN:
        if parser.name == name:
            return parser()
    return None


def recognise(line: str) -> Parser | None:
    """The parser whose program prints such a line."""
    for parser in BUILT_IN:
        if parser.signature is not None and parser.signature.search(line):
            return parser()
    return None
