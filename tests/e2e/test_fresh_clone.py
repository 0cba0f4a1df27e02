"""`script/demo` from a fresh clone, cold and warm, as root and as an ordinary user."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import process
from tests.e2e.support import REPO, eventually

COLD_LIMIT_S, WARM_LIMIT_S = 360, 60
ORDINARY_UID = 12345


@pytest.fixture
def place() -> Iterator[Path]:
    # Not pytest's folder: an ordinary user may not walk through it.
    base = Path(tempfile.mkdtemp(prefix="devkit 克隆 "))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("who", ["as we are", "ordinary user"])
def test_script_demo_twice(place: Path, who: str) -> None:
    prefix: list[str] = []
    home = place / "home 家"
    home.mkdir()
    clone = place / "dev kit"
    subprocess.run(["git", "clone", "-q", str(REPO), str(clone)], check=True)
    if who == "ordinary user":
        if os.geteuid() != 0:
            assert os.geteuid() >= 1000, "the first parameter has been an ordinary user already"
            return
        prefix = ["setpriv", f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{ORDINARY_UID}:{ORDINARY_UID}", str(place)], check=True)
    environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment |= {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    if who == "ordinary user":
        environment["LC_ALL"] = "C"  # as build machines like to have it
    mounts = Path("/proc/self/mountinfo").read_text()
    for limit in (COLD_LIMIT_S, WARM_LIMIT_S):
        started = time.monotonic()
        done = subprocess.run(
            [*prefix, "script/demo"], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        took = time.monotonic() - started
        assert done.returncode == 0, done.stdout + done.stderr
        assert "stopped at CPUMatMul.cpp:" in done.stderr and "exit code 0" in done.stderr
        assert took < limit
        assert eventually(lambda: not processes_below(place)), processes_below(place)
        assert Path("/proc/self/mountinfo").read_text() == mounts
        ports = [int(port) for port in re.findall(r"(?:127\.0\.0\.1:|port )(\d+)", done.stderr)]
        assert len(ports) == 2, "the phone's adbd and its adb server"
        assert not any(somebody_listens(port) for port in ports)
    assert not list((home / ".local/state/devkit/sim").glob("*")), "state of a phone is left"
    assert not list((home / ".local/state/devkit/adb-servers").glob("*"))


def processes_below(place: Path) -> list[str]:
    """Command lines of processes that know this place (their programs, arguments or HOME)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(place).encode() in words and process.is_alive(int(entry.name)):
            found.append(words[:200].replace(b"\0", b" ").decode(errors="replace"))
    return found


def somebody_listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
