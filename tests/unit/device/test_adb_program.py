"""Finding adb, its versions, and the clash of case D3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.device.adb_program import (
    AdbProgram,
    VersionClash,
    find_adb,
    find_version_clash,
    parse_version,
    parse_version_clash,
)
from devkit.device.servers import AdbServer
from devkit.errors import ToolMissing

PRINTED = "Android Debug Bridge version 1.0.41\nVersion {}\nInstalled as /x/adb\n"


def fake_adb(path: Path, output: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name("called")
    path.write_text(f"#!/bin/sh\necho \"$@\" >>'{log}'\ncat <<'E'\n{output}E\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (PRINTED.format("36.0.0-13206524"), ("36.0.0", 41)),
        (PRINTED.format("34.0.4-debian"), ("34.0.4", 41)),
        ("Android Debug Bridge version 1.0.39\nRevision 3db08f2c6889-android\n", ("1.0.39", 39)),
        (PRINTED.format("35.0.2").replace("\n", "\r\n"), ("35.0.2", 41)),
        ("fish: unknown command", None),
        ("", None),
    ],
)
def test_version(text: str, parsed: tuple[str, int] | None) -> None:
    assert parse_version(text) == parsed


def test_clash_of_case_d3(
    case: Callable[[str, str], str], expected: Callable[[str], dict[str, object]]
) -> None:
    clash = parse_version_clash(case("D3", "stderr.txt"))
    assert clash is not None
    assert {"server": clash.server, "client": clash.client} == expected("D3")["parse"]
    program = AdbProgram(Path("/opt/pt/adb"), "36.0.0", 41, "PATH")
    text = clash.explain(program, AdbServer("192.0.2.10", 5037, "default"))
    # What must be said: which adb, both versions, the cure.
    for part in ("/opt/pt/adb", "36.0.0", "version 40", "version 41", "192.0.2.10:5037", "both ends"):
        assert part in text
    assert parse_version_clash("all is well") is None
    assert find_version_clash(40, program) == VersionClash(server=40, client=41)
    assert find_version_clash(41, program) is None


def test_order_and_only_version_is_run(tmp_path: Path) -> None:
    on_path = fake_adb(tmp_path / "bin ü" / "adb", PRINTED.format("35.0.0"))
    in_sdk = fake_adb(tmp_path / "sdk" / "platform-tools" / "adb", PRINTED.format("34.0.0"))
    configured = fake_adb(tmp_path / "own" / "adb", PRINTED.format("33.0.0"))
    environ = {"PATH": str(on_path.parent), "ANDROID_HOME": str(tmp_path / "sdk")}
    assert find_adb(configured, environ) == AdbProgram(configured, "33.0.0", 41, "adb.path")
    assert find_adb(None, environ) == AdbProgram(on_path, "35.0.0", 41, "PATH")
    assert find_adb(None, {**environ, "PATH": ""}) == AdbProgram(in_sdk, "34.0.0", 41, "ANDROID_HOME")
    for program in (on_path, in_sdk, configured):
        assert program.with_name("called").read_text() == "version\n"


def test_one_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = fake_adb(tmp_path / "bin" / "adb", "exec format error\n", code=1)
    found = find_adb(None, {"PATH": str(broken.parent)})
    assert found.origin == "adbutils"
    assert found.protocol >= 41
    assert found.path.is_file()


def test_a_configured_one_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="configured"):
        find_adb(tmp_path / "none")
    with pytest.raises(ToolMissing) as caught:
        find_adb(fake_adb(tmp_path / "adb", "I am no adb\n"))
    assert "I am no adb" in (caught.value.evidence or "")


def test_nothing_found_lists_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = fake_adb(tmp_path / "adb", "hm\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as caught:
        find_adb(None, {"PATH": str(tmp_path)})
    assert str(broken) in (caught.value.evidence or "")
    assert caught.value.hints
