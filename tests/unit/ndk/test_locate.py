"""Finding an NDK and files in it (cases A1, A5 and F3)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from devkit import ndk as ndk_room
from devkit import output
from devkit.errors import ToolMissing
from devkit.ndk import Ndk, choose_host_tag, find_ndk, read_revision

CASES = Path(__file__).parents[2] / "data" / "cases"
A5 = CASES / "A5"


def make_tree(case: str, folder: Path) -> Path:
    # The scripts do not quote: they run in a plain folder, and the tree moves from there.
    plain = folder.parent / "plain"
    plain.mkdir()
    subprocess.run(["bash", CASES / case / "mk_tree.sh", plain], check=True)
    return plain.rename(folder)


@pytest.fixture
def a1(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The tree of case A1 in a folder with a blank, and its variables."""
    root = make_tree("A1", tmp_path / "空 root")
    lines = (CASES / "A1" / "env.txt").read_text().split()
    return root, {name: f"{root}{value}" for name, value in (line.split("=") for line in lines)}


def test_a1_the_documented_order_and_the_conflict(a1: tuple[Path, dict[str, str]]) -> None:
    root, environ = a1
    found = find_ndk(environ=environ)
    assert found.path == root / "opt/sdk/ndk/21.4.7075529"
    assert found.origin == "ANDROID_NDK"
    # One conflict, not two: the symlink names the same NDK as the real path.
    assert found.conflicts == ("ANDROID_NDK_ROOT / ANDROID_NDK_HOME (27.1.12297006)",)
    assert found.agreeing == ("ANDROID_NDK",)


