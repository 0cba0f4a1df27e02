"""Big files go on where they broke off, and old phones get compressed ones through gzip."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit import config as configuration
from devkit import runtime
from devkit.device import Device, streamed
from devkit.errors import DeviceError, DevkitError
from devkit.runtime import staging
from devkit.sim import break_phone, count_bytes, heal_phone
from tests.e2e.support import Cli, Sim, TinyApp, eventually, start_sim

BIG_BYTES = 24_000_000
PLACE = "/data/local/tmp/resumed 中"
# devkit, and on stderr the most memory it had (kB).
# VmHWM: ru_maxrss remembers the size of the process that forked this one.
PEAK = """
import pathlib, sys
from devkit.cli.main import run
code = run(sys.argv[1:])
status = pathlib.Path("/proc/self/status").read_text()
print("peak", status.split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("resumer", tmp_path_factory.mktemp("resumer"), adb)
    with sim.phone:
        yield sim


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("old", tmp_path_factory.mktemp("old"), adb, android="8")
    with sim.phone:
        yield sim


def is_back(device: Device) -> bool:
    try:
        return device.shell("true").exit_code == 0
    except DevkitError:
        return False


def sent(sim: Sim) -> int:
    return int(count_bytes(sim.name)["bytes_up"])


def test_a_model_goes_on_where_it_broke_off(
    far: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(far.state_home))
    model = workdir / "-model it's"
    model.write_bytes(os.urandom(BIG_BYTES))
    os.utime(model, (1_600_000_000, 1_600_000_000))
    (workdir / "devkit.yaml").write_text(
        f"device: {{dir: '{PLACE}', serial: 'sim:resumer'}}\n"
        f"apps: {{chat: {{target: '{tiny.program}', files: [\"-model it's\"]}}}}\n"
    )
    sent(far)
    break_phone("resumer", "cut", {"after": str(BIG_BYTES * 9 // 10), "direction": "up"})
    ran = devkit("deploy", "chat")
    assert ran.code == 125 and "what was there before is unchanged" in ran.err, ran.err
    device = far.device()
    assert eventually(lambda: is_back(device), 30)
    heal_phone("resumer")
    assert "-model it's" not in device.list_dir(f"{PLACE}/chat")
    [part] = [name for name in device.list_dir(f"{PLACE}/chat") if "partial" in name]
    before = sent(far)
    ran = devkit("deploy", "chat")
    assert ran.code == 0 and "had arrived before" in ran.err, ran.err
    assert sent(far) - before < BIG_BYTES / 3
    there = device.stat([f"{PLACE}/chat/-model it's"])[f"{PLACE}/chat/-model it's"]
    assert there is not None and (there.size, there.mtime_s) == (BIG_BYTES, 1_600_000_000)
    said = device.shell(["sha256sum", f"{PLACE}/chat/-model it's"]).text
    assert said.split()[0] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert part not in device.list_dir(f"{PLACE}/chat")
    assert "nothing to push" in devkit("deploy", "chat").out


def test_a_model_that_had_arrived_when_devkit_was_killed_is_not_sent_again(
    far: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(far.state_home))
    model = workdir / "model"
    model.write_bytes(os.urandom(BIG_BYTES))
    os.utime(model, (1_600_000_000, 1_600_000_000))
    (workdir / "devkit.yaml").write_text(
        f"device: {{dir: '{PLACE}', serial: 'sim:resumer'}}\n"
        f"apps: {{whole: {{target: '{tiny.program}', files: [model]}}}}\n"
    )
    settings, device = configuration.load(workdir), far.device()
    local = runtime.build_app(settings, device, "whole")
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(staging, "_decide", killed)
        with pytest.raises(KeyboardInterrupt):
            runtime.deploy_app(device, runtime.prepare_app(settings, device, local))
    assert "model" not in device.list_dir(f"{PLACE}/whole")
    before = sent(far)
    ran = devkit("deploy", "whole")
    assert ran.code == 0 and "24.0 MB had arrived before" in ran.err, ran.err
    assert sent(far) - before < 1_000_000
    there = device.stat([f"{PLACE}/whole/model"])[f"{PLACE}/whole/model"]
    assert there is not None and (there.size, there.mtime_s) == (BIG_BYTES, 1_600_000_000)
    assert not [name for name in device.list_dir(f"{PLACE}/whole") if ".devkit-partial" in name]
    assert "nothing to push" in devkit("deploy", "whole").out


def test_a_big_file_that_arrived_damaged_travels_again(
    far: Sim, tiny: TinyApp, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(far.state_home))
    model = workdir / "model"
    model.write_bytes(os.urandom(17_000_000))
    (workdir / "devkit.yaml").write_text(
        f"device: {{dir: '{PLACE}', serial: 'sim:resumer'}}\n"
        f"apps: {{spoilt: {{target: '{tiny.program}', files: [model]}}}}\n"
    )
    settings, device = configuration.load(workdir), far.device()
    decide, folder = staging._decide, f"{PLACE}/spoilt"
    damaged: list[str] = []

    def damaging(*args: Any, **options: Any) -> Any:
        parts = [name for name in device.list_dir(folder) if ".devkit-partial" in name]
        if not damaged:
            damaged.extend(parts)
            device.shell(f"printf XYZ | dd of='{folder}/{parts[0]}' bs=1 seek=5000 conv=notrunc", check=True)
        return decide(*args, **options)

    monkeypatch.setattr(staging, "_decide", damaging)
    local = runtime.build_app(settings, device, "spoilt")
    runtime.deploy_app(device, runtime.prepare_app(settings, device, local))
    said = device.shell(["sha256sum", f"{folder}/model"]).text.split()[0]
    assert said == hashlib.sha256(model.read_bytes()).hexdigest()
    assert damaged and not set(damaged) & set(device.list_dir(folder))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_3_gb_go_on_after_a_cut_in_little_memory(
    far: Sim, tiny: TinyApp, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file here, whose samples do not shrink; its zeros travel as they are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(far.state_home))
    size = 3_000_000_000
    with (workdir / "model").open("wb") as model:
        model.truncate(size)
        for part in range(4):
            model.seek(size * part // 4)
            model.write(os.urandom(64 * 1024))
    (workdir / "devkit.yaml").write_text(
        f"device: {{dir: '{PLACE}', serial: 'sim:resumer'}}\n"
        f"apps: {{huge: {{target: '{tiny.program}', files: [model]}}}}\n"
    )

    def deploy() -> tuple[int, str, int]:
        """Exit code, stderr, and the most memory it had, in bytes."""
        argv = [sys.executable, "-c", PEAK, "deploy", "huge"]
        ran = subprocess.run(argv, cwd=workdir, capture_output=True, text=True, timeout=700, check=False)
        return ran.returncode, ran.stderr, int(ran.stderr.rsplit("peak ", 1)[1]) * 1024

    break_phone("resumer", "cut", {"after": str(size * 6 // 10), "direction": "up"})
    code, err, peak = deploy()
    assert code == 125 and "what was there before is unchanged" in err and peak < 200_000_000, err
    device = far.device()
    assert eventually(lambda: is_back(device), 30)
    heal_phone("resumer")
    before = sent(far)
    code, err, peak = deploy()
    assert code == 0 and "had arrived before" in err and peak < 200_000_000, err
    assert size * 0.39 < sent(far) - before < size * 0.45
    there = device.stat([f"{PLACE}/huge/model"])[f"{PLACE}/huge/model"]
    assert there is not None and there.size == size
    device.shell(["rm", "-rf", f"{PLACE}/huge"])


def test_a_part_of_something_else_is_not_continued(far: Sim, workdir: Path) -> None:
    device = far.device()
    file, part, target = workdir / "f", "/data/local/tmp/part", "/data/local/tmp/target"
    file.write_bytes(os.urandom(3_000_000))
    for content, prefix in (
        (b"x" * 1000, 0),
        (file.read_bytes()[:1_000_000], 1_000_000),
        (b"y" * 4_000_000, 0),
    ):
        device.push_bytes(content, part)
        assert streamed.send_resumable(device, file, part, target, mode=0o640, mtime_s=7) == prefix
        assert device.read_bytes(target) == file.read_bytes()
        assert part.rpartition("/")[2] not in device.list_dir("/data/local/tmp")
    # Somebody holds it: their bytes are not disturbed.
    device.push_bytes(file.read_bytes()[:10], part)
    with device.open_shell(f"(flock 9; echo held; sleep 30) 9>>{part}") as holder:
        assert holder.read() == ("stdout", b"held\n")
        with pytest.raises(streamed.PartInUse):
            streamed.send_resumable(device, file, part, target, mode=0o644, mtime_s=7)
        assert device.read_bytes(part) == file.read_bytes()[:10]


def test_what_the_phone_refuses_is_told(far: Sim, workdir: Path) -> None:
    file = workdir / "f"
    file.write_bytes(os.urandom(2_000_000))
    with pytest.raises(DeviceError) as caught:
        streamed.send_resumable(far.device(), file, "/system/part", "/system/f", mode=0o644, mtime_s=7)
    assert "/system" in str(caught.value.evidence)


def test_an_old_phone_gets_it_through_gzip(old: Sim, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(old.state_home))
    device = old.device()
    text = b"".join(b"line %d of something that repeats itself\n" % n for n in range(60_000))
    file, target = workdir / "text", "/data/local/tmp/te xt"
    file.write_bytes(text)
    assert streamed.wants_gzip(device, file, len(text))
    before = sent(old)
    streamed.send_gzipped(device, file, "/data/local/tmp/part", target, mode=0o600, mtime_s=1_700_000_000)
    assert sent(old) - before < len(text) / 4
    assert device.read_bytes(target) == text
    there = device.stat([target])[target]
    assert there is not None and there.mtime_s == 1_700_000_000 and there.mode & 0o777 == 0o600
