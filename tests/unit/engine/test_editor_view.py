"""Where the editor's list lies, whose entry wins, and that nothing of the user's is touched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from devkit.engine.editor_view import (
    ExistingBuild,
    find_builds,
    pick_builds,
    plan_view,
    refresh_view,
    remove_view,
    write_view,
)
from devkit.errors import UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "引擎 engine"
    (folder / "src").mkdir(parents=True)
    for name in ("a.cpp", "b.cpp", "c.cpp"):
        (folder / "src" / name).touch()
    return folder


def make_build(source: Path, name: str, compiler: str, *files: str, api: str = "", age_s: float = 0) -> Path:
    folder = source / "build/devkit" / name
    folder.mkdir(parents=True)
    (folder / ".devkit-build.json").write_text(json.dumps({"fixed": {"API level": api}}))
    entries = [
        {"directory": str(folder), "file": f"../../../src/{f}", "arguments": [compiler, f]} for f in files
    ]
    database = folder / "compile_commands.json"
    database.write_text(json.dumps(entries))
    when = database.stat().st_mtime - age_s
    os.utime(database, (when, when))
    return folder


def winners(source: Path, prefer: str | None = None) -> dict[str, str]:
    return {Path(e.file).name: e.compiler for e in plan_view(source, prefer).database.entries}


def test_the_phones_entry_wins_unless_the_host_is_asked_for(source: Path) -> None:
    make_build(source, "host-x86_64-debug", "g++", "a.cpp", "b.cpp")
    make_build(source, "cpu-x86_64-sim-debug", "g++-sim", "a.cpp", age_s=-5)
    make_build(source, "cpu-arm64-v8a-debug", "clang++", "a.cpp", "c.cpp", api="24", age_s=50)
    assert winners(source) == {"a.cpp": "clang++", "b.cpp": "g++", "c.cpp": "clang++"}
    assert winners(source, "host") == {"a.cpp": "g++", "b.cpp": "g++", "c.cpp": "clang++"}
    write_view(plan_view(source, "host"))
    assert winners(source)["a.cpp"] == "g++"  # remembered
    assert plan_view(source).is_current and not plan_view(source, "device").is_current
    with pytest.raises(UsageError, match="phone"):
        plan_view(source, "phone")


def test_of_two_builds_of_a_kind_the_later_wins(source: Path) -> None:
    make_build(source, "cpu-arm64-v8a-debug", "old", "a.cpp", api="24", age_s=100)
    make_build(source, "opencl-arm64-v8a-release", "new", "a.cpp", api="24")
    assert winners(source) == {"a.cpp": "new"}
    assert [build.name for build in pick_builds(source, "cpu")] == ["cpu-arm64-v8a-debug"]
    assert pick_builds(source, "cpu", "release") == ()


def test_foreign_and_broken_folders_are_no_builds(source: Path) -> None:
    folder = make_build(source, "host-x86_64-debug", "g++", "a.cpp")
    (source / "build/devkit/other-x-debug").mkdir()
    (make_build(source, "cpu-arm64-v8a-debug", "x", "b.cpp") / ".devkit-build.json").write_text("{")
    broken = make_build(source, "cpu-arm64-v8a-release", "x", "b.cpp")
    (broken / "compile_commands.json").write_text("[{")
    assert folder in [build.folder for build in find_builds(source)]
    view = plan_view(source)
    assert [build.name for build in view.builds] == ["host-x86_64-debug"]
    assert any("not valid JSON" in warning for warning in view.database.warnings)


def test_written_linked_refreshed_and_taken_away(source: Path) -> None:
    refresh_view(source)
    assert not (source / "build").exists()  # nobody asked for a view
    write_view(plan_view(source))
    link = source / "compile_commands.json"
    assert (
        os.readlink(link) == "build/devkit/editor/compile_commands.json"
        and json.loads(link.read_text()) == []
    )
    make_build(source, "host-x86_64-debug", "g++", "a.cpp")
    refresh_view(source)
    assert [entry["file"] for entry in json.loads(link.read_text())] == [str(source / "src/a.cpp")]
    before = link.stat().st_mtime_ns
    write_view(plan_view(source))
    refresh_view(source)
    assert link.stat().st_mtime_ns == before  # clangd would read it again
    index = source / "build/devkit/editor/.cache/clangd/index"
    index.mkdir(parents=True)
    assert remove_view(source) and not remove_view(source)
    assert not link.is_symlink() and not (source / "build/devkit/editor").exists()


def test_a_list_that_ninja_made_cmake_write_is_noticed(source: Path) -> None:
    folder = make_build(source, "host-x86_64-debug", "g++", "a.cpp", age_s=60)
    write_view(plan_view(source))
    later = json.loads((folder / "compile_commands.json").read_text())
    later.append({**later[0], "file": "../../../src/b.cpp"})
    (folder / "compile_commands.json").write_text(json.dumps(later))
    refresh_view(source)
    assert len(json.loads((source / "compile_commands.json").read_text())) == 2


def test_the_view_comes_back_after_its_folder_was_removed(source: Path) -> None:
    write_view(plan_view(source))
    shutil.rmtree(source / "build")
    make_build(source, "host-x86_64-debug", "g++", "a.cpp")
    refresh_view(source)
    assert len(json.loads((source / "compile_commands.json").read_text())) == 1


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_a_file_of_the_users_own_stays(source: Path, kind: str) -> None:
    mine = source / "compile_commands.json"
    if kind == "file":
        mine.write_text("[] ")
    else:
        mine.symlink_to("elsewhere.json" if kind == "dangling" else "src")
    before = os.lstat(mine)
    view = plan_view(source)
    assert view.link == "users"
    write_view(view)
    remove_view(source)
    after = os.lstat(mine)
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(
    ("folder", "profile", "kind"),
    [
        ("qnn-arm64-v8a-debug", "qnn", "debug"),
        ("qnn-online-arm64-v8a-relwithdebinfo", "qnn-online", "relwithdebinfo"),
        ("qnn-tools-x86_64-release", "qnn-tools", "release"),
        ("cpu-x86_64-sim-profile", "cpu", "profile"),
        ("host-asan-x86_64-debug", "host-asan", "debug"),
    ],
)
def test_a_builds_profile_and_type_are_told_from_its_folder(folder: str, profile: str, kind: str) -> None:
    build = ExistingBuild(Path("/src/build/devkit") / folder, "ndk", 0.0)
    assert build.build_type == kind
    known = ("qnn", "qnn-online", "qnn-tools", "cpu", "host", "host-asan", "asan")
    assert [name for name in known if build.is_of(name)] == [profile]
