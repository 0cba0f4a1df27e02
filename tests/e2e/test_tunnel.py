"""`devkit tunnel` between three real hosts: made, used, broken, mended, ended."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.e2e.support import REPO, WHEEL_ADB, TinyApp, eventually
from tests.e2e.tunnel_world import PYTHON, Net, devkit, net, world

__all__ = ["net", "world"]


def test_up_list_down(net: Net) -> None:
    up = net.up()
    assert up.code == 0, up.err
    assert net.phones_on_server() == [net.phone["serial"]]
    state = net.status()
    assert state["state"] == "up"
    assert [link["id"] for link in state["links"]] == [
        "ssh:jump", "ssh:server", "port", "adb", f"phone:{net.phone['serial']}",
    ]  # fmt: skip
    assert net.server.listens(state["port"])
    down = devkit(net.laptop, "tunnel", "down")
    assert down.code == 0, down.err
    assert net.laptop.run("kill", "-0", str(state["pid"]), check=False).returncode != 0
    assert eventually(lambda: not net.server.listens(state["port"]), 10)
    assert eventually(lambda: net.phones_on_server() == [], 10)
    assert not list((net.server.home / ".local/state/devkit/adb-servers").glob("*"))


def test_the_whole_way_to_a_breakpoint(net: Net, tiny: TinyApp) -> None:
    """On the server: run and debug, through J and L, on the phone."""
    assert net.up().code == 0
    ran = devkit(net.server, "run", tiny.program)
    assert (ran.code, ran.out) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n"), ran.err
    stopped_at_a_breakpoint(net, tiny)


def stopped_at_a_breakpoint(net: Net, tiny: TinyApp, *words: str) -> None:
    batch = net.server.home / "check it.lldb"
    batch.write_text("process continue\nprocess continue\nprocess continue\n")
    ran = devkit(net.server, "debug", tiny.program, "-b", "inner.cpp:4", "--batch", batch, "--json", *words)
    assert ran.code == 7, ran.out + ran.err
    assert ran.data["stops"], ran.data["transcript"]
    assert ran.data["stops"][0]["frames"][0]["function"] == "inner(int)"


def test_adbd_mode(net: Net, tiny: TinyApp) -> None:
    """The articles' way: the server's own adb is connected to the phone's adbd, and let go afterwards."""
    if not (net.server.run("sh", "-c", "command -v adb", check=False)).stdout:
        pytest.fail("script/test installs adb on the PATH of every login")
    up = net.up("--mode", "adbd", "--forward", "31400:31313")
    assert up.code == 0, up.err
    port = net.status()["port"]
    listed = net.server.run("adb", "devices").stdout.decode()
    assert f"127.0.0.1:{port}\tdevice" in listed
    assert net.server.listens(31400)
    stopped_at_a_breakpoint(net, tiny, "-s", f"127.0.0.1:{port}")
    assert devkit(net.laptop, "tunnel", "down").code == 0
    assert f"127.0.0.1:{port}" not in net.server.run("adb", "devices").stdout.decode()
    phone = devkit(net.laptop, "device", "shell", "-s", "sim:p", "--", "getprop", "service.adb.tcp.port")
    assert phone.out.strip() in ("", "0", "-1")
    net.server.run("adb", "kill-server", check=False)


def is_up(net: Net) -> bool:
    return bool(net.status()["state"] == "up")


def recovers(net: Net, tiny: TinyApp, port: int) -> None:
    assert eventually(lambda: is_up(net), 30)
    # What was told to the user stays true.
    assert net.status()["port"] == port
    stopped_at_a_breakpoint(net, tiny)


@pytest.mark.slow
def test_the_link_is_cut(net: Net, tiny: TinyApp) -> None:
    assert net.up().code == 0
    port = net.status()["port"]
    net.hosts.jump_server.cut()
    assert eventually(lambda: net.status()["state"] != "up", 30)
    net.hosts.jump_server.heal()
    recovers(net, tiny, port)
    state = net.status()
    assert state["reconnects"] == 1 and state["last_error"]


def test_sshd_is_killed(net: Net, tiny: TinyApp) -> None:
    assert net.up().code == 0
    port = net.status()["port"]
    net.server.kill_sshd()
    assert eventually(lambda: net.status()["state"] == "down", 30)
    broken = {link["id"]: link for link in net.status()["links"]}
    assert broken["ssh:jump"]["state"] in ("up", "connecting"), json.dumps(broken)
    assert broken["ssh:server"]["state"] == "down" and broken["ssh:server"]["last_error"]
    # Clients on the server fail at once instead of hanging.
    assert net.phones_on_server() == []
    net.server.start_sshd()
    recovers(net, tiny, port)


def test_the_phone_is_unplugged_and_comes_back(net: Net, tiny: TinyApp) -> None:
    assert net.up().code == 0
    port, serial = net.status()["port"], net.phone["serial"]
    assert devkit(net.laptop, "sim", "break", "unplug", "--name", "p").code == 0

    def phone_state() -> str:
        return str({link["id"]: link["state"] for link in net.status()["links"]}.get(f"phone:{serial}"))

    assert eventually(lambda: phone_state() == "down", 30)
    assert net.phones_on_server() == []
    assert devkit(net.laptop, "sim", "heal", "--name", "p").code == 0
    assert eventually(lambda: phone_state() == "up", 60)
    recovers(net, tiny, port)
    log = (net.laptop.home / ".local/state/devkit/tunnels/server.log").read_text()
    assert f"the phone {serial} is" in log