def test_a1_the_warning_names_variables_and_both_versions(
    a1: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    output.install(output.Output())
    ndk_room.warn_about_conflicts(find_ndk(environ=a1[1]))
    text = capsys.readouterr().err
    for wanted in (*ndk_room.VARIABLES, "21.4.7075529", "27.1.12297006"):
        assert wanted in text


def test_a1_an_explicit_path_comes_first_and_a_symlink_to_it_agrees(a1: tuple[Path, dict[str, str]]) -> None:
    root, environ = a1
    del environ["ANDROID_NDK"]
    found = find_ndk(root / "opt/sdk/ndk/27.1.12297006", environ)
    assert found.revision == "27.1.12297006"
    assert found.conflicts == ()
    assert found.agreeing[1:] == ("ANDROID_NDK_ROOT", "ANDROID_NDK_HOME")


def test_a1_children_get_all_three_variables_alike(a1: tuple[Path, dict[str, str]]) -> None:
    found = find_ndk(environ=a1[1])
    assert found.environment == dict.fromkeys(
        ("ANDROID_NDK", "ANDROID_NDK_ROOT", "ANDROID_NDK_HOME"), str(found.path)
    )


def test_a_variable_that_names_no_ndk_is_not_passed_over(
    a1: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    environ = {**a1[1], "ANDROID_NDK": str(tmp_path)}
    with pytest.raises(ToolMissing) as caught:
        find_ndk(environ=environ)
    assert "ANDROID_NDK names no Android NDK" in caught.value.what
    assert "27.1.12297006" in (caught.value.evidence or "")


def test_the_home_folder_is_the_last_resort(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pytest.raises(ToolMissing, match="no Android NDK"):
        find_ndk(environ={"HOME": str(home)})
    for revision in ("9.0.1", "27.1.2", "29.0.1"):
        ndk = home / "android_ndk" / f"ndk-{revision}"
        ndk.mkdir(parents=True)
        (ndk / "source.properties").write_text(f"Pkg.Desc = Android NDK\nPkg.Revision = {revision}\n")
    assert find_ndk(environ={"HOME": str(home)}).revision == "29.0.1"
    (home / "android_ndk" / "source.properties").write_text("Pkg.Revision = 25.2.9519653\n")
    assert find_ndk(environ={"HOME": str(home)}).path == home / "android_ndk"


@pytest.mark.parametrize(
    "row", json.loads((A5 / "host_tags.json").read_text()), ids=lambda r: r["expect"][:22]
)
def test_a5_the_host_tag_is_found_by_listing(row: dict[str, object], tmp_path: Path) -> None:
    system, machine = str(row["platform"]).split()
    prebuilt = list(map(str, row["prebuilt_dirs"]))  # type: ignore[call-overload]
    for tag in prebuilt:
        (tmp_path / "toolchains/llvm/prebuilt" / tag).mkdir(parents=True)
    ndk = Ndk(tmp_path, "27.0.0", "test", system=system, machine=machine)
    expected = str(row["expect"])
    if expected.startswith("error: "):
        with pytest.raises(ToolMissing) as caught:
            _ = ndk.host_tag
        assert caught.value.what == expected.removeprefix("error: ")
    else:
        assert ndk.host_tag == expected


def test_a5_windows_says_amd64() -> None:
    assert choose_host_tag(["windows-x86_64"], "Windows", "AMD64", where=Path("p")) == "windows-x86_64"


@pytest.mark.parametrize("root", (A5 / "paths.txt").read_text("utf-8").splitlines())
def test_a5_any_path_works_as_ndk_root(root: str, tmp_path: Path) -> None:
    ndk = tmp_path / root.lstrip("/")
    (ndk / "build/cmake").mkdir(parents=True)
    (ndk / "build/cmake/android.toolchain.cmake").touch()
    (ndk / "source.properties").write_text("Pkg.Revision = 27.2.12479018\n")
    found = find_ndk(environ={"ANDROID_NDK": str(ndk)})
    assert found.toolchain_file == ndk / "build/cmake/android.toolchain.cmake"
    with pytest.raises(ToolMissing) as caught:
        found.stl("arm64-v8a")
    assert f"'{ndk}'" in (caught.value.evidence or "")


F3 = json.loads((CASES / "F3" / "expected.json").read_text())


@pytest.mark.parametrize("key", [k for k in F3 if k[0].isdigit()])
def test_f3_lldb_server_is_looked_up(key: str, tmp_path: Path) -> None:
    tree = make_tree("F3", tmp_path / "树 F3")
    ndk = find_ndk(tree / "ndk" / key.split()[0], environ={})
    expected = F3[key]
    if expected.startswith("error: "):
        with pytest.raises(ToolMissing) as caught:
            ndk.lldb_server("arm64-v8a")
        assert caught.value.what == expected.removeprefix("error: ")
        assert key in (caught.value.evidence or "")
    else:
        assert ndk.lldb_server("arm64-v8a") == ndk.prebuilt / expected


def test_f3_each_abi_has_its_own_folder(tmp_path: Path) -> None:
    tree = make_tree("F3", tmp_path / "F3")
    ndk = find_ndk(tree / "ndk/29.0.14206865", environ={})
    assert F3["armeabi-v7a"] in str(ndk.lldb_server("armeabi-v7a"))
    assert ndk.lldb_server("x86_64").read_text() == "lldb-server x86_64\n"
    assert ndk.lldb_server("x86").read_text() == "lldb-server i386\n"
    with pytest.raises(ToolMissing, match="mips"):
        ndk.lldb_server("mips")


def test_the_newest_of_several_clang_folders(tmp_path: Path) -> None:
    for version in ("9.0.9", "18", "17.0.2"):
        server = (
            tmp_path
            / f"toolchains/llvm/prebuilt/linux-x86_64/lib/clang/{version}/lib/linux/aarch64/lldb-server"
        )
        server.parent.mkdir(parents=True)
        server.touch()
    assert "clang/18/" in str(Ndk(tmp_path, "27.0.0", "test").lldb_server("arm64-v8a"))


def test_tools_are_found_or_named(tmp_path: Path) -> None:
    binary = tmp_path / "toolchains/llvm/prebuilt/linux-x86_64/bin/lldb.sh"
    binary.parent.mkdir(parents=True)
    binary.touch()
    ndk = Ndk(tmp_path, "27.0.1", "test", system="Linux", machine="x86_64")
    assert ndk.tool("lldb.sh") == binary
    assert ndk.find_tool("llvm-strip") is None
    with pytest.raises(ToolMissing, match="no llvm-strip in this NDK"):
        ndk.tool("llvm-strip")
    with pytest.raises(ToolMissing, match=r"android\.toolchain\.cmake"):
        _ = ndk.toolchain_file
    assert Ndk(tmp_path, "27.0.1", "test", system="Linux", machine="riscv64").find_tool("lldb.sh") is None


def test_the_stl_of_old_and_new_ndks(tmp_path: Path) -> None:
    old = tmp_path / "sources/cxx-stl/llvm-libc++/libs/arm64-v8a/libc++_shared.so"
    old.parent.mkdir(parents=True)
    old.touch()
    ndk = Ndk(tmp_path, "22.1.7171670", "test", system="Linux", machine="x86_64")
    assert ndk.stl("arm64-v8a") == old
    new = (
        tmp_path
        / "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/aarch64-linux-android/libc++_shared.so"
    )
    new.parent.mkdir(parents=True)
    new.touch()
    assert ndk.stl("arm64-v8a") == new


@pytest.mark.parametrize(
    ("revision", "release", "major"),
    [
        ("27.3.13750724", "r27d", 27),
        ("29.0.14206865", "r29", 29),
        ("25.2.9519653", "r25c", 25),
        ("odd", "odd", 0),
    ],
)
def test_release_names(revision: str, release: str, major: int) -> None:
    ndk = Ndk(Path("/ndk"), revision, "test")
    assert (ndk.release, ndk.major) == (release, major)


def test_a_file_that_is_no_properties_file(tmp_path: Path) -> None:
    (tmp_path / "source.properties").write_bytes(os.urandom(64))
    assert read_revision(tmp_path) is None
