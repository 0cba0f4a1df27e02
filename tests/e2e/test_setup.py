"""`devkit setup`: scripted and typed, twice the same, and what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from devkit import paths
from tests.e2e.support import REPO, Cli, Sim
from tests.e2e.terminal import Terminal
from tests.support.http_server import serve, sha1
from tests.support.ndk_trees import make_ndk, zip_tree
from tests.support.qnn_trees import make_sdk

NO_NDK = {
    "ANDROID_NDK": "",
    "ANDROID_NDK_ROOT": "",
    "ANDROID_NDK_HOME": "",
    "ANDROID_HOME": "",
    "QNN_SDK_ROOT": "",
    "QAIRT_SDK_ROOT": "",
}


@pytest.fixture
def home(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = workdir / "home"
    folder.mkdir()
    for name, value in {**NO_NDK, "HOME": str(folder), "SHELL": "/bin/bash"}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def engine(workdir: Path) -> Path:
    folder = workdir / "mini-engine"
    shutil.copytree(REPO / "examples/mini-engine", folder, ignore=shutil.ignore_patterns("build"))
    (folder / "devkit.yaml").unlink()
    return folder


@pytest.fixture
def ndk(workdir: Path) -> Path:
    """A folder with the files that `devkit ndk` checks; their content does not matter here."""
    root = workdir / "my ndk 中"
    llvm = root / "toolchains/llvm/prebuilt/linux-x86_64"
    for file in (
        "source.properties",
        "build/cmake/android.toolchain.cmake",
        *(
            f"toolchains/llvm/prebuilt/linux-x86_64/bin/{t}"
            for t in ("clang", "clang++", "ld.lld", "lldb", "lldb.sh")
        ),
        *(
            f"toolchains/llvm/prebuilt/linux-x86_64/bin/llvm-{t}"
            for t in ("strip", "ar", "readelf", "symbolizer")
        ),
        "toolchains/llvm/prebuilt/linux-x86_64/lib/clang/21/lib/linux/aarch64/lldb-server",
        "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/aarch64-linux-android/libc++_shared.so",
        "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/include/stdio.h",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
        (root / file).chmod(0o755)
    (root / "source.properties").write_text("Pkg.Revision = 29.0.14206865\n")
    assert llvm.is_dir()
    return root


def test_scripted_and_idempotent(sim: Sim, home: Path, engine: Path, ndk: Path, devkit: Cli) -> None:
    command = ("setup", "--yes", "--ndk", str(ndk), "--json")
    first = devkit(*command, cwd=engine)
    assert first.code == 0, first.out + first.err
    states = {step["name"]: step["state"] for step in first.data["steps"]}
    assert states == {"ndk": "done", "qnn-sdk": "left out", "project": "done", "shell": "done"}
    assert first.data["doctor"]["first_broken"] is None
    assert f"ANDROID_NDK='{ndk}'" in next(home.glob(".*rc")).read_text()
    before = {file: file.read_bytes() for file in [*home.rglob("*rc"), engine / "devkit.yaml"]}
    again = devkit(*command, cwd=engine)
    assert again.code == 0
    assert {step["state"] for step in again.data["steps"]} == {"there", "left out"}
    assert {file: file.read_bytes() for file in before} == before


def test_nothing_wanted_changes_nothing(sim: Sim, home: Path, engine: Path, devkit: Cli) -> None:
    before = sorted(engine.rglob("*"))
    ran = devkit("setup", "--yes", "--ndk", "none", "--no-shell-rc", "--no-project", "--json", cwd=engine)
    assert ran.code == 0, ran.out
    assert {step["state"] for step in ran.data["steps"]} == {"left out"}
    assert sorted(engine.rglob("*")) == before and not list(home.glob(".*rc"))


def test_without_a_terminal_it_says_which_flags_answer(
    sim: Sim, home: Path, engine: Path, devkit: Cli
) -> None:
    ran = devkit("setup", cwd=engine)
    assert ran.code == 2
    for flag in ("--yes", "--ndk r29", "--project", "--shell-rc"):
        assert flag in ran.err
    assert not (engine / "devkit.yaml").exists()


def test_a_wrong_ndk(sim: Sim, home: Path, engine: Path, devkit: Cli) -> None:
    ran = devkit("setup", "--yes", "--ndk", "./nowhere", cwd=engine)
    assert ran.code == 2 and "does not exist" in ran.err and "--ndk r29 installs one" in ran.err
    ran = devkit("setup", "--yes", "--ndk", "r999zz", cwd=engine)
    assert ran.code != 0 and "r999zz" in ran.err


def test_wrong_folders_are_found_before_anything_is_done(
    sim: Sim, home: Path, engine: Path, ndk: Path, devkit: Cli
) -> None:
    sdk = make_sdk(engine.parent / "qairt" / "2.42.0.251225")
    ran = devkit("setup", "--yes", "--ndk", ndk, "--qnn-sdk", sdk.parent, cwd=engine)
    assert ran.code == 2 and f"--qnn-sdk '{sdk}'" in ran.err
    ran = devkit("setup", "--yes", "--ndk", ndk / "toolchains", "--qnn-sdk", sdk, cwd=engine)
    assert ran.code == 2 and f"an NDK is at '{ndk}'" in ran.err
    (ndk / "build/cmake/android.toolchain.cmake").unlink()
    ran = devkit("setup", "--yes", "--ndk", ndk, "--qnn-sdk", sdk, cwd=engine)
    assert ran.code == 2 and "not complete" in ran.err and "android.toolchain.cmake" in ran.err
    assert not (engine / "devkit.yaml").exists() and not list(home.rglob("*"))


def test_dry_run_changes_nothing(sim: Sim, home: Path, engine: Path, ndk: Path, devkit: Cli) -> None:
    before = sorted(engine.rglob("*"))
    ran = devkit("setup", "--yes", "--ndk", ndk, "--dry-run", "--json", cwd=engine)
    assert ran.code == 0, ran.err
    assert {s["name"]: s["state"] for s in ran.data["steps"]} == {
        "ndk": "to do", "qnn-sdk": "left out", "project": "to do", "shell": "left out"
    }  # fmt: skip
    # Nothing to export yet: the NDK is only going to be chosen.
    assert sorted(engine.rglob("*")) == before and not list(home.rglob("*"))
    assert not (paths.config_dir() / "config.yaml").exists()


def test_the_projects_ndk_comes_from_the_configured_mirror(
    sim: Sim, home: Path, engine: Path, devkit: Cli
) -> None:
    """--yes brings what the project asks for, not what devkit would recommend."""
    name = "android-ndk-r27d-linux.zip"
    archive = zip_tree(make_ndk(home / "src" / "android-ndk-r27d", "27.3.13750724"), home / name)
    own = paths.config_dir() / "ndk-releases.yaml"
    own.parent.mkdir(parents=True)
    with serve({f"/{name}": archive}) as mirror:
        row = {"revision": "27.3.13750724", "sha1": sha1(archive)}
        own.write_text(yaml.safe_dump({"mirrors": ["http://127.0.0.1:1"], "releases": {"r27d": row}}))
        (engine / "devkit.yaml").write_text(f"engine: mnn\nndk: {{version: r27d, mirror: '{mirror.url}'}}\n")
        ran = devkit("setup", "--yes", "--no-shell-rc", "--json", cwd=engine)
    assert ran.code == 0, ran.err
    assert mirror.requests[0][0] == f"/{name}"
    assert "r27d is installed" in ran.data["steps"][0]["detail"]


@pytest.mark.parametrize("key", [b"\x03", b"\x04"])
def test_leaving_at_a_question_changes_nothing(
    sim: Sim, home: Path, engine: Path, monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    """Ctrl-C, and the end of input."""
    monkeypatch.chdir(engine)
    before = sorted(engine.rglob("*"))
    terminal = Terminal("setup")
    terminal.wait_for(b"Android NDK: a release to install")
    terminal.type(b"none\r")
    terminal.wait_for(b"QNN SDK: the root of one")
    terminal.type(key)
    terminal.wait_for(b"interrupted")
    assert terminal.end() == 130
    assert sorted(engine.rglob("*")) == before and not list(home.rglob("*"))


def test_an_rc_file_that_is_not_to_be_written(
    sim: Sim, home: Path, engine: Path, ndk: Path, devkit: Cli
) -> None:
    """The last step: what was done before is done, and said."""
    for name in (".bashrc", ".zshrc"):
        (home / name).write_text("made by a program\n")
        (home / name).chmod(0o444)
    ran = devkit("setup", "--yes", "--ndk", ndk, "--json", cwd=engine)
    assert ran.code == 1
    steps = {step["name"]: step for step in ran.data["steps"]}
    assert (steps["ndk"]["state"], steps["shell"]["state"]) == ("done", "failed")
    assert "read-only" in steps["shell"]["detail"] and ran.data["doctor"]["links"]
    assert devkit("setup", "--yes", "--no-shell-rc", cwd=engine).code == 0


def test_asked_on_a_terminal(sim: Sim, home: Path, engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(engine)
    terminal = Terminal("setup")
    # What there is comes before the questions.
    terminal.wait_for(b"mini-engine")
    terminal.wait_for(b"Android NDK: a release to install")
    terminal.type(b"none\r")
    terminal.wait_for(b"QNN SDK: the root of one")
    terminal.type(b"\r")
    terminal.wait_for(b"write a devkit.yaml")
    terminal.type(b"y\r")
    terminal.wait_for(b"write the variables into")
    terminal.type(b"n\r")
    terminal.wait_for(b"nothing that is needed is broken")
    assert terminal.end() == 0
    assert (engine / "devkit.yaml").is_file() and not list(home.glob(".*rc"))


@pytest.mark.slow
def test_a_version_that_means_another_sdk_goes(sim: Sim, home: Path, engine: Path, devkit: Cli) -> None:
    """Beside the new path it would go on choosing the old one."""
    for version in ("2.41.0.251128", "2.42.0.251225"):
        make_sdk(home / "qairt" / version, version)
    settings = paths.config_dir() / "config.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("# mine\nqnn:\n  version: 2.41\n")
    wanted = home / "qairt/2.42.0.251225"
    words = ("setup", "--yes", "--ndk", "none", "--no-shell-rc", "--no-project", "--qnn-sdk", str(wanted))
    ran = devkit(*words, cwd=engine)
    assert ran.code == 0 and "qnn.version 2.41 meant another one and is gone" in ran.out, ran.out + ran.err
    assert devkit("qnn", "sdk", "path", cwd=engine).out == f"{wanted}\n"
    settings.write_text("qnn:\n  version: 2.42\n")
    assert "is gone" not in devkit(*words, cwd=engine).out
    assert yaml.safe_load(settings.read_text())["qnn"] == {"path": str(wanted), "version": 2.42}
    assert devkit("qnn", "sdk", "path", cwd=engine).out == f"{wanted}\n"
