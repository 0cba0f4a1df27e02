"""One program's output, read as it comes: parser and findings together, and the judgement at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from devkit.results.custom import CustomParser
from devkit.results.findings import Finder, KnownFinding, of_exit_code, with_app
from devkit.results.lines import LineFeeder
from devkit.results.model import FAILED, OK, WARNING, Finding, Measurement, Report
from devkit.results.parser import Parser
from devkit.results.registry import make_parser, parser_for_program, parser_names, recognise

# As `results:` of an app: nothing is read into its output, the exit code alone counts.
NO_PARSER = "none"
_LINE_CHARS = 4096


class OutputReader:
    """Takes the bytes of a program's output as they come and judges them at the end.

    Args:
        parser: the parser that reads it, or NO_PARSER; None: by the program's name, else by its lines.
        program: the program's name or path.
        app: its name in devkit.yaml, for the commands that a finding proposes.
        custom: the user's own parsers.
        findings: the user's own known findings.

    Raises:
        ValueError: there is no parser of this name.
    """

    def __init__(
        self,
        parser: str | None = None,
        *,
        program: str | None = None,
        app: str | None = None,
        custom: Sequence[CustomParser] = (),
        findings: Sequence[KnownFinding] = (),
    ) -> None:
        self._app = app or (program or "").rsplit("/", 1)[-1] or "APP"
        self._silent = parser == NO_PARSER
        self._wanted = parser is not None
        self._parser: Parser | None = None
        name = parser if parser is not None else parser_for_program(program or "", custom)
        if name is not None and not self._silent:
            self._parser = make_parser(name, custom)
            if self._parser is None:
                known = [described.name for described in custom] + [*parser_names()]
                raise ValueError(f"there is no parser named {name}; known: {', '.join(known)}, {NO_PARSER}")
        self._by_lines = self._parser is None
        self._seen: dict[str, Parser] = {self._parser.name: self._parser} if self._parser else {}
        self._finder = Finder(findings)
        self._streams = {False: LineFeeder(), True: LineFeeder()}
        self._number = 0
        self._before = ""

    def feed(self, data: bytes, stderr: bool = False) -> None:
        """Take the next bytes of stdout or stderr."""
        if not self._silent:
            for line in self._streams[stderr].feed(data):
                self._line(line)

    def finish(self, exit_code: int | None = None) -> Report:
        """The judgement.

        Args:
            exit_code: the program's own; None when nobody knows it (a saved log).
        """
        if not self._silent:
            for stream in self._streams.values():
                for line in stream.finish():
                    self._line(line)
        parsers = list(self._seen.values())
        measured: list[Measurement] = []
        found = self._finder.found()
        for parser in parsers:
            parser.finish()
            measured += parser.measured
            kinds = {finding.kind for finding in found}
            found += [f for f in parser.findings() if f.kind != "backend-fell-back" or f.kind not in kinds]
        failed = exit_code not in (0, None) or any(f.severity == FAILED for f in found)
        if self._parser is not None and not measured and not failed and not self._parser.may_have_none:
            found.append(self._no_results(self._parser))
        code_finding = of_exit_code(exit_code) if exit_code else None
        if code_finding is not None:
            found.append(code_finding)
        found = [with_app(finding, self._app) for finding in _causes_first(found)]
        return Report(
            parser=self._parser.name if self._parser else None,
            status=_status(exit_code, found),
            measurements=tuple(measured),
            findings=tuple(found),
            dropped=sum(parser.dropped for parser in parsers),
            headline=self._parser.headline if len(parsers) == 1 and self._parser else (),
        )

    def _line(self, line: str) -> None:
        self._number += 1
        short = line[:_LINE_CHARS]
        if self._by_lines and (self._parser is None or not self._parser.free_text):
            self._look_for_parser(line if len(line) < 10 * _LINE_CHARS else short)
            self._before = short
        if self._parser is not None:
            self._parser.line(line if self._parser.long_lines else short)
        free_text = self._parser is not None and self._parser.in_free_text
        self._finder.line(short, self._number, free_text=free_text)

    def _look_for_parser(self, line: str) -> None:
        """A log may hold several programs' outputs, one behind the other."""
        found = recognise(line)
        if found is not None and (self._parser is None or found.name != self._parser.name):
            self._parser = self._seen.setdefault(found.name, found)
            # The signature may be the second line of a block.
            self._parser.line(self._before)

    def _no_results(self, parser: Parser) -> Finding:
        cause = "the program did not get that far"
        steps = ["`results: none` of the app in devkit.yaml turns this off"]
        if parser.logcat_tag:
            cause += ", or its numbers are in logcat (MNN_USE_LOGCAT=ON)"
            steps.insert(0, f"devkit device shell -- logcat -d -s {parser.logcat_tag} | devkit results -")
        return Finding(
            "no-results",
            FAILED if self._wanted else WARNING,
            f"the output holds no results of {parser.name}",
            cause,
            tuple(steps),
            consequence=True,
        )


def parse(
    output: str | bytes | Iterable[str],
    parser: str | None = None,
    *,
    program: str | None = None,
    exit_code: int | None = None,
    custom: Sequence[CustomParser] = (),
    findings: Sequence[KnownFinding] = (),
) -> Report:
    """Read a whole output: text, bytes, or lines. For the arguments see `OutputReader`."""
    reader = OutputReader(parser, program=program, custom=custom, findings=findings)
    if isinstance(output, bytes):
        reader.feed(output)
    elif isinstance(output, str):
        reader.feed(output.encode("utf-8", "replace"))
    else:
        for line in output:
            reader.feed(line.rstrip("\r\n").encode("utf-8", "replace") + b"\n")
    return reader.finish(exit_code)


def _causes_first(found: list[Finding]) -> list[Finding]:
    """By their lines; what only reports an earlier failure comes last."""
    if not any(f.severity == FAILED and not f.consequence for f in found):
        # Without a cause the first consequence is the best there is; what warned may have led to it.
        return sorted(found, key=lambda f: (f.line_number == 0, f.line_number))
    return sorted(found, key=lambda f: (f.consequence, f.line_number == 0, f.line_number))


def _status(exit_code: int | None, found: Sequence[Finding]) -> str:
    severities = {finding.severity for finding in found}
    if exit_code not in (0, None) or FAILED in severities:
        return FAILED
    return WARNING if WARNING in severities else OK
