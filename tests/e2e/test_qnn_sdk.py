"""`devkit qnn sdk` as users run it: install in three ways, check, environments, and a QNN build."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.support import Cli, eventually
from tests.support.http_server import GOOD, Behaviour, serve, sha1
from tests.support.ndk_trees import zip_tree
from tests.support.qnn_trees import VERSION, make_sdk

URL_PATH = f"/sdks/{VERSION}/v{VERSION}.zip"


@pytest.fixture(autouse=True)
def _own_folders(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(workdir / name.lower()))
    monkeypatch.setenv("HOME", str(workdir))
    for name in ("QNN_SDK_ROOT", "QAIRT_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Qualcomm's layout: qairt/<version>/… in the zip, and something big in it."""
    folder = tmp_path_factory.mktemp("高通 archive")
    root = make_sdk(folder / "tree/qairt" / VERSION)
    (root / "lib/aarch64-android/libGenie.so").write_bytes(os.urandom(1_500_000))
    return zip_tree(folder / "tree", folder / "v.zip", top="")


def test_install_by_url_list_check_path(devkit: Cli, archive: bytes, workdir: Path) -> None:
    assert devkit("qnn", "sdk", "check").code == 125
    with serve({URL_PATH: archive}, Behaviour(cut_after=500_000), GOOD) as server:
        ran = devkit(
            "qnn", "sdk", "install", VERSION, "--by", "url", "--mirror", server.url + "/sdks", "--json"
        )
        assert ran.code == 0, ran.out
        # Without a checksum it goes on only because the server says that it is the same file.
        assert server.ranges == [None, "bytes=500000-"]
        root = Path(ran.data["path"])
        assert root == workdir / "data/devkit/qairt" / VERSION and ran.data["installed"]
        again = devkit("qnn", "sdk", "install", VERSION, "--json")
        assert again.data["installed"] is False and len(server.requests) == 2
    seen = json.loads((root.parent / "seen.json").read_text())[VERSION]
    assert seen["sha1"] == sha1(archive) and len(seen["sha256"]) == 64 and seen["size"] == len(archive)
    data = devkit("qnn", "sdk", "list", "--json").data
    assert data["active"] == {"path": str(root), "version": VERSION, "reason": "installed by devkit"}
    assert devkit("qnn", "sdk", "path").out == f"{root}\n"
    tool = devkit("qnn", "sdk", "path", "qnn-net-run", "--target", "aarch64-android").out.strip()
    assert tool == f"{root}/bin/aarch64-android/qnn-net-run" and os.access(
        devkit("qnn", "sdk", "path", "qnn-net-run").out.strip(), os.X_OK
    )
    ran = devkit("qnn", "sdk", "check", "--json")
    assert ran.code == 0 and ran.data["first_broken"] is None
    checks = {c["name"]: c for c in ran.data["checks"]}
    assert checks["hexagon"]["text"] == "HTP v68, v73, v75, v79, v81"
    assert checks["envcheck: ONNX"]["state"] == "warning" and checks["envcheck: Clang"]["state"] == "ok"
    assert "devkit-no-such-package" in checks["check-linux-dependency.sh"]["hint"]
    (root / "lib/aarch64-android/libQnnHtp.so").unlink()
    ran = devkit("qnn", "sdk", "check", "--no-scripts")
    assert ran.code == 1 and "broken     phone libraries" in ran.out


def test_another_file_of_the_same_version_is_refused(devkit: Cli, archive: bytes, workdir: Path) -> None:
    with serve({URL_PATH: archive}) as server:
        address = server.url + URL_PATH
        assert devkit("qnn", "sdk", "install", VERSION, "--mirror", address).code == 0
        subprocess.run(["rm", "-r", workdir / "data/devkit/qairt" / VERSION], check=True)
        server.behaviours = [Behaviour(wrong_byte_at=400_000)]
        ran = devkit("qnn", "sdk", "install", VERSION, "--mirror", address)
        assert ran.code == 125 and "is not the right one" in ran.err
        assert "that of your first download" in ran.err
    assert devkit("qnn", "sdk", "list", "--json").data["installed"] == []


