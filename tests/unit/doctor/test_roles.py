"""Which machine this is, and to which one a link belongs."""

from __future__ import annotations

from typing import Any

import pytest

from devkit.device import AdbServer
from devkit.doctor.report import BROKEN, OK, Link, Report
from devkit.doctor.roles import Roles, find_roles, section_of
from devkit.output import Output
from devkit.tunnels.state import TunnelRecord

DEFAULT = AdbServer("127.0.0.1", 5037, "default")
ARRIVAL = AdbServer("127.0.0.1", 31337, "tunnel", "laptop")
OVER_VPN = AdbServer("100.64.0.7", 5037, "adb.server")
VIRTUAL = AdbServer("127.0.0.1", 40000, "sim", "phone")


def record(side: str | None) -> TunnelRecord:
    spec: dict[str, Any] = {"host": "dev", **({"side": side} if side else {})}
    return TunnelRecord("dev", 1, "t", 0.0, "up", spec, (), 1, 0, None, None)


@pytest.mark.parametrize(
    ("records", "arrivals", "meant", "here"),
    [
        ([], [], DEFAULT, ("server", "laptop")),
        ([], [], None, ("server", "laptop")),
        ([record("laptop")], [], DEFAULT, ("laptop",)),
        ([record(None)], [], DEFAULT, ("laptop",)),
        ([], [ARRIVAL], DEFAULT, ("server",)),
        # `tunnel up --from server`: kept up here, and the laptop's adb server arrives here.
        ([record("server")], [ARRIVAL], DEFAULT, ("server",)),
        ([], [], OVER_VPN, ("server",)),
        # In the middle of two tunnels.
        ([record("laptop")], [ARRIVAL], DEFAULT, ("server", "laptop")),
    ],
)
def test_this_machine(
    records: list[TunnelRecord], arrivals: list[AdbServer], meant: AdbServer | None, here: tuple[str, ...]
) -> None:
    assert find_roles(records, arrivals, meant).here == here


def test_whose_adb_server() -> None:
    server, laptop, both = Roles(("server",)), Roles(("laptop",)), Roles()
    assert [server.adb_of(each) for each in (ARRIVAL, OVER_VPN, VIRTUAL)] == ["laptop", "laptop", "server"]
    assert [laptop.adb_of(DEFAULT), both.adb_of(DEFAULT), both.adb_of(VIRTUAL)] == ["laptop"] * 3
    assert [each.building for each in (server, laptop, both)] == ["server", "laptop", "server"]


def test_jump_hosts_are_the_way_to_the_far_machine() -> None:
    assert [section_of(name, record("laptop")) for name in ("jump", "server", "phone")] == [
        "server", "server", "phone",
    ]  # fmt: skip
    assert section_of("jump", record("server")) == "laptop"


@pytest.mark.parametrize(
    ("here", "headings", "last"),
    [
        (("server", "laptop"), ["server and laptop (this machine)", "phone"], "adb (laptop, this machine)"),
        (("server",), ["server (this machine)", "laptop", "phone"], "adb (laptop)"),
        (("laptop",), ["server", "laptop (this machine)", "phone"], "adb (laptop, this machine)"),
    ],
)
def test_headings(here: tuple[str, ...], headings: list[str], last: str) -> None:
    links = (
        Link("python", "server", "Python", OK),
        Link("adb-server", "laptop", "adb", BROKEN),
        Link("phone", "phone", "phone", BROKEN),
    )
    lines = Report(links, Roles(here)).as_text(Output()).splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [
        *headings,
        f"first broken link: {last}",
    ]
