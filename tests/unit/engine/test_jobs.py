"""How many compilers run at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine import jobs
from devkit.engine.build_types import get_build_type
from devkit.engine.jobs import available_cores, available_memory_mb, jobs_for

DEBUG = get_build_type("debug")


@pytest.mark.parametrize(
    ("cores", "memory_mb", "count", "limited_by"),
    [(16, 64_000, 16, "cores"), (16, 4_500, 5, "memory"), (4, 100, 1, "memory"), (1, 900, 1, "cores")],
)
def test_cores_and_memory(cores: int, memory_mb: int, count: int, limited_by: str) -> None:
    found = jobs_for(DEBUG, cores=cores, memory_mb=memory_mb)
    assert (found.count, found.limited_by) == (count, limited_by)
    assert bool(found.why) == (limited_by == "memory")


def test_why_says_both_numbers() -> None:
    found = jobs_for(DEBUG, cores=16, memory_mb=4_608)
    assert found.why == "5 of 16 cores, for 4.5 GB of free memory"


def test_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_CGROUP", tmp_path)
    monkeypatch.setattr(jobs, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:  8388608 kB\n")
    assert available_memory_mb() == 8192
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("123\n")
    assert available_memory_mb() == 8192
    (tmp_path / "memory.max").write_text(f"{2 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{1 << 30}\n")
    assert available_memory_mb() == 1024
    # A container that has read its sources: the cache of files is used, and free all the same.
    (tmp_path / "memory.current").write_text(f"{2 << 30}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\nfile {9 << 28}\ninactive_file {6 << 28}\n")
    assert available_memory_mb() == 1536
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert available_cores() == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert available_cores() >= 1


def test_a_container_of_control_groups_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_CGROUP", tmp_path)
    monkeypatch.setattr(jobs, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemAvailable:  8388608 kB\n")
    group = tmp_path / "memory"
    group.mkdir()
    # Version 1 writes "no limit" as a number larger than any memory.
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "memory.usage_in_bytes").write_text(f"{3 << 30}\n")
    (group / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {1 << 30}\n")
    assert available_memory_mb() == 8192
    (group / "memory.limit_in_bytes").write_text(f"{4 << 30}\n")
    assert available_memory_mb() == 2048


def test_a_system_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_CGROUP", tmp_path)
    monkeypatch.setattr(jobs, "_MEMINFO", tmp_path / "gone")
    assert available_memory_mb() is None
    assert jobs_for(DEBUG, cores=8).count == 8
