"""`devkit debug --self-test`: it says what works, and names the link that does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devkit import paths
from devkit.device import Device
from tests.e2e.support import Cli, Sim, eventually, left_on_phone

LINKS = ["phone", "debugger", "compile", "push", "server", "launch", "input", "attach", "clean"]
FOLDER = "/data/local/tmp/devkit"


def states(data: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {link["id"]: link["state"] for link in data["links"]}


def nothing_is_left(device: Device) -> bool:
    return eventually(
        lambda: not left_on_phone(device, "devkit-self-test", "lldb-server", ".devkit-guard")
    ) and ("self-test" not in device.shell(["ls", "-a", FOLDER]).text)


def test_every_link_works(sim: Sim, devkit: Cli, device: Device, tmp_path: Path) -> None:
    ran = devkit("debug", "--self-test", "--json", XDG_CACHE_HOME=str(tmp_path))
    assert ran.code == 0, ran.err
    assert states(ran.data) == dict.fromkeys(LINKS, "ok") and ran.data["first_broken"] is None
    evidence = {link["id"]: link["evidence"] for link in ran.data["links"]}
    assert "self_test.c:" in evidence["launch"] and "result = 42" in evidence["launch"]
    assert nothing_is_left(device)
    # The program is compiled once.
    [program] = (tmp_path / "devkit/small-programs/devkit-self-test").glob("*/devkit-self-test")
    made = program.stat().st_mtime_ns
    again = devkit("debug", "--self-test", XDG_CACHE_HOME=str(tmp_path))
    assert again.code == 0 and "the debugger works on this phone" in again.out
    assert program.stat().st_mtime_ns == made


def test_a_compiler_that_is_missing(sim: Sim, devkit: Cli, device: Device, tmp_path: Path) -> None:
    ran = devkit("debug", "--self-test", "--json", XDG_CACHE_HOME=str(tmp_path), CC="no-such-compiler")
    assert ran.code == 1 and ran.data["first_broken"] == "compile"
    found = states(ran.data)
    assert found["server"] == found["clean"] == "ok" and found["launch"] == found["attach"] == "skipped"
    assert nothing_is_left(device)


def test_a_server_that_does_not_run(sim: Sim, devkit: Cli, device: Device, workdir: Path) -> None:
    fake = workdir / "lldb-server"
    shutil.copy("/bin/true", fake)
    ran = devkit("debug", "--self-test", "--json", DEVKIT_LLDB_SERVER=str(fake))
    assert ran.code == 1 and ran.data["first_broken"] == "server"
    [server] = [link for link in ran.data["links"] if link["id"] == "server"]
    assert "does not run on the phone" in server["evidence"] and server["where"] == "phone"
    device.shell(f"rm -f {FOLDER}/.devkit-lldb/*")


def test_attaching_is_forbidden(sim: Sim, devkit: Cli, device: Device) -> None:
    device.shell("setprop debug.devkit.ptrace_scope 1", check=True)
    try:
        ran = devkit("debug", "--self-test", "--json")
    finally:
        device.shell("setprop debug.devkit.ptrace_scope 0", check=True)
    assert ran.code == 1 and ran.data["first_broken"] == "attach"
    assert states(ran.data)["launch"] == states(ran.data)["input"] == "ok"
    assert nothing_is_left(device)


def test_no_phone(devkit: Cli, monkeypatch: pytest.MonkeyPatch, sim: Sim) -> None:
    ran = devkit("debug", "--self-test", "-s", "sim:nobody", "--json")
    assert ran.code == 1 and ran.data["first_broken"] == "phone"
    assert set(states(ran.data).values()) == {"FAILED", "skipped"}
    assert paths.state_dir().is_dir()


@pytest.mark.slow
def test_a_debugger_that_hangs_has_a_limit(sim: Sim, devkit: Cli, device: Device, workdir: Path) -> None:
    lldb = workdir / "lldb"
    lldb.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo "lldb version 23.1.0"\necho stuck\nexec sleep 600\n'
    )
    lldb.chmod(0o755)
    ran = devkit("debug", "--self-test", "--json", "--timeout", "2", DEVKIT_LLDB_PATH=str(lldb))
    assert ran.code == 1 and ran.data["first_broken"] == "launch", ran.err
    found = states(ran.data)
    assert found["input"] == found["attach"] == "FAILED" and found["clean"] == "ok"
    evidence = {link["id"]: link["evidence"] for link in ran.data["links"]}
    assert "did not come to its end within 2 s" in evidence["launch"]
    assert "the program never stopped" in evidence["launch"] and "stuck" in evidence["launch"]
    assert nothing_is_left(device)
