"""CMake's descriptions as two versions wrote them: versioned, renamed and moved products among them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devkit.engine.fileapi import read_artifacts, read_cache, read_target_names, write_query
from devkit.errors import BuildError

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "fileapi"


@pytest.fixture(params=sorted(p.name for p in RECORDED.iterdir()))
def build_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(RECORDED / request.param, tmp_path / ".cmake/api/v1/reply")
    return tmp_path


def test_artifacts_are_where_cmake_says(build_dir: Path) -> None:
    found = {a.target: (a.kind, a.path) for a in read_artifacts(build_dir)}
    assert found == {
        "bits": ("static", build_dir / "libbits.a"),
        "core": ("shared", build_dir / "libcore.so"),
        "plug": ("module", Path("/tmp/fa/out side/libplug.so")),
        "tool": ("executable", build_dir / "sub/tool.out"),
    }


def test_targets_that_make_no_file_are_targets_too(build_dir: Path) -> None:
    assert read_target_names(build_dir) == ("bits", "core", "headers", "objects", "plug", "tool")


def test_the_cache(build_dir: Path) -> None:
    cache = read_cache(build_dir)
    assert cache["PARTS_FAST"] == ("BOOL", "ON")
    assert cache["PARTS_FATS"][0] == "UNINITIALIZED"


def test_the_newest_index_counts(build_dir: Path) -> None:
    reply = build_dir / ".cmake/api/v1/reply"
    (reply / "index-2000-01-01T00-00-00-0000.json").write_text('{"reply": {}}')
    assert len(read_artifacts(build_dir)) == 4
    (reply / "index-2999-01-01T00-00-00-0000.json").write_text('{"reply": {}}')
    with pytest.raises(BuildError, match="did not describe") as caught:
        read_artifacts(build_dir)
    assert caught.value.hints[0].startswith("check the free space: df ")


def test_no_answer_and_a_broken_one(tmp_path: Path) -> None:
    write_query(tmp_path)
    query = tmp_path / ".cmake/api/v1/query/client-devkit"
    assert sorted(p.name for p in query.iterdir()) == ["cache-v2", "codemodel-v2", "toolchains-v1"]
    with pytest.raises(BuildError, match="did not describe"):
        read_artifacts(tmp_path)
    reply = tmp_path / ".cmake/api/v1/reply"
    reply.mkdir()
    (reply / "index-1.json").write_text("{")
    with pytest.raises(BuildError, match=r"cannot be read: index-1\.json"):
        read_cache(tmp_path)
