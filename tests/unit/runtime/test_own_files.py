"""`files:` of an app: folders, patterns, exclusions."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.config import FileMapping, load
from devkit.errors import DeployError
from devkit.runtime.own_files import expand, own_files


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "模 models [v1]"
    for name in (
        "a.mnn",
        "b.mnn",
        "b.mnn.weight",
        "notes.txt",
        "qnn/graph0.bin",
        "qnn/old/graph0.bin",
        ".git/HEAD",
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return folder


def names(local: Path, remote: str = "m", *exclude: str) -> list[str]:
    return sorted(own_files([FileMapping(local, remote, exclude)]))


def test_a_folder_without_some_of_it(models: Path) -> None:
    everything = ["m/.git/HEAD", "m/a.mnn", "m/b.mnn", "m/b.mnn.weight", "m/notes.txt", "m/qnn/graph0.bin",
                  "m/qnn/old/graph0.bin"]  # fmt: skip
    assert names(models) == everything
    assert names(models, "m", ".git", "*.txt") == [
        n for n in everything if ".git" not in n and "txt" not in n
    ]
    # A name is held against names at every level, a path against the path.
    assert "m/qnn/old/graph0.bin" not in names(models, "m", "old")
    assert "m/qnn/graph0.bin" in names(models, "m", "qnn/old")
    assert names(models, "m", "qnn") == names(models, "m", "qnn/")
    assert "m/a.mnn" in names(models, "m", "a.mnn/")
    assert names(models, "m", "*.bin", "./qnn/old/*") == [n for n in everything if "qnn" not in n]
    with pytest.raises(DeployError, match=r"`exclude:` leaves nothing of"):
        names(models, "m", "*")


def test_patterns(models: Path) -> None:
    # The brackets of the folder's name are letters: it exists.
    assert names(models / "*.mnn") == ["m/a.mnn", "m/b.mnn"]
    assert names(models / "[ab].mnn", ".") == ["a.mnn", "b.mnn"]
    assert names(models / "?.mnn*", "m", "*.weight") == ["m/a.mnn", "m/b.mnn"]
    # A folder that matches is sent whole; hidden ones are not matched, as in a shell.
    assert names(models / "q*") == ["m/qnn/graph0.bin", "m/qnn/old/graph0.bin"]
    assert names(models / "**" / "*.bin") == ["m/qnn/graph0.bin", "m/qnn/old/graph0.bin"]
    assert names(models / "*" / "graph?.bin", "x/y") == ["x/y/qnn/graph0.bin"]
    with pytest.raises(DeployError, match=r"nothing matches .*\*\.onnx") as caught:
        names(models / "*.onnx")
    assert "devkit config show --origin" in caught.value.hints[0]


def test_a_file_with_a_star_in_its_name_is_that_file(models: Path) -> None:
    star = models / "*.mnn"
    star.write_text("itself")
    assert names(star, "only") == ["only"]


def test_paths_that_leave_the_folder(models: Path) -> None:
    for remote in ("../x", "/abs"):
        with pytest.raises(DeployError, match="leaves the app's folder"):
            names(models, remote)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="does not exist"):
        names(tmp_path / "none")
    skipped: list[str] = []
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "there").write_text("x")
    found = list(expand(FileMapping(tmp_path, "."), lambda path, why: skipped.append(f"{path.name}: {why}")))
    assert [remote for remote, _ in found] == ["there"] and skipped == ["dead: a link to nothing"]


def test_as_devkit_yaml_says_it(models: Path) -> None:
    (models / "devkit.yaml").write_text(
        "apps:\n  a:\n    files: ['*.mnn', qnn, {local: '*.txt', remote: t},\n"
        "            {local: qnn, remote: q, exclude: old}]\n"
    )
    app = load(models, environ={}).apps["a"]
    assert [(f.remote, f.exclude) for f in app.files] == [(".", ()), ("qnn", ()), ("t", ()), ("q", ("old",))]
    assert sorted(own_files(app.files)) == [
        "a.mnn", "b.mnn", "q/graph0.bin", "qnn/graph0.bin", "qnn/old/graph0.bin", "t/notes.txt",
    ]  # fmt: skip
