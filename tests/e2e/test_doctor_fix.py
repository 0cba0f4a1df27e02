"""`devkit doctor --fix`: every repair on the real thing, said, and nothing else touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit import config as configuration
from devkit import lldb, paths
from devkit.device import Device
from devkit.lldb.server import push_server
from devkit.ndk import store_dir
from devkit.ndk.environment import BEGIN
from devkit.ndk.lock import exclusive
from devkit.sim import state
from tests.e2e.support import WHEEL_ADB, Cli, Ran, Sim, eventually, start_sim
from tests.support.http_server import serve, sha1
from tests.support.ndk_trees import make_ndk, zip_tree

FOLDER = "/data/local/tmp/devkit"


@pytest.fixture(autouse=True)
def _no_ndk(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(workdir / name.lower()))
    monkeypatch.setenv("HOME", str(workdir))


@pytest.fixture
def own_state(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test, and an adb server's address at which nobody is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(workdir / "state"))
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:127.0.0.1:1")
    return paths.state_dir()


def link(ran: Ran, id_: str) -> Any:
    return next(entry for entry in ran.data["links"] if entry["id"] == id_)


def fixes(ran: Ran, id_: str | None = None) -> list[tuple[str, str]]:
    return [(f["state"], f["detail"]) for f in ran.data["fixes"] if id_ in (None, f["link"])]


def end_on_phone(device: Device, program: str) -> None:
    """Nothing of a test stays on the shared phone; lldb-server outlives the hang-up of its shell."""
    for process in device.list_processes():
        if process.cmdline[:1] == (program,):
            device.shell(f"kill -9 {process.pid}")
    assert eventually(lambda: not any(p.cmdline[:1] == (program,) for p in device.list_processes()), 20)


def a_dead_pid() -> int:
    done = subprocess.Popen(["true"])
    done.wait()
    return done.pid


# This machine


def test_nothing_to_fix(own_state: Path, devkit: Cli) -> None:
    ran = devkit("doctor", "--fix", "--json")
    assert fixes(ran) == [] and ran.data["first_broken"] == "adb-server"
    assert "nothing to fix" in devkit("doctor", "--fix").out
    assert "fixes" not in devkit("doctor", "--json").data


@pytest.mark.parametrize("words", [["--dry-run"], ["--ndk", "r29"], ["--shell-rc"]])
def test_wishes_go_with_fix(own_state: Path, devkit: Cli, words: list[str]) -> None:
    ran = devkit("doctor", *words)
    assert ran.code == 2 and f"devkit doctor --fix {words[0]}" in ran.err


def test_a_cache_on_a_disk_that_was_cleaned(own_state: Path, devkit: Cli, workdir: Path) -> None:
    gone = workdir / "scratch 盘" / "cache"
    gone.parent.mkdir()
    (workdir / "cache").symlink_to(gone)
    looked = devkit("doctor", "--json")
    assert looked.data["first_broken"] == "folders" and str(gone) in link(looked, "folders")["evidence"]
    assert fixes(devkit("doctor", "--fix", "--dry-run", "--json")) == [("to do", f"make {gone}")]
    assert not gone.exists()
    ran = devkit("doctor", "--fix", "--json")
    assert fixes(ran) == [("done", f"make {gone}")] and gone.is_dir()
    assert link(ran, "folders")["state"] in ("ok", "warning"), "a nearly full disk warns"


def test_a_disk_that_may_not_be_mounted_is_left_alone(own_state: Path, devkit: Cli, workdir: Path) -> None:
    (workdir / "cache").symlink_to(workdir / "not mounted" / "cache")
    ran = devkit("doctor", "--fix", "--json")
    assert ran.data["first_broken"] == "folders" and fixes(ran) == []
    assert not (workdir / "not mounted").exists()


def test_an_own_folder_without_permission(own_state: Path, devkit: Cli, workdir: Path) -> None:
    data = workdir / "data/devkit"
    data.mkdir(parents=True)
    data.chmod(0o500)
    assert devkit("doctor", "--json").data["first_broken"] == "folders"
    assert fixes(devkit("doctor", "--fix", "--json")) == [("done", f"make {data} writable")]
    assert data.stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_way_is_the_users(own_state: Path, devkit: Cli, workdir: Path) -> None:
    (workdir / "data").write_text("mine")
    ran = devkit("doctor", "--fix", "--json")
    assert ran.data["first_broken"] == "folders" and fixes(ran) == []
    assert (workdir / "data").read_text() == "mine"


def test_leftovers_of_killed_processes(own_state: Path, devkit: Cli, workdir: Path) -> None:
    dead, alive = a_dead_pid(), os.getpid()
    sessions = own_state / "sessions"
    registry = paths.adb_server_registry()
    registry.mkdir(parents=True)
    for pid in (dead, alive):
        (sessions / f"{pid}-x").mkdir(parents=True)
        entry = {"host": "127.0.0.1", "port": 2, "origin": "sim", "label": "x", "pid": pid}
        (registry / f"sim-{pid}.json").write_text(json.dumps(entry))
    (registry / "notes.json").write_text("somebody's")
    store = store_dir()
    abandoned, busy = store / ".r27d.unpack-1", store / ".r29.unpack-2"
    for folder in (abandoned, busy):
        (folder / "android-ndk").mkdir(parents=True)
        (folder / "android-ndk/file").write_bytes(bytes(2_000_000))
    (store / ".mine.txt").write_text("")
    part = paths.cache_dir() / "downloads/android-ndk-r29-linux.zip.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    with exclusive(store / ".r29.lock", "installing"):
        looked = devkit("doctor", "--json")
        assert link(looked, "leftovers")["state"] == "warning"
        [would] = fixes(devkit("doctor", "--fix", "--dry-run", "--json"))
        assert would[0] == "to do" and abandoned.exists()
        ran = devkit("doctor", "--fix", "--json")
    [(done, said)] = fixes(ran)
    assert done == "done" and "1 folder of a killed debug session" in said
    assert "1 entry of an ended adb server" in said and "1 unfinished installation" in said
    assert [p.name for p in sessions.iterdir()] == [f"{alive}-x"]
    assert sorted(p.name for p in registry.iterdir()) == ["notes.json", f"sim-{alive}.json"]
    assert not abandoned.exists() and busy.exists() and (store / ".mine.txt").exists()
    # What a break has left of a download is worth something.
    assert part.exists() and "partial download" in link(ran, "leftovers")["evidence"]
    assert link(ran, "leftovers")["state"] == "ok"


@pytest.mark.slow
def test_what_a_killed_virtual_phone_leaves(own_state: Path, devkit: Cli, workdir: Path) -> None:
    dead = start_sim("dead", workdir / "state", WHEEL_ADB)
    alive = start_sim("alive", workdir / "state", WHEEL_ADB)
    with alive.phone:
        os.kill(dead.phone.record.pid, signal.SIGKILL)
        assert eventually(lambda: not state.is_locked("dead"), 30)
        assert state.left_behind() == ["dead"]
        ran = devkit("doctor", "--fix", "--json", "-s", "sim:alive")
        assert "1 rest of a killed virtual phone" in fixes(ran, "leftovers")[0][1]
        assert not state.phone_dir("dead").exists() and state.phone_dir("alive").exists()
        assert link(ran, "phone")["state"] == "ok"


def test_a_block_that_names_a_removed_ndk(own_state: Path, devkit: Cli, workdir: Path) -> None:
    old = make_ndk(workdir / "old ndk", "27.3.13750724")
    rc = workdir / ".bashrc"
    rc.write_text("mine\n")
    bash = {"SHELL": "/bin/bash"}
    assert devkit("env", "--install", "--shell", "bash", ANDROID_NDK=str(old)).code == 0
    # With another NDK chosen for one command the block is still right.
    new = make_ndk(workdir / "android_ndk", "29.0.14206865")
    assert link(devkit("doctor", "--json", ANDROID_NDK=str(new), **bash), "variables")["state"] == "ok"
    old.rename(workdir / "moved")
    before = rc.read_bytes()
    # As in a shell that has read the block: it still names the old one.
    stale = {name: str(old) for name in ("ANDROID_NDK", "ANDROID_NDK_ROOT", "ANDROID_NDK_HOME")} | bash
    looked = link(devkit("doctor", "--json", **stale), "variables")
    assert looked["state"] == "warning" and f"ANDROID_NDK={old}" in looked["evidence"]
    devkit("doctor", "--fix", "--dry-run", **stale)
    assert rc.read_bytes() == before
    ran = devkit("doctor", "--fix", "--json", **stale)
    assert f"ANDROID_NDK={new}" in fixes(ran, "variables")[0][1]
    assert f"ANDROID_NDK='{new}'" in rc.read_text() and rc.read_text().startswith("mine\n")


def test_without_an_ndk_the_dead_block_cannot_be_mended(own_state: Path, devkit: Cli, workdir: Path) -> None:
    old = make_ndk(workdir / "old ndk", "27.3.13750724")
    devkit("env", "--install", "--shell", "bash", ANDROID_NDK=str(old))
    old.rename(workdir / "moved")
    (workdir / "cache").symlink_to(workdir / "cleaned")
    ran = devkit("doctor", "--fix", "--json", SHELL="/bin/bash")
    # One that fails is said, and keeps no other from being done.
    assert fixes(ran, "variables")[0][0] == "failed" and "neither" in fixes(ran, "variables")[0][1]
    assert fixes(ran, "folders")[0][0] == "done"
    assert str(old) in (workdir / ".bashrc").read_text()


def test_the_rc_file_is_written_only_when_asked(own_state: Path, devkit: Cli, workdir: Path) -> None:
    ndk = make_ndk(workdir / "android_ndk", "29.0.14206865")
    rc = workdir / ".bashrc"
    assert fixes(devkit("doctor", "--fix", "--json", SHELL="/bin/bash")) == [] and not rc.exists()
    ran = devkit("doctor", "--fix", "--shell-rc", "--json", SHELL="/bin/bash")
    assert fixes(ran, "variables")[0][0] == "done"
    assert BEGIN in rc.read_text() and str(ndk) in rc.read_text()
    assert fixes(devkit("doctor", "--fix", "--shell-rc", "--json", SHELL="/bin/bash")) == []


def test_an_ndk_is_installed_only_when_asked(own_state: Path, devkit: Cli, workdir: Path) -> None:
    name = "android-ndk-r27d-linux.zip"
    archive = zip_tree(make_ndk(workdir / "src/android-ndk-r27d", "27.3.13750724"), workdir / name)
    table = {"releases": {"r27d": {"revision": "27.3.13750724", "sha1": sha1(archive)}}}
    with serve({f"/{name}": archive}) as mirror:
        own = paths.config_dir() / "ndk-releases.yaml"
        own.parent.mkdir(parents=True)
        own.write_text(yaml.safe_dump({**table, "mirrors": [mirror.url]}))
        assert fixes(devkit("doctor", "--fix", "--json")) == []
        would = devkit("doctor", "--fix", "--ndk", "r27d", "--dry-run", "--json")
        assert fixes(would) == [("to do", "install NDK r27d")] and not mirror.requests
        ran = devkit("doctor", "--fix", "--ndk", "r27d", "--json")
        assert fixes(ran, "ndk")[0][0] == "done" and link(ran, "ndk")["state"] == "ok"
        # There is one now: nothing is installed beside it.
        assert fixes(devkit("doctor", "--fix", "--ndk", "r27d", "--json")) == []
    assert str(store_dir() / "r27d") in (paths.config_dir() / "config.yaml").read_text()


def test_an_ndk_that_is_not_complete_is_broken(own_state: Path, devkit: Cli, workdir: Path) -> None:
    """Its toolchain file and its lldb-server are there: a build would fail in its middle."""
    ndk = make_ndk(workdir / "ndk", "29.0.14206865")
    (ndk / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++").unlink()
    ran = devkit("doctor", "--json", DEVKIT_NDK_PATH=str(ndk))
    assert ran.data["first_broken"] == "ndk" and "bin/clang++" in link(ran, "ndk")["evidence"]


IN_NAMESPACES = """\
import fcntl, json, socket, struct, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x41) + b"\\0" * 14)
def doctor(*words):
    done = subprocess.run([sys.executable, "-m", "devkit", "doctor", "--json", *words], capture_output=True)
    return json.loads(done.stdout)
