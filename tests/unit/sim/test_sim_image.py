from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from devkit.errors import SimError
from devkit.sim import elf, image, ldcache
from devkit.sim.releases import find_release


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "zwischen speicher 缓存"))
    return tmp_path / "zwischen speicher 缓存" / "devkit" / "sim"


def acquire() -> tuple[Path, str]:
    path, key, held = image.acquire_system(find_release("14"))
    os.close(held)
    return path, key


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[image.SystemPlan, Path]:
    plan = image.plan_system(find_release("14"))
    target = tmp_path_factory.mktemp("image") / "system"
    image.build_system(plan, target)
    return plan, target


def test_libraries_are_copies_with_other_build_ids(built: tuple[image.SystemPlan, Path]) -> None:
    plan, target = built
    libc = target / "lib64/libc.so.6"
    host = ldcache.read_cache(Path("/etc/ld.so.cache").read_bytes(), ldcache.FLAGS[os.uname().machine])
    original = Path(host["libc.so.6"])
    assert libc.stat().st_size == original.stat().st_size
    assert build_id(libc) != build_id(original)
    assert build_id(target / "bin/linker64") != build_id(plan.loader)
    # Nothing but the 20 bytes differs.
    pairs = zip(libc.read_bytes(), original.read_bytes(), strict=True)
    assert 0 < sum(a != b for a, b in pairs) <= 20


def test_every_need_of_every_program_is_in_the_image(built: tuple[image.SystemPlan, Path]) -> None:
    _, target = built
    there = {path.name for path in (target / "lib64").iterdir()} | {
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    }
    for path in [*(target / "bin").iterdir(), *(target / "lib64").iterdir()]:
        if elf.is_elf(path):
            assert set(elf.read_facts(path).needed) <= there, path
    assert "libstdc++.so.6" not in there
    assert "libgcc_s.so.1" not in there


def test_the_cache_file_leads_to_the_image(built: tuple[image.SystemPlan, Path]) -> None:
    _, target = built
    found = ldcache.read_cache((target / "etc/ld.so.cache").read_bytes(), ldcache.FLAGS[os.uname().machine])
    assert found["libc.so.6"] == "/system/lib64/libc.so.6"
    for path in found.values():
        assert (target / path.removeprefix("/system/")).is_file()


def test_tools_that_devkit_needs_are_there(built: tuple[image.SystemPlan, Path]) -> None:
    _, target = built
    names = {path.name for path in (target / "bin").iterdir()}
    needed = (
        "sh ls cat cp mv rm mkdir rmdir chmod ln stat touch readlink realpath dirname basename head tail wc"
    )
    needed += (
        " sort uniq tr cut sed grep find xargs env id whoami echo printf test [ true false sleep date dd"
    )
    needed += " df du sync tty stty sha256sum md5sum sha1sum gzip gunzip zcat setsid nohup kill timeout uname"
    needed += " uptime ps pidof pgrep mount tee seq od cmp diff getprop setprop run-as which mktemp linker64"
    assert set(needed.split()) <= names
    assert all(os.access(target / "bin" / name, os.X_OK) for name in names)


def test_programs_that_share_a_file_are_copied_once(
    built: tuple[image.SystemPlan, Path], tmp_path: Path
) -> None:
    plan, _ = built
    many = image.SystemPlan("k", plan.loader, plan.shell, dict.fromkeys(("a", "b", "c"), plan.shell), {}, ())
    image.build_system(many, tmp_path / "system")
    assert {os.readlink(tmp_path / "system/bin" / name) for name in "abc"} == {"sh"}


def test_the_second_start_makes_nothing(cache_home: Path) -> None:
    first, key = acquire()
    before = first.stat().st_ctime_ns
    assert acquire() == (first, key)
    assert first.stat().st_ctime_ns == before
    assert [path.name for path in cache_home.iterdir()] == [f"system-{key}"]


def test_two_at_once_make_one_image(cache_home: Path) -> None:
    results: list[tuple[Path, str]] = []
    threads = [threading.Thread(target=lambda: results.append(acquire())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and results[0] == results[1]
    assert len(list(cache_home.iterdir())) == 1


def test_another_state_of_the_machine_is_another_image(
    cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = acquire()
    used = cache_home / "system-0123456789abcdef"
    used.mkdir()
    held = image._hold(used)
    assert held is not None
    monkeypatch.setattr(image, "GENERATOR_VERSION", 10_000)
    new, _ = acquire()
    assert new != old
    assert not old.exists(), "an image nobody uses is removed"
    assert used.exists(), "an image in use stays"
    os.close(held)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SimError, match="cannot be made"):
        acquire()


def test_a_machine_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "LOADER_PATHS", {os.uname().machine: Path("/no/ld-linux.so")})
    monkeypatch.setattr(elf, "interpreter", lambda _: Path("/lib/ld-musl-x86_64.so.1"))
    with pytest.raises(SimError, match="no glibc"):
        image.plan_system(find_release("14"))


def test_build_id_of_a_file_without_one_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "e.c").write_text("int f(void) { return 1; }\n")
    for option in ("none", "sha1", "md5"):
        library = tmp_path / f"{option}.so"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,--build-id={option}", "-o", library, tmp_path / "e.c"]
        subprocess.run(command, check=True)
        data = library.read_bytes()
        changed = elf.with_own_build_id(data)
        assert len(changed) == len(data)
        assert (changed == data) == (option == "none")
        assert elf.with_own_build_id(data) == changed


def test_a_machine_without_a_loader_cache(
    built: tuple[image.SystemPlan, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, with_cache = built
    monkeypatch.setattr(image, "HOST_LD_CACHE", tmp_path / "none")
    plan = image.plan_system(find_release("14"))
    image.build_system(plan, tmp_path / "system")
    names = {path.name for path in (tmp_path / "system/lib64").iterdir()}
    assert names == {path.name for path in (with_cache / "lib64").iterdir()}
