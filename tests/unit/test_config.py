"""Layers, origins and the messages for wrong files."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit import config, paths
from devkit.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "引擎 engine"
    folder.mkdir()
    return folder


def write(folder: Path, text: str) -> Path:
    file = folder / config.PROJECT_FILE
    file.write_text(text, "utf-8")
    return file


def fails(folder: Path, text: str) -> ConfigError:
    write(folder, text)
    with pytest.raises(ConfigError) as caught:
        config.load(folder, environ={})
    assert caught.value.exit_code == 2
    return caught.value


def test_no_file_gives_the_built_in_values(project: Path) -> None:
    settings = config.load(project, environ={})
    assert settings.project_file is None
    assert settings.device.dir == "/data/local/tmp/devkit"
    assert settings.build.type == "debug"
    assert set(settings.origins.values()) == {"built-in"}


def test_layers_last_wins_and_origins_name_them(project: Path) -> None:
    user = paths.config_dir() / "config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("device: {serial: from-user, dir: /data/u}\nbuild: {jobs: 1}\n")
    file = write(project, "engine: mnn\ndevice:\n  serial: from-project\n")
    settings = config.load(
        project / "deeper",
        environ={"DEVKIT_BUILD_JOBS": "3", "DEVKIT_BUILD_TYPE": "release"},
        flags={"build.type": ("--type", "debug"), "device.dir": ("--device-dir", None)},
    )
    assert (settings.device.serial, settings.device.dir) == ("from-project", "/data/u")
    assert (settings.build.jobs, settings.build.type) == (3, "debug")
    assert settings.origins["device.serial"] == f"project ({file}:3)"
    assert settings.origins["device.dir"] == f"user ({user}:1)"
    assert settings.origins["build.jobs"] == "environment (DEVKIT_BUILD_JOBS)"
    assert settings.origins["build.type"] == "flag (--type)"
    assert settings.root == project


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("enigne: mnn\n", 1, "unknown key `enigne`", "did you mean `engine`?"),
        ("device:\n  seriall: x\n", 2, "unknown key `device.seriall`", "serial`?"),
        ("apps:\n  a:\n    profil: cpu\n", 3, "unknown key `apps.a.profil`", "did you mean `profile`?"),
        ("apps:\n  a:\n    files: [{lokal: x}]\n", 3, "unknown key `apps.a.files: lokal`", "local"),
        ("build: {type: debgu}\n", 1, "build.type cannot be 'debgu'", "did you mean `debug`?"),
    ],
)
def test_a_wrong_key_names_the_nearest(project: Path, text: str, line: int, message: str, hint: str) -> None:
    error = fails(project, text)
    assert error.what == f"{project / 'devkit.yaml'}:{line}: {message}"
    assert hint in error.hints[0]
    assert error.evidence == text.splitlines()[line - 1].strip()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("build: {jobs: many}\n", "must be a whole number"),
        ("build: {jobs: 0}\n", "must be at least 1"),
        ("device: [a]\n", "device must be a mapping"),
        ("profiles: {a: 3}\n", "profiles.a must be a mapping"),
        ("engine: mnn\nengine: cmake\n", "given twice (first on line 1)"),
        ("apps: {a: {args: one}}\n", "must be a list"),
        ("apps: {a: {files: [{remote: x}]}}\n", "needs `local:`"),
        ("apps: {a.b: {}}\n", "cannot be a name"),
        ("- a\n", "must be a mapping"),
    ],
)
def test_a_wrong_value_says_what_it_must_be(project: Path, text: str, message: str) -> None:
    assert message in fails(project, text).what


def test_broken_yaml_names_file_and_line(project: Path) -> None:
    error = fails(project, "engine: mnn\napps: [\n")
    assert error.what == f"{project / 'devkit.yaml'}:3 is not valid YAML"


def test_text_stays_text(project: Path) -> None:
    # YAML would make 83, 1e3 and true of these.
    write(project, "device: {serial: 0123}\napps: {a: {args: [1e3, on, 007]}}\n")
    settings = config.load(project, environ={})
    assert settings.device.serial == "0123"
    assert settings.apps["a"].args == ("1e3", "on", "007")


def test_cmake_switches_stay_switches(project: Path) -> None:
    write(project, "profiles: {qnn: {options: {MNN_QNN: on, A: 'yes', B: true, C: off, D: 1}}}\n")
    settings = config.load(project, environ={})
    assert settings.profiles["qnn"]["options"] == {
        "MNN_QNN": "ON", "A": "yes", "B": "ON", "C": "OFF", "D": "1",
    }  # fmt: skip


def test_files_are_relative_to_the_yaml(project: Path) -> None:
    write(project, "apps: {a: {files: [model, {local: ~/m, remote: model2}, {local: /x/y}]}}\n")
    files = config.load(project, environ={}).apps["a"].files
    assert files[0] == config.FileMapping(project / "model", "model")
    assert files[1] == config.FileMapping(Path.home() / "m", "model2")
    assert files[2] == config.FileMapping(Path("/x/y"), "y")


def test_empty_entries_are_allowed(project: Path) -> None:
    write(project, "device:\napps:\n  a:\n  b: {args: , profile: }\n")
    apps = config.load(project, environ={}).apps
    assert apps["a"] == config.AppConfig("a")
    assert apps["b"].args == () and apps["b"].profile == "cpu"


def test_a_misspelt_variable_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.load(project, environ={"DEVKIT_DEVICE_SERIEL": "x"})
    assert "did you mean DEVKIT_DEVICE_SERIAL?" in capsys.readouterr().err


def test_a_wrong_variable_names_it(project: Path) -> None:
    with pytest.raises(ConfigError, match="DEVKIT_BUILD_TYPE cannot be 'quick'"):
        config.load(project, environ={"DEVKIT_BUILD_TYPE": "quick"})


def test_bom_and_crlf(project: Path) -> None:
    (project / "devkit.yaml").write_bytes(b"\xef\xbb\xbfengine: mnn\r\nbuild:\r\n  jobs: 2\r\n")
    settings = config.load(project, environ={})
    assert (settings.engine, settings.build.jobs) == ("mnn", 2)


@pytest.mark.parametrize("name", ['""', "a.out", "a/b", '".."'])
def test_a_name_that_cannot_be_a_folder_on_the_phone(project: Path, name: str) -> None:
    error = fails(project, f"apps:\n  {name}: {{target: MNNV2Basic.out}}\n")
    assert "cannot be a name" in error.what and ":2: " in error.what
    assert error.hints == ("name the program itself with `target:`",)


@pytest.mark.parametrize("name", ['""', '"A=B"', '"\\0"'])
def test_a_name_that_no_variable_can_have(project: Path, name: str) -> None:
    error = fails(project, f"apps:\n  a:\n    env: {{{name}: x}}\n")
    assert ":3: apps.a.env: " in error.what and "cannot be the name of a variable" in error.what


def test_variables_keep_their_text(project: Path) -> None:
    """`true` is ON for CMake, but "true" for a program that asks for a variable."""
    write(project, "apps: {a: {env: {A: true, B: no, C: 010, D: 'x y', E: }}}\n")
    env = config.load(project, environ={}).apps["a"].env
    assert env == {"A": "true", "B": "no", "C": "010", "D": "x y", "E": ""}


def test_a_yaml_error_names_the_file(project: Path) -> None:
    for text in ("apps:\n  toy: [1,2\n", "engine: cmake\n---\nengine: mnn\n", "engine: \0\n"):
        error = fails(project, text)
        assert "devkit.yaml" in (error.evidence or "") and "unicode string" not in (error.evidence or "")


def test_a_folder_above_that_may_not_be_looked_into(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(project, "engine: cmake\n")
    closed = project / "closed" / "deeper"
    closed.mkdir(parents=True)
    real = Path.is_file

    def refuse(path: Path) -> bool:
        if path.parent == closed.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    assert config.find_project_file(closed) == file
