"""Case D3: which adb server is meant, and the registry of those devkit brought here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from devkit import paths
from devkit.device.servers import AdbServer, known_servers, server_address
from devkit.errors import ConfigError


def test_precedence_of_case_d3(case: Callable[[str, str], str]) -> None:
    environ = dict(line.split("=", 1) for line in case("D3", "env.txt").split())
    server = server_address(environ, None)
    assert (server.host, server.port, server.origin) == ("192.0.2.10", 5037, "ADB_SERVER_SOCKET")
    assert not server.is_local  # ports of `adb forward` would open over there
    assert not server.is_default
    del environ["ADB_SERVER_SOCKET"]
    assert server_address(environ, None).address == "127.0.0.1:5038"


@pytest.mark.parametrize(
    ("environ", "configured", "address", "origin"),
    [
        ({}, None, "127.0.0.1:5037", "default"),
        ({"ADB_SERVER_SOCKET": "tcp:6000"}, None, "127.0.0.1:6000", "ADB_SERVER_SOCKET"),
        ({"ADB_SERVER_SOCKET": "tcp:[::1]:6000"}, None, "[::1]:6000", "ADB_SERVER_SOCKET"),
        ({"ADB_SERVER_SOCKET": "tcp:5037"}, None, "127.0.0.1:5037", "ADB_SERVER_SOCKET"),
        ({"ADB_SERVER_SOCKET": ""}, None, "127.0.0.1:5037", "default"),
        ({"ANDROID_ADB_SERVER_PORT": "6001"}, None, "127.0.0.1:6001", "ANDROID_ADB_SERVER_PORT"),
        ({"ANDROID_ADB_SERVER_ADDRESS": "h"}, None, "h:5037", "ANDROID_ADB_SERVER_ADDRESS"),
        (
            {"ANDROID_ADB_SERVER_ADDRESS": "h", "ANDROID_ADB_SERVER_PORT": "7"},
            None,
            "h:7",
            "ANDROID_ADB_SERVER_PORT",
        ),
        ({"ADB_SERVER_SOCKET": "tcp:h:1"}, "box:7000", "box:7000", "adb.server"),
        ({}, "7000", "127.0.0.1:7000", "adb.server"),
        ({}, "box", "box:5037", "adb.server"),
    ],
)
def test_address(environ: Mapping[str, str], configured: str | None, address: str, origin: str) -> None:
    server = server_address(environ, configured)
    assert (server.address, server.origin) == (address, origin)


@pytest.mark.parametrize(
    ("environ", "configured", "seen"),
    [
        ({"ADB_SERVER_SOCKET": "localfilesystem:/tmp/adb"}, None, "localfilesystem:/tmp/adb"),
        ({"ADB_SERVER_SOCKET": "tcp:h:x"}, None, "tcp:h:x"),
        ({"ANDROID_ADB_SERVER_PORT": "70000"}, None, "70000"),
        ({}, "h:", "h:"),
        ({}, "h:-1", "h:-1"),
    ],
)
def test_nonsense_is_named(environ: Mapping[str, str], configured: str | None, seen: str) -> None:
    with pytest.raises(ConfigError) as caught:
        server_address(environ, configured)
    assert seen in (caught.value.evidence or "")
    assert caught.value.exit_code == 2


def register(name: str, **changes: Any) -> None:
    entry: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 5555,
        "origin": "sim",
        "label": name,
        "pid": os.getpid(),
        "serials": ["127.0.0.1:1"],
    }
    entry.update(changes)
    folder = paths.adb_server_registry()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(entry), encoding="utf-8")


def test_registry_gives_living_servers() -> None:
    assert known_servers() == []
    register("手机")
    register("tunnel", origin="tunnel", label=None, port=6000, serials=None)
    assert known_servers() == [
        AdbServer("127.0.0.1", 6000, "tunnel", None, ()),
        AdbServer("127.0.0.1", 5555, "sim", "手机", ("127.0.0.1:1",)),
    ]
    assert [server.name for server in known_servers()] == ["127.0.0.1:6000", "sim:手机"]


def test_registry_ignores_the_dead_and_the_broken() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    register("dead", pid=ended.pid)
    register("port", port="x")
    register("nopid", pid=None)
    folder = paths.adb_server_registry()
    for name, content in (("half", '{"host": "127'), ("list", "[1]"), ("number", "3"), ("empty", "")):
        (folder / f"{name}.json").write_text(content)
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
    assert known_servers() == []


def test_tools_get_a_literal_address() -> None:
    assert AdbServer("127.0.0.1", 9, "sim").environment == {"ADB_SERVER_SOCKET": "tcp:127.0.0.1:9"}
