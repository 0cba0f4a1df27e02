"""`devkit qnn explain`: the cases' logs with their right values, codes, and the checks devkit runs itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.device.soc import decide, load_chips
from devkit.errors import UsageError
from devkit.qnn.checks import BROKEN, OK, Surroundings, check_names, run_checks
from devkit.qnn.explain import LogExplanation, explain_log, sentence
from devkit.qnn.inventory import take_inventory
from devkit.qnn.knowledge import causes_of, is_code, known_kinds, look_up
from devkit.results.findings import load_table

CASES = Path(__file__).parents[2] / "data" / "cases"
C3 = CASES / "C3" / "push"
HEXAGON_32 = (C3 / "libQnnHtpV75Skel.so").read_bytes()
ARM64 = (C3 / "libQnnHtpV75Stub.so").read_bytes()
EXPECTED = "v2.42.0.251225120000_100001"


def expected(case: str) -> Any:
    return json.loads((CASES / case / "expected.json").read_text("utf-8"))


def explained(text: str | bytes, **options: Any) -> LogExplanation:
    data = text.encode() if isinstance(text, str) else text
    # In pieces, as a pipe delivers it.
    return explain_log((data[at : at + 7] for at in range(0, len(data), 7)), **options)


def pushed(folder: Path, **libraries: str | None) -> Path:
    """A folder with libraries of the right processors, each with a version inside or none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, build_id in libraries.items():
        content = HEXAGON_32 if name.endswith("Skel") else ARM64
        (folder / f"lib{name}.so").write_bytes(content + b"\0" + (build_id or "").encode() + b"\0")
    return folder


def broken(found: LogExplanation) -> dict[str, str]:
    return {check.name: check.text for check in found.checks if check.state == BROKEN}


def test_case_k1_the_first_cause_and_its_fix() -> None:
    found = explained((CASES / "K1/run.log").read_bytes())
    right = expected("K1")
    assert found.status == "failed" and found.first is not None
    said = (
        sentence(found.first.finding)
        .replace("the stub is", "stub is")
        .replace("the library is of", "library is")
    )
    assert said == right["cause"]
    assert found.first.finding.line_number == 2
    assert found.first.causes[0].next[0].startswith("push the stub of the same SDK, and put its folder first")
    assert [f.kind for f in found.consequences] == ["qnn-remote-symbols", "qnn-device"] and not found.others


def test_case_k1_the_missing_stub_is_found_in_what_was_pushed(tmp_path: Path) -> None:
    names = {}
    for line in (CASES / "K1/pushed.txt").read_text().splitlines():
        if not line.startswith("#"):
            path, build_id = line.split()
            names[Path(path).stem.removeprefix("lib")] = build_id
    files = take_inventory(pushed(tmp_path / "推 送", **names))
    found = explained((CASES / "K1/run.log").read_bytes(), inventory=files)
    assert found.checks[0].name == "stub"  # the most likely cause is looked at first
    assert "libQnnHtpV75Stub.so is missing" in broken(found)["stub"]
    whole = pushed(tmp_path / "whole", **names, QnnHtpV75Stub=EXPECTED)
    assert not broken(explained((CASES / "K1/run.log").read_bytes(), inventory=take_inventory(whole)))
    mixed = pushed(tmp_path / "mixed", **names, QnnHtpV75Stub="v2.25.17.241017110000_20002")
    wrong = broken(explained((CASES / "K1/run.log").read_bytes(), inventory=take_inventory(mixed)))
    assert wrong["versions"].startswith("libQnnHtpV75Stub.so: of QNN v2.25.17")


def test_case_k3_the_skel_the_log_wants_against_the_one_that_was_pushed(tmp_path: Path) -> None:
    log = (
        "QnnDsp <V> skel file path file:///libQnnHtpV73Skel.so?qnn_skel_handle_invoke&_modver=1.0&_dom=cdsp\n"
        "QnnDsp <E> DspTransport.openSession qnn_open failed, 0x80000406\n"
        "QnnDsp <E> Transport layer setup failed: 14001\n"
    )
    files = take_inventory(pushed(tmp_path, QnnHtp=EXPECTED, QnnHtpV75Stub=EXPECTED, QnnHtpV75Skel=EXPECTED))
    found = explained(log, inventory=files)
    assert found.wanted_arch == "v73" and found.first is not None
    assert found.first.finding.kind == "qnn-skel-unreadable"
    assert "libQnnHtpV73Skel.so is missing; here is libQnnHtpV75Skel.so" in broken(found)["skel"]
    assert broken(found)["arch"] == "the log asks for Hexagon v73, the files are for v75"