def test_a_local_zip_and_wrong_ones(devkit: Cli, archive: bytes, workdir: Path) -> None:
    local = workdir / f"v{VERSION}.zip"
    local.write_bytes(archive)
    ran = devkit("qnn", "sdk", "install", "2.38.0.250901", "--from", local)
    assert ran.code == 125 and f"holds QNN SDK {VERSION}, not 2.38.0.250901" in ran.err
    assert devkit("qnn", "sdk", "install", "--from", local).code == 0 and local.exists()
    with zipfile.ZipFile(workdir / "v9.9.9.9.zip", "w") as other:
        other.writestr("qairt/9.9.9.9/readme.txt", "no SDK")
    ran = devkit("qnn", "sdk", "install", "--from", workdir / "v9.9.9.9.zip")
    assert ran.code == 125 and "does not hold a QNN SDK (include/QNN/QnnInterface.h)" in ran.err
    for wrong in (["latest"], ["2.42"], [], ["--from", workdir / "gone.zip"]):
        assert devkit("qnn", "sdk", "install", *wrong).code in (2, 125)


def test_kill_9_leaves_nothing_that_looks_installed(devkit: Cli, archive: bytes, workdir: Path) -> None:
    with serve({URL_PATH: archive}, Behaviour(bytes_per_s=1_000_000), GOOD) as server:
        address = server.url + URL_PATH
        process = subprocess.Popen(
            [sys.executable, "-m", "devkit", "qnn", "sdk", "install", VERSION, "--mirror", address],
            cwd=workdir,
        )
        part = workdir / f"cache/devkit/downloads/qairt-v{VERSION}.zip.part"
        assert eventually(lambda: part.exists() and part.stat().st_size > 200_000, 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert devkit("qnn", "sdk", "list", "--json").data["installed"] == []
        assert devkit("qnn", "sdk", "install", VERSION, "--mirror", address).code == 0
        assert server.ranges[1] is not None


QSC = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/asked"
while [ $# -gt 0 ]; do
  [ "$1" = --path ] && folder=$2
  shift
done
[ -z "$QSC_FAILS" ] || { echo "you are not logged in"; exit 3; }
mkdir -p "$folder" && cp -r "$HOME/prepared/." "$folder/"
"""


def test_hand_off_to_qsc_cli(devkit: Cli, workdir: Path) -> None:
    """qsc-cli's SDKs lack the level qairt/<version>."""
    make_sdk(workdir / "prepared")
    program = workdir / "bin/qsc-cli"
    program.parent.mkdir()
    program.write_text(QSC)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    staging = workdir / f"data/devkit/qairt/.{VERSION}.qsc-cli"
    ran = devkit("qnn", "sdk", "install", VERSION, "--dry-run", PATH=path)
    command = f"qsc-cli sdk install -n Qualcomm_AI_Runtime_SDK --path '{staging}' -rv {VERSION}"
    assert ran.out.splitlines()[0] == command
    assert not (workdir / "data").exists()
    ran = devkit("qnn", "sdk", "install", VERSION, PATH=path, QSC_FAILS="1")
    assert ran.code == 125 and "you are not logged in" in ran.err and "qsc-cli login" in ran.err
    assert devkit("qnn", "sdk", "list", "--json").data["installed"] == []
    ran = devkit("qnn", "sdk", "install", VERSION, "--json", PATH=path)
    assert ran.code == 0 and ran.data["version"] == VERSION
    asked = (workdir / "asked").read_text().splitlines()
    assert asked[:4] == ["sdk", "install", "-n", "Qualcomm_AI_Runtime_SDK"] and asked[-2:] == ["-rv", VERSION]
    assert Path(ran.data["path"]).name == VERSION and not staging.exists()
    # Asked for and not there:
    ran = devkit("qnn", "sdk", "install", "2.43.0.260128", "--by", "qsc-cli")
    assert ran.code == 125 and "qsc-cli is not installed" in ran.err and "--by url" in ran.err
    # Without it, and with --by url, the address is Qualcomm's.
    ran = devkit("qnn", "sdk", "install", "2.43.0.260128", "--dry-run", "--by", "url", PATH=path)
    assert ran.out.splitlines()[0] == (
        "download https://softwarecenter.qualcomm.com/api/download/software/sdks/"
        "Qualcomm_AI_Runtime_Community/All/2.43.0.260128/v2.43.0.260128.zip"
    )


def make_index(folder: Path) -> str:
    """A package index with one wheel, devkit-probe 1.2, as files."""
    project = folder / "devkit-probe"
    project.mkdir(parents=True)
    name = "devkit_probe-1.2-py3-none-any.whl"
    info = "devkit_probe-1.2.dist-info"
    with zipfile.ZipFile(project / name, "w") as wheel:
        wheel.writestr("devkit_probe.py", "ANSWER = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: devkit-probe\nVersion: 1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(
            f"{info}/RECORD", f"devkit_probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    (project / "index.html").write_text(f'<a href="{name}">{name}</a>')
    return folder.as_uri()


def probe(environment: Path) -> str:
    question = "import devkit_probe, sys; print(devkit_probe.ANSWER, '%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([environment / "bin/python", "-c", question], text=True).strip()


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.slow
def test_the_converters_environment(devkit: Cli, workdir: Path) -> None:
    index = make_index(workdir / "索引 index")
    sdk = make_sdk(workdir / "qairt" / VERSION)
    environment = workdir / f"data/devkit/venvs/qnn-{VERSION}"
    ran = devkit("qnn", "sdk", "venv", "--python", HERE)
    assert ran.code == 125 and "does not say which packages" in ran.err
    # The SDK's own installer, with its own pins: it refuses to run outside an environment.
    installer = sdk / "bin/check-python-dependency"
    installer.write_text(
        "import os, subprocess, sys\n"
        "if os.environ.get('VIRTUAL_ENV') != sys.prefix: sys.exit('not in a virtual environment')\n"
        "assert not os.environ.get('PYTHONPATH')\n"
        "sys.exit(subprocess.call([sys.executable, '-m', 'pip', 'install', 'devkit-probe==1.2']))\n"
    )
    ran = devkit("qnn", "sdk", "venv", "--python", HERE, "--index-url", "file:///none")
    assert ran.code == 125 and "could not be installed" in ran.err and "devkit-probe" in ran.err
    dry = devkit("qnn", "sdk", "venv", "--python", HERE, "--dry-run").out.splitlines()
    assert dry[0].endswith(f"-m venv --clear '{environment}'") and dry[1].endswith("check-python-dependency'")
    # As in a shell with the exports of `devkit env`.
    exported = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(sdk / "lib/python")]))
    ran = devkit("qnn", "sdk", "venv", "--python", HERE, "--index-url", index, "--json", PYTHONPATH=exported)
    assert ran.code == 0 and ran.data["made"], ran.out + ran.err
    assert Path(ran.data["path"]) == environment and probe(environment) == f"42 {HERE}"
    assert "made for Python 3.10" in ran.err or HERE == "3.10"
    ran = devkit("qnn", "sdk", "venv", "--python", HERE, "--index-url", index, "--json")
    assert ran.data["made"] is False
    installer.write_text(installer.read_text() + "# changed\n")
    assert devkit("qnn", "sdk", "venv", "--python", HERE, "--index-url", index, "--json").data["made"]
    ran = devkit("qnn", "sdk", "venv", "--python", "3.99")
    assert ran.code == 125 and "uv python install 3.99" in ran.err


