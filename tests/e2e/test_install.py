"""What a user installs: an editable checkout and a wheel, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.support import REPO

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files git knows, as they are now, plus what a used checkout also holds: a build folder."""
    folder = tmp_path_factory.mktemp("检出 checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True).stdout
    for name in listed.decode().split("\0"):
        if name and (REPO / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((REPO / name).read_bytes())
            target.chmod((REPO / name).stat().st_mode & 0o777)
    built = folder / "examples/mini-engine/build/devkit/cpu/libMNN.so"
    built.parent.mkdir(parents=True)
    built.write_bytes(b"old")
    (folder / ".gitignore").write_bytes((REPO / ".gitignore").read_bytes())
    return folder


@pytest.mark.timeout(600)
def test_an_editable_checkout(checkout: Path, tmp_path: Path) -> None:
    python = new_venv(tmp_path / "环境 env")
    pip(python, "install", "--editable", str(checkout))
    ran = subprocess.run([python, "-m", "devkit", "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0 and ran.stdout.startswith("devkit "), ran.stderr


@pytest.mark.timeout(900)
def test_a_wheel_runs_the_demo_from_any_folder(checkout: Path, tmp_path: Path) -> None:
    python = new_venv(tmp_path / "环境 env")
    pip(python, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(checkout))
    (wheel,) = tmp_path.glob("mnn_devkit-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "devkit/data/mini-engine/CMakeLists.txt" in names
    assert "devkit/sim/system/contents.yaml" in names
    unwanted = ("/build/", "__pycache__")
    assert not [
        name for name in names if name.startswith(("tests/", "examples/")) or any(u in name for u in unwanted)
    ]
    example = subprocess.run(
        ["git", "ls-files", "-z", "examples/mini-engine"],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    packed = {name.replace("devkit/data/", "examples/") for name in names}
    assert {n for n in example.split("\0") if n and not n.endswith(".gitignore")} <= packed
    pip(python, "install", f"{wheel}[sim]")
    elsewhere = tmp_path / "别处 elsewhere"
    elsewhere.mkdir()
    home = tmp_path / "家 home"
    home.mkdir()
    ran = subprocess.run(
        [python.parent / "devkit", "demo", "--json"],
        cwd=elsewhere,
        env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)
    assert Path(data["stop"]["file"]).is_relative_to(home / ".cache/devkit")
    assert not any(elsewhere.iterdir())


def new_venv(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin/python"


def pip(python: Path, *args: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *args],
        env={**os.environ, "PIP_NO_INPUT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
