"""The whole of `devkit vscode` without a build, a phone or an NDK; cases G1 and A5."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import vscode_templates
from devkit.config import Config
from devkit.engine import editor_view
from devkit.engine.compile_commands import read_database
from devkit.errors import ConfigError, FileError
from devkit.vscode_templates import apply_setup, plan_removal, plan_setup, query_drivers
from devkit.vscode_templates.jsonc import parse

CASES = Path(__file__).parents[2] / "data/cases"
YAML = """\
engine: mnn
apps:
  llm_demo:
    files: [{local: 模型 model, remote: model}, prompt.txt]
    args: [model/config.json, prompt.txt, models/x, "a b"]
    env: {MNN_X: "1", LD_LIBRARY_PATH: /data/local/tmp}
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "引擎 my engine"
    folder.mkdir()
    (folder / "CMakeLists.txt").touch()
    (folder / "devkit.yaml").write_text(YAML, "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def load(folder: Path, **environ: str) -> Config:
    return configuration.load(folder, environ=environ)


def write(config: Config) -> None:
    apply_setup(config, plan_setup(config))


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read(folder: Path, name: str) -> dict[str, object]:
    root = parse((folder / ".vscode" / name).read_bytes().decode()).root
    assert root is not None
    value: dict[str, object] = root.value
    return value


def make_ndk(folder: Path) -> Path:
    prebuilt = folder / "toolchains/llvm/prebuilt/linux-x86_64"
    (prebuilt / "bin").mkdir(parents=True)
    for name in ("clang", "clang++", "clangd"):
        (prebuilt / "bin" / name).write_text("#!/bin/sh\n")
        (prebuilt / "bin" / name).chmod(0o755)
    (folder / "build/cmake").mkdir(parents=True)
    (folder / "build/cmake/android.toolchain.cmake").touch()
    (folder / "source.properties").write_text("Pkg.Revision = 27.3.13750724\n")
    return prebuilt / "bin"


def test_g1_the_glob_matches_the_compiler_as_written() -> None:
    expected = json.loads((CASES / "G1/expected.json").read_text())
    database = read_database(CASES / "G1/compile_commands.json")
    assert f"--query-driver={','.join(query_drivers(database.compilers))}" == expected["clangd.arguments"][0]
    assert '-DNAME="a b"' in database.entries[0].arguments


def test_g1_through_a_link_the_real_path_is_the_second_glob(tmp_path: Path) -> None:
    folder = make_ndk(tmp_path / "真 ndk")
    (tmp_path / "ndk-link").symlink_to(tmp_path / "真 ndk")
    through = tmp_path / "ndk-link" / folder.relative_to(tmp_path / "真 ndk")
    assert query_drivers([f"{through}/clang++", f"{through}/clang"]) == (
        f"{through}/clang*",
        f"{folder}/clang*",
    )


def test_globs_match_nothing_but_compilers(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    compilers = [
        f"{tmp_path}/a,b/clang++", "/nowhere/aarch64-linux-android21-clang++", "/nowhere/arm-none-g++",
        "/nowhere/clang-18", "relative-and-unknown",
    ]  # fmt: skip
    globs = query_drivers(compilers)
    assert f"{tmp_path}/a*b/clang*" in globs  # a comma would end the glob
    assert "/nowhere/aarch64-linux-android21-clang*" in globs and "/nowhere/arm-none-g++" in globs
    assert "/nowhere/clang*" in globs and not any("relative" in glob or "**" in glob for glob in globs)


@pytest.mark.parametrize("name", [line for line in (CASES / "A5/paths.txt").read_text().splitlines() if line])
def test_a5_any_path_of_an_ndk_is_quoted(engine: Path, tmp_path: Path, name: str) -> None:
    bin_folder = make_ndk(tmp_path / name.lstrip("/"))
    (engine / "devkit.yaml").write_text(YAML + f"ndk: {{path: '{tmp_path}/{name.lstrip('/')}'}}\n", "utf-8")
    config = load(engine)
    write(config)
    settings = read(engine, "settings.json")
    assert settings["clangd.path"] == str(bin_folder / "clangd")
    [driver] = [a for a in settings["clangd.arguments"] if a.startswith("--query-driver=")]  # type: ignore[attr-defined]
    assert f"{bin_folder}/clang*" in driver.removeprefix("--query-driver=").split(",")


def test_before_the_first_build_everything_known_is_written(engine: Path) -> None:
    config = load(engine)
    setup = plan_setup(config)
    assert any("no build yet" in sentence for sentence in setup.missing)
    assert any("NDK" in sentence for sentence in setup.missing)
    assert set(tree(engine)) == {"CMakeLists.txt", "devkit.yaml"}  # a plan changes nothing
    apply_setup(config, setup)
    arguments = read(engine, "settings.json")["clangd.arguments"]
    assert "--compile-commands-dir=${workspaceFolder}/build/devkit/editor" in arguments  # type: ignore[operator]
    assert json.loads((engine / "build/devkit/editor/compile_commands.json").read_text()) == []
    *phone, launch = read(engine, "launch.json")["configurations"]  # type: ignore[misc]
    assert [c["name"].removeprefix("devkit: llm_demo on the phone") for c in phone] == [
        "", ", with input", ", breakpoint set", ", attach", ", wait for it", ", platform mode",
    ]  # fmt: skip
    assert launch["type"] == "lldb" and launch["env"] == {"MNN_X": "1"}
    assert launch["program"].startswith("${workspaceFolder}/build/devkit/host-")
    # What travels to the phone is read where it lies here.
    inside = "${workspaceFolder}/"
    assert launch["args"] == [inside + "模型 model/config.json", inside + "prompt.txt", "models/x", "a b"]
    labels = [task["label"] for task in read(engine, "tasks.json")["tasks"]]  # type: ignore[index,attr-defined]
    assert all(
        c["preLaunchTask"] in labels and c.get("postDebugTask", labels[0]) in labels for c in [*phone, launch]
    )
    assert labels[2:4] == ["devkit: deploy llm_demo", "devkit: run llm_demo"]
    assert not plan_setup(config).drift


def test_everything_goes_again_and_other_files_stay(engine: Path) -> None:
    (engine / ".vscode").mkdir()
    (engine / ".vscode/settings.json").write_bytes(b'\xef\xbb\xbf{\r\n\t"a": 1, // c\r\n}')
    (engine / ".vscode/launch.json").write_bytes(b"")
    (engine / ".vscode/extensions.json").write_bytes(b'{"recommendations":["vadimcn.vscode-lldb"]}')
    before = tree(engine)
    config = load(engine)
    write(config)
    assert tree(engine) != before
    write(config)
    apply_setup(config, plan_removal(config))
    assert tree(engine) == before


def test_a_file_that_cannot_be_parsed_stops_everything(engine: Path) -> None:
    (engine / ".vscode").mkdir()
    (engine / ".vscode/tasks.json").write_text('{\n\t"version": "2.0.0"\n\t"tasks": []\n}\n')
    before = tree(engine)
    with pytest.raises(ConfigError) as caught:
        plan_setup(load(engine))
    assert "tasks.json:3:2" in caught.value.what and "nothing was written" in caught.value.what
    assert caught.value.evidence == '"tasks": []\n\t^ a comma is missing before this'
    (engine / ".vscode/tasks.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(FileError, match="not UTF-8"):
        plan_setup(load(engine))
    assert set(tree(engine)) == set(before)


def test_a_file_that_changes_meanwhile_is_not_overwritten(engine: Path) -> None:
    config = load(engine)
    setup = plan_setup(config)
    (engine / ".vscode").mkdir()
    (engine / ".vscode/launch.json").write_text("{}")
    with pytest.raises(FileError, match="has changed just now"):
        apply_setup(config, setup)
    assert set(tree(engine)) == {"CMakeLists.txt", "devkit.yaml", ".vscode/launch.json"}


def test_when_one_file_cannot_be_written_none_is(engine: Path) -> None:
    config = load(engine)
    (engine / ".vscode").mkdir()
    (engine / ".vscode/settings.json").write_text('{"a": 1}')
    # Through this link nothing can be made: nobody adds folders to /proc.
    (engine / ".vscode/tasks.json").symlink_to("/proc/devkit-none/tasks.json")
    with pytest.raises(FileError, match=r"tasks\.json cannot be written"):
        apply_setup(config, plan_setup(config))
    assert (engine / ".vscode/settings.json").read_text() == '{"a": 1}'
    assert sorted(path.name for path in (engine / ".vscode").iterdir()) == ["settings.json", "tasks.json"]


def test_a_clangd_file_of_the_users_own_stays(engine: Path) -> None:
    config = load(engine)
    (engine / ".clangd").write_text("Index: {}\n")
    setup = plan_setup(config, force=True)
    assert any(".clangd is yours" in note for note in setup.notes)
    apply_setup(config, setup)
    assert (engine / ".clangd").read_text() == "Index: {}\n"
    (engine / ".clangd").unlink()
    write(config)
    ours = (engine / ".clangd").read_text()
    assert "UnusedIncludes: None" in ours
    (engine / ".clangd").write_text(ours + "# mine\n")
    write(config)
    apply_setup(config, plan_removal(config))
    assert (engine / ".clangd").read_text() == ours + "# mine\n"


def test_settings_kept_elsewhere_are_written_through_the_link_with_their_mode(
    engine: Path, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o600)
    (engine / ".vscode").mkdir()
    (engine / ".vscode/settings.json").symlink_to(real)
    write(load(engine))
    assert (engine / ".vscode/settings.json").is_symlink()
    assert "clangd.arguments" in real.read_text() and real.stat().st_mode & 0o777 == 0o600


def test_another_folder_than_the_engines(engine: Path, tmp_path: Path) -> None:
    place = tmp_path / "工作 workspace"
    place.mkdir()
    config = load(engine)
    apply_setup(config, plan_setup(config, folder=place))
    settings = read(place, "settings.json")
    assert settings["cmake.sourceDirectory"] == str(engine)
    assert f"--compile-commands-dir={engine}/build/devkit/editor" in settings["clangd.arguments"]  # type: ignore[operator]
    [task, *_] = read(place, "tasks.json")["tasks"]  # type: ignore[misc]
    assert task["options"]["cwd"] == str(engine)
    assert (engine / ".clangd").is_file() and not (place / ".clangd").exists()


def test_the_diff_shows_what_will_be_written(engine: Path) -> None:
    config = load(engine)
    write(config)
    settings = engine / ".vscode/settings.json"
    settings.write_text(settings.read_text().replace("{\n", '{\n    "mine": true,\n', 1))
    assert plan_setup(config).diff() == ""
    (engine / "devkit.yaml").write_text(YAML.replace("llm_demo:", "other:"))
    diff = plan_setup(load(engine)).diff()
    assert '-            "name": "devkit: llm_demo on this machine"' in diff
    assert '+            "name": "devkit: other on this machine"' in diff
    assert "--- a/.vscode/launch.json" in diff and "mine" not in diff


def test_the_users_compile_commands_stay(engine: Path) -> None:
    (engine / "compile_commands.json").write_text("[]")
    config = load(engine)
    setup = plan_setup(config)
    assert any("compile_commands.json is your own" in note for note in setup.notes)
    apply_setup(config, setup)
    assert not os.path.islink(engine / "compile_commands.json")
    assert editor_view.plan_view(engine).link == "users"
    assert vscode_templates.plan_setup(config).drift is False
