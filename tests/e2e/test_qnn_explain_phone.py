"""`devkit qnn explain --phone`: what lies on the phone, held against the same files here."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.device.soc import decide, load_chips
from devkit.errors import DeployError
from devkit.qnn.checks import Check, Surroundings
from devkit.qnn.dsp_program import DspAnswer
from devkit.qnn.explain import explain_log
from devkit.qnn.inventory import take_inventory
from devkit.qnn.phone_look import PhoneFiles, check_phone, look_at_phone
from devkit.qnn.process_domain import LOOK, DspAccess, read_access
from tests.e2e.support import REPO, Cli

CASES = REPO / "tests/data/cases"
FOLDER = "/data/local/tmp/devkit/查 app"
# Answers as FastRPC's library does (remote.h): 12 bytes, domain 3, the value behind them.
RPC_SOURCE = r"""
#include <stdint.h>
int remote_handle_control(uint32_t request, void* data, uint32_t size) {
  uint32_t* one = data;
  if (request != 2 || size != 12 || one[0] != 3) return 0x8000040e;
  if (one[1] == 1 && UNSIGNED > 1) return 0x80000414;
  one[2] = one[1] == 6 ? 0x8c75 : one[1] == 1 ? UNSIGNED : 1;
  return 0;
}
"""
OLD, NEW = "v2.25.17.240716120000_99000", "v2.42.0.251225120000_100001"


@pytest.fixture
def pushed(device: Device, tmp_path: Path) -> Iterator[Path]:
    """K1's files with their versions, and a context binary, in an app's folder on the phone and here."""
    skel = (CASES / "C3/push/libQnnHtpV75Skel.so").read_bytes()
    arm = (CASES / "C3/push/libMNN.so").read_bytes()
    options = b"soc_type=SM8650;arch=75;num_nsps=1;l2tcm_kb=0;vtcm_size=8388608;"
    files = {
        "libQnnHtp.so": arm + NEW.encode() + b"\0",
        "libQnnSystem.so": arm,
        "libQnnHtpV75Skel.so": skel + NEW.encode() + b"\0",
        "words.so": b"version https://git-lfs.github.com/spec/v1\n",
        "qnn/graph 0.bin": b"\0\0\0\2".ljust(820, b"\0") + NEW.encode() + b"\0" * 9000 + options,
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
        device.push_bytes(data, f"{FOLDER}/{name}")
    yield tmp_path
    device.shell(["rm", "-rf", FOLDER], check=True)


def test_the_phone_says_what_the_files_say(device: Device, pushed: Path) -> None:
    there = look_at_phone(device, FOLDER).inventory
    here = take_inventory(pushed)
    mine = {one.path.name: one for one in here.libraries}
    assert {one.path.name for one in there.libraries} == {*mine, "words.so"}
    for library in there.libraries:
        if library.path.name == "words.so":
            assert library.elf is None
            continue
        own = mine[library.path.name]
        assert (library.size, library.build_id, library.part) == (own.size, own.build_id, own.part)
        assert library.elf and own.elf and library.elf.describe == own.elf.describe
    (context,), (own_context,) = there.contexts, here.contexts
    assert dataclasses.replace(context.facts, vtcm_mb=8) == own_context.facts
    with pytest.raises(DeployError, match="no folder"):
        look_at_phone(device, f"{FOLDER}/none")


def found_of(checks: tuple[Check, ...] | list[Check]) -> dict[str, str]:
    return {check.text: check.state for check in checks}


def test_the_stub_that_the_maker_has_is_named(device: Device, pushed: Path) -> None:
    """Case K1, with what the phone of the report had."""
    looked = look_at_phone(device, FOLDER)
    maker = {"/odm/lib64/libQnnHtpV75Stub.so": OLD, "/vendor/lib64/libcdsprpc.so": None}
    node = "/dev/adsprpc-smd"
    access = DspAccess("uid 2000, u:r:shell:s0", {node: False}, {node: "crw-rw---- system"})
    phone = dataclasses.replace(looked, maker=maker, access=access)
    soc = decide({}, load_chips(), told="SM8650")
    found = explain_log(
        [(CASES / "K1/run.log").read_bytes()], soc=soc, phone=phone, env={"ADSP_LIBRARY_PATH": "/a:/b"}
    )
    assert found.status == "failed" and found.first is not None
    assert found.first.finding.kind == "qnn-mixed-versions"
    texts = found_of(found.checks)
    stub = "libQnnHtpV75Stub.so is not in the app's folder: the maker's own of QNN 2.25.17 is taken, "
    assert texts[f"{stub}/odm/lib64/libQnnHtpV75Stub.so"] == "broken"
    assert texts["ADSP_LIBRARY_PATH separates folders by `;`, not by `:` (env: in devkit.yaml)"] == "broken"
    shell = "this shell (uid 2000, u:r:shell:s0) may not read /dev/adsprpc-smd (crw-rw---- system)"
    assert texts[shell] == "warning"
    # Another chip: its Stub and Skel are wanted.
    other = check_phone(phone, Surroundings(decide({}, load_chips(), told="SM8550")))
    assert not any("V75Stub" in check.text for check in other)
    # What the DSP itself says of unsigned code and of its architecture.
    asked = dataclasses.replace(phone, answer=DspAnswer({"UNSIGNED_PD_SUPPORT": 0, "ARCH_VER": 0x8C73}))
    said = {check.name: check.state for check in check_phone(asked, Surroundings(soc))}
    assert (said["unsigned"], said["arch"]) == ("broken", "warning")
    none = PhoneFiles(looked.inventory, {})
    assert [c.state for c in check_phone(none, Surroundings(soc))] == ["broken", "broken"]


def test_the_command(devkit: Cli, device: Device, pushed: Path, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text("device: {dir: /data/local/tmp/devkit}\n")
    ran = devkit("qnn", "explain", CASES / "K1/run.log", "--phone", "查 app", "--json")
    assert ran.code == 1, ran.err
    checks = {check["name"]: check for check in ran.data["checks"]}
    # The virtual phone's processor is not the one that these files are for.
    assert checks["abi"]["state"] == "broken" and checks["versions"]["state"] == "ok"
    refused = devkit("qnn", "explain", CASES / "K1/run.log", "--phone", "x", "--files", pushed)
    assert refused.code == 2 and "leave out --files" in refused.err
    missing = devkit("qnn", "explain", CASES / "K1/run.log", "--phone", "missing")
    assert missing.code == 125 and "devkit deploy APP" in missing.err


def test_the_dsp_is_asked_by_a_program_on_the_phone(
    devkit: Cli, device: Device, pushed: Path, workdir: Path
) -> None:
    (workdir / "devkit.yaml").write_text("device: {dir: /data/local/tmp/devkit}\n")
    (workdir / "rpc.c").write_text(RPC_SOURCE)

    def told(unsigned: int) -> dict[str, str]:
        library = workdir / "libcdsprpc.so"
        words = ["cc", "-shared", "-fPIC", f"-DUNSIGNED={unsigned}", "rpc.c", "-o", library]
        subprocess.run(words, cwd=workdir, check=True)
        device.push_bytes(library.read_bytes(), f"{FOLDER}/libcdsprpc.so")
        ran = devkit("qnn", "explain", CASES / "K1/run.log", "--phone", "查 app", "--json")
        assert ran.code == 1, ran.err
        return {check["state"]: check["text"] for check in ran.data["checks"] if check["name"] == "unsigned"}

    says = "libcdsprpc.so says UNSIGNED_PD_SUPPORT {} of the compute DSP, Hexagon v75"
    assert told(1) == {"ok": f"the DSP offers unsigned process domains: {says.format(1)}"}
    assert told(0) == {"broken": f"the DSP offers no unsigned process domain: {says.format(0)}"}
    assert told(2)["warning"].endswith("it answers 0x80000414 (AEE_EUNSUPPORTED)")
    device.push_bytes(b"\x7fELF no library", f"{FOLDER}/libcdsprpc.so")
    ran = devkit("qnn", "explain", CASES / "K1/run.log", "--phone", "查 app")
    assert "warning  unsigned: libcdsprpc.so cannot be used: " in ran.out
    assert "devkit-ask-dsp" not in device.shell(["ls", "-a", FOLDER]).text


def test_this_shell_and_what_it_may(device: Device) -> None:
    access = read_access(device.shell(LOOK).text.splitlines())
    assert access.asked_by.startswith(f"uid {device.shell(['id', '-u']).text.strip()}")
    assert (access.nodes, access.images, access.forced) == ({}, {}, {})
