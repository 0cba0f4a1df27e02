"""`devkit env` with a folder that looks like an NDK, in real shells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.support import Cli
from tests.support.ndk_trees import make_ndk
from tests.support.qnn_trees import make_sdk


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
    whole = make_ndk(workdir / "whole ndk", "29.0.14206865")
    nothing = {"HOME": str(workdir), "QNN_SDK_ROOT": "", "QAIRT_SDK_ROOT": ""}
    assert devkit("env", ANDROID_NDK=str(whole), **nothing).err == ""
    assert "lacks" in devkit("env", ANDROID_NDK=str(ndk), **nothing).err
    named = {**nothing, "QNN_SDK_ROOT": str(workdir / "no sdk")}
    assert "QNN_SDK_ROOT names no QNN SDK" in devkit("env", ANDROID_NDK=str(whole), **named).err


def test_the_qnn_sdks_libraries_are_for_its_own_tools_only(devkit: Cli, ndk: Path, workdir: Path) -> None:
    sdk = make_sdk(workdir / "qairt" / "2.42.0.251225")
    tool = sdk / "bin/x86_64-linux-clang/qnn-net-run"
    tool.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH|$QNN_SDK_ROOT|$QAIRT_SDK_ROOT|$PYTHONPATH"\n')
    use = {"QNN_SDK_ROOT": str(sdk), "ANDROID_NDK": str(ndk), "LD_LIBRARY_PATH": "/mine"}
    libraries, own, same, python = devkit("env", "--", "qnn-net-run", **use).out.strip().split("|")
    assert libraries == f"{sdk}/lib/x86_64-linux-clang:/mine" and own == same == str(sdk)
    assert python.split(os.pathsep)[-2:] == [f"{sdk}/lib/python", f"{sdk}/benchmarks/QNN"]
    assert devkit("env", "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"', **use).out == "/mine\n"
    assert "LD_LIBRARY_PATH" not in devkit("env", **use).out


def test_without_an_ndk(devkit: Cli, workdir: Path) -> None:
    nothing = {"HOME": str(workdir), "ANDROID_NDK": "", "ANDROID_NDK_ROOT": "", "ANDROID_NDK_HOME": ""}
    ran = devkit("env", **nothing)
    assert (ran.code, ran.out) == (0, "") and "no Android NDK" in ran.err
    refused = devkit("env", "--install", "--shell", "bash", **nothing)
    assert refused.code == 125 and "nothing to write" in refused.err
    assert not (workdir / ".bashrc").exists()
    assert devkit("env", "--install", "--uninstall").code == 2
    assert devkit("env", "--shell", "csh", ANDROID_NDK="").code == 2
