"""`devkit qnn explain`: a log of QNN, or one of its error codes, explained. No phone is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths
from devkit.cli import common
from devkit.cli.results import chunks
from devkit.errors import EXIT_CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from devkit.device.soc import Chip, SocFacts
    from devkit.qnn.checks import Check
    from devkit.qnn.explain import LogExplanation
    from devkit.qnn.knowledge import Cause, Code

EXAMPLE = (
    "Example: devkit qnn explain 14001; devkit qnn explain run.log --files pushed/ --soc SM8650; "
    "devkit device shell -- logcat -d | devkit qnn explain -"
)


def explain(
    what: Annotated[
        str,
        typer.Argument(metavar="LOGFILE|CODE|-", help="A saved log, a code (1008, 0x80000406), - for stdin."),
    ],
    files: Annotated[
        Path | None,
        typer.Option("--files", metavar="DIR", help="The files that ran: devkit then checks them itself."),
    ] = None,
    soc: Annotated[
        str | None, typer.Option(metavar="CHIP", help="The phone's chip (SM8650), for these checks.")
    ] = None,
    phone: Annotated[
        str | None,
        typer.Option("--phone", metavar="APP|DIR", help="Check on the phone, in this app's folder there."),
    ] = None,
    serial: common.Serial = None,
) -> None:
    """Explain a log of QNN, or of MNN's generate_llm_qnn.py, or one error code; no phone is needed.

    The first cause comes first, then what may be behind it in order. Exit code 1 when the log shows a
    failure. A file that is named like a code: ./1008
    """
    from devkit.qnn.explain import explain_log
    from devkit.qnn.inventory import take_inventory
    from devkit.qnn.knowledge import is_code, look_up

    if is_code(what):
        if files is not None or soc is not None or phone is not None:
            raise UsageError("--files, --phone and --soc belong to a log, not to a code")
        code = look_up(what)
        if code.name is None:
            code = _by_headers(code)
        output.current().data(code.as_dict(), _code_text(code))
        return
    chips, facts = known_chip(soc)
    if phone is not None:
        if files is not None or soc is not None:
            raise UsageError("--phone looks at the phone's own files and chip: leave out --files and --soc")
        found = _on_phone(what, phone, serial, chips)
        output.current().data(found.as_dict(), _text(found, looked=True))
        if found.status == "failed":
            raise typer.Exit(EXIT_CHECK_FAILED)
        return
    inventory = take_inventory(paths.expand_user(files)) if files is not None else None
    found = explain_log(chunks(what), inventory=inventory, soc=facts, chips=chips)
    output.current().data(found.as_dict(), _text(found, looked=inventory is not None))
    if found.status == "failed":
        raise typer.Exit(EXIT_CHECK_FAILED)


def _on_phone(log: str, place: str, serial: str | None, chips: dict[str, Chip]) -> LogExplanation:
    """Explain a log with what lies on the phone now."""
    import posixpath
    from dataclasses import replace

    from devkit.device.soc import soc_of
    from devkit.qnn.dsp_program import ask_dsp
    from devkit.qnn.explain import explain_log
    from devkit.qnn.phone_look import look_at_phone

    config = common.load_config(serial=serial)
    device = common.pick_device(config, serial)
    folder = place
    if not place.startswith("/"):
        folder = posixpath.join(device.writable_dir(config.device.dir), place)
    app = config.apps.get(place)
    found = look_at_phone(device, folder)
    if found.has_rpc:
        with output.current().progress("asking the phone's DSP", None):
            found = replace(found, answer=ask_dsp(config, device, folder))
    return explain_log(
        chunks(log),
        soc=soc_of(device, config),
        chips=chips,
        phone=found,
        abi=device.abi,
        env=app.env if app else None,
    )


def known_chip(name: str | None) -> tuple[dict[str, Chip], SocFacts | None]:
    """The table of chips, and the facts of the one that --soc names.

    Raises:
        UsageError: the table does not have it.
    """
    from devkit.device.soc import decide, load_chips
    from devkit.errors import ConfigError

    chips = load_chips(common.load_config().socs)
    if name is None:
        return chips, None
    try:
        facts = decide({}, chips, told=name)
    except ConfigError as error:
        raise UsageError(f"--soc {name}: devkit does not know this chip", hints=error.hints) from None
    for warning in facts.warnings:
        output.current().warn(warning)
    return chips, facts


def check_lines(checks: tuple[Check, ...] | list[Check]) -> list[str]:
    """Checks for people, one line each and what mends it."""
    lines = []
    for check in checks:
        lines.append(f"{check.state:<8} {check.name}: {check.text}")
        if check.hint and check.state != "ok":
            lines.append(f"         try: {check.hint}")
    return lines


def _by_headers(code: Code) -> Code:
    """A code that devkit's table lacks, with the name that the SDK's headers have for it."""
    from dataclasses import replace

    from devkit.errors import FileError, ToolMissing
    from devkit.ndk.qnn_sdk import qnn_sdk_for
    from devkit.qnn.headers import names_of_error

    try:
        sdk = qnn_sdk_for(common.load_config())
        names = names_of_error(sdk, code.number)
    except (ToolMissing, FileError):
        return code
    text = f"devkit knows no more; named in the headers of QNN SDK {sdk.version}"
    return replace(code, name=" or ".join(names), text=text) if names else code


def _text(found: LogExplanation, *, looked: bool) -> str:
    from devkit.qnn.explain import sentence

    if found.first is None:
        lines = ["nothing in this log is a known error of QNN"]
    else:
        finding = found.first.finding
        place = f" (line {finding.line_number})" if finding.line_number else ""
        title = "first cause" if finding.severity == "failed" else "no failure, but"
        lines = [f"{title}{place}: {sentence(finding)}"]
        lines += [f"  | {finding.line}"] if finding.line else []
        if not found.first.causes and finding.cause:
            lines.append(f"  {finding.cause}")
        lines += _causes(found.first.causes)
        if not found.first.causes:
            lines += [f"  try: {step}" for step in finding.next]
    if found.checks:
        lines += ["", "checked by devkit:", *(f"  {line}" for line in check_lines(found.checks))]
    elif found.first is not None and not looked and any(cause.checks for cause in found.first.causes):
        lines += [
            "",
            "--phone APP, or --files DIR (what was pushed) with --soc CHIP, lets devkit check these itself",
        ]
    if found.others:
        lines += ["", "also:"]
        for other in found.others:
            lines.append(f"  line {other.finding.line_number}: {other.finding.meaning}")
    if found.consequences:
        lines += ["", "only follows from it:"]
        lines += [f"  line {finding.line_number}: {finding.meaning}" for finding in found.consequences]
    return "\n".join(lines)


def _causes(causes: tuple[Cause, ...]) -> list[str]:
    lines = []
    for number, cause in enumerate(causes, 1):
        lines.append(f"  {number}. {cause.text}")
        lines += [f"     try: {step}" for step in cause.next]
    return lines


def _code_text(code: Code) -> str:
    lines = [f"{code.shown}: {code.name or 'no name known'}", f"  {code.text}"]
    lines.append(f"  of: {code.component} ({code.header})")
    if code.causes:
        lines += ["usual causes, the most likely first:", *_causes(code.causes)]
    return "\n".join(lines)
