"""A log explained: the first cause, what may be behind it in order, and what devkit checked by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from devkit.ndk.qnn_version import short_version
from devkit.qnn.checks import BROKEN, PHONE_ABI, WARNING, Check, Surroundings, check_chip, run_checks
from devkit.qnn.export_log import ExportLog
from devkit.qnn.knowledge import Cause, causes_of, known_kinds
from devkit.qnn.model_graphs import find_graphs
from devkit.qnn.phone_look import PhoneFiles, check_phone
from devkit.results import FAILED, NOTE, OK, Finding, OutputReader, Report
from devkit.results.lines import LineFeeder

if TYPE_CHECKING:
    from devkit.device.soc import Chip, SocFacts
    from devkit.qnn.inventory import Inventory

_SKEL = re.compile(r"libQnnHtpV(\d+)Skel\.so")
_BACKEND_VERSION = re.compile(r"Backend build version: (v\d[\d._]+)")
_LIBRARY_PATH = re.compile(r"\b(?P<name>[AC]DSP_LIBRARY_PATH|DSP_LIBRARY_PATH)=(?P<value>['\"]?[^\s'\"]+)")
# Findings of other programs that say why QNN was not used; everything else is not QNN's.
_ALSO = frozenset({"backend-fell-back", "missing-file", "missing-library", "not-linked", "namespace"})


@dataclass(frozen=True)
class Explained:
    """A finding with what may be behind it."""

    finding: Finding
    causes: tuple[Cause, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**self.finding.as_dict(), "causes": [cause.as_dict() for cause in self.causes]}


@dataclass(frozen=True)
class LogExplanation:
    """What a log says.

    Attributes:
        status: "failed", "warning" or "ok".
        first: the first cause; None when the log shows no failure and nothing to warn of.
        others: more causes and warnings, in the order of the log.
        consequences: what only follows.
        checks: what devkit looked at by itself, in the order of the first cause's causes.
        wanted_arch: the Hexagon architecture whose Skel the log asks for.
        export: whether it is a log of MNN's export script.
    """

    status: str
    first: Explained | None
    others: tuple[Explained, ...] = ()
    consequences: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    wanted_arch: str | None = None
    export: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "export_log": self.export,
            "first_cause": self.first.as_dict() if self.first else None,
            "others": [other.as_dict() for other in self.others],
            "consequences": [finding.as_dict() for finding in self.consequences],
            "wanted_arch": self.wanted_arch,
            "checks": [check.as_dict() for check in self.checks],
        }


def explain_log(
    data: Iterable[bytes],
    *,
    inventory: Inventory | None = None,
    soc: SocFacts | None = None,
    chips: dict[str, Chip] | None = None,
    phone: PhoneFiles | None = None,
    abi: str = PHONE_ABI,
    env: Mapping[str, str] | None = None,
) -> LogExplanation:
    """Read a log of a run or of MNN's export script.

    Args:
        data: the log in pieces of any size.
        inventory: the files that ran; lets devkit run the checks that the causes name.
        soc: the phone's chip.
        chips: the table that soc_id and dsp_arch of an export are held against.
        phone: what lies on the phone; its inventory is that of the app's folder.
        abi: of the phone's programs.
        env: variables that the app was started with.
    """
    inventory = phone.inventory if phone is not None else inventory
    reader, feeder, scan, export = OutputReader(), LineFeeder(), _Scan(), ExportLog()
    number = 0

    def take(lines: Iterable[str]) -> None:
        nonlocal number
        for line in lines:
            number += 1
            scan.line(line, number)
            export.line(line, number)

    for piece in data:
        reader.feed(piece)
        take(feeder.feed(piece))
    take(feeder.finish())
    report = reader.finish()
    found = _first_decides([*_merged(report, export), *_wrong_chip(export, chips or {})])
    wanted = scan.arch
    causes = [finding for finding in found if not finding.consequence and finding.severity != NOTE]
    failed = [finding for finding in causes if finding.severity == FAILED]
    consequences = [f for f in found if f.consequence]
    first = next(iter(failed or causes or [f for f in consequences if f.severity == FAILED]), None)
    explained = Explained(first, causes_of(first.kind, first.values)) if first else None
    against = Surroundings(
        soc, wanted, (first.values.get("expected") if first else None) or scan.version, abi
    )
    checks = check_chip(against, files=inventory is not None)
    checks += _checked(explained, inventory, against) if inventory is not None else []
    checks += check_phone(phone, against) if phone is not None else []
    for name, value in (env or {}).items():
        scan.line(f"{name}={value}", 0)
    return LogExplanation(
        status=FAILED if any(f.severity == FAILED for f in found) else WARNING if causes else OK,
        first=explained,
        others=tuple(Explained(f, causes_of(f.kind, f.values)) for f in causes if f is not first),
        consequences=tuple(f for f in consequences if f is not first),
        checks=(*scan.separators, *checks),
        wanted_arch=wanted,
        export=export.recognised,
    )


class _Scan:
    """Facts of a log besides its errors."""

    def __init__(self) -> None:
        self.arch: str | None = None
        self.version: str | None = None
        self.separators: list[Check] = []

    def line(self, text: str, number: int) -> None:
        if "Skel.so" in text and (skel := _SKEL.search(text)):
            self.arch = f"v{skel[1]}"
        elif "build version" in text and (version := _BACKEND_VERSION.search(text)):
            self.version = version[1]
        if "DSP_LIBRARY_PATH=" in text and (path := _LIBRARY_PATH.search(text)):
            name, value = path["name"], path["value"].strip("'\"")
            if ":" in value and ";" not in value:
                hint = f"{name}='{value.replace(':', ';')}'   (quoted: `;` ends a command)"
                place = f"line {number}" if number else "env: in devkit.yaml"
                text = f"{name} separates folders by `;`, not by `:` ({place})"
                self.separators.append(Check("separator", BROKEN, text, hint=hint))


def _merged(report: Report, export: ExportLog) -> Iterator[Finding]:
    """Findings of a run and of an export, each line once, in the order of the lines."""
    own = export.findings()
    taken = {finding.line_number for finding in own}
    failed_at = min((f.line_number for f in own if f.severity == FAILED), default=None)
    rest = []
    for finding in report.findings:
        if finding.kind not in known_kinds() | _ALSO or finding.line_number in taken:
            continue
        if export.recognised and finding.kind == "qnn-op-unsupported":
            continue  # counted above
        if failed_at is not None and finding.line_number > failed_at:
            finding = replace(finding, consequence=True)
        if export.recognised:  # its programs run on this machine
            finding = replace(finding, meaning=finding.meaning.replace(" on the phone", ""), next=())
        rest.append(finding)
    yield from sorted([*own, *rest], key=lambda finding: finding.line_number)


def _first_decides(found: list[Finding]) -> list[Finding]:
    """QNN reports one failure with many messages: behind the first that is a cause all others only follow."""
    own = [f for f in found if f.kind.startswith("qnn-") and f.severity == FAILED and not f.consequence]
    return [replace(f, consequence=True) if f in own[1:] else f for f in found]


def _wrong_chip(export: ExportLog, chips: dict[str, Chip]) -> list[Finding]:
    """soc_id and dsp_arch of an export against the table of chips: the kernel's number is no soc_id."""
    if export.chip is None or not chips:
        return []
    soc_id, arch = export.chip
    named = [chip for chip in chips.values() if chip.soc_model == soc_id]
    values = {"soc_id": str(soc_id), "dsp_arch": arch}
    if named and any(chip.dsp_arch in (None, arch) for chip in named):
        return []
    if named:
        wanted = ", ".join(dict.fromkeys(f"{chip.chip}: dsp_arch {chip.dsp_arch}" for chip in named))
        meaning = f"soc_id {soc_id} and dsp_arch {arch} do not belong together ({wanted})"
        return [Finding("export-wrong-chip", FAILED, meaning, values=values)]
    kernels = _kernel_chip(soc_id, chips)
    if kernels is None:
        return []
    meaning = (
        f"soc_id {soc_id} is the kernel's number of {kernels.chip} (/sys/devices/soc0/soc_id); "
        f"QNN's is {kernels.soc_model}, with dsp_arch {kernels.dsp_arch}"
    )
    return [Finding("export-wrong-chip", FAILED, meaning, values=values)]


def _kernel_chip(number: int, chips: dict[str, Chip]) -> Chip | None:
    from devkit.device.soc import decide

    return decide({}, chips, kernel_id=number).chip


def _checked(first: Explained | None, inventory: Inventory, against: Surroundings) -> list[Check]:
    names = [name for cause in first.causes for name in cause.checks] if first else []
    # What the causes do not ask for is still worth a word when it is broken.
    checks = run_checks(names, inventory, against)
    if "graphs" in names and inventory.place.is_dir():
        checks += find_graphs(inventory.place)[1]
    more = run_checks(["abi", "versions", "arch", "context"], inventory, against)
    done = {check.name for check in checks}
    return [*checks, *(check for check in more if check.name not in done and check.state != OK)]


def sentence(finding: Finding) -> str:
    """What the first cause is, with versions as people say them."""
    values = finding.values
    if finding.kind == "qnn-mixed-versions" and {"expected", "detected"} <= set(values):
        return (
            f"the stub is of QNN {short_version(values['detected'])} (the phone's own copy), "
            f"the library is of {short_version(values['expected'])}"
        )
    return finding.meaning
