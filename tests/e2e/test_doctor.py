"""`devkit doctor`: a healthy chain, and one injected fault a link, each named first."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit import paths
from tests.e2e.support import REPO, Cli, Ran, Sim, TinyApp, start_sim

PLAIN = "cmake_minimum_required(VERSION 3.16)\nproject(plain CXX)\n"


@pytest.fixture
def engine(workdir: Path) -> Path:
    (workdir / "CMakeLists.txt").write_text(PLAIN)
    (workdir / "devkit.yaml").write_text("engine: cmake\n")
    return workdir


def first_broken(ran: Ran) -> Any:
    assert ran.code == 1, ran.out[-300:] + ran.err
    return json.loads(ran.out)["first_broken"]


def states(ran: Ran) -> dict[str, str]:
    return {link["id"]: link["state"] for link in ran.data["links"]}


def sections(ran: Ran) -> dict[str, str]:
    return {link["id"]: link["section"] for link in ran.data["links"]}


def test_a_healthy_chain(sim: Sim, engine: Path, devkit: Cli) -> None:
    ran = devkit("doctor", "--json")
    assert ran.code == 0, ran.out
    assert ran.data["first_broken"] is None
    # Neither a tunnel from here nor one that arrives: both in one, said so.
    assert ran.data["this_machine"] == ["server", "laptop"]
    assert sections(ran)["ndk"] == "server" and sections(ran)["adb-server"] == "laptop"
    assert {sections(ran)[link] for link in ("phone", "shell", "space", "server")} == {"phone"}
    found = states(ran)
    # The virtual phone needs no NDK; everything else was really looked at.
    assert found["ndk"] in ("not needed", "ok")
    for link in ("python", "config", "engine", "cmake", "make", "compiler", "lldb", "adb", "phone", "shell"):
        assert found[link] == "ok", (link, ran.out)
    text = devkit("doctor")
    assert text.code == 0 and "nothing that is needed is broken" in text.out
    headings = [line for line in text.out.splitlines() if line and not line.startswith(" ")]
    assert headings[:-1] == ["server and laptop (this machine)", "phone"]
    # The lldb-server is compared once it is there.
    tiny_session = states(devkit("doctor", "--json"))
    assert tiny_session["server"] in ("not needed", "ok")


def test_the_pushed_lldb_server_is_compared(sim: Sim, engine: Path, tiny: TinyApp, devkit: Cli) -> None:
    batch = engine / "b.lldb"
    batch.write_text("frame variable\n")
    assert devkit("debug", tiny.program, "--batch", batch).code == 0
    assert states(devkit("doctor", "--json"))["server"] == "ok"


def test_looking_starts_nothing(engine: Path, devkit: Cli) -> None:
    with socket.socket() as sock:
        before = sock.connect_ex(("127.0.0.1", 5037))
    devkit("doctor", "--json")
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", 5037)) == before


def test_without_an_engine_it_is_a_laptop(sim: Sim, devkit: Cli) -> None:
    found = states(devkit("doctor", "--json"))
    assert found["engine"] == "not needed" and found["phone"] == "ok"


@pytest.mark.parametrize(
    ("yaml", "link"),
    [
        ("enigne: mnn\n", "config"),
        ("source: nowhere\n", "engine"),
        ("ndk: {path: broken ndk}\n", "ndk"),
        ("apps: {a: {files: [missing.bin]}}\n", "apps"),
        ("apps: {a: {target: ./for_arm64}}\n", "apps"),
        ("lldb: {path: /no/such/lldb}\n", "lldb"),
        ("lldb: {path: /bin/true, server: ./for_arm64}\n", "lldb"),
        ("qnn: {path: no sdk}\n", "qnn"),
        ("apps: {a: {backend: htp}}\n", "qnn"),
        ("adb: {path: /no/such/adb}\n", "adb"),
        ("adb: {server: '127.0.0.1:1'}\n", "phone"),
        ("device: {serial: 'sim:nobody'}\n", "phone"),
    ],
)
def test_a_fault_in_the_settings(sim: Sim, engine: Path, devkit: Cli, yaml: str, link: str) -> None:
    (engine / "for_arm64").write_bytes((REPO / "tests/data/cases/C1/build/llm_demo").read_bytes())
    (engine / "broken ndk").mkdir()
    (engine / "broken ndk" / "source.properties").write_text("Pkg.Revision = 27.2.12479018\n")
    (engine / "devkit.yaml").write_text(yaml)
    ran = devkit("doctor", "--json")
    assert first_broken(ran) == link
    broken = next(entry for entry in ran.data["links"] if entry["id"] == link)
    assert broken["evidence"]


@pytest.mark.parametrize(
    ("hidden", "link"), [("cmake", "cmake"), ("ninja", "make"), ("compiler", "compiler")]
)
def test_a_tool_that_is_not_there(
    sim: Sim, engine: Path, devkit: Cli, workdir: Path, hidden: str, link: str
) -> None:
    tools = {"cmake": "cmake", "ninja": "ninja", "c++": "c++", "cc": "cc"}
    folder = workdir / "tools"
    folder.mkdir()
    for name in tools:
        if not (name == hidden or (hidden == "compiler" and name in ("c++", "cc"))):
            for place in ("/usr/bin", "/usr/local/bin"):
                if (Path(place) / name).exists():
                    (folder / name).symlink_to(Path(place) / name)
    packages = workdir / "packages"
    packages.mkdir()
    # Modules in front of the installed packages: PyPI brings nothing either.
    for name in {"cmake", "ninja", "ziglang"} - ({"ninja"} if hidden != "ninja" else set()):
        (packages / f"{name}.py").write_text("")
    python_path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    ran = devkit("doctor", "--json", PATH=str(folder), PYTHONPATH=python_path, CC="", CXX="")
    if hidden != "cmake" and not (folder / "cmake").exists():
        pytest.fail("the test needs a cmake on PATH")
    assert first_broken(ran) == link


class FakeAdbServer:
    """Answers host:version and host:devices-l, and nothing else."""

    def __init__(self, devices: str, version: bytes = b"0029") -> None:
        self._devices, self._version = devices.encode(), version
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                request = sock.recv(int(sock.recv(4), 16))
                answer = self._version if request == b"host:version" else self._devices
                sock.sendall(b"OKAY" + b"%04x" % len(answer) + answer)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def fake() -> Iterator[list[FakeAdbServer]]:
    servers: list[FakeAdbServer] = []
    yield servers
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("devices", "hint"),
    [
        ("0A1B2C3D4E5F0011       unauthorized usb:3-1 transport_id:3\n", "unlock the phone"),
        (
            "192.0.2.15:5555        offline product:p model:M device:d transport_id:4\n",
            "devkit device connect 192.0.2.15:5555",
        ),
        ("00AA11BB22CC33DD       no permissions (udev?); see [http://x] usb:3-2 transport_id:5\n", "udev"),
        ("", "devkit sim start"),
    ],
)
def test_a_phone_that_cannot_be_used(
    engine: Path, devkit: Cli, fake: list[FakeAdbServer], devices: str, hint: str
) -> None:
    fake.append(FakeAdbServer(devices))
    (engine / "devkit.yaml").unlink()
    (engine / "CMakeLists.txt").unlink()
    ran = devkit("doctor", "--json", ADB_SERVER_SOCKET=f"tcp:127.0.0.1:{fake[0].port}")
    assert first_broken(ran) == "phone"
    assert hint in ran.out


def test_another_version_of_adbs_server(engine: Path, devkit: Cli, fake: list[FakeAdbServer]) -> None:
    """An adb client would kill it; the doctor only says so."""
    fake.append(FakeAdbServer("", b"001f"))
    ran = devkit("doctor", "--json", ADB_SERVER_SOCKET=f"tcp:127.0.0.1:{fake[0].port}")
    server = next(entry for entry in ran.data["links"] if entry["id"] == "adb-server")
    assert server["state"] == "warning" and "speaks version 31" in server["evidence"]
    assert "speaks version 41" in server["evidence"] and server["fix"] is None


def test_a_server_of_a_virtual_phone_that_does_not_answer(sim: Sim, engine: Path, devkit: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    entry = {"host": "127.0.0.1", "port": port, "origin": "sim", "label": "deaf", "pid": os.getpid()}
    file = paths.adb_server_registry() / "sim-deaf.json"
    file.write_text(json.dumps(entry))
    try:
        ran = devkit("doctor", "--json")
    finally:
        file.unlink()
    server = next(entry for entry in ran.data["links"] if entry["id"] == "adb-server")
    assert server["state"] == "warning" and f"127.0.0.1:{port}" in server["evidence"]


def test_an_lldb_of_another_version(sim: Sim, engine: Path, tiny: TinyApp, devkit: Cli) -> None:
    batch = engine / "b.lldb"
    batch.write_text("frame variable\n")
    assert devkit("debug", tiny.program, "--batch", batch).code == 0
    other = engine / "lldb of 1999"
    other.write_text("#!/bin/sh\necho lldb version 99.1.0\n")
    other.chmod(0o755)
    ran = devkit("doctor", "--json", DEVKIT_LLDB_PATH=str(other))
    server = next(entry for entry in ran.data["links"] if entry["id"] == "server")
    assert server["state"] == "warning" and "lldb is 99" in server["evidence"]
    assert "lldb.server" in server["hints"][0], "a way to pin the pair"


def test_no_adb_server_at_a_named_address(engine: Path, devkit: Cli) -> None:
    (engine / "devkit.yaml").unlink()
    (engine / "CMakeLists.txt").unlink()
    ran = devkit("doctor", "--json", ADB_SERVER_SOCKET="tcp:127.0.0.1:1")
    assert first_broken(ran) == "adb-server"


def test_an_adb_server_on_another_machine(engine: Path, devkit: Cli) -> None:
    """A VPN: adb.server is the laptop's, so this machine is the server."""
    (engine / "devkit.yaml").unlink()
    (engine / "CMakeLists.txt").unlink()
    ran = devkit("doctor", "--json", ADB_SERVER_SOCKET="tcp:127.0.0.2:1")
    assert ran.data["this_machine"] == ["server"] and first_broken(ran) == "adb-server"
    found = sections(ran)
    assert (found["python"], found["adb"], found["adb-server"]) == ("server", "server", "laptop")
    text = devkit("doctor", ADB_SERVER_SOCKET="tcp:127.0.0.2:1").out
    assert text.startswith("server (this machine)\n") and "first broken link: adb server (laptop)" in text


def test_a_full_phone(
    tmp_path: Path, adb: Path, engine: Path, devkit: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = start_sim("full", tmp_path / "state", adb, data_limit_bytes=2_000_000)
    with small.phone:
        monkeypatch.setenv("XDG_STATE_HOME", str(small.state_home))
        assert first_broken(devkit("doctor", "--json")) == "space"


def test_a_folder_that_runs_nothing_is_a_warning(sim: Sim, engine: Path, devkit: Cli) -> None:
    (engine / "devkit.yaml").write_text("device: {dir: /sdcard/devkit}\n")
    ran = devkit("doctor", "--json")
    assert ran.code == 0 and states(ran)["folder"] == "warning"
