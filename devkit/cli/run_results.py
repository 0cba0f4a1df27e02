"""What `devkit run` and `devkit results` say about a program's output, and the exit code they end with."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.cli.results_table import summary_table
from devkit.errors import (
    EXIT_CHECK_FAILED,
    EXIT_INTERRUPTED,
    PHONE,
    CheckFailed,
    DevkitError,
)
from devkit.results import FAILED, NO_PARSER, NOTE, Finding, OutputReader, Report

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.runtime import PreparedApp
    from devkit.runtime.pulls import PullResult

_HELP = {"-h", "--help"}


@contextlib.contextmanager
def reading(config: Config, app: AppConfig, program: str, args: Sequence[str]) -> Iterator[OutputReader]:
    """A reader for the app's output. What it read before a timeout, Ctrl-C or a broken link is shown, too.

    Args:
        args: the program's; a usage text that was asked for is no failure.
    """
    parser = NO_PARSER if _HELP.intersection(args) else app.results
    reader = OutputReader(
        parser, program=program, app=app.name, custom=config.parsers, findings=config.findings
    )
    try:
        yield reader
    except (DevkitError, KeyboardInterrupt) as error:
        report = reader.finish()
        report = replace(report, findings=tuple(f for f in report.findings if f.kind != "no-results"))
        if not output.current().json_mode:
            note_results(report)
            warn_of(report.findings)
            raise
        told = error
        if not isinstance(told, DevkitError):
            told = DevkitError("interrupted", exit_code=EXIT_INTERRUPTED)
        # How it ended is the error's to say.
        told.details = {key: value for key, value in report.as_dict().items() if key != "status"}
        raise told from None


def show(
    report: Report,
    prepared: PreparedApp,
    code: int,
    pulled: PullResult | None = None,
    crashes: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Print the results of a run.

    Args:
        pulled: the outputs that came back, for scripts.
        crashes: those that were seen, for scripts; people have seen them.

    Returns:
        devkit's exit code: the program's own, or 1 where its output contradicts an exit with 0.

    Raises:
        CheckFailed: that, where people read it and not a script.
    """
    from devkit.runtime import signal_name

    sink = output.current()
    if sink.json_mode:
        sink.data(as_data(report, prepared, code, pulled, crashes))
        return judged(report, code)
    signal = signal_name(code)
    told = {"sanitizer"} if any(crash["kind"] == "sanitizer" for crash in crashes) else set()
    explain(report, prepared.plan.program, code, told)
    if signal:
        sink.note(f"{prepared.plan.program} ended with exit code {code}: {signal}")
    return code


def as_data(
    report: Report,
    prepared: PreparedApp,
    code: int,
    pulled: PullResult | None,
    crashes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A run as `--json` prints it."""
    from devkit.runtime import signal_name

    head = {"program_exit": code, "signal": signal_name(code), "pushed_bytes": prepared.plan.push_bytes}
    outputs = {"outputs": pulled.as_dict()} if pulled else {}
    return {**head, **report.as_dict(), "crashes": list(crashes), **outputs}


def judged(report: Report, code: int) -> int:
    """devkit's exit code: the program's own, or 1 where its output contradicts an exit with 0."""
    return EXIT_CHECK_FAILED if code == 0 and report.status == FAILED else code


def explain(report: Report, program: str, code: int, told: Collection[str] = ()) -> None:
    """Numbers and findings for people.

    Args:
        told: kinds of findings that were shown already.

    Raises:
        CheckFailed: the output contradicts an exit with 0.
    """
    note_results(report)
    if judged(report, code) != code:
        cause = report.first_cause
        assert cause is not None  # only a finding can contradict
        warn_of(f for f in report.findings if f is not cause and not f.consequence)
        raise failure(f"{program} exited with 0, but it failed", cause)
    explained = any(not f.consequence and f.severity != NOTE for f in report.findings)
    warn_of(f for f in report.findings if not (f.consequence and explained) and f.kind not in told)


def failure(what: str, cause: Finding) -> CheckFailed:
    """The error that names the first cause."""
    because = f" ({cause.cause})" if cause.cause else ""
    return CheckFailed(
        f"{what}: {cause.meaning}{because}", where=PHONE, evidence=cause.line, hints=cause.next
    )


def warn_of(findings: Iterable[Finding]) -> None:
    """Say what was found, each with the line that shows it; mere notes only with -v."""
    sink = output.current()
    for finding in findings:
        lines = [_sentence(finding)]
        lines += [f"  | {finding.line}"] if finding.line else []
        lines += [f"  try: {step}" for step in finding.next]
        (sink.detail if finding.severity == NOTE else sink.warn)("\n".join(lines))


def _sentence(finding: Finding) -> str:
    return finding.meaning + (f"; {finding.cause}" if finding.cause else "")


def note_results(report: Report) -> None:
    """The short table below a program's own output."""
    rows = summary_table(report)
    if rows:
        output.current().note(rows.rstrip("\n"))
