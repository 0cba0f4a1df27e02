"""Disturbed deployments: the phone holds all of the old files or all of the new, and devkit says which."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit import runtime
from devkit.config import FileMapping
from devkit.device import Device
from devkit.errors import DeployError, DevkitError
from devkit.runtime import commit
from devkit.runtime.closure import needed_closure
from devkit.sim import break_phone, count_bytes, heal_phone, slow_phone
from devkit.symbols import Stripper
from tests.e2e.support import Cli, Ran, Sim, TinyApp, eventually, start_sim

PLACE = "/data/local/tmp/faults 中"
APP = f"{PLACE}/chat"
NAMES = ("a", "-b b", "deep/c")
FILE_BYTES = 700_000


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("faulty", tmp_path_factory.mktemp("faulty"), adb, data_limit_bytes=24_000_000)
    with sim.phone:
        yield sim


class World:
    """An app with data files of a version, and the phone it goes to."""

    def __init__(self, sim: Sim, workdir: Path, devkit: Cli, tiny: TinyApp) -> None:
        self.sim, self.workdir, self.devkit, self.tiny = sim, workdir, devkit, tiny
        self.hashes: dict[str, int] = {}
        (workdir / "devkit.yaml").write_text(
            f"device: {{dir: '{PLACE}', serial: 'sim:faulty'}}\n"
            f"apps: {{chat: {{target: '{tiny.program}', files: [data]}}}}\n"
        )

    def make(self, version: int) -> None:
        """Write the data files of a version: nothing in them can be compressed."""
        for name in NAMES:
            file = self.workdir / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            content = os.urandom(FILE_BYTES)
            file.write_bytes(content)
            self.hashes[hashlib.sha256(content).hexdigest()] = version

    def deploy(self) -> Ran:
        return self.devkit("deploy", "chat")

    def start(self, *args: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "devkit", "deploy", "chat", *args]
        return subprocess.Popen(
            argv, cwd=self.workdir, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def version(self) -> int:
        """The one version that all files on the phone are of."""
        device = self.device()
        found = {
            self.hashes.get(hashlib.sha256(device.read_bytes(f"{APP}/data/{name}")).hexdigest())
            for name in NAMES
        }
        assert len(found) == 1 and None not in found, f"a mixture: {found}"
        return int(found.pop() or 0)

    def device(self) -> Device:
        """The phone, once it is back from what has been done to it."""
        device = self.sim.device()

        def answers() -> bool:
            try:
                return device.shell("true").exit_code == 0
            except DevkitError:
                return False

        assert eventually(answers, 30)
        return device

    def litter(self) -> list[str]:
        """What no finished deployment leaves."""
        return [name for name in self.device().list_dir(APP) if "staging" in name or "commit" in name]

    def prepare(self, device: Device) -> runtime.DeployPlan:
        closure = needed_closure(
            self.tiny.program, abi=device.abi, api_level=device.api_level, libc=device.libc,
            search=(), artifacts=[self.tiny.library, *_runtime_libraries()],
        )  # fmt: skip
        data = FileMapping(self.workdir / "data", "data")
        return runtime.plan_deployment(device, "chat", closure, [data], device_dir=PLACE, stripper=Stripper())


def _runtime_libraries() -> list[Path]:
    names = ("libstdc++.so.6", "libgcc_s.so.1")
    said = [
        subprocess.run(["g++", f"-print-file-name={n}"], capture_output=True, text=True, check=True)
        for n in names
    ]
    return [Path(one.stdout.strip()) for one in said]


@pytest.fixture
def world(
    broken: Sim, workdir: Path, devkit: Cli, tiny: TinyApp, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("XDG_STATE_HOME", str(broken.state_home))
    world = World(broken, workdir, devkit, tiny)
    world.make(1)
    assert world.deploy().code == 0
    yield world
    heal_phone("faulty")
    slow_phone("faulty", rate="unlimited", delay="0")
    world.device().shell(["rm", "-rf", APP])


@pytest.mark.slow
def test_a_cut_at_every_tenth(world: World) -> None:
    total = len(NAMES) * FILE_BYTES
    for tenth in range(1, 11):
        old, new = tenth, tenth + 1
        world.make(new)
        break_phone("faulty", "cut", {"after": f"{total * tenth // 10}", "direction": "up"})
        ran = world.deploy()
        heal_phone("faulty")
        there = world.version()
        if ran.code == 0:
            assert there == new and tenth == 10, ran.err
        else:
            assert there == old, (tenth, ran.err)
            assert "what was there before is unchanged" in ran.err, ran.err
            assert world.deploy().code == 0
        assert world.version() == new
        assert not [name for name in world.litter() if "commit" in name]


def test_the_disk_fills_up_on_the_way(world: World) -> None:
    world.make(2)
    device = world.device()
    plan = world.prepare(device)
    break_phone("faulty", "disk-full", {"leave": "900kb"})
    with pytest.raises(DeployError, match="storage is full; what was there before is unchanged"):
        runtime.apply_plan(device, plan)
    assert world.version() == 1 and not world.litter()
    # Known before anything travels.
    ran = world.deploy()
    assert ran.code == 125 and "2.1 MB have to travel" in ran.err, ran.err
    heal_phone("faulty")
    assert world.deploy().code == 0 and world.version() == 2


def test_the_phone_restarts_on_the_way(world: World) -> None:
    world.make(2)
    slow_phone("faulty", rate="4mbit")
    before = count_bytes("faulty")["bytes_up"]
    process = world.start()
    assert eventually(lambda: count_bytes("faulty")["bytes_up"] - before > FILE_BYTES)
    break_phone("faulty", "reboot", {"down": "1"})
    _, err = process.communicate(timeout=90)
    slow_phone("faulty", rate="unlimited")
    heal_phone("faulty")
    assert process.returncode == 125 and "unchanged" in err, err
    assert world.version() == 1
    assert world.deploy().code == 0 and world.version() == 2


def test_what_was_decided_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The phone dies while files are being moved: some are in their places, some are not."""
    world.make(2)
    device = world.device()
    made = commit.commit_script

    def dying(*args: Any, **options: Any) -> str:
        first, _, rest = made(*args, **options).partition("\nplace ")
        line, _, rest = rest.partition("\n")
        died = f"'{PLACE}/died'"
        return f"{first}\nplace {line}\n[ -e {died} ] || {{ : > {died}; kill -9 $$; }}\n{rest}"

    monkeypatch.setattr(commit, "commit_script", dying)
    with pytest.raises(DeployError, match="could not be moved"):
        runtime.apply_plan(device, world.prepare(device))
    with pytest.raises(AssertionError, match="a mixture"):
        world.version()
    # Any look of devkit finishes it, and then there is nothing to do.
    assert "nothing to push" in world.deploy().out
    assert world.version() == 2 and not world.litter()