def test_case_k3_a_log_against_a_chip_alone() -> None:
    log = "<V> skel file path file:///libQnnHtpV75Skel.so?x\nQnnDsp <E> Failed to load skel, error: 4000\n"
    said = explained(log, soc=decide({}, load_chips(), told="SM8635")).checks
    assert [check.text for check in said] == ["the log asks for Hexagon v75, SM8635 has v73"]
    assert not explained(log, soc=decide({}, load_chips(), told="SM8650")).checks
    none = decide({"ro.soc.manufacturer": "Mediatek", "ro.soc.model": "MT6985"}, load_chips())
    assert "QNN needs a chip of Qualcomm" in broken(explained(log, soc=none))["arch"]


@pytest.mark.parametrize("name", ["getprop_8sgen3.txt", "getprop_8elite_p.txt", "getprop_mtk.txt"])
def test_case_k3_files_for_v75_against_the_chips(name: str, tmp_path: Path) -> None:
    properties = dict(re.findall(r"\[(.+?)\]: \[(.*?)\]", (CASES / "K3" / name).read_text()))
    soc = decide(properties, load_chips())
    files = take_inventory(pushed(tmp_path, QnnHtpV75Stub=EXPECTED, QnnHtpV75Skel=EXPECTED))
    (check,) = run_checks(["arch"], files, Surroundings(soc))
    assert check.state == BROKEN
    right = expected("K3")[name]
    if isinstance(right, str):
        assert "QNN needs a chip of Qualcomm" in check.text
    else:
        assert f"Hexagon {right['dsp_arch']}, the files are for v75" in check.text


def test_case_k3_the_kernels_number_is_no_soc_id() -> None:
    chips = load_chips()
    log = "Step3: Compile to QNN\nsoc_id: {} ; dsp_arch: {}\n"
    for model, number in json.loads((CASES / "K3/soc0.json").read_text()).items():
        if not model.startswith("SM8"):
            continue
        found = explained(log.format(number, "v75"), chips=chips)
        assert found.first is not None and found.first.finding.kind == "export-wrong-chip"
        right = expected("K3").get("getprop_8elite_p.txt") if model.startswith("SM8750") else None
        assert f"QNN's is {right['soc_id'] if right else 57}" in found.first.finding.meaning
    for model, (soc_id, arch) in json.loads((CASES / "K3/table.json").read_text()).items():
        assert explained(log.format(soc_id, f"v{arch}"), chips=chips).status == "ok", model
    wrong = explained(log.format(68, "v75"), chips=chips)
    assert wrong.first is not None and "SM8635: dsp_arch v73" in wrong.first.finding.meaning


def test_case_k5_the_real_failing_step() -> None:
    right = expected("K5")
    old = explained((CASES / "K5/old_script.log").read_bytes())
    assert old.status == "failed" and old.export and old.first is not None
    assert old.first.finding.values["step"] in right["old_script.log"]["step"]
    assert old.first.finding.meaning == "Step1 failed: generateIO crashed (Segmentation fault)"
    assert "npu_postreat.json" in old.consequences[-1].meaning  # only follows
    tools = explained((CASES / "K5/backend_not_built.log").read_bytes(), chips=load_chips())
    assert tools.first is not None and tools.first.finding.values["step"] == "Step2"
    assert right["backend_not_built.log"]["cause"].partition(" (")[0] in tools.first.causes[0].text
    assert not tools.others and all(f.consequence for f in tools.consequences)
    ops = explained((CASES / "K5/unsupported_op.log").read_bytes())
    assert ops.status == "warning" and ops.first is not None
    assert ops.first.finding.meaning == right["unsupported_op.log"]["warning"]


def test_case_c3_a_skel_is_rightly_32_bit() -> None:
    checks = run_checks(["abi"], take_inventory(C3))
    found = {Path(check.file or "").name: check for check in checks}
    for name, right in expected("C3").items():
        assert (name in found and found[name].state == BROKEN) == right.startswith("error"), name
    assert "32-bit arm" in found["libMNN.so"].text and "x86_64" in found["libllm.so"].text


def test_a_skel_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libQnnHtpV75Skel.so").write_bytes(ARM64)
    (tmp_path / "libQnnHtp.so").write_text("version https://git-lfs.github.com/spec/v1\n")
    texts = [check.text for check in run_checks(["abi"], take_inventory(tmp_path)) if check.state == BROKEN]
    assert texts[0].startswith("libQnnHtp.so is no library") and "a Skel is Hexagon code" in texts[1]