@pytest.mark.slow
def test_the_export_scripts_environment(devkit: Cli, workdir: Path) -> None:
    index = make_index(workdir / "index")
    engine = workdir / "my MNN"
    requirements = engine / "transformers/llm/export/requirements.txt"
    requirements.parent.mkdir(parents=True)
    (engine / "devkit.yaml").write_text("engine: mnn\n")
    ran = devkit("qnn", "sdk", "venv", "--for", "export", cwd=engine)
    assert ran.code == 125 and "requirements.txt does not exist" in ran.err
    requirements.write_text("devkit-probe==1.2\n")
    options = ["--for", "export", "--path", workdir / "exp env", "--index-url", index]
    assert devkit("qnn", "sdk", "venv", *options, cwd=engine).code == 0
    assert probe(workdir / "exp env") == f"42 {HERE}"
    (workdir / "mine").mkdir()
    (workdir / "mine/thesis.txt").touch()
    ran = devkit("qnn", "sdk", "venv", *options[:2], "--path", workdir / "mine", cwd=engine)
    assert ran.code == 2 and "is in the way" in ran.err and (workdir / "mine/thesis.txt").exists()


def test_a_qnn_build_without_an_sdk_stops_before_cmake(devkit: Cli, workdir: Path) -> None:
    (workdir / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(x C)\n"
        'message(STATUS "QNN Root: ${QNN_SDK_ROOT}")\n'
        'include_directories("${QNN_SDK_ROOT}/include/QNN")\nadd_executable(x x.c)\n'
    )
    (workdir / "x.c").write_text('#include "QnnInterface.h"\nint main(void) { return 0; }\n')
    ran = devkit("build", "host", "-D", "MNN_QNN=ON")
    assert ran.code == 125 and "QNN build wanted but QNN_SDK_ROOT is not set" in ran.err
    assert not (workdir / "build").exists()
    # Told nothing of QNN, devkit builds; the empty root in the log is then named as the cause.
    ran = devkit("build", "host")
    assert ran.code == 125 and "the cause: CMake had no QNN SDK (an empty 'QNN Root:'" in ran.err
    root = make_sdk(workdir / "qairt" / VERSION)
    assert devkit("build", "host", "-D", "MNN_QNN=ON").code == 0
    ran = devkit("build", "host", "-D", "MNN_QNN=ON", QNN_SDK_ROOT=str(root.parent))
    assert ran.code == 125 and f"export QNN_SDK_ROOT='{root}'" in ran.err


