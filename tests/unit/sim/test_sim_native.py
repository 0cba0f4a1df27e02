"""The phone's machine code: it is what its sources make, and ld.so works with it in front."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.sim import elf
from devkit.sim.image import LOADER_PATHS
from devkit.sim.native import attach
from devkit.sim.native.build import PREBUILT, PROCESSORS, ZIG_VERSION, build_all


@pytest.fixture(scope="module")
def loader() -> Path:
    path = LOADER_PATHS[os.uname().machine]
    if not path.exists():
        pytest.skip("no glibc here")
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_prebuilt_files_are_what_the_sources_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Exactly this zig: another one makes other bytes.
    packages = tmp_path / "packages"
    wanted = f"ziglang=={ZIG_VERSION}"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), wanted]
    subprocess.run(command, check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]))
    made = build_all(tmp_path / "mit blank 构建")
    assert {path.name for path in made} == {path.name for path in PREBUILT.iterdir()}
    for path in made:
        assert path.read_bytes() == (PREBUILT / path.name).read_bytes(), path.name


@pytest.mark.parametrize("processor", PROCESSORS)
def test_they_need_nothing(processor: str) -> None:
    for name in ("applet", "linker_hook", "clock", "crash"):
        path = PREBUILT / f"{name}-{processor}"
        assert elf.interpreter(path) is None
        assert elf.read_facts(path).needed == ()
        assert path.stat().st_size < 8192


@pytest.fixture(scope="module")
def hooked(loader: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("hook") / "ld mit hook.so"
    result.write_bytes(attach.with_hook(loader.read_bytes(), attach.linker_hook().read_bytes()))
    result.chmod(0o755)
    return result


def test_a_loader_with_the_hook_still_loads(hooked: Path) -> None:
    done = subprocess.run([hooked, shutil.which("echo"), "hello"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n")


def test_programs_that_ask_for_it_start(hooked: Path, tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text("#include <stdio.h>\nint main(int c, char **v) { puts(v[1]); return 7; }")
    link = tmp_path / "ld.so"
    link.symlink_to(hooked)
    subprocess.run(["gcc", "p.c", "-o", "p", f"-Wl,--dynamic-linker={link}"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "p", "argument"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"argument\n")
    caught = subprocess.run([tmp_path / "p", "x"], capture_output=True, check=False, preexec_fn=lambda: None)
    assert caught.returncode == 7


def test_a_crash_is_still_one_without_anybody_to_report_it_to(hooked: Path, tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(
        "#include <stdlib.h>\nint main(int c, char **v) { if (c > 1) abort(); *(volatile int *)0 = 1; }"
    )
    subprocess.run(["gcc", "p.c", "-o", "p", f"-Wl,--dynamic-linker={hooked}"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "p"], check=False).returncode == -11
    assert subprocess.run([tmp_path / "p", "x"], check=False).returncode == -6


def test_segments_suit_every_kernel(loader: Path, hooked: Path) -> None:
    from elftools.elf.elffile import ELFFile

    with hooked.open("rb") as file:
        loaded = ELFFile(file)
        loads = [segment.header for segment in loaded.iter_segments("PT_LOAD")]
        entry = loaded.header.e_entry
        dynamic = next(loaded.iter_segments("PT_DYNAMIC"))
        assert any(tag.entry.d_tag == "DT_SONAME" for tag in dynamic.iter_tags())
    addresses = [header.p_vaddr for header in loads]
    assert addresses == sorted(addresses)
    data, code = loads[-2:]
    assert data.p_flags & 2 and not data.p_flags & 1
    assert code.p_flags & 1 and not code.p_flags & 2
    for header in (data, code):
        # Kernels before 6.7 prepare what is behind the file's part of the last segment only.
        assert header.p_filesz == header.p_memsz
        assert (header.p_vaddr + header.p_memsz) % 0x10000 == 0
        assert header.p_offset % 0x10000 == header.p_vaddr % 0x10000
    assert code.p_vaddr <= entry < code.p_vaddr + code.p_memsz
    assert elf.with_own_build_id(hooked.read_bytes()) != hooked.read_bytes()


def test_what_cannot_be_hooked_is_refused(loader: Path) -> None:
    hook = attach.linker_hook().read_bytes()
    with pytest.raises(ValueError, match="no program header"):
        data = loader.read_bytes()
        for kind in (0x6474E551, 0x6474E553):
            data = data.replace(kind.to_bytes(4, "little"), b"\0\0\0\0")
        attach.with_hook(data, hook)
    with pytest.raises(ValueError, match="no place for the entry"):
        attach.with_hook(loader.read_bytes(), attach.applet().read_bytes())
