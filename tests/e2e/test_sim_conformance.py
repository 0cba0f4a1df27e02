"""The adb client against the virtual phone, command by command, compared with a table."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit import sim
from devkit.sim import Phone
from tests.e2e.adb_host import DEBIAN_ADB, AdbHost
from tests.e2e.support import REPO, WHEEL_ADB, eventually

TABLE = REPO / "tests/data/adb-conformance.yaml"
ROWS: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
COMMAND_TIMEOUT_S = 30


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "état 状态"))
    with sim.start_phone("conform", lifeline=True) as started:
        yield started
        log = (started.record.state_dir / "adbd.log").read_text()
    assert "Traceback" not in log
    assert "late import" not in log


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "t mp 文"
    (folder / "dir").mkdir(parents=True)
    (folder / "a").write_text("content a\n")
    (folder / "b").write_text("b\n")
    (folder / "dir" / "x").write_text("x\n")
    (folder / "fake.apk").write_bytes(b"PK\3\4" + bytes(3000))
    return folder


@pytest.mark.parametrize(
    ("version", "adb"),
    [
        pytest.param("36", WHEEL_ADB, id="adb36"),
        pytest.param(
            "29",
            DEBIAN_ADB,
            id="adb29",
            marks=pytest.mark.skipif(
                not DEBIAN_ADB.exists(), reason="Debian's package adb is not installed (script/test does)"
            ),
        ),
    ],
)
def test_every_command_says_what_the_table_says(
    phone: Phone, files: Path, tmp_path: Path, version: str, adb: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    values = {"tmp": str(files), "serial": phone.record.serial, "free": str(free)}
    problems = []
    with AdbHost(tmp_path / "host 主机", adb=adb) as host:
        assert f"Version {version}." in host("version").stdout.decode()
        assert eventually(lambda: b"connected to" in host("connect", phone.record.serial).stdout)
        assert host.becomes(phone.record.serial, "device")
        for number, row in enumerate(ROWS, 1):
            expected = {**row, **row.get(version, {})}
            words = [_fill(word, values) for word in row["run"]]
            stdin = row["stdin"].encode() if "stdin" in row else None
            done = host(*words, stdin=stdin, timeout_s=COMMAND_TIMEOUT_S)
            out, err = done.stdout.decode(), done.stderr.decode()
            if not _fits(expected, values, done.returncode, out, err):
                problems.append(
                    f"{number}. {' '.join(words)}\n  {done.returncode} {out!r} {err!r}\n  {expected}"
                )
    assert not problems, "\n".join(problems)


def test_the_table_is_as_large_as_promised() -> None:
    assert len(ROWS) >= 60
    assert all("said" in row or "out" in row or "code" in row for row in ROWS)


def _fits(expected: dict[str, Any], values: dict[str, str], code: int, out: str, err: str) -> bool:
    if code != expected["code"]:
        return False
    if "out" in expected and out != _fill(expected["out"], values):
        return False
    pattern = expected.get("said", "")
    for name, value in values.items():
        pattern = pattern.replace("{" + name + "}", re.escape(value))
    return re.search(pattern, out + err, re.MULTILINE) is not None


def _fill(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text
