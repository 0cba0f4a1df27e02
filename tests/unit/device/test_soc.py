"""Which chip a phone has, from what it says (case K3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devkit.config import load
from devkit.device.properties import parse_properties
from devkit.device.soc import GUESSED, INCOMPLETE, KNOWN, NO_HTP, UNKNOWN, decide, load_chips, require_arch
from devkit.errors import ConfigError, DeviceError

K3 = Path(__file__).parents[2] / "data" / "cases" / "K3"
EXPECTED = json.loads((K3 / "expected.json").read_text())
CHIPS = load_chips()
SAID = "ro.soc.model says SM8650, but ro.vendor.qti.soc_model says SM8550; SM8650 is taken"


def properties(name: str) -> dict[str, str]:
    return parse_properties((K3 / name).read_text())


def phone(model: str, **more: str) -> dict[str, str]:
    return {"ro.soc.manufacturer": "QTI", "ro.soc.model": model, **more}


def test_k3_the_model_decides_not_the_board() -> None:
    soc = decide(properties("getprop_8sgen3.txt"), CHIPS)
    wanted = EXPECTED["getprop_8sgen3.txt"]
    assert (soc.state, soc.soc_model, soc.dsp_arch) == (KNOWN, wanted["soc_id"], wanted["dsp_arch"])
    assert soc.decided_by == "ro.soc.model"


def test_k3_a_suffix_variant_is_accepted_with_a_warning() -> None:
    soc = decide(properties("getprop_8elite_p.txt"), CHIPS)
    wanted = EXPECTED["getprop_8elite_p.txt"]
    assert soc.chip is not None and soc.chip.chip == wanted["base"]
    assert (soc.model, soc.soc_model, soc.dsp_arch) == ("SM8750P", wanted["soc_id"], wanted["dsp_arch"])
    assert any("SM8750P is taken for a variant of SM8750" in warning for warning in soc.warnings)


def test_k3_a_chip_of_another_maker() -> None:
    soc = decide(properties("getprop_mtk.txt"), CHIPS)
    assert soc.state == NO_HTP and soc.chip is None
    with pytest.raises(DeviceError, match="has no NPU that QNN's HTP backend runs on") as caught:
        require_arch(soc, "S")
    assert "Mediatek" in caught.value.hints[0]


def test_k3_an_old_phone_is_asked_about_not_guessed() -> None:
    soc = decide(properties("getprop_old.txt"), CHIPS)
    assert (soc.state, soc.chip, soc.candidates) == (UNKNOWN, None, ("SM8350", "SM7325"))
    with pytest.raises(DeviceError, match="not certain") as caught:
        require_arch(soc, "S")
    assert "SM8350 or SM7325" in (caught.value.evidence or "") and "device.soc" in caught.value.hints[0]


def test_k3_the_kernels_number_names_the_chip_and_is_not_qnns() -> None:
    numbers: dict[str, Any] = json.loads((K3 / "soc0.json").read_text())
    soc = decide({}, CHIPS, kernel_id=numbers["SM8650"])
    assert (soc.soc_model, soc.dsp_arch) == (57, "v75") and "557" in (soc.decided_by or "")
    assert not {c.soc_model for c in CHIPS.values()} & {n for n in numbers.values() if isinstance(n, int)}
    # Another prefix: alike, but nobody says that it is the same.
    soc = decide({}, CHIPS, kernel_id=numbers["CQ8750S"])
    assert soc.state == UNKNOWN and soc.hint == "if CQ8750S is a SM8750: device.soc: SM8750 in devkit.yaml"


def test_k3_the_table_says_what_the_case_says() -> None:
    for name, (number, arch) in json.loads((K3 / "table.json").read_text()).items():
        assert (CHIPS[name].soc_model, CHIPS[name].dsp_arch) == (number, f"v{arch}"), name
    note = CHIPS["SM8850"].note or ""
    assert "88" in EXPECTED["unsettled"] and "88" in note
    assert any("88" in warning for warning in decide(phone("SM8850"), CHIPS).warnings)


def test_k3_a_table_miss_is_overridden_with_both_values() -> None:
    with pytest.raises(ConfigError, match="needs both soc_model and dsp_arch"):
        load_chips({"SM9999": {"soc_model": 99}})
    chips = load_chips({"sm9999": {"soc_model": 99, "dsp_arch": "83"}})
    soc = decide(phone("SM9999"), chips)
    assert (soc.state, soc.soc_model, soc.dsp_arch) == (KNOWN, 99, "v83")
    assert soc.chip is not None and soc.chip.confidence == "yours"


def test_every_row_is_usable() -> None:
    for name, chip in CHIPS.items():
        assert chip.soc_model and chip.source and chip.confidence in ("high", "medium", "low"), name
        assert chip.dsp_arch is None or chip.dsp_arch[1:].isdigit(), name
        assert decide({}, CHIPS, told=name).chip == chip


def test_who_is_believed() -> None:
    assert decide(phone("SM8650", **{"ro.board.platform": "kalama"}), CHIPS).dsp_arch == "v75"
    mixed = phone("SM8650", **{"ro.vendor.qti.soc_model": "SM8550"})
    soc = decide(mixed, CHIPS)
    assert soc.dsp_arch == "v75"
    assert soc.warnings == (SAID,)
    soc = decide(mixed, CHIPS, told="sm8750")
    assert (soc.dsp_arch, soc.decided_by) == ("v79", "device.soc") and len(soc.warnings) == 2
    # One that devkit does not know does not stand in the way of one that it knows.
    soc = decide(phone("Snapdragon"), CHIPS, kernel_id=557)
    assert soc.dsp_arch == "v75" and "ro.soc.model says Snapdragon; SM8650 is taken" in soc.warnings[0]
    # What Qualcomm's own property says in Android 11, where there is no ro.soc.model.
    assert decide({"ro.vendor.qti.soc_model": "SM8350"}, CHIPS).decided_by == "ro.vendor.qti.soc_model"


@pytest.mark.parametrize(
    ("said", "state", "arch"),
    [
        (phone("SM8550-AC"), KNOWN, "v73"),
        (phone("SM7450"), INCOMPLETE, None),
        (phone("SM8250"), NO_HTP, "v66"),
        (phone("SM85501"), UNKNOWN, None),
        ({"ro.board.platform": "kona"}, NO_HTP, "v66"),
        ({"ro.board.platform": "exynos9820"}, NO_HTP, None),
        ({"ro.board.platform": "mt6785", "ro.hardware": "mt6785"}, NO_HTP, None),
        ({"ro.board.platform": "mtk_lookalike"}, UNKNOWN, None),
        ({}, UNKNOWN, None),
    ],
)
def test_states(said: dict[str, str], state: str, arch: str | None) -> None:
    soc = decide(said, CHIPS)
    assert (soc.state, soc.dsp_arch) == (state, arch)
    if state != KNOWN:
        assert soc.hint
        with pytest.raises(DeviceError):
            require_arch(soc, "S")


def test_a_board_with_one_chip_is_a_guess_and_never_chooses_libraries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only = {"SM8550": CHIPS["SM8550"]}
    soc = decide({"ro.board.platform": "kalama"}, only)
    assert (soc.state, soc.dsp_arch) == (GUESSED, "v73") and "board alone" in soc.warnings[0]
    with pytest.raises(DeviceError, match="not certain"):
        require_arch(soc, "S")


def test_what_the_config_says(tmp_path: Path) -> None:
    (tmp_path / "devkit.yaml").write_text(
        "device: {soc: X1}\nsocs:\n  X1: {soc_model: 5, dsp_arch: V99, vtcm_mb: 3}\n  SM8550: {vtcm_mb: 4}\n"
    )
    settings = load(tmp_path, environ={})
    chips = load_chips(settings.socs)
    assert (chips["SM8550"].vtcm_mb, chips["SM8550"].soc_model) == (4, 43)
    soc = decide(phone("SM8650"), chips, told=settings.device.soc)
    assert (soc.dsp_arch, soc.vtcm_mb, soc.decided_by) == ("v99", 3, "device.soc")
    with pytest.raises(ConfigError, match="a chip that devkit does not know") as caught:
        decide({}, chips, told="SM8650X9")
    assert "did you mean SM8650?" in caught.value.hints
    (tmp_path / "devkit.yaml").write_text("socs: {X1: {soc_modell: 5}}\n")
    with pytest.raises(ConfigError, match=r"unknown key `socs\.X1\.soc_modell`"):
        load(tmp_path, environ={})
