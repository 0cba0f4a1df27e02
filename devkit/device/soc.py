"""Which chip a phone has, and what that means to QNN: decided from what it says, never guessed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from devkit.errors import PHONE, ConfigError, DeviceError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device.phone import Device

KNOWN, GUESSED, INCOMPLETE, UNKNOWN, NO_HTP = "known", "guessed", "incomplete", "unknown", "no HTP"
CONFIG_KEY = "device.soc"
# Android 12 and later; Qualcomm's own before.
_PROPERTIES = ("ro.soc.model", "ro.vendor.qti.soc_model")
_BOARD = "ro.board.platform"
_SOC_ID = "/sys/devices/soc0/soc_id"
_QUALCOMM = ("qti", "qualcomm", "qcom")
# SM8750P, SM8550-AC, SM8650-AB: the chip in another clock or for another customer.
_VARIANT = re.compile(r"-?[A-Z]{1,3}")
_ARCH = re.compile(r"v?(\d{2,3})", re.IGNORECASE)


@dataclass(frozen=True)
class Chip:
    """One row of the table.

    Attributes:
        soc_model: QNN's number, or None.
        dsp_arch: "v75", or None.
        vtcm_mb: megabytes of VTCM, or None.
        htp: whether it has what QNN's HTP backend drives.
        confidence: "high", "medium" or "low"; "yours" for a row of a config.
    """

    chip: str
    soc_model: int | None = None
    dsp_arch: str | None = None
    vtcm_mb: int | None = None
    htp: bool = True
    name: str | None = None
    source: str | None = None
    confidence: str = "medium"
    note: str | None = None


@dataclass(frozen=True)
class SocFacts:
    """What a phone's chip is, and what decided it.

    Attributes:
        state: "known", "guessed" (by its board alone), "incomplete" (the chip is known, its architecture
            is not), "unknown", or "no HTP".
        model: the chip as the phone names it: SM8750P; None when it does not.
        chip: the row that was taken: SM8750; None when there is none.
        decided_by: where the decision comes from: "ro.soc.model", "/sys/devices/soc0/soc_id", …
        candidates: chips that it may be, when more than one is possible.
        warnings: conflicts, variants, weak sources; each a sentence.
        hint: what to do when the state is not "known".
    """

    state: str
    model: str | None = None
    chip: Chip | None = None
    decided_by: str | None = None
    candidates: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hint: str | None = None

    @property
    def soc_model(self) -> int | None:
        return self.chip.soc_model if self.chip else None

    @property
    def dsp_arch(self) -> str | None:
        return self.chip.dsp_arch if self.chip else None

    @property
    def vtcm_mb(self) -> int | None:
        return self.chip.vtcm_mb if self.chip else None

    def as_dict(self) -> dict[str, Any]:
        """As `devkit device info --json` prints it."""
        return {
            "state": self.state,
            "model": self.model,
            "chip": asdict(self.chip) if self.chip else None,
            "soc_model": self.soc_model,
            "dsp_arch": self.dsp_arch,
            "vtcm_mb": self.vtcm_mb,
            "decided_by": self.decided_by,
            "candidates": list(self.candidates),
            "warnings": list(self.warnings),
            "hint": self.hint,
        }


def load_chips(user: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Chip]:
    """The table with the user's rows on top; a row named like a known chip changes only what it says.

    Raises:
        ConfigError: a new chip without its number or architecture, or an architecture of another form.
    """
    rows: dict[str, dict[str, Any]] = {name: dict(row) for name, row in _table()["chips"].items()}
    for given, row in (user or {}).items():
        name = given.upper()
        said = {key: value for key, value in row.items() if value is not None}
        if "dsp_arch" in said:
            said["dsp_arch"] = _architecture(str(said["dsp_arch"]), f"socs.{given}.dsp_arch")
        if name not in rows and not {"soc_model", "dsp_arch"} <= set(said):
            # One of the two alone would be completed by nothing but a guess.
            raise ConfigError(
                f"socs.{given}: a chip that devkit does not know needs both soc_model and dsp_arch",
                hints=[f"socs: {{{given}: {{soc_model: 69, dsp_arch: v79}}}}   (with its own numbers)"],
            )
        rows[name] = {**rows.get(name, {}), **said, "source": "socs: in the config", "confidence": "yours"}
    return {name: Chip(name, **row) for name, row in rows.items()}


def soc_of(device: Device, config: Config, *, ask_kernel: bool = False) -> SocFacts:
    """The chip of a phone. Costs no round trip beyond the phone's properties.

    Args:
        ask_kernel: also read the kernel's number (one round trip); done anyway where the properties do
            not decide.

    Raises:
        ConfigError: `socs` or `device.soc` cannot be used.
    """
    chips = load_chips(config.socs)
    found = decide(device.properties, chips, told=config.device.soc)
    if ask_kernel or found.state in (UNKNOWN, GUESSED):
        text = device.shell(["cat", _SOC_ID]).text.strip()
        found = decide(
            device.properties, chips, told=config.device.soc, kernel_id=int(text) if text.isdigit() else None
        )
    return found


def decide(
    properties: Mapping[str, str],
    chips: Mapping[str, Chip],
    *,
    told: str | None = None,
    kernel_id: int | None = None,
) -> SocFacts:
    """The chip by a phone's properties.

    The order: what the user says, ro.soc.model, Qualcomm's own property, the kernel's number (which names
    the chip, and is no number of QNN's), the board.

    Args:
        told: `device.soc`.
        kernel_id: content of /sys/devices/soc0/soc_id.

    Raises:
        ConfigError: `told` names no chip of the table.
    """
    said = list(_said(properties, kernel_id))
    if told:
        chip, variant = _row(told, chips)
        if chip is None:
            near = difflib.get_close_matches(told.upper(), chips, n=1)
            raise ConfigError(
                f"{CONFIG_KEY} is {told!r}, a chip that devkit does not know",
                hints=[
                    *([f"did you mean {near[0]}?"] if near else []),
                    f"socs: {{{told}: {{soc_model: 69, dsp_arch: v79}}}}   (with its own numbers)",
                ],
            )
        said.insert(0, (CONFIG_KEY, told))
    elif (foreign := _foreign_maker(properties)) is not None:
        return _foreign(properties, *foreign)
    for origin, model in said:
        chip, variant = _row(model, chips)
        if chip is not None:
            warnings = [*_conflicts(said, (origin, model), chips), *_weak(chip, model if variant else None)]
            return _judged(chip, model, origin, warnings)
    if said:
        model = said[0][1]
        return SocFacts(UNKNOWN, model, decided_by=said[0][0], hint=_ask(model, chips))
    return _by_board(properties, chips)


def require_arch(soc: SocFacts, serial: str) -> str:
    """The Hexagon architecture, or why it is not known.

    Raises:
        DeviceError: the chip is unknown or only guessed, has no HTP, or its architecture is not known.
    """
    arch = soc.dsp_arch
    if soc.state == KNOWN and arch is not None:
        return arch
    what = {
        NO_HTP: f"the phone {serial} has no NPU that QNN's HTP backend runs on",
        INCOMPLETE: f"which Hexagon architecture the phone {serial} has is not known",
    }.get(soc.state, f"which chip the phone {serial} has is not certain")
    seen = [f"{soc.decided_by} is {soc.model}"] if soc.model and soc.decided_by else []
    seen += [f"it may be {' or '.join(soc.candidates)}"] if soc.candidates else []
    raise DeviceError(
        what,
        where=PHONE,
        evidence="\n".join([*seen, *soc.warnings]) or None,
        hints=[*([soc.hint] if soc.hint else []), "devkit device info shows what the phone says"],
    )


def _said(properties: Mapping[str, str], kernel_id: int | None) -> Iterator[tuple[str, str]]:
    for name in _PROPERTIES:
        model = properties.get(name, "").strip()
        if model:
            yield name, model
    named = _table()["kernel_ids"].get(kernel_id) if kernel_id is not None else None
    if named:
        yield f"{_SOC_ID} {kernel_id}", named


def _row(model: str, chips: Mapping[str, Chip]) -> tuple[Chip | None, bool]:
    """The row of a model, and whether the model is a variant of it."""
    model = model.upper()
    if model in chips:
        return chips[model], False
    bases = [name for name in chips if model.startswith(name) and _VARIANT.fullmatch(model[len(name) :])]
    return (chips[max(bases, key=len)], True) if bases else (None, False)


def _judged(chip: Chip, model: str, origin: str, warnings: list[str]) -> SocFacts:
    state, hint = KNOWN, None
    if not chip.htp:
        state, hint = (
            NO_HTP,
            f"{chip.chip} has a Hexagon {chip.dsp_arch} without HTP: use `backend: gpu` or cpu",
        )
    elif chip.dsp_arch is None or chip.soc_model is None:
        state = INCOMPLETE
        hint = f"socs: {{{chip.chip}: {{dsp_arch: v…}}}} in devkit.yaml, from the QNN SDK's documentation"
    return SocFacts(state, model, chip, origin, warnings=tuple(warnings), hint=hint)


def _conflicts(
    said: list[tuple[str, str]], taken: tuple[str, str], chips: Mapping[str, Chip]
) -> Iterator[str]:
    """What says something else than what was taken, one sentence each."""
    mine, _ = _row(taken[1], chips)
    for origin, other in said:
        its, _ = _row(other, chips)
        if its != mine:
            yield f"{taken[0]} says {taken[1]}, but {origin} says {other}; {taken[1]} is taken"


def _weak(chip: Chip, variant: str | None) -> Iterator[str]:
    if variant is not None:
        yield f"{variant} is taken for a variant of {chip.chip}"
    if chip.note:
        yield f"{chip.chip}: {chip.note}"
    if chip.confidence == "low":
        yield f"the facts of {chip.chip} are uncertain"


def _foreign_maker(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The maker of a chip that is not Qualcomm's, and the property that says so."""
    maker = properties.get("ro.soc.manufacturer", "")
    if maker:
        ours = any(maker.lower().startswith(name) for name in _QUALCOMM)
        return None if ours else (maker, "ro.soc.manufacturer")
    board = properties.get(_BOARD, "").lower()
    for beginning, name in _table()["other_makers"].items():
        if re.match(re.escape(beginning) + r"\d|" + re.escape(beginning) + "$", board):
            return name, _BOARD
    return None


def _foreign(properties: Mapping[str, str], maker: str, origin: str) -> SocFacts:
    return SocFacts(
        NO_HTP,
        properties.get("ro.soc.model"),
        decided_by=origin,
        hint=f"QNN needs a chip of Qualcomm; this one is of {maker}: use `backend: none`",
    )


def _by_board(properties: Mapping[str, str], chips: Mapping[str, Chip]) -> SocFacts:
    board = properties.get(_BOARD, "")
    names = [name for name in _table()["boards"].get(board, ()) if name in chips]
    name = names[0] if len(names) == 1 else None
    if name is not None:
        found = _judged(chips[name], name, _BOARD, [f"the phone tells its board alone ({board})"])
        if found.state == NO_HTP:
            return found
        return SocFacts(GUESSED, None, chips[name], _BOARD, (name,), found.warnings, _SAY)
    return SocFacts(UNKNOWN, decided_by=_BOARD if board else None, candidates=tuple(names), hint=_SAY)


def _ask(model: str, chips: Mapping[str, Chip]) -> str:
    digits = re.sub(r"\D", "", model)
    alike = [name for name in chips if digits and re.sub(r"\D", "", name) == digits]
    if alike:
        return f"if {model} is a {alike[0]}: {CONFIG_KEY}: {alike[0]} in devkit.yaml"
    return f"socs: {{{model}: {{soc_model: …, dsp_arch: v…}}}} in devkit.yaml, with both values"


_SAY = f"{CONFIG_KEY}: SM… in devkit.yaml says which chip it is (the maker's data sheet, or `About phone`)"


def _architecture(text: str, place: str) -> str:
    found = _ARCH.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{place} cannot be {text!r}", hints=["as v75"])
    return f"v{found.group(1)}"


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    import yaml

    text = resources.files("devkit.device").joinpath("socs.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return table
