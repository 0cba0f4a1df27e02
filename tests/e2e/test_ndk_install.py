"""`devkit ndk` as users run it, against mirrors that break off, and killed in the middle."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from devkit import paths
from devkit.ndk.store import installed
from tests.e2e.support import Cli, eventually
from tests.support.http_server import GOOD, Behaviour, serve, sha1
from tests.support.ndk_trees import make_ndk, zip_tree

NAME = "android-ndk-r27d-linux.zip"


@pytest.fixture(autouse=True)
def _own_folders(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(workdir / name.lower()))
    monkeypatch.setenv("HOME", str(workdir))


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An NDK's archive of 3 MB, most of it one file that does not compress."""
    folder = tmp_path_factory.mktemp("安卓 archive")
    tree = make_ndk(folder / "android-ndk-r27d", "27.3.13750724")
    (tree / "toolchains/llvm/prebuilt/linux-x86_64/bin/lldb").write_bytes(
        random.Random(1).randbytes(3_000_000)
    )
    return zip_tree(tree, folder / NAME)


def only_mirrors(*urls: str) -> None:
    """No test goes to the real mirrors."""
    file = paths.config_dir() / "ndk-releases.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"mirrors": list(urls)}))


def hidden(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(".") and not p.name.endswith(".lock")]


def test_install_use_path_list_remove(devkit: Cli, archive: bytes, workdir: Path) -> None:
    cuts = [Behaviour(cut_after=1_000_000), Behaviour(cut_after=500_000), GOOD]
    with serve({}) as empty, serve({f"/r/{NAME}": archive}, *cuts) as mirror:
        only_mirrors(mirror.url + "/r/")
        ran = devkit("ndk", "install", "27d", "--mirror", empty.url, "--sha1", sha1(archive), "-v")
        assert ran.code == 0, ran.err
        assert [r[0] for r in empty.requests] == [f"/{NAME}"], "the given mirror is asked first"
        assert mirror.ranges == [None, "bytes=1000000-", "bytes=1500000-"]
    assert "404" in ran.err and "going on at byte 1000000" in ran.err
    root = workdir / "data/devkit/ndk/r27d"
    assert str(root) in ran.out and "devkit ndk use" not in ran.out, "the only one is used anyway"
    assert not (workdir / "cache/devkit/downloads" / NAME).exists()
    clang = root / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"
    assert clang.is_symlink() and subprocess.check_output([clang]) == b"clang-18\n"

    # Again: nothing is asked of anybody.
    ran = devkit("ndk", "install", "r27d", "--json")
    assert ran.data["installed"] is False and ran.data["path"] == str(root)

    assert devkit("ndk", "path").out == f"{root}\n"
    assert devkit("ndk", "path", "clang").out == f"{clang}\n"
    server = root / "toolchains/llvm/prebuilt/linux-x86_64/lib/clang/18/lib/linux/aarch64/lldb-server"
    assert devkit("ndk", "path", "lldb-server", "--abi", "arm64-v8a").out == f"{server}\n"

    other = make_ndk(workdir / "Android/Sdk/ndk/29.0.14206865", "29.0.14206865")
    data = devkit("ndk", "list", "--json").data
    assert data["active"]["path"] == str(other) and data["active"]["reason"] == "~/Android/Sdk/ndk"
    assert devkit("ndk", "use", "r27d").code == 0
    data = devkit("ndk", "list", "--json").data
    assert data["active"]["path"] == str(root) and data["active"]["reason"].startswith("ndk.path (user (")
    rows = {row["release"]: row for row in data["installed"]}
    assert [rows[r]["llvm"] for r in ("r27d", "r29")] == ["18", "21"]
    assert [rows[r]["active"] for r in ("r27d", "r29")] == [True, False]
    listed = {row["release"]: row for row in data["installable"]}
    assert listed["r27d"]["installed"] and listed["r29"]["size"] == 783_549_481
    text = devkit("ndk", "list").out
    assert any(line.startswith("*") and "r27d" in line and str(root) in line for line in text.splitlines())

    # A variable that names another one is reported; what the user chose stays.
    ran = devkit("ndk", "path", ANDROID_NDK=str(other))
    assert ran.out == f"{root}\n" and "ANDROID_NDK (29.0.14206865)" in ran.err
    would = devkit("ndk", "remove", "r27d", "--dry-run", "--json").data
    assert would["dry_run"] and would["path"] == str(root) and root.is_dir()
    ran = devkit("ndk", "remove", "r27d")
    assert "your config no longer names it" in ran.out and not root.exists()
    assert devkit("ndk", "path").out == f"{other}\n"
    ran = devkit("ndk", "remove", "r29")
    assert ran.code == 2 and "was not installed by devkit" in ran.err and other.is_dir()


