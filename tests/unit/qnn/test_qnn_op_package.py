"""Op packages: what their Makefile is given, what it must leave, how they are registered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devkit.config import Config, load
from devkit.errors import BuildError, FileError, ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QnnSdk, open_qnn_sdk
from devkit.qnn.op_package import (
    build,
    built_libraries,
    find_hexagon_sdk,
    plan_build,
    read_package,
    registration,
)
from tests.support.ndk_trees import make_ndk
from tests.support.qnn_trees import make_sdk

DATA = Path(__file__).parents[2] / "data"
C3 = DATA / "cases/C3/push"


def hexagon(root: Path, *versions: str) -> Path:
    """A Hexagon SDK whose compiler hands out a library for the DSP."""
    for version in versions:
        compiler = root / f"tools/HEXAGON_Tools/{version}/Tools/bin/hexagon-clang++"
        compiler.parent.mkdir(parents=True)
        compiler.write_text(f'#!/bin/sh\n[ -f "$1" ] && cp "{C3}/libQnnHtpV75Skel.so" "$3"\n')
        compiler.chmod(0o755)
    return root


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Config, QnnSdk, Path]:
    for name in ("HEXAGON_SDK_ROOT", "ANDROID_NDK_ROOT", "ANDROID_NDK_HOME", "MAKEFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANDROID_NDK", str(make_ndk(tmp_path / "安 ndk", "27.3.13750724")))
    monkeypatch.setenv("ARM_LIBRARY", str(C3 / "libMNN_Express.so"))
    sdk = open_qnn_sdk(make_sdk(tmp_path / "SDK 版/2.42.0.251225"), "a test")
    folder = Path(shutil.copytree(DATA / "qnn/op-package", tmp_path / "包 package"))
    return load(tmp_path, environ={}), sdk, folder


def test_a_package_for_a_phone(
    world: tuple[Config, QnnSdk, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, sdk, folder = world
    package = read_package(folder)
    assert package.provider == "testOpPackageInterfaceProvider"
    assert package.wanted_tools == {"v75": ("HEXAGON_TOOLS_VERSION_V75", "8.7.03")}
    with pytest.raises(ToolMissing, match="no Hexagon SDK"):
        plan_build(config, sdk, package, "aarch64-android", "v75")
    place = hexagon(tmp_path / "Qualcomm/Hexagon_SDK/5.5.0.1", "8.7.06", "8.10.01")
    assert find_hexagon_sdk() == place
    plan = plan_build(config, sdk, package, "aarch64-android", "v75")
    # Another version than the Makefile's is said and handed over; the newest is not that of the alphabet.
    assert plan.argv[3:] == ("htp_aarch64", "htp_v75", "HEXAGON_TOOLS_VERSION_V75=8.10.01")
    assert "wants Hexagon tools 8.7.03" in capsys.readouterr().err
    with pytest.raises(BuildError, match="there is no op package"):
        built_libraries(package, "aarch64-android", "v75")
    made = build(plan)
    assert [file.parent.name for file in made] == ["aarch64-android", "hexagon-v75"]
    libraries = built_libraries(package, "aarch64-android", "v75")
    assert registration(package, libraries) == (
        "libQnnHtpOpPackageTest.so:testOpPackageInterfaceProvider:CPU,"
        "libQnnHtpOpPackageTest_HTP.so:testOpPackageInterfaceProvider:HTP"
    )
    # Halves that were mixed up.
    shutil.copy(made[0], made[1])
    with pytest.raises(BuildError, match="in build/hexagon-v75 is for aarch64, not for hexagon"):
        built_libraries(package, "aarch64-android", "v75")


def test_a_package_that_cannot_be_built(world: tuple[Config, QnnSdk, Path], tmp_path: Path) -> None:
    config, sdk, folder = world
    hexagon(tmp_path / "hexagon", "8.7.03")
    (folder / "src/TestOp.cpp").unlink()
    plan = plan_build(config, sdk, read_package(folder), "x86_64-linux-clang", None)
    with pytest.raises(BuildError, match="make failed") as caught:
        build(plan)
    assert "TestOp.cpp" in (caught.value.evidence or "")
    with pytest.raises(ToolMissing, match="no Hexagon SDK with a compiler"):
        find_hexagon_sdk(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no op package"):
        read_package(tmp_path)
    (folder / "src/TestOpPackageInterface.cpp").write_text("// nothing")
    with pytest.raises(FileError, match="no source"):
        registration(read_package(folder), [])
