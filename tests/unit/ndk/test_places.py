"""All the places where an NDK can be, what a broken one lacks, and the files of every layout."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import output, paths
from devkit.errors import ToolMissing, UsageError
from devkit.ndk import Ndk, find_ndk, known_ndks, missing_parts, ndk_for, store_dir
from devkit.ndk.files import find_file
from tests.support.ndk_trees import LAYOUTS, make_ndk

CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "家 home"
    folder.mkdir()
    return folder


def environ_of(home: Path, **variables: Path) -> dict[str, str]:
    return {"HOME": str(home), **{name: str(value) for name, value in variables.items()}}


def test_the_documented_order(home: Path, tmp_path: Path) -> None:
    """Each place in its turn: the one before is taken away, and the next is found."""
    sdk, root = tmp_path / "an sdk", tmp_path / "sdk root"
    variables = {
        name: make_ndk(tmp_path / name, revision)
        for name, revision in (("ANDROID_NDK", "21.4.7075529"), ("ANDROID_NDK_ROOT", "22.1.7171670"),
                               ("ANDROID_NDK_HOME", "23.1.7779620"))
    }  # fmt: skip
    make_ndk(sdk / "ndk/25.2.9519653", "25.2.9519653")
    make_ndk(sdk / "ndk/26.3.11579264", "26.3.11579264")
    make_ndk(root / "ndk-bundle", "27.3.13750724")
    make_ndk(home / "Android/Sdk/ndk/21.4.7075529", "21.4.7075529")
    make_ndk(store_dir() / "r29", "29.0.14206865")
    make_ndk(home / "android_ndk/android-ndk-r30", "30.0.14904198")
    environ = environ_of(home, **variables, ANDROID_HOME=sdk, ANDROID_SDK_ROOT=root)
    explicit = make_ndk(tmp_path / "explicit", "29.0.14206865")
    found = [find_ndk(explicit, environ)]
    for name in variables:
        found.append(find_ndk(environ=environ))
        del environ[name]
    for gone in ("26.3.11579264", "25.2.9519653"):
        found.append(find_ndk(environ=environ))
        shutil.rmtree(sdk / "ndk" / gone)
    for gone_path in (root, home / "Android", store_dir()):
        found.append(find_ndk(environ=environ))
        shutil.rmtree(gone_path)
    found.append(find_ndk(environ=environ))
    assert [(f.origin, f.release) for f in found] == [
        (f"ndk.path '{explicit}'", "r29"),
        ("ANDROID_NDK", "r21e"),
        ("ANDROID_NDK_ROOT", "r22b"),
        ("ANDROID_NDK_HOME", "r23b"),
        ("$ANDROID_HOME/ndk", "r26d"),
        ("$ANDROID_HOME/ndk", "r25c"),
        ("$ANDROID_SDK_ROOT/ndk-bundle", "r27d"),
        ("~/Android/Sdk/ndk", "r21e"),
        ("installed by devkit", "r29"),
        ("~/android_ndk", "r30"),
    ]


def test_the_newest_complete_one_is_taken(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.install(output.Output(verbosity=1))
    ndks = home / "Android/Sdk/ndk"
    make_ndk(ndks / "27.3.13750724", "27.3.13750724")
    make_ndk(ndks / "29.0.14206865", "29.0.14206865", without=(CLANG,))
    (ndks / ".30.0.1.tmp").mkdir()
    assert find_ndk(environ=environ_of(home)).release == "r27d"
    assert f"lacks {CLANG}" in capsys.readouterr().err
    shutil.rmtree(ndks / "27.3.13750724")
    assert find_ndk(environ=environ_of(home)).missing == (CLANG,)


def test_several_names_of_one_folder_are_one(home: Path, tmp_path: Path) -> None:
    sdk = home / "Android/Sdk"
    real = make_ndk(sdk / "ndk/27.3.13750724", "27.3.13750724")
    (tmp_path / "link").symlink_to(real)
    environ = environ_of(home, ANDROID_HOME=sdk, ANDROID_NDK=tmp_path / "link")
    assert [c.origin for c in known_ndks(environ=environ)] == ["ANDROID_NDK", "$ANDROID_HOME/ndk"]


def test_a_version_is_looked_for_everywhere(home: Path, tmp_path: Path) -> None:
    make_ndk(home / "Android/Sdk/ndk/26.3.11579264", "26.3.11579264")
    make_ndk(store_dir() / "r27d", "27.3.13750724")
    environ = environ_of(home, ANDROID_NDK=make_ndk(tmp_path / "29", "29.0.14206865"))
    for version, release in (("r27d", "r27d"), ("26", "r26d"), ("29.0.14206865", "r29")):
        assert find_ndk(environ=environ, version=version).release == release
    found = find_ndk(environ=environ, version="r27d")
    assert found.conflicts == ("ANDROID_NDK (29.0.14206865)",)
    assert find_ndk(environ=environ, version="r29").conflicts == ()
    with pytest.raises(ToolMissing, match="NDK r28c is not installed") as caught:
        find_ndk(environ=environ, version="r28c")
    assert "27.3.13750724" in (caught.value.evidence or "")
    assert caught.value.hints[0] == "devkit ndk install r28c"


def test_of_two_of_one_version_the_complete_one(home: Path) -> None:
    make_ndk(home / "Android/Sdk/ndk/27.3.13750724", "27.3.13750724", without=(CLANG,))
    whole = make_ndk(store_dir() / "r27d", "27.3.13750724")
    assert find_ndk(environ=environ_of(home), version="27").path == whole


@pytest.mark.parametrize(
    ("flags", "release"),
    [
        ({}, "r29"),
        ({"ndk.version": ("--ndk", "r27d")}, "r27d"),
        ({"ndk.path": ("--ndk", "HERE")}, "r26d"),
    ],
)
def test_the_later_layers_word_stands_alone(
    home: Path,
    tmp_path: Path,
    flags: dict[str, tuple[str, str]],
    release: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(home))
    here = make_ndk(tmp_path / "here", "26.3.11579264")
    make_ndk(store_dir() / "r27d", "27.3.13750724")
    make_ndk(store_dir() / "r29", "29.0.14206865")
    user = paths.config_dir() / "config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text(f"ndk: {{path: '{store_dir()}/r27d'}}\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "devkit.yaml").write_text("ndk: {version: r29}\n")
    flags = {key: (flag, str(here) if value == "HERE" else value) for key, (flag, value) in flags.items()}
    assert ndk_for(configuration.load(project, flags=flags)).release == release


@pytest.mark.parametrize(
    "level", ["..", "../..", "toolchains/llvm/prebuilt/linux-x86_64/bin", "toolchains/llvm"]
)
def test_a_wrong_level_is_suggested_right(home: Path, tmp_path: Path, level: str) -> None:
    real = make_ndk(tmp_path / "two levels/up/android-ndk-r27d", "27.3.13750724")
    given = (real / level).resolve()
    with pytest.raises(ToolMissing, match="ANDROID_NDK names no Android NDK") as caught:
        find_ndk(environ=environ_of(home, ANDROID_NDK=given))
    assert caught.value.hints[0] == f"an NDK is at '{real}': name that folder"


def test_what_is_wrong_with_a_named_folder(home: Path, tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(ToolMissing) as caught:
            find_ndk(environ=environ_of(home, ANDROID_NDK=path))
        return caught.value.evidence or ""

    damaged = make_ndk(tmp_path / "damaged", "27.3.13750724")
    (damaged / "source.properties").write_text("Pkg.Desc = Android NDK\n")
    assert "has no Pkg.Revision: the NDK is damaged" in said(damaged)
    assert "does not exist" in said(tmp_path / "gone")
    assert "has no source.properties" in said(home)


@pytest.mark.parametrize("revision", LAYOUTS)
def test_every_layout_is_whole_and_every_missing_part_is_named(revision: str, tmp_path: Path) -> None:
    ndk = make_ndk(tmp_path / "安卓 ndk", revision)
    assert missing_parts(ndk) == ()
    assert Ndk(ndk, revision, "").llvm == LAYOUTS[revision][0].rpartition("/")[2]
    base = "toolchains/llvm/prebuilt/linux-x86_64"
    stl = "sources/cxx-stl" if LAYOUTS[revision][1] else f"{base}/sysroot/usr/lib"
    for part, named in [
        (CLANG, CLANG),
        (f"{base}/bin/clang++", f"{base}/bin/clang++"),
        (f"{base}/sysroot/usr/include", f"{base}/sysroot/usr/include"),
        (stl, f"{base}/sysroot/usr/lib/*/libc++_shared.so"),
        (base, base),
        ("build", "build/cmake/android.toolchain.cmake"),
        ("source.properties", "source.properties"),
    ]:
        (ndk / part).rename(tmp_path / "aside")
        assert missing_parts(ndk) == (named,)
        (tmp_path / "aside").rename(ndk / part)


def test_an_ndk_for_another_system(tmp_path: Path) -> None:
    ndk = make_ndk(tmp_path / "mac", "27.3.13750724", tag="darwin-x86_64")
    assert missing_parts(ndk) == ("toolchains/llvm/prebuilt/linux-x86_64 (found darwin-x86_64)",)
    assert missing_parts(ndk, "Darwin", "arm64") == ()


def test_an_incomplete_ndk_says_so_where_a_file_is_missing(tmp_path: Path) -> None:
    folder = make_ndk(tmp_path / "n", "27.3.13750724", without=("build/cmake/android.toolchain.cmake", CLANG))
    with pytest.raises(ToolMissing, match=r"no build/cmake/android\.toolchain\.cmake in this NDK") as caught:
        _ = find_ndk(folder, {}).toolchain_file
    assert f"this NDK is not complete: it also lacks {CLANG}" in (caught.value.evidence or "")


@pytest.mark.parametrize("revision", LAYOUTS)
def test_any_tool_by_name(revision: str, tmp_path: Path) -> None:
    folder = make_ndk(tmp_path / "安卓 ndk", revision)
    ndk = Ndk(folder, revision, "")
    clang = LAYOUTS[revision][0]
    base = folder / "toolchains/llvm/prebuilt/linux-x86_64"
    asan = base / clang / "lib/linux/libclang_rt.asan-aarch64-android.so"
    for name, abi, expected in [
        ("clang", None, base / "bin/clang"),
        ("lldb", None, base / "bin/lldb.sh"),
        ("ndk-build", None, folder / "ndk-build"),
        ("make", None, folder / "prebuilt/linux-x86_64/bin/make"),
        ("toolchain", None, folder / "build/cmake/android.toolchain.cmake"),
        ("sysroot", None, base / "sysroot"),
        ("simpleperf", None, folder / "simpleperf/bin/linux/x86_64/simpleperf"),
        ("simpleperf", "arm64-v8a", folder / "simpleperf/bin/android/arm64/simpleperf"),
        ("app_profiler.py", None, folder / "simpleperf/app_profiler.py"),
        ("lldb-server", None, base / clang / "lib/linux/aarch64/lldb-server"),
        ("lldb-server", "armeabi-v7a", base / clang / "lib/linux/arm/lldb-server"),
        ("libomp.so", "x86_64", base / clang / "lib/linux/x86_64/libomp.so"),
        ("asan", None, asan),
        ("libclang_rt.asan-aarch64-android.so", "arm64-v8a", asan),
    ]:
        assert find_file(ndk, name, abi) == expected, name
    assert find_file(ndk, "libc++_shared.so", "x86").read_text() == "STL x86\n"


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    ndk = Ndk(make_ndk(tmp_path / "n", "27.3.13750724"), "27.3.13750724", "")
    with pytest.raises(ToolMissing, match="no llvm-stripp in this NDK") as caught:
        find_file(ndk, "llvm-stripp")
    assert "devkit ndk path llvm-strip" in caught.value.hints
    with pytest.raises(ToolMissing, match="no clang for arm64-v8a in this NDK"):
        find_file(ndk, "clang", "arm64-v8a")
    with pytest.raises(ToolMissing, match="knows no ABI 'mips'"):
        find_file(ndk, "lldb-server", "mips")
    with pytest.raises(ToolMissing) as caught:
        find_file(ndk, "lldb-serve", "arm64-v8a")
    assert caught.value.hints == ("devkit ndk path lldb-server --abi arm64-v8a",)


@pytest.mark.parametrize("name", ["", "../../source.properties", "/etc/passwd", "bin\\clang"])
def test_a_path_is_no_tools_name(tmp_path: Path, name: str) -> None:
    ndk = Ndk(make_ndk(tmp_path / "n", "27.3.13750724"), "27.3.13750724", "")
    with pytest.raises(UsageError, match="is no file's name"):
        find_file(ndk, name)