def download_wheel(folder: Path, *options: str) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *options]
    subprocess.run([*command, "-d", folder, "onnxruntime-qnn>=2.7"], check=True, timeout=150)
    [wheel] = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="slow: runs with script/test --all on x86_64")
def test_check_of_genuine_libraries(devkit: Cli, workdir: Path) -> None:
    """Qualcomm's own libraries, from its wheels on PyPI, in the SDK's layout."""
    root = make_sdk(workdir / "qairt/2.51.0.260101", "2.51.0.260101")
    arm = ("--platform", "manylinux_2_34_aarch64")
    for target, options in (("x86_64-linux-clang", ()), ("aarch64-android", arm)):
        with download_wheel(workdir / target, *options) as wheel:
            for name in wheel.namelist():
                file = Path(name)
                # The skels of the stand-in stay: they are in place already.
                if file.parent.name == "onnxruntime_qnn" and file.match("lib*.so") and "Skel" not in name:
                    (root / "lib" / target / file.name).write_bytes(wheel.read(name))
            if not options:
                wheel.extractall(workdir / "whole")
    checks = {c["name"]: c for c in devkit("qnn", "sdk", "check", "--json", "--no-scripts").data["checks"]}
    assert "v69 has no skel" in checks["hexagon"]["text"], "the stubs are the wheel's"
    # The wheel brings a libc++ of its own, which the SDK does not: it is missing, and seen to be.
    assert checks["host libraries"]["state"] == "warning" and "libc++" in checks["host libraries"]["text"]
    (workdir / "whole/onnxruntime_qnn.libs").rename(root / "lib/onnxruntime_qnn.libs")
    checks = {c["name"]: c for c in devkit("qnn", "sdk", "check", "--json", "--no-scripts").data["checks"]}
    assert checks["host libraries"]["state"] == "ok", checks["host libraries"]