def test_two_at_once(world: World) -> None:
    """The one that comes second has planned for files that are gone: it does nothing, and says so."""
    world.make(2)
    device = world.device()
    ours = world.prepare(device)
    assert world.deploy().code == 0
    with pytest.raises(DeployError, match="somebody else deployed"):
        runtime.apply_plan(device, ours)
    assert world.version() == 2 and not world.litter()
    # Really at once: whatever happens, it is one of them.
    slow_phone("faulty", rate="40mbit")
    world.make(3)
    first = world.start()
    time.sleep(0.6)
    world.make(4)
    second = world.start()
    said = [process.communicate(timeout=90)[1] for process in (first, second)]
    slow_phone("faulty", rate="unlimited")
    codes = [first.returncode, second.returncode]
    assert 0 in codes, said
    assert world.deploy().code == 0 and world.version() == 4


def test_files_that_arrive_damaged_travel_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make(2)
    device = world.device()
    plan = world.prepare(device)
    push: Callable[..., None] = device.push
    pushed: list[list[str]] = []

    def damaging(items: list[Any], on_bytes: Any = None) -> None:
        push(items, on_bytes)
        pushed.append([item.remote.rpartition("/")[2] for item in items])
        if len(pushed) == 1:
            [there] = [item.remote for item in items if item.remote.endswith("/-b b")]
            device.shell(f"printf X | dd of='{there}' bs=1 seek=4000 conv=notrunc", check=True)

    monkeypatch.setattr(device, "push", damaging)
    runtime.apply_plan(device, plan)
    assert pushed[1:] == [["-b b"]] and world.version() == 2


def test_a_link_that_damages_everything(world: World) -> None:
    world.make(2)
    break_phone("faulty", "corrupt", {"every": "500kb", "direction": "up"})
    ran = world.deploy()
    heal_phone("faulty")
    assert ran.code == 125 and world.version() == 1, ran.err
    assert world.deploy().code == 0 and world.version() == 2


def test_changed_behind_our_back_with_a_wrong_clock(world: World) -> None:
    for jump in ("-400d", "400d"):
        break_phone("faulty", "clock", {"by": str(int(jump[:-1]) * 86400)})
        assert "nothing to push" in world.deploy().out
        # Same size, other content.
        world.device().shell(f"printf X | dd of='{APP}/data/a' bs=1 seek=9 conv=notrunc", check=True)
        ran = world.deploy()
        assert "pushed 1 of" in ran.out, ran
        assert world.version() == 1
        heal_phone("faulty")
    assert "nothing to push" in world.deploy().out


def test_prune_takes_only_what_devkit_put_there(world: World) -> None:
    device = world.device()
    device.push_bytes(b"results", f"{APP}/data/deep/result")
    for name in ("deep/c", "a"):
        (world.workdir / "data" / name).unlink()
    device.push_bytes(b"edited there", f"{APP}/data/a")
    assert "nothing to push" in world.deploy().out
    assert device.read_bytes(f"{APP}/data/a") == b"edited there"
    planned = world.devkit("deploy", "chat", "--prune", "--dry-run", "--json").data
    assert planned["removed"] == ["data/deep/c"]
    assert "c" in device.list_dir(f"{APP}/data/deep")
    ran = world.devkit("deploy", "chat", "--prune")
    assert ran.code == 0 and "removed 1" in ran.out, ran
    assert set(device.list_dir(f"{APP}/data/deep")) == {"result"}
    assert device.read_bytes(f"{APP}/data/a") == b"edited there"
    device.shell(["rm", f"{APP}/data/deep/result"], check=True)
    (world.workdir / "data" / "-b b").unlink()
    assert world.devkit("deploy", "chat", "--prune").code == 0
    assert set(device.list_dir(f"{APP}/data")) == {"a", "deep"}


def test_a_name_with_a_line_break_arrives(world: World) -> None:
    content = os.urandom(500)
    (world.workdir / "data" / "two\nlines \\ 'x").write_bytes(content)
    assert world.deploy().code == 0
    assert world.device().read_bytes(f"{APP}/data/two\nlines \\ 'x") == content


def test_touched_here_it_is_still_what_stands_there(world: World) -> None:
    world.make(4)
    assert world.deploy().code == 0
    touched, changed = (world.workdir / "data" / name for name in NAMES[:2])
    os.utime(touched, (1_700_000_000, 1_700_000_000))
    changed.write_bytes(os.urandom(FILE_BYTES))
    assert "pushed 1 of" in world.deploy().out
    assert "nothing to push" in world.deploy().out