"""


def in_namespaces(script: str, workdir: Path, before: str = "") -> Any:
    """Run a script where port 5037 and /dev are its own; what it prints as JSON."""
    command = ["unshare", "-Urnmpf", "--kill-child", "--mount-proc", "sh", "-c", f'{before} exec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", IN_NAMESPACES + script],
        cwd=workdir,
        env={**os.environ, "TMPDIR": str(workdir)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_the_users_adb_server_is_started(workdir: Path) -> None:
    script = (
        'looked = doctor("--fix", "--dry-run")\n'
        'refused = socket.socket().connect_ex(("127.0.0.1", 5037))\n'
        'fixed = doctor("--fix")\n'
        'socket.create_connection(("127.0.0.1", 5037), 5)\n'
        'print(json.dumps([looked, refused, fixed, doctor("--fix")]))\n'
    )
    looked, refused, fixed, again = in_namespaces(script, workdir)
    assert looked["first_broken"] == "adb-server" and refused != 0
    assert [f["state"] for f in looked["fixes"]] == ["to do"]
    assert [f["state"] for f in fixed["fixes"]] == ["done"]
    assert "started the adb server at 127.0.0.1:5037" in fixed["fixes"][0]["detail"]
    assert fixed["first_broken"] == "phone" and again["fixes"] == []


def test_a_container_without_tun(workdir: Path) -> None:
    """As in Docker: no VPN from there, and no fault either."""
    script = "print(json.dumps(doctor()))\n"
    report = in_namespaces(script, workdir, "mount -t tmpfs none /dev/net &&")
    vpn = next(entry for entry in report["links"] if entry["id"] == "vpn")
    assert vpn["state"] == "not needed" and "SSH reaches the phone as well" in vpn["evidence"]


# The phone


def test_a_repair_that_fails_is_a_failure(sim: Sim, devkit: Cli, workdir: Path) -> None:
    """Nothing that is needed is broken (a virtual phone needs no NDK); what was asked for was not done."""
    (workdir / "CMakeLists.txt").write_text("project(x)\n")
    ran = devkit("doctor", "--fix", "--ndk", "r1", "--json")
    assert fixes(ran, "ndk")[0][0] == "failed"
    assert ran.data["first_broken"] is None and ran.code == 1


@pytest.mark.slow
def test_leftovers_on_the_phone(sim: Sim, device: Device, devkit: Cli) -> None:
    tools = lldb.find_tools(configuration.load(), device)
    current = push_server(device, tools, FOLDER)
    servers = current.rpartition("/")[0]
    old, running = f"{servers}/lldb-server-{'0' * 16}", f"{servers}/lldb-server-{'1' * 16}"
    perf = f"{FOLDER}/.devkit-perf"
    device.shell(
        f"mkdir -p {FOLDER}/app/.devkit-staging-abc/0 {FOLDER}/app/.devkit-staging-new; "
        f"echo x > {FOLDER}/app/.devkit-staging-abc/0/part; echo mine > {FOLDER}/app/mine; "
        f"echo 999999 > {FOLDER}/app/.devkit-guard-dead; echo 1 > {FOLDER}/app/.devkit-guard-alive; "
        f"echo old > {old}; cp /system/bin/sleep {running}; "
        f"mkdir -p {perf}/run-old {perf}/run-now; echo x > {perf}/run-old/perf.data; "
        f"echo x > {perf}/run-now/log; "
        f"touch -d '2020-01-01 00:00:00' {FOLDER}/app/.devkit-staging-abc {perf}/run-old/perf.data "
        f"{perf}/run-old {perf}/run-now",
        check=True,
    )
    with device.open_shell(f"exec {running} 1000"):
        assert eventually(lambda: any(p.cmdline[:1] == (running,) for p in device.list_processes()), 20)
        [would] = fixes(devkit("doctor", "--fix", "--dry-run", "--json"), "phone-leftovers")
        assert would[0] == "to do"
        ran = devkit("doctor", "--fix", "--json")
        [(done, said)] = fixes(ran, "phone-leftovers")
    end_on_phone(device, running)
    removed = [
        f"{FOLDER}/app/.devkit-staging-abc",
        f"{FOLDER}/app/.devkit-guard-dead",
        old,
        f"{perf}/run-old",
    ]
    assert done == "done" and all(path in said for path in removed)
    kept = [current, running, f"{FOLDER}/app/mine", f"{FOLDER}/app/.devkit-staging-new"]
    kept += [f"{FOLDER}/app/.devkit-guard-alive", f"{perf}/run-now"]
    there = device.stat([*removed, *kept])
    assert [path for path in removed if there[path]] == []
    assert [path for path in kept if not there[path]] == []
    device.shell(f"rm -rf {FOLDER}/app {perf} {running}", check=True)
    assert link(devkit("doctor", "--json"), "phone-leftovers")["state"] == "ok"


def test_an_lldb_server_that_does_not_run(sim: Sim, device: Device, devkit: Cli) -> None:
    tools = lldb.find_tools(configuration.load(), device)
    server = push_server(device, tools, FOLDER)
    size = tools.server.stat().st_size
    # Of the right size, so that a session would take it for the right one.
    device.shell(f"rm -f {server}; head -c {size} /dev/zero > {server}; chmod 755 {server}", check=True)
    ran = devkit("doctor", "--json")
    assert ran.data["first_broken"] == "server"
    mended = devkit("doctor", "--fix", "--json")
    assert fixes(mended, "server")[0][0] == "done" and mended.data["first_broken"] is None
    assert device.stat([server])[server] is None
    assert push_server(device, tools, FOLDER) == server
    assert link(devkit("doctor", "--json"), "server")["state"] == "ok"


@pytest.mark.slow
def test_forwards_that_lead_nowhere(sim: Sim, device: Device, devkit: Cli) -> None:
    from devkit.device.forwards import own_forwards, remove_forward

    def forward(remote: str) -> str:
        done = subprocess.run(
            [WHEEL_ADB, "-s", device.serial, "forward", "tcp:0", remote],
            env={**os.environ, **device.server.environment}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return f"tcp:{done.stdout.strip()}"

    dead, theirs = forward("localabstract:devkit-manual"), forward("localabstract:mine")
    live = forward("localabstract:devkit-live")
    tools = lldb.find_tools(configuration.load(), device)
    server = push_server(device, tools, FOLDER)
    with device.open_shell(f"exec {server} gdbserver unix-abstract://devkit-live"):
        assert eventually(lambda: "@devkit-live" in device.shell("cat /proc/net/unix").text, 20)
        looked = link(devkit("doctor", "--json"), "forwards")
        assert looked["state"] == "warning" and dead in looked["evidence"] and live not in looked["evidence"]
        ran = devkit("doctor", "--fix", "--json")
        [(done, said)] = fixes(ran, "forwards")
        assert done == "done" and dead in said
        # Nobody was connected to: the one connection of the server is still to be had.
        assert "@devkit-live" in device.shell("cat /proc/net/unix").text
    end_on_phone(device, server)
    left = subprocess.run(
        [WHEEL_ADB, "forward", "--list"],
        env={**os.environ, **device.server.environment}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert dead + " " not in left and live + " " in left and theirs + " " in left
    for ours in own_forwards(device):
        remove_forward(device, ours)
    subprocess.run([WHEEL_ADB, "-s", device.serial, "forward", "--remove", theirs],
                   env={**os.environ, **device.server.environment}, check=True)  # fmt: skip
    assert link(devkit("doctor", "--json"), "forwards")["state"] == "ok"
