"""errors.yaml: what QNN's codes are called, and what usually brings each kind of error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from devkit.errors import UsageError

_CODE = re.compile(r"-?\d{1,20}|0[xX][0-9a-fA-F]{1,16}")
_NAME = re.compile(r"(?:QNN|AEE)_[A-Z0-9_]+")
# FastRPC's codes: AEE_EOFFSET and above. QNN's own are below 65536.
_FASTRPC = range(0x80000400, 0x80000800)


@dataclass(frozen=True)
class Cause:
    """One possible cause. `checks` are names in `devkit.qnn.checks`; `next` are commands or actions."""

    text: str
    checks: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "checks": list(self.checks), "next": list(self.next)}


@dataclass(frozen=True)
class Code:
    """What a number stands for.

    Attributes:
        name: its name in the SDK's headers; None for a number that the table does not have.
        component: the part of QNN whose range it is in.
        causes: the most likely first.
    """

    number: int
    name: str | None
    text: str
    component: str
    header: str
    causes: tuple[Cause, ...] = ()

    @property
    def shown(self) -> str:
        """As logs print it: QNN's in decimal, FastRPC's in hexadecimal."""
        return hex(self.number) if self.number in _FASTRPC else str(self.number)

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.shown,
            "number": self.number,
            "name": self.name,
            "text": self.text,
            "component": self.component,
            "header": self.header,
            "causes": [cause.as_dict() for cause in self.causes],
        }


@dataclass(frozen=True)
class ExportFailure:
    """A line that shows that a step of the export script failed."""

    pattern: re.Pattern[str]
    meaning: str
    kind: str


def is_code(text: str) -> bool:
    """Whether somebody means a code and not a file: 1008, 0x80000406, QNN_DEVICE_ERROR_INVALID_CONFIG."""
    return bool(_CODE.fullmatch(text) or _NAME.fullmatch(text))


def look_up(text: str) -> Code:
    """What a code means. A whole Qnn_ErrorHandle_t is taken by its low 16 bits, as QNN_GET_ERROR_CODE does.

    Raises:
        UsageError: it is no code, or nothing is known of its range.
    """
    if _NAME.fullmatch(text):
        return _by_name(text)
    if not _CODE.fullmatch(text):
        raise UsageError(f"{text!r} is no error code of QNN", hints=["as 1008, 0x80000406 or QNN_…_ERROR_…"])
    number = int(text, 16) if text[:2].lower() == "0x" else int(text)
    if number < 0:
        number &= 0xFFFFFFFF  # a 32-bit code that was printed as a signed number
    if number not in _FASTRPC and number not in _table()["codes"]:
        number &= 0xFFFF
    entry = _table()["codes"].get(number)
    component, header = _component(number)
    if entry is None and not component:
        raise UsageError(
            f"{text} is in no range of QNN's error codes",
            evidence="QNN's are 1000 to 15999, 30000 to 49999 and 60000 to 60999;\n"
            "FastRPC's are 0x80000400 to 0x800007ff",
            hints=["grep the number in the SDK: grep -rn ERROR $(devkit qnn sdk path)/include/QNN"],
        )
    if entry is None:
        low = "" if text in (str(number), hex(number)) else f": the low 16 bits of {text}"
        return Code(number, None, f"not in devkit's table{low}", component, header)
    return Code(number, entry["name"], entry["text"], component, header, causes_of(entry.get("kind", "")))


def causes_of(kind: str, values: Mapping[str, str] | None = None) -> tuple[Cause, ...]:
    """The causes of a kind of finding, the most likely first; none when the table has none.

    Args:
        values: of the line that was found, which fill {NAME}.
    """
    entry = _table()["kinds"].get(kind, {})
    return tuple(
        Cause(
            _fill(cause["text"], values or {}),
            tuple(cause.get("check", ())),
            tuple(_fill(step, values or {}) for step in cause.get("next", ())),
        )
        for cause in entry.get("causes", ())
    )


def known_kinds() -> frozenset[str]:
    """The kinds of findings that the table explains."""
    return frozenset(_table()["kinds"])


def export_steps() -> dict[str, Mapping[str, str]]:
    """Steps of MNN's export script: number → name, program."""
    return dict(_table()["export_steps"])


@lru_cache(maxsize=1)
def export_failures() -> tuple[ExportFailure, ...]:
    """Lines that show a failing step, the first that matches counts."""
    return tuple(
        ExportFailure(re.compile(row["pattern"]), row["meaning"], row.get("kind", "export-failed"))
        for row in _table()["export_failures"]
    )


def _by_name(name: str) -> Code:
    import difflib

    codes = _table()["codes"]
    found = next((number for number, entry in codes.items() if entry["name"] == name), None)
    if found is not None:
        return look_up(str(found))
    names = [entry["name"] for entry in codes.values()]
    raise UsageError(
        f"{name} is not in devkit's table of QNN's error codes",
        hints=[
            *(f"did you mean {near}?" for near in difflib.get_close_matches(name, names, n=1)),
            f"devkit qnn docs --type {name} looks into the SDK's headers",
        ],
    )


def _component(number: int) -> tuple[str, str]:
    if number in _FASTRPC:
        return "FastRPC, the way to the DSP", "AEEStdErr.h"
    for row in _table()["components"]:
        if row["first"] <= number <= row["last"]:
            return str(row["name"]), str(row["header"])
    return "", ""


def _fill(text: str, values: Mapping[str, str]) -> str:
    from devkit.results.findings import fill

    return fill(text, values)


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    import yaml

    text = resources.files("devkit.qnn").joinpath("errors.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return table