def test_the_separator_in_the_log() -> None:
    log = "export ADSP_LIBRARY_PATH='/data/a:/vendor/dsp'\nQnnDsp <E> Failed to load skel, error: 4000\n"
    found = explained(log)
    assert broken(found)["separator"].endswith("(line 1)")
    assert "ADSP_LIBRARY_PATH='/data/a;/vendor/dsp'" in (found.checks[0].hint or "")
    assert not explained(log.replace(":/vendor", ";/vendor")).checks


def test_lines_of_public_reports() -> None:
    for line, kind in (
        ("fastrpc_apps_user.c:4247: Error 0x80000416: apps_dev_init failed for domain 3", "qnn-dsp-refused"),
        ("QnnDsp <E> DspTransport.openSession qnn_open failed, 0x80000416", "qnn-dsp-refused"),
        ("QnnDsp <E> DspTransport.openSession qnn_open failed, 0x80000406, prio 100", "qnn-skel-unreadable"),
        ("QnnDsp <E> Failed to create context from binary with err 5005", "qnn-context-refused"),
        ("QnnDsp <E> Conv2d failed 3110", "qnn-op-rejected"),
        ("QnnBackend_validateOpConfig failed 3110", "qnn-op-rejected"),
        ("<E> Failed to validate op rms_norm_node_ with error 0xc26", "qnn-op-rejected"),
        ("QnnDsp <E> Unable to load Skel Library. transportStatus: 9", "qnn-skel-unreadable"),
        ("QnnDsp <E> Failed to retrieve skel build id: err: 1003", "qnn-skel-silent"),
    ):  # fmt: skip
        found = explained(line + "\n")
        assert found.first is not None and found.first.finding.kind == kind, line
        assert found.first.causes


def test_chains_of_public_reports() -> None:
    report = (
        "     0.0ms [ ERROR ] QnnDsp <E> DspTransport.openSession qnn_open failed, 0xffffffff, prio 100\n"
        "     0.0ms [ ERROR ] QnnDsp <E> Failed to retrieve skel build id: err: 1003\n"
        "     0.0ms [ ERROR ] QnnDsp <E> Failed to create transport for device, error: 4000\n"
        "     0.0ms [ ERROR ] QnnDsp <E> Transport layer setup failed: 14001\n"
    )
    found = explained(report)
    assert found.first is not None and found.first.finding.kind == "qnn-dsp-refused"
    assert not found.others  # 1003 is no mismatch of inputs here
    report = (
        '[ ERROR ] <E> "HardSigmoid.0" generated: could not create op\n'
        "[ ERROR ] <E> Failed to finalize graph (id: 1) with err 1002\n"
    )
    found = explained(report)
    assert found.first is not None and found.first.finding.values == {"op": "HardSigmoid"}
    assert found.first.finding.next == ("devkit qnn docs HardSigmoid",)
    assert not found.others and [f.kind for f in found.consequences] == ["qnn-context-version"]
    assert "HardSigmoid as it is used here" in found.first.finding.meaning


def test_any_bytes_and_long_logs_are_read_quickly() -> None:
    log = bytes(range(256)) * 50 + b"\n" + b"decode speed 12.3 tok/s, layer 5005, token 1008\n" * 100_000
    log += (CASES / "K1/run.log").read_bytes()
    start = time.perf_counter()
    found = explain_log(log[at : at + 65536] for at in range(0, len(log), 65536))
    assert time.perf_counter() - start < 20.0
    assert found.first is not None and found.first.finding.kind == "qnn-mixed-versions"
    assert explain_log([]).status == "ok"


def test_shapes_that_do_not_fit_send_devkit_to_the_model_folder(tmp_path: Path) -> None:
    shutil.copytree(CASES.parent / "models/qnn", tmp_path / "qnn")
    log = "[ ERROR ] <E> QnnGraph_execute failed, error 6004\n"
    found = explained(log, inventory=take_inventory(tmp_path))
    assert found.first is not None and found.first.finding.kind == "qnn-io-mismatch"
    assert broken(found)["graphs"] == "qnn/graphllm1.bin is missing, but qnn/llm.mnn runs it"


def test_a_chain_without_its_beginning_still_says_something() -> None:
    found = explained("<E> Transport layer setup failed: 14001\n")
    assert found.status == "failed" and found.first is not None and found.first.finding.kind == "qnn-device"
    nothing = explained("decode speed = 31.84 tok/s, 1008 tokens, 5005 words\n")
    assert nothing.status == "ok" and nothing.first is None


