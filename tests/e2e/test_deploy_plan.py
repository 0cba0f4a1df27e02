"""`devkit deploy --dry-run`: what travels and why, what it weighs on the link, what is refused before."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli, Sim, TinyApp


def files_of(data: dict[str, object]) -> dict[str, dict[str, object]]:
    listed = data["files"]
    assert isinstance(listed, list)
    return {entry["remote"]: entry for entry in listed}


def test_a_backend_that_is_opened_at_run_time_travels(
    workdir: Path, devkit: Cli, sim: Sim, device: Device
) -> None:
    source = workdir / "MNN 引擎"
    shutil.copytree(REPO / "tests/data/mnn-shape", source)
    (source / "devkit.yaml").write_text("engine: mnn\ndevice: {dir: /data/local/tmp/plan}\n")
    plan = devkit("deploy", "llm_demo", "--profile", "opencl", "--dry-run", "--json", cwd=source)
    assert plan.code == 0, plan.err
    files = files_of(plan.data)
    assert files["libMNN_CL.so"]["reason"] == "opened at run time (profile opencl)"
    # The plan is the build's word, not a list of names: without the profile there is none.
    plain = devkit("deploy", "llm_demo", "--profile", "cpu", "--dry-run", "--json", cwd=source)
    assert "libMNN_CL.so" not in files_of(plain.data)
    # One library: the backend is inside it, and nothing is missed.
    (source / "devkit.yaml").write_text(
        "engine: mnn\ndevice: {dir: /data/local/tmp/plan}\n"
        "profiles: {opencl: {options: {MNN_SEP_BUILD: OFF}}}\n"
    )
    whole = devkit("deploy", "llm_demo", "--profile", "opencl", "--dry-run", "--json", cwd=source)
    assert whole.code == 0, whole.err
    assert not {"libMNN_CL.so", "libllm.so"} & set(files_of(whole.data))
    assert device.stat(["/data/local/tmp/plan/llm_demo"])["/data/local/tmp/plan/llm_demo"] is None


@pytest.fixture
def app(workdir: Path, tiny: TinyApp, sim: Sim) -> Path:
    (workdir / "text.txt").write_text("the same words again and again\n" * 20_000)
    (workdir / "noise.bin").write_bytes(Path("/dev/urandom").open("rb").read(300_000))
    (workdir / "devkit.yaml").write_text(
        f"device: {{dir: /data/local/tmp/plan}}\n"
        f"apps: {{t: {{target: '{tiny.program}', files: [text.txt, noise.bin]}}}}\n"
    )
    return workdir


def test_what_it_weighs(app: Path, devkit: Cli, device: Device) -> None:
    plan = devkit("deploy", "t", "--dry-run", "--json").data
    files = files_of(plan)
    size = (app / "text.txt").stat().st_size
    assert files["text.txt"]["size"] == files["text.txt"]["sent_size"] == size
    packed = files["text.txt"]["wire_size"]
    assert isinstance(packed, int) and 0 < packed < size / 20
    assert files["noise.bin"]["wire_size"] == 300_000
    assert plan["wire_bytes"] == sum(int(str(f["wire_size"])) for f in files.values())
    text = devkit("deploy", "t", "--dry-run").out
    assert "packed" in next(line for line in text.splitlines() if "text.txt" in line)
    try:
        assert devkit("deploy", "t").code == 0
        again = devkit("deploy", "t", "--dry-run", "--json").data
        assert again["wire_bytes"] == 0 and {f["why"] for f in again["files"]} == {"unchanged"}
    finally:
        device.shell(["rm", "-rf", "/data/local/tmp/plan"], check=True)


def test_files_that_the_linker_would_trip_over(
    app: Path, devkit: Cli, tiny: TinyApp, device: Device, tmp_path: Path
) -> None:
    foreign = tmp_path / "libforeign.so"
    shutil.copy(REPO / "tests/data/cases/C3/push/libMNN_Express.so", foreign)
    old = tmp_path / "libinner_old.so"
    shutil.copy(tiny.library, old)
    config = (app / "devkit.yaml").read_text()
    (app / "devkit.yaml").write_text(config.replace("noise.bin", f"'{foreign}'"))
    ran = devkit("deploy", "t")
    wanted = device.abi
    if wanted == "x86_64":
        assert (
            ran.code == 125
            and f"libforeign.so is for arm64-v8a (64-bit aarch64), the phone wants {wanted}" in ran.err
        )
        assert device.stat(["/data/local/tmp/plan/t"])["/data/local/tmp/plan/t"] is None
    (app / "devkit.yaml").write_text(config.replace("noise.bin", f"'{old}'"))
    shown = devkit("deploy", "t", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    said = "libinner.so and libinner_old.so have one soname, libinner.so: one hides the other"
    assert shown.data["warnings"] == [said] and said in shown.err


def test_a_program_for_phones_on_a_virtual_one(workdir: Path, devkit: Cli, sim: Sim, tiny: TinyApp) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    program = workdir / "for phones"
    subprocess.run(
        [compiler, tiny.folder / "main.cpp", "-o", program, f"-L{tiny.folder}", "-linner",
         "-Wl,--dynamic-linker=/system/bin/linker64"],
        check=True,
    )  # fmt: skip
    shutil.copy(tiny.library, workdir)
    ran = devkit("run", program)
    assert ran.code == 125
    assert "for phones is for Android: it asks for /system/bin/linker64, which is not on the phone" in ran.err
