"""Plans for installing an NDK, and what the store holds."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import output, paths
from devkit.errors import FileError, ToolMissing, UsageError
from devkit.ndk import find_ndk, ndk_for, store_dir
from devkit.ndk.store import apply_install, find_installed, installed, plan_install, remove, use
from devkit.ndk.user_config import get_user_value, user_file
from tests.support.http_server import sha1
from tests.support.ndk_trees import make_ndk, zip_tree

R29_SHA1 = "87e2bb7e9be5d6a1c6cdf5ec40dd4e0c6d07c30b"


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    tree = make_ndk(tmp_path / "android-ndk-r27d", "27.3.13750724")
    file = tmp_path / "下 载" / "android-ndk-r27d-linux.zip"
    file.parent.mkdir()
    zip_tree(tree, file)
    return file


def test_a_listed_release_knows_size_and_sha1() -> None:
    plan = plan_install("29.0.14206865", mirror="https://m/x")
    assert (plan.release, plan.sha1, plan.size) == ("r29", R29_SHA1, 783_549_481)
    assert plan.urls[0] == "https://m/x/android-ndk-r29-linux.zip"
    assert [url.split("/")[2] for url in plan.urls[1:]] == [
        "dl.google.com", "googledownloads.cn", "mirrors.cloud.tencent.com",
    ]  # fmt: skip
    assert plan.target == store_dir() / "r29" and not plan.installed


def test_an_unlisted_release_needs_a_sha1(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"android-ndk-r30-linux\.zip is not in devkit's table"):
        plan_install("r30")
    assert plan_install("r30", sha1="A" * 40).sha1 == "a" * 40
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(UsageError, match=r"android-ndk-r29-darwin\.zip is not in devkit's table"):
        plan_install("r29")


def test_nothing_is_downloaded_for_a_machine_that_has_no_ndks(
    monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ToolMissing, match="no NDK for Linux aarch64"):
        plan_install("r27d")
    assert plan_install(None, from_file=archive).release == "r27d"


def test_a_local_archive_says_which_release_it_is(archive: Path, tmp_path: Path) -> None:
    assert plan_install(None, from_file=archive).release == "r27d"
    nameless = archive.rename(tmp_path / "ndk.zip")
    with pytest.raises(UsageError, match="does not say which release"):
        plan_install(None, from_file=nameless)
    with pytest.raises(FileError, match="does not exist"):
        plan_install("r27d", from_file=archive)
    with pytest.raises(UsageError, match="which release"):
        plan_install(None)


def test_install_list_use_remove(archive: Path) -> None:
    digest = sha1(archive.read_bytes())
    ndk = apply_install(plan_install(None, from_file=archive, sha1=digest))
    assert ndk.path == store_dir() / "r27d" and ndk.missing == () and archive.is_file()
    assert (ndk.path / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang").is_symlink()
    assert [i.release for i in installed()] == ["r27d"]
    assert plan_install("r27d").installed
    assert find_ndk(environ={"HOME": "/none"}).path == ndk.path
    found = find_installed("27", configuration.load())
    assert use(found, dry_run=True) is None and not user_file().exists()
    assert use(found) is None and user_file() == paths.config_dir() / "config.yaml"
    assert find_ndk(configuration.load().ndk.path, {}).path == ndk.path
    assert remove(ndk) is True
    assert installed() == [] and get_user_value("ndk.path") is None
    assert sorted(p.name for p in store_dir().iterdir()) == [".r27d.lock"]


@pytest.mark.parametrize(("version", "goes"), [("r29", True), ("29", True), ("r27d", False), ("27", False)])
def test_a_version_beside_the_path_must_not_choose_another(
    archive: Path, tmp_path: Path, version: str, goes: bool
) -> None:
    ndk = apply_install(plan_install("r27d", from_file=archive, sha1=sha1(archive.read_bytes())))
    user_file().parent.mkdir(parents=True)
    user_file().write_text(f"# mine\nndk:\n  version: {version}\n  mirror: https://m.example\n")
    assert use(ndk) == (version if goes else None)
    settings = configuration.load(tmp_path, environ={})
    assert ndk_for(settings, {}).path == ndk.path
    kept = "" if goes else f"  version: {version}\n"
    assert user_file().read_text() == f"# mine\nndk:\n  path: {ndk.path}\n{kept}  mirror: https://m.example\n"


def test_a_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is a folder"):
        plan_install("r27d", from_file=tmp_path)


def test_the_listed_sha1_holds_for_local_archives_too(archive: Path) -> None:
    with pytest.raises(FileError, match="is not the archive of NDK r27d") as caught:
        apply_install(plan_install(None, from_file=archive))
    assert sha1(archive.read_bytes()) in (caught.value.evidence or "")
    assert installed() == []


def test_an_unlisted_local_archive_is_taken_with_a_warning(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output.install(output.Output())
    tree = make_ndk(archive.parent / "android-ndk-r30", "30.0.14904198")
    zip_tree(tree, archive.parent / "android-ndk-r30-linux.zip")
    apply_install(plan_install(None, from_file=archive.parent / "android-ndk-r30-linux.zip"))
    assert "is not known, so it is not compared" in capsys.readouterr().err
    assert [i.release for i in installed()] == ["r30"]


@pytest.mark.parametrize(
    ("release", "said"), [("r27c", "holds NDK 27.3.13750724, not r27c"), ("r29", "holds NDK 27.3.13750724")]
)
def test_the_archive_of_another_release(archive: Path, release: str, said: str) -> None:
    digest = sha1(archive.read_bytes())
    with pytest.raises(FileError, match=said):
        apply_install(plan_install(release, from_file=archive, sha1=digest))
    assert installed() == []


def test_the_archive_for_another_system(tmp_path: Path) -> None:
    tree = make_ndk(tmp_path / "android-ndk-r27d", "27.3.13750724", tag="darwin-x86_64")
    content = zip_tree(tree, tmp_path / "x.zip")
    with pytest.raises(FileError, match="no complete NDK r27d for this machine") as caught:
        apply_install(plan_install("r27d", from_file=tmp_path / "x.zip", sha1=sha1(content)))
    assert "found darwin-x86_64" in (caught.value.evidence or "")
    assert installed() == []


def test_a_broken_installation_is_repaired(archive: Path) -> None:
    plan = plan_install(None, from_file=archive, sha1=sha1(archive.read_bytes()))
    ndk = apply_install(plan)
    (ndk.path / "build/cmake/android.toolchain.cmake").unlink()
    assert not plan_install("r27d").installed
    assert apply_install(plan).missing == ()


def test_what_others_installed_is_not_removed(tmp_path: Path) -> None:
    ndk = find_ndk(make_ndk(tmp_path / "own", "27.3.13750724"), {})
    with pytest.raises(UsageError, match="was not installed by devkit"):
        remove(ndk)
    assert ndk.path.is_dir()


def test_removing_one_that_is_not_the_choice_keeps_the_choice(archive: Path, tmp_path: Path) -> None:
    ndk = apply_install(plan_install(None, from_file=archive, sha1=sha1(archive.read_bytes())))
    other = find_ndk(make_ndk(tmp_path / "own", "29.0.14206865"), {})
    use(other)
    assert remove(ndk) is False
    assert get_user_value("ndk.path") == str(other.path)


def test_too_little_space_is_foreseen(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from devkit.ndk import store

    output.install(output.Output())
    usage = store.shutil.disk_usage("/")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.shutil, "disk_usage", lambda path: usage._replace(free=1000))
        with pytest.raises(FileError, match="not enough disk space"):
            apply_install(plan_install(None, from_file=archive, sha1=sha1(archive.read_bytes())))
    assert "there may be too little space" in capsys.readouterr().err


def test_no_such_ndk(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no NDK r28 on this machine"):
        find_installed("r28", configuration.load())
    with pytest.raises(UsageError, match="names no Android NDK"):
        find_installed(str(tmp_path), configuration.load())