def test_codes() -> None:
    for text, name in (
        ("1008", "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES"),
        ("0x3f0", "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES"),
        ("QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES", "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES"),
        (str((7 << 32) + 14001), "QNN_DEVICE_ERROR_INVALID_CONFIG"),  # a whole Qnn_ErrorHandle_t
        ("-2147482602", "AEE_ERESOURCENOTFOUND"),
        ("0x80000406", "AEE_EUNABLETOLOAD"),
    ):
        assert is_code(text) and look_up(text).name == name
    unknown = look_up("14777")
    assert unknown.name is None and unknown.header == "QnnDevice.h"
    assert not is_code("run.log") and not is_code("./1008")
    for wrong in ("99", "QNN_DEVICE_ERROR_INVALID_CONFI", "1e3"):
        with pytest.raises(UsageError):
            look_up(wrong)


def test_the_table_and_the_findings_belong_together() -> None:
    """Every QNN finding is explained, every check exists, and no number is outside of its range."""
    table = yaml.safe_load((Path(__file__).parents[3] / "devkit/qnn/errors.yaml").read_text("utf-8"))
    findings = {known.kind for known in load_table().known if known.kind.startswith("qnn-")}
    assert findings <= known_kinds()
    for kind in known_kinds():
        for cause in causes_of(kind):
            assert set(cause.checks) <= {*check_names(), "separator", "graphs", "unsigned"}, kind
    for number, entry in table["codes"].items():
        assert look_up(hex(number)).header and entry.get("kind", "qnn-device") in known_kinds()
    names = [entry["name"] for entry in table["codes"].values()]
    assert len(names) == len(set(names))


def test_a_set_that_is_right_is_called_right(tmp_path: Path) -> None:
    files = take_inventory(
        pushed(tmp_path, QnnHtp=EXPECTED, QnnSystem=None, QnnHtpV75Stub=EXPECTED, QnnHtpV75Skel=EXPECTED)
    )
    soc = decide({}, load_chips(), told="SM8650")
    checks = run_checks(check_names(), files, Surroundings(soc, None, EXPECTED))
    assert [(check.name, check.state) for check in checks] == [
        (name, OK) for name in ("versions", "stub", "skel", "arch", "abi")
    ]


def devkit(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    argv, env = [sys.executable, "-m", "devkit", *args], {**os.environ, **env}
    return subprocess.run(argv, input=stdin, env=env, capture_output=True, timeout=60, check=False)


def test_the_command(tmp_path: Path) -> None:
    log = (CASES / "K1/run.log").read_bytes()
    done = devkit("qnn", "explain", "-", stdin=log.decode().encode("utf-16"))  # PowerShell's `>`
    assert done.returncode == 1
    assert done.stdout.decode().startswith("first cause (line 2): the stub is of QNN 2.25.17")
    folder = pushed(tmp_path, QnnHtp=EXPECTED, QnnHtpV75Skel=EXPECTED)
    done = devkit(
        "--json", "qnn", "explain", str(CASES / "K1/run.log"), "--files", str(folder), "--soc", "SM8650"
    )
    data = json.loads(done.stdout)
    assert done.returncode == 1 and data["first_cause"]["kind"] == "qnn-mixed-versions"
    assert {c["name"]: c["state"] for c in data["checks"]} == {"stub": "broken", "versions": "ok"}
    assert devkit("qnn", "explain", "14001").returncode == 0
    assert devkit("qnn", "explain", "14001", "--soc", "SM8650").returncode == 2
    (tmp_path / "sdk/include/QNN").mkdir(parents=True)
    (tmp_path / "sdk/include/QNN/QnnInterface.h").write_text(
        "typedef enum { QNN_NEW_ERROR_OF_TOMORROW = 14777, QNN_NEW_ERROR_UNDEFINED = 1 } Qnn_New_t;\n"
    )
    done = devkit("qnn", "explain", "14777", QNN_SDK_ROOT=str(tmp_path / "sdk"))
    assert done.stdout.startswith(b"14777: QNN_NEW_ERROR_OF_TOMORROW")
    assert devkit("qnn", "explain", "no such.log").returncode == 125
    wrong = devkit("qnn", "explain", str(CASES / "K1/run.log"), "--soc", "SM8651")
    assert wrong.returncode == 2 and b"did you mean SM8650" in wrong.stderr
