"""Fixtures around `sim_peer`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test files are imported by path, which makes nothing beside them importable.
sys.path.insert(0, str(Path(__file__).parent))

from sim_peer import Peer, make_peer


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the daemon logs. No test leaves a traceback there."""
    lines: list[str] = []
    for module in ("daemon", "transport", "shell", "sync", "sockets", "reverse"):
        monkeypatch.setattr(f"devkit.sim.adbd.{module}.log", lines.append)
    return lines


@pytest.fixture
def peer(log: list[str]) -> Iterator[Peer]:
    served = make_peer()
    yield served
    served.hang_up()
    assert not [line for line in log if "Traceback" in line], log


@pytest.fixture
def shell_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are started by this machine's shell: there is no /system here."""
    monkeypatch.setattr("devkit.sim.adbd.shell.SHELL", "/bin/sh")