def test_a_client_of_another_version_does_not_end_the_laptops_adb_server(net: Net) -> None:
    """It sends host:kill, also to a server on another machine."""
    assert net.up().code == 0
    port = net.status()["port"]
    kill = f"import socket; s = socket.create_connection(('127.0.0.1', {port}), 5); " \
        "s.sendall(b'0009host:kill'); print(s.recv(4096).decode())"  # fmt: skip
    said = net.server.run(PYTHON, "-c", kill).stdout.decode()
    assert said.startswith("FAIL") and "devkit" in said
    assert net.phones_on_server() == [net.phone["serial"]]
    adb = net.server.run(WHEEL_ADB, "kill-server", check=False, ADB_SERVER_SOCKET=f"tcp:127.0.0.1:{port}")
    assert b"devkit" in adb.stderr + adb.stdout
    assert net.phones_on_server() == [net.phone["serial"]]


def test_env_for_other_tools(net: Net) -> None:
    assert net.up().code == 0
    said = devkit(net.server, "tunnel", "env", "--shell", "sh")
    assert said.out == f"export ADB_SERVER_SOCKET=tcp:127.0.0.1:{net.status()['port']}\n"
    python, adb = shlex.quote(PYTHON), shlex.quote(str(WHEEL_ADB))
    script = f'eval "$({python} -m devkit tunnel env --shell sh)"; {adb} devices'
    listed = net.server.run("sh", "-c", script, PYTHONPATH=str(REPO)).stdout.decode()
    assert f"{net.phone['serial']}\tdevice" in listed
    arriving = devkit(net.server, "tunnel", "status", "--json").data["arriving"]
    assert [each["name"] for each in arriving] == ["laptop"]


def test_check_names_the_broken_link(net: Net) -> None:
    fine = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--json")
    assert fine.code == 0, fine.out
    assert fine.data["first_broken"] is None
    assert fine.data["measures"]["latency_ms"] > 0 and fine.data["measures"]["down_bytes_s"] > 0
    ids = [link["id"] for link in fine.data["links"]]
    assert ids[:5] == ["dns:jump", "tcp:jump", "banner:jump", "key:jump", "login:jump"]
    assert {"login:server", "forward", "echo", "adb", f"phone:{net.phone['serial']}"} <= set(ids)

    net.server.kill_sshd()
    broken = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--json")
    assert broken.code == 1 and broken.data["first_broken"] == "tcp:server", broken.out
    net.server.start_sshd(AllowTcpForwarding="no")
    broken = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--json")
    assert broken.code == 1 and broken.data["first_broken"] == "forward", broken.out
    assert "AllowTcpForwarding" in json.dumps(broken.data)
    up = net.up()
    assert up.code == 125 and "AllowTcpForwarding" in up.err
    net.server.restart_sshd()


def test_wrong_words(net: Net) -> None:
    for words, text in (
        (("up", "no.such.host.invalid"), "no.such.host.invalid"),
        (("up", "server", "--mode", "usb"), "--mode usb does not exist"),
        (("up", "server", "--forward", "x"), "--forward x is no port"),
        (("up", "server", "--name", "../x"), "cannot be the name of a tunnel"),
        (("down", "nobody"), "no tunnel is called nobody"),
    ):
        ran = devkit(net.laptop, "tunnel", *words)
        assert ran.code != 0 and text in ran.err and "Traceback" not in ran.err, (words, ran.err)
    assert not list((net.laptop.home / ".local/state/devkit/tunnels").glob("*.json"))


def test_in_the_foreground_until_ctrl_c(net: Net) -> None:
    assert not list((net.laptop.home / ".local/state/devkit/tunnels").glob("*.json"))
    words = [PYTHON, "-m", "devkit", "tunnel", "up", "server", "-s", "sim:p"]
    with net.laptop.start(words, PYTHONPATH=str(REPO)) as tunnel:
        assert tunnel.stderr is not None
        assert b"is up" in tunnel.stderr.readline()
        port = net.status()["port"]
        again = devkit(net.laptop, "tunnel", "up", "server", "-s", "sim:p")
        assert again.code == 0 and "up already" in again.err
        other = devkit(net.laptop, "tunnel", "up", "server", "-s", "sim:p", "--mode", "adbd")
        assert other.code == 2 and "--mode: asked adbd, it has adb-server" in other.err
        net.laptop.run("kill", "-INT", str(net.status()["pid"]))
        assert tunnel.wait(20) == 130
    assert eventually(lambda: not net.server.listens(port), 10)
    # The host is remembered for the next time.
    shown = devkit(net.laptop, "config", "show", "--json").out
    assert "tunnel.host" in shown


def test_killed_without_warning(net: Net) -> None:
    """The server's entry goes by itself, and the next `up` finds nothing in its way."""
    assert net.up().code == 0
    state = net.status()
    net.laptop.run("kill", "-KILL", str(state["pid"]))
    assert eventually(lambda: net.phones_on_server() == [], 20)
    dead = devkit(net.laptop, "tunnel", "status")
    assert dead.code == 1 and "dead" in dead.out
    assert net.up().code == 0
    assert net.phones_on_server() == [net.phone["serial"]]
