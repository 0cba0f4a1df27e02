"""`devkit env` with a folder that looks like an NDK, in real shells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.support import Cli


@pytest.fixture
def ndk(workdir: Path) -> Path:
    root = workdir / "android ndk 中"
    (root / "toolchains/llvm/prebuilt/linux-x86_64/bin").mkdir(parents=True)
    (root / "build/cmake").mkdir(parents=True)
    (root / "build/cmake/android.toolchain.cmake").write_text("")
    (root / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.2.12479018\n")
    return root


def test_install_is_read_by_an_interactive_bash_and_uninstalls(devkit: Cli, ndk: Path, workdir: Path) -> None:
    home = workdir / "home"
    home.mkdir()
    rc = home / ".bashrc"
    rc.write_text("export MINE=1   # no newline at the end")
    use = {"HOME": str(home), "ANDROID_NDK": str(ndk), "SHELL": "/bin/bash"}
    first = devkit("env", "--install", "--shell", "bash", "--json", **use)
    assert first.code == 0 and first.data == {"file": str(rc), "changed": True, "shell": "bash"}
    assert devkit("env", "--install", "--shell", "bash", "--json", **use).data["changed"] is False
    done = subprocess.run(
        ["bash", "-ic", 'echo "$MINE|$ANDROID_NDK|$ANDROID_NDK_ROOT|$ANDROID_NDK_HOME|$PATH"'],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    tools = ndk / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    assert done.stdout == f"1|{ndk}|{ndk}|{ndk}|/usr/bin:/bin:{tools}\n"
    assert devkit("env", "--uninstall", "--shell", "bash", **use).code == 0
    assert rc.read_text() == "export MINE=1   # no newline at the end"


def test_a_command_runs_with_them(devkit: Cli, ndk: Path) -> None:
    ran = devkit(
        "env", "--", "sh", "-c", 'echo "$ANDROID_NDK_HOME"; exit 7', ANDROID_NDK=str(ndk), ANDROID_NDK_ROOT=""
    )
    assert (ran.code, ran.out) == (7, f"{ndk}\n")
    missing = devkit("env", "--", "no-such-program", ANDROID_NDK=str(ndk))
    assert missing.code == 125 and "no-such-program was not found" in missing.err


def test_install_says_what_it_would_do(devkit: Cli, ndk: Path, workdir: Path) -> None:
    use = {"HOME": str(workdir), "ANDROID_NDK": str(ndk)}
    ran = devkit("env", "--install", "--shell", "zsh", "--dry-run", **use)
    assert ran.code == 0 and "would write" in ran.out and f"ANDROID_NDK='{ndk}'" in ran.out
    assert not (workdir / ".zshrc").exists()
    assert devkit("env", "--dry-run", **use).code == 2
    refused = devkit("env", "--install", "--", "true", **use)
    assert refused.code == 2 and "devkit env -- CMD" in refused.err


def test_a_shell_that_evaluates_it_each_time_is_not_bothered(devkit: Cli, ndk: Path, workdir: Path) -> None:
    from tests.support.ndk_trees import make_ndk

    whole = make_ndk(workdir / "whole ndk", "29.0.14206865")
    nothing = {"HOME": str(workdir), "QNN_SDK_ROOT": "", "QAIRT_SDK_ROOT": ""}
    assert devkit("env", ANDROID_NDK=str(whole), **nothing).err == ""
    assert "lacks" in devkit("env", ANDROID_NDK=str(ndk), **nothing).err
    named = {**nothing, "QNN_SDK_ROOT": str(workdir / "no sdk")}
    assert "QNN_SDK_ROOT names no QNN SDK" in devkit("env", ANDROID_NDK=str(whole), **named).err


def test_without_an_ndk(devkit: Cli, workdir: Path) -> None:
    nothing = {"HOME": str(workdir), "ANDROID_NDK": "", "ANDROID_NDK_ROOT": "", "ANDROID_NDK_HOME": ""}
    ran = devkit("env", **nothing)
    assert (ran.code, ran.out) == (0, "") and "no Android NDK" in ran.err
    refused = devkit("env", "--install", "--shell", "bash", **nothing)
    assert refused.code == 125 and "nothing to write" in refused.err
    assert not (workdir / ".bashrc").exists()
    assert devkit("env", "--install", "--uninstall").code == 2
    assert devkit("env", "--shell", "csh", ANDROID_NDK="").code == 2
