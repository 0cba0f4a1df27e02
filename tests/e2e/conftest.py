"""A virtual phone for the session, a small C++ app, and the command line as users start it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, WHEEL_ADB, Cli, Ran, Sim, TinyApp, start_sim


@pytest.fixture(scope="session")
def adb() -> Path:
    return WHEEL_ADB


@pytest.fixture(scope="session")
def session_sim(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("shared", tmp_path_factory.mktemp("state"), adb)
    yield sim
    sim.phone.stop()


@pytest.fixture
def sim(session_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    """The session's phone; devkit in this test finds it by itself."""
    monkeypatch.setenv("XDG_STATE_HOME", str(session_sim.state_home))
    return session_sim


@pytest.fixture
def device(sim: Sim) -> Device:
    return sim.device()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """Every path of an e2e test holds a blank and a letter outside ASCII."""
    folder = tmp_path / "我的 work"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyApp:
    folder = tmp_path_factory.mktemp("小 tiny app")
    for source in ("inner.cpp", "main.cpp"):
        shutil.copy(REPO / "tests/data/tiny" / source, folder)
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    library, program = folder / "libinner.so", folder / "tiny"
    flags = [compiler, "-g", "-O0"]
    subprocess.run(
        [*flags, "-fPIC", "-shared", "inner.cpp", "-o", library, "-Wl,-soname,libinner.so"],
        cwd=folder, check=True,
    )  # fmt: skip
    subprocess.run([*flags, "main.cpp", "-o", program, "-L.", "-linner"], cwd=folder, check=True)
    return TinyApp(folder, program, library)


@pytest.fixture
def devkit(workdir: Path) -> Cli:
    """devkit as a process of its own, in a folder with a blank and a Chinese letter."""

    def run(*args: str | Path, cwd: Path = workdir, stdin: str = "", timeout: float = 120, **env: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "devkit", *map(str, args)],
            cwd=cwd,
            env={**os.environ, **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
