"""What counts as a source, and when something has changed."""

from __future__ import annotations

import os
from pathlib import Path

from devkit.config import AppConfig, FileMapping
from devkit.runtime.sources import Sources, differences, sources_of


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def seen(sources: Sources, root: Path) -> set[str]:
    return {os.path.relpath(file, root) for file in sources.snapshot()}


def test_sources_of_a_tree(tmp_path: Path) -> None:
    make(
        tmp_path,
        "CMakeLists.txt", "a/x.cpp", "a/x.h", "a/gen.h.in", "a/k.cl", "cmake/find.cmake",
        "README.md", "a/.#x.cpp", ".git/x.h", "node_modules/x.cpp", "devkit-out/x.h",
        "build/devkit/cpu/CMakeCache.txt", "build/devkit/cpu/gen.h", "a/x.cpp~",
    )  # fmt: skip
    assert seen(Sources([tmp_path], []), tmp_path) == {
        "CMakeLists.txt", "a/x.cpp", "a/x.h", "a/gen.h.in", "a/k.cl", "cmake/find.cmake"
    }  # fmt: skip


def test_what_an_app_is_made_of(tmp_path: Path) -> None:
    make(tmp_path, "src/x.cpp", "model/w.bin", "model/deep/c.json", "devkit.yaml", "bin/prog", "bin/lib.so")
    app = AppConfig("app", files=(FileMapping(tmp_path / "model", "model"),))
    config = [tmp_path / "devkit.yaml"]
    built = sources_of(config, app, tmp_path / "src", None)
    assert seen(built, tmp_path) == {"src/x.cpp", "model/w.bin", "model/deep/c.json", "devkit.yaml"}
    ready = sources_of([], AppConfig("prog"), None, tmp_path / "bin/prog")
    assert seen(ready, tmp_path) == {"bin/prog", "bin/lib.so"}


def test_a_replaced_file_has_changed_also_with_its_old_time(tmp_path: Path) -> None:
    make(tmp_path, "x.cpp")
    sources = Sources([tmp_path], [])
    before = sources.snapshot()
    status = (tmp_path / "x.cpp").stat()
    (tmp_path / "new").write_text("X.CPP")
    os.replace(tmp_path / "new", tmp_path / "x.cpp")
    os.utime(tmp_path / "x.cpp", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert differences(before, sources.snapshot()) == [str(tmp_path / "x.cpp")]


def test_many_saves_are_one_change(tmp_path: Path) -> None:
    make(tmp_path, "x.cpp", "y.cpp")
    sources = Sources([tmp_path], [])
    before = sources.snapshot()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        """Something is saved in each of the first pauses."""
        pauses.append(seconds)
        if len(pauses) <= 4:
            (tmp_path / "x.cpp").write_text("x" * len(pauses))
        elif len(pauses) == 5:
            (tmp_path / "y.cpp").unlink()

    (tmp_path / "x.cpp").write_text("")
    changed = sources.wait_for_change(before, sleep=sleep)
    assert changed == [str(tmp_path / "x.cpp"), str(tmp_path / "y.cpp")]
    assert len(pauses) == 6


def test_looking_often_costs_little(tmp_path: Path) -> None:
    make(tmp_path, "x.cpp")
    sources = Sources([tmp_path], [])
    before = sources.snapshot()
    assert not sources.changed(before)
    (tmp_path / "x.cpp").unlink()
    # Asked again at once it does not look.
    assert not sources.changed(before)