def test_kill_9_in_the_middle_leaves_nothing_that_looks_installed(
    devkit: Cli, archive: bytes, workdir: Path
) -> None:
    with serve({f"/{NAME}": archive}, Behaviour(bytes_per_s=2_000_000), GOOD) as mirror:
        only_mirrors(mirror.url)
        command = [sys.executable, "-m", "devkit", "ndk", "install", "r27d", "--sha1", sha1(archive)]
        process = subprocess.Popen(command, cwd=workdir, stderr=subprocess.DEVNULL)
        part = workdir / "cache/devkit/downloads" / (NAME + ".part")
        assert eventually(lambda: part.exists() and part.stat().st_size > 500_000, 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
        have = part.stat().st_size
        assert have < len(archive)
        assert devkit("ndk", "list", "--json").data["installed"] == []
        ran = devkit("ndk", "install", "r27d", "--sha1", sha1(archive), "--json")
        assert ran.code == 0 and ran.data["missing"] == [], ran.out
        assert mirror.ranges == [None, f"bytes={have}-"]
    assert installed()[0].missing == ()


def test_kill_9_while_unpacking(devkit: Cli, archive: bytes, workdir: Path) -> None:
    local = workdir / NAME
    local.write_bytes(archive)
    # Stopped after the first big file, as if the machine had gone down there.
    script = (
        "import os, signal, sys; from devkit.ndk import unpack\n"
        "unpack._make_links = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from devkit.__main__ import main\n"
        "sys.argv = ['devkit', 'ndk', 'install', '--from', sys.argv[1], '--sha1', sys.argv[2]]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script, local, sha1(archive)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    store = workdir / "data/devkit/ndk"
    [unfinished] = hidden(store)
    assert any((store / unfinished).rglob("source.properties"))
    assert devkit("ndk", "list", "--json").data["installed"] == []
    assert devkit("ndk", "path").code == 125
    assert devkit("ndk", "install", "--from", local, "--sha1", sha1(archive)).code == 0
    assert hidden(store) == []


@pytest.mark.slow
def test_two_installs_at_once(archive: bytes, workdir: Path) -> None:
    # Five seconds: the later one comes while the other still downloads.
    with serve({f"/{NAME}": archive}, Behaviour(bytes_per_s=len(archive) // 5)) as mirror:
        only_mirrors(mirror.url)
        command = [
            sys.executable,
            "-m",
            "devkit",
            "ndk",
            "install",
            "r27d",
            "--sha1",
            sha1(archive),
            "--json",
        ]
        both = [
            subprocess.Popen(command, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        ended = [process.communicate(timeout=60) for process in both]
        assert [process.returncode for process in both] == [0, 0], ended
        assert len(mirror.requests) == 1
    assert sum("another devkit is installing NDK r27d (process" in err for _, err in ended) == 1
    assert installed()[0].missing == ()
    assert hidden(workdir / "data/devkit/ndk") == []


def test_ctrl_c_says_so_and_the_next_run_goes_on(devkit: Cli, archive: bytes, workdir: Path) -> None:
    with serve({f"/{NAME}": archive}, Behaviour(bytes_per_s=1_000_000), GOOD) as mirror:
        only_mirrors(mirror.url)
        command = [sys.executable, "-m", "devkit", "ndk", "install", "r27d", "--sha1", sha1(archive)]
        process = subprocess.Popen(command, cwd=workdir, stderr=subprocess.PIPE, text=True)
        part = workdir / "cache/devkit/downloads" / (NAME + ".part")
        assert eventually(lambda: part.exists() and part.stat().st_size > 100_000, 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130 and "Traceback" not in err
        assert devkit("ndk", "install", "r27d", "--sha1", sha1(archive)).code == 0
        assert mirror.ranges[1] is not None


def test_a_full_disk(archive: bytes, workdir: Path) -> None:
    """A real one: settings, locks and the unpacked NDK have no room, and each says so."""
    ndk = make_ndk(workdir / "ndk", "29.0.14206865")
    file = workdir / NAME
    file.write_bytes(archive)
    script = (
        'mkdir full && mount -t tmpfs -o size=64k none full && HOME="$PWD/full" || exit 99\n'
        "export HOME XDG_CONFIG_HOME=$HOME/c XDG_DATA_HOME=$HOME/d\n"
        "export XDG_CACHE_HOME=$HOME/e XDG_STATE_HOME=$HOME/s\n"
        "head -c 100000 /dev/zero > full/fill 2>/dev/null\n"
        'for words in "ndk use ndk/" "ndk install --from $2 --sha1 $3" "doctor"; do\n'
        '  "$1" -m devkit $words 2>&1; echo "code $?"\n'
        "done\n"
        "find full -type f\n"
    )
    done = subprocess.run(
        ["unshare", "-Urm", "bash", "-c", script, "bash", sys.executable, NAME, sha1(archive)],
        cwd=workdir, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    use, install, doctor, left = done.stdout.split("code ")
    assert "config.yaml cannot be used: No space left on device" in use
    assert "XDG_CONFIG_HOME=/another/folder" in use, done.stderr
    assert install.startswith("125") and "not enough disk space to unpack" in install
    assert doctor.startswith("125") and "0 B are free" in doctor and "BROKEN  devkit's folders" in doctor
    assert "full/c/devkit/config.yaml" not in left and ndk.is_dir()


def test_every_mirror_fails(devkit: Cli, archive: bytes, workdir: Path) -> None:
    wrong = Behaviour(wrong_byte_at=2_000_000)
    with serve({}) as missing, serve({f"/{NAME}": archive}, wrong) as bad:
        only_mirrors(missing.url, bad.url)
        ran = devkit("ndk", "install", "r27d", "--sha1", sha1(archive))
    assert ran.code == 125
    assert f"{missing.url}/{NAME}: does not exist there (404" in ran.err
    assert f"the file from {bad.url}/{NAME} is not the right one" in ran.err
    downloads = workdir / "cache/devkit/downloads"
    assert [file.name for file in downloads.iterdir()] == [f".{NAME}.lock"]
    assert installed() == []


def test_dry_run_touches_nothing(devkit: Cli, workdir: Path) -> None:
    before = sorted(workdir.rglob("*"))
    ran = devkit("ndk", "install", "r29", "--dry-run", "--mirror", "https://mirror.example/ndk")
    assert ran.out.splitlines()[:3] == [
        "download (783.5 MB):",
        "  https://mirror.example/ndk/android-ndk-r29-linux.zip",
        "  https://dl.google.com/android/repository/android-ndk-r29-linux.zip",
    ]
    assert sorted(workdir.rglob("*")) == before


def test_a_projects_version_and_the_flag(devkit: Cli, workdir: Path) -> None:
    for revision in ("27.3.13750724", "29.0.14206865"):
        make_ndk(workdir / "Android/Sdk/ndk" / revision, revision)
    (workdir / "devkit.yaml").write_text("ndk: {version: r27d}\n")
    assert devkit("ndk", "path").out.strip().endswith("27.3.13750724")
    assert devkit("ndk", "path", "--ndk", "r29").out.strip().endswith("29.0.14206865")
    assert "ndk.version r27d (project (" in devkit("ndk", "list", "--json").data["active"]["reason"]
    settings = paths.config_dir() / "config.yaml"
    would = devkit("ndk", "use", "r29", "--dry-run")
    assert would.code == 0 and "would be used" in would.out and not settings.exists()
    assert "names another NDK and comes first in this folder" in would.err
    assert devkit("ndk", "use", "r27d", "--dry-run").err == ""
    ran = devkit("ndk", "use", "r29")
    assert (
        ran.code == 0 and settings.exists() and "names another NDK and comes first in this folder" in ran.err
    )
    ran = devkit("ndk", "path", "--ndk", "r28c")
    assert ran.code == 125 and "devkit ndk install r28c" in ran.err


def test_a_choice_replaces_the_version_that_meant_another(devkit: Cli, workdir: Path) -> None:
    for revision in ("27.3.13750724", "29.0.14206865"):
        make_ndk(workdir / "Android/Sdk/ndk" / revision, revision)
    settings = paths.config_dir() / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("ndk:\n  version: r27d\n")
    would = devkit("ndk", "use", "r29", "--dry-run", "--json").data
    assert would["dropped_version"] == "r27d" and settings.read_text() == "ndk:\n  version: r27d\n"
    ran = devkit("ndk", "use", "r29")
    assert ran.code == 0 and "ndk.version r27d, which means another one, is gone" in ran.out
    assert devkit("ndk", "path").out.strip().endswith("29.0.14206865")
    # A file that cannot be edited is refused beforehand, too.
    settings.write_text("{ndk: {}}\n")
    assert devkit("ndk", "use", "r29", "--dry-run").code == devkit("ndk", "use", "r29").code != 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("ndk", "path", "--ndk", "~no-such-user/ndk"), 125, "~no-such-user/ndk' does not exist"),
        (("ndk", "use", "~no-such-user/ndk"), 2, "~no-such-user/ndk' does not exist"),
        (("ndk", "use", "."), 2, "names no Android NDK"),
        (("ndk", "path", "--ndk", ""), 2, "--ndk is empty"),
        (("ndk", "install", "r29", "--from", "~no-such-user/x.zip"), 125, "does not exist"),
        (("setup", "--yes", "--ndk", "~no-such-user/x", "--dry-run"), 2, "does not exist"),
        (("qnn", "sdk", "check", "--sdk", "~no-such-user/x"), 125, "does not exist"),
    ],
)
def test_folders_that_are_none(devkit: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    ran = devkit(*words)
    assert ran.code == code and said in ran.err and "itself failed" not in ran.err, ran.err


def test_a_broken_ndk_is_named_as_such(devkit: Cli, workdir: Path) -> None:
    part = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++"
    make_ndk(workdir / "Android/Sdk/ndk/27.3.13750724", "27.3.13750724", without=(part,))
    assert f"(broken: no {part})" in devkit("ndk", "list").out
    [row] = devkit("ndk", "list", "--json").data["installed"]
    assert row["missing"] == [part] and row["active"]
