"""Files and numbers of `devkit qnn net-run`, without a phone."""

from __future__ import annotations

import json
import struct
from array import array
from pathlib import Path

import pytest

from devkit.device.soc import decide, load_chips
from devkit.errors import FileError, UsageError
from devkit.ndk.qnn_sdk import open_qnn_sdk
from devkit.qnn.net_run.arrays import TOLERANCES, Tolerance, compare, raw_bytes, read_numbers
from devkit.qnn.net_run.example import write_example
from devkit.qnn.net_run.given import parse_inputs, parse_references, stage_inputs
from devkit.qnn.net_run.host import htp_configs, kind_of, plan_model
from devkit.qnn.net_run.phone import known_backends
from tests.support.qnn_trees import make_sdk


def floats(file: Path, *values: float) -> Path:
    file.write_bytes(array("f", values).tobytes())
    return file


def npy(file: Path, dtype: str, data: bytes, shape: str = "(2,)", order: bool = False) -> Path:
    head = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
    return file


def test_numbers_of_files(tmp_path: Path) -> None:
    assert list(read_numbers(floats(tmp_path / "a.raw", 1, -2))) == [1, -2]
    assert list(read_numbers(npy(tmp_path / "a.npy", "<f8", struct.pack("<dd", 0.5, 3)))) == [0.5, 3]
    assert list(read_numbers(npy(tmp_path / "h.npy", "<f2", struct.pack("<ee", 0.5, 3)))) == [0.5, 3]
    assert raw_bytes(npy(tmp_path / "i.npy", "<i4", b"12345678")) == b"12345678"
    (tmp_path / "cut.raw").write_bytes(b"123456")
    with pytest.raises(FileError, match="cut off"):
        read_numbers(tmp_path / "cut.raw")
    with pytest.raises(FileError, match="Fortran"):
        raw_bytes(npy(tmp_path / "f.npy", "<f4", bytes(16), "(2, 2)", order=True))
    with pytest.raises(FileError, match="no plain numbers"):
        read_numbers(npy(tmp_path / "o.npy", "|O", b""))
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(FileError, match=r"no \.npy"):
        read_numbers(tmp_path / "bad.npy")


def test_a_comparison(tmp_path: Path) -> None:
    reference = floats(tmp_path / "r.raw", 1, 100, -3)
    near = compare(floats(tmp_path / "o.raw", 1.001, 100, -3), reference, Tolerance(0.01, 0))
    assert near.within and near.max_abs == pytest.approx(0.001, rel=1e-3) and near.worst == 0
    assert near.mean_abs == pytest.approx(0.001 / 3, rel=1e-3)
    # 1 of 100 is nothing, 1 of 3 is.
    far = compare(floats(tmp_path / "o.raw", 1, 101, -4), reference, Tolerance(0, 0.02))
    assert not far.within and far.worst == 2
    infinite = compare(floats(tmp_path / "o.raw", 1, float("nan"), -3), reference, Tolerance(9, 9))
    assert not infinite.within and infinite.problem == "value 1 is nan, the reference has 100"
    short = compare(floats(tmp_path / "o.raw", 1), reference, Tolerance(9, 9))
    assert short.problem == "1 values, the reference r.raw has 3"
    # What the articles measured passes on its backend, and HTP's error on no other.
    for backend, error in (("cpu", 4.8e-6), ("gpu", 5.7e-6), ("htp", 9.5e-3)):
        output = floats(tmp_path / "o.raw", error, 100, -3)
        zero = floats(tmp_path / "z.raw", 0, 100, -3)
        passing = [name for name, allowed in TOLERANCES.items() if compare(output, zero, allowed).within]
        assert backend in passing and (backend != "htp" or passing == ["htp"])


def test_the_example_is_the_same_every_time(tmp_path: Path) -> None:
    one, again = write_example(tmp_path / "例"), write_example(tmp_path / "例")
    assert one == again and write_example(tmp_path / "2").model.read_bytes() == one.model.read_bytes()
    assert len(read_numbers(one.reference)) == 64 and len(read_numbers(one.input)) == 128
    one.input.write_bytes(b"mine")
    with pytest.raises(FileError, match="something else"):
        write_example(tmp_path / "例")


def test_inputs_and_their_list(tmp_path: Path) -> None:
    a, b = floats(tmp_path / "a.raw", 1), npy(tmp_path / "b.npy", "<f4", bytes(8))
    (tmp_path / "list.txt").write_text("# two\nx:=a.raw y:=b.npy\na.raw b.npy\n")
    inferences = parse_inputs([f"{a},{b}", str(tmp_path / "list.txt")])
    files = stage_inputs(inferences, tmp_path / "work")
    listed = (tmp_path / "work/input_list.txt").read_text().splitlines()
    assert listed == [
        "input/0_0.raw input/0_1.raw", "x:=input/1_0.raw y:=input/1_1.raw", "input/2_0.raw input/2_1.raw",
    ]  # fmt: skip
    assert {f.remote for f in files} == {
        "input_list.txt",
        *(w.rpartition("=")[2] for w in " ".join(listed).split()),
    }
    assert (tmp_path / "work/input/0_1.raw").read_bytes() == bytes(8)
    with pytest.raises(UsageError, match="does not exist"):
        parse_inputs([str(tmp_path / "no.raw")])
    found = parse_references([str(a), f"Y={a}", str(b)])
    assert [(one.inference, one.name) for one in found] == [(0, None), (0, "Y"), (1, None)]
    assert known_backends("htp, cpu") == ["htp", "cpu"]
    with pytest.raises(UsageError, match="--on"):
        known_backends("npu")


def test_how_a_model_is_made(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "2.42.0.251225")
    (root / "lib/x86_64-linux-clang/libQnnHtpNetRunExtensions.so").write_text("host's\n")
    sdk = open_qnn_sdk(root, "a test")
    model, work = tmp_path / "net.onnx", tmp_path / "work"
    model.write_bytes(b"onnx")
    made = plan_model(sdk, model, work, "aarch64-android", more=["--float_bitwidth", "16"])
    convert, build = made.steps
    assert convert.argv[-2:] == ("--float_bitwidth", "16") and convert.makes == work / "net.cpp"
    assert "aarch64-android" in build.argv and made.file == work / "libs/aarch64-android/libnet.so"
    soc = decide({}, load_chips(), told="SM8750")
    offline = plan_model(sdk, model, work, "aarch64-android", soc=soc)
    assert [step.name for step in offline.steps] == ["convert", "build", "compile"] and offline.context
    assert "x86_64-linux-clang" in offline.steps[1].argv and not work.exists()
    outer, inner = htp_configs(sdk, soc, "net", work).values()
    assert outer["backend_extensions"]["config_file_path"] == str(work / "htp.json")
    assert inner["devices"][0]["soc_id"] == 69 and inner["devices"][0]["dsp_arch"] == "v79"
    assert inner["graphs"][0]["vtcm_mb"] == 8 and json.dumps(inner)
    # A user's own files.
    (tmp_path / "net.cpp").write_text("code")
    assert [s.name for s in plan_model(sdk, tmp_path / "net.cpp", work, "aarch64-android").steps] == ["build"]
    (tmp_path / "words").write_text("words")
    with pytest.raises(UsageError, match="nothing that net-run takes"):
        kind_of(tmp_path / "words")
    with pytest.raises(UsageError, match="converter"):
        plan_model(sdk, tmp_path / "net.cpp", work, "aarch64-android", more=["x"])
