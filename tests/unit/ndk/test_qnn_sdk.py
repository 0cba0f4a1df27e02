"""Finding a QNN SDK, its version, and what is wrong with it (case B3)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import output
from devkit.engine import buildlog, choose
from devkit.errors import ToolMissing
from devkit.ndk import qnn_scripts, qnn_sdk
from devkit.ndk.converters import converter_python
from devkit.ndk.qnn_check import check_sdk, first_broken
from devkit.ndk.qnn_sdk import (
    find_qnn_sdk,
    known_qnn_sdks,
    qnn_environment,
    read_version,
    store_dir,
    tool_environment,
    warn_about_conflicts,
)
from tests.support.qnn_trees import make_sdk

B3 = Path(__file__).parents[2] / "data" / "cases" / "B3"
EXPECTED = json.loads((B3 / "expected.json").read_text())


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "家 home"))
    monkeypatch.setattr(qnn_sdk, "SYSTEM_FOLDER", tmp_path / "opt")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name in qnn_sdk.QNN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def b3(tmp_path: Path) -> Path:
    # The script does not quote: it runs in a plain folder, and the tree moves from there.
    plain = tmp_path / "plain"
    subprocess.run(["bash", B3 / "mk_sdk.sh", plain], check=True)
    return plain.rename(tmp_path / "高通 sdk")


def named(path: Path) -> dict[str, str]:
    return {"HOME": os.environ["HOME"], "QNN_SDK_ROOT": str(path)}


def test_b3_good(b3: Path) -> None:
    root = b3 / "good/qairt/2.42.0.251225"
    found = find_qnn_sdk(environ=named(root))
    assert (found.path, found.version, found.origin) == (root, "2.42.0.251225", "QNN_SDK_ROOT")
    assert EXPECTED["good"] == f"accepted, version {found.version}"


@pytest.mark.parametrize("level", ["", "v2.42.0.251225", "v2.42.0.251225/qairt"])
def test_b3_deep_is_suggested_right(b3: Path, level: str) -> None:
    root = b3 / "deep/v2.42.0.251225/qairt/2.42.0.251225"
    with pytest.raises(ToolMissing, match="QNN_SDK_ROOT names no QNN SDK") as caught:
        find_qnn_sdk(environ=named(b3 / "deep" / level))
    assert caught.value.hints[0] == f"export QNN_SDK_ROOT='{root}'"


@pytest.mark.parametrize("below", ["include/QNN", "lib/hexagon-v75/unsigned", "bin"])
def test_too_deep_is_suggested_right(b3: Path, below: str) -> None:
    root = b3 / "good/qairt/2.42.0.251225"
    with pytest.raises(ToolMissing) as caught:
        find_qnn_sdk(environ=named(root / below))
    assert caught.value.hints[0] == f"export QNN_SDK_ROOT='{root}'"


def test_b3_bare_is_refused(b3: Path) -> None:
    with pytest.raises(ToolMissing) as caught:
        find_qnn_sdk(environ=named(b3 / "bare/qairt/2.42.0.251225"))
    assert caught.value.what.endswith("include/QNN/QnnInterface.h missing")
    assert EXPECTED["bare"].removeprefix("refused: ") in caught.value.what


def test_b3_unset_stops_before_cmake(tmp_path: Path) -> None:
    project = engine(tmp_path)
    with pytest.raises(ToolMissing) as caught:
        choose.plan_for(configuration.load(project), "host", extra_options={"MNN_QNN": "ON"})
    assert EXPECTED["QNN_SDK_ROOT unset"] == f"stop before cmake: '{caught.value.what}'"
    assert choose.plan_for(configuration.load(project), "host", extra_options={"MNN_QNN": "OFF"})


def test_b3_a_found_sdk_reaches_cmake(tmp_path: Path, b3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = engine(tmp_path)
    root = b3 / "good/qairt/2.42.0.251225"
    monkeypatch.setenv("QNN_SDK_ROOT", str(root))
    plan = choose.plan_for(configuration.load(project), "host", extra_options={"MNN_QNN": "ON"})
    assert f"-DQNN_SDK_ROOT={root}" in plan.configure
    assert plan.toolchain.env["QNN_SDK_ROOT"] == plan.toolchain.env["QAIRT_SDK_ROOT"] == str(root)
    # -D of the command line, and of a profile, win over the variable.
    other = make_sdk(tmp_path / "other sdk")
    for options, profiles in (
        ({"QNN_SDK_ROOT": str(other)}, ""),
        ({}, f"{{QNN_SDK_ROOT: '{other}', MNN_QNN: ON}}"),
    ):
        (project / "devkit.yaml").write_text(f"profiles: {{host: {{options: {profiles or '{}'}}}}}\n")
        plan = choose.plan_for(
            configuration.load(project), "host", extra_options={"MNN_QNN": "ON", **options}
        )
        assert f"-DQNN_SDK_ROOT={other}" in plan.configure
    with pytest.raises(ToolMissing, match="names no QNN SDK"):
        choose.plan_for(
            configuration.load(project),
            "host",
            extra_options={"MNN_QNN": "ON", "QNN_SDK_ROOT": str(tmp_path)},
        )


def test_b3_an_empty_root_in_the_log_is_the_cause() -> None:
    configured = (B3 / "configure.log").read_text()
    failed = (B3 / "build.log").read_text()
    cause = buildlog.known_cause(configured + failed)
    assert cause is not None and "an empty 'QNN Root:'" in cause
    assert buildlog.known_cause(configured) is None
    assert buildlog.known_cause(failed) is None
    assert buildlog.known_cause(configured.replace("QNN Root: ", "QNN Root: /sdk") + failed) is None


def engine(folder: Path) -> Path:
    project = folder / "引擎 engine"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("project(x)\n")
    return project


@pytest.mark.parametrize(
    ("folder", "yaml", "version"),
    [
        ("2.42.0.251225", "version: 2.42.0\nbuild_id: 2.42.0.251225\n", "2.42.0.251225"),
        ("sdk", "version: 2.42.0\nbuild_id: 2.42.0.251225\n", "2.42.0.251225"),
        ("2.49.0.260730", "version: '2.49.0'\nbuild_id: 260730134355\n", "2.49.0.260730"),
        ("sdk", 'version: "2.49.0"\n', "2.49.0"),
        ("2.50.0.1", "version: 2.49.0\n", "2.49.0"),
        ("v2.31.0.250130", None, "2.31.0.250130"),
        ("sdk", None, "unknown"),
        ("sdk", "\x00garbage", "unknown"),
    ],
)
def test_versions(tmp_path: Path, folder: str, yaml: str | None, version: str) -> None:
    root = tmp_path / folder
    root.mkdir()
    if yaml is not None:
        (root / "sdk.yaml").write_text(yaml)
    assert read_version(root) == version


def test_the_documented_order(tmp_path: Path) -> None:
    home = tmp_path / "家 home"
    make_sdk(home / "qairt/2.40.0.1", "2.40.0.1")
    make_sdk(home / "qairt/v2.41.0.1/qairt/2.41.0.1", "2.41.0.1")
    make_sdk(store_dir() / "2.43.0.1", "2.43.0.1")
    make_sdk(tmp_path / "opt/2.44.0.1", "2.44.0.1")
    environ = {"HOME": str(home)}
    for name in reversed(qnn_sdk.QNN_VARIABLES):
        environ[name] = str(make_sdk(tmp_path / name, "2.45.0.1"))
    found = [find_qnn_sdk(make_sdk(tmp_path / "explicit", "2.46.0.1"), environ)]
    for name in qnn_sdk.QNN_VARIABLES:
        found.append(find_qnn_sdk(environ=environ))
        del environ[name]
    for gone in (home / "qairt/v2.41.0.1", home / "qairt", store_dir(), tmp_path / "opt"):
        found.append(find_qnn_sdk(environ=environ))
        shutil.rmtree(gone)
    assert [(f.origin.partition(" '")[0], f.version) for f in found] == [
        ("qnn.path", "2.46.0.1"),
        ("QNN_SDK_ROOT", "2.45.0.1"),
        ("QAIRT_SDK_ROOT", "2.45.0.1"),
        ("~/qairt", "2.41.0.1"),
        ("~/qairt", "2.40.0.1"),
        ("installed by devkit", "2.43.0.1"),
        (str(tmp_path / "opt"), "2.44.0.1"),
    ]
    with pytest.raises(ToolMissing, match="no QNN SDK was found"):
        find_qnn_sdk(environ=environ)


def test_a_version_is_looked_for_everywhere(tmp_path: Path) -> None:
    home = tmp_path / "家 home"
    make_sdk(home / "qairt/2.40.0.1", "2.40.0.1")
    environ = {"HOME": str(home), "QNN_SDK_ROOT": str(make_sdk(tmp_path / "x", "2.42.0.2"))}
    assert find_qnn_sdk(environ=environ, version="2.40").origin == "~/qairt"
    assert find_qnn_sdk(environ=environ, version="v2.42.0.2").origin == "QNN_SDK_ROOT"
    with pytest.raises(ToolMissing, match=r"QNN SDK 2\.4 is not installed"):
        find_qnn_sdk(environ=environ, version="2.4")


def test_disagreeing_variables_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.install(output.Output())
    one, two = make_sdk(tmp_path / "1", "2.40.0.1"), make_sdk(tmp_path / "2", "2.42.0.1")
    link = tmp_path / "link"
    link.symlink_to(one)
    same = find_qnn_sdk(environ={"QNN_SDK_ROOT": str(one), "QAIRT_SDK_ROOT": str(link)})
    assert same.conflicts == ()
    other = find_qnn_sdk(environ={"QNN_SDK_ROOT": str(one), "QAIRT_SDK_ROOT": str(two)})
    warn_about_conflicts(other)
    said = capsys.readouterr().err
    assert "QAIRT_SDK_ROOT (2.42.0.1)" in said and "QNN_SDK_ROOT (2.40.0.1)" in said
    assert [c.revision for c in known_qnn_sdks(environ=named(tmp_path))] == ["no QNN SDK"]


def test_the_environment_is_that_of_envsetup(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "a sdk")
    sdk = find_qnn_sdk(root, {})
    assert qnn_environment(sdk) == {
        "QNN_SDK_ROOT": str(root),
        "QAIRT_SDK_ROOT": str(root),
        "PATH": f"{root}/bin/x86_64-linux-clang:{root}/bin",
        "PYTHONPATH": f"{root}/lib/python:{root}/benchmarks/QNN",
        "LD_LIBRARY_PATH": f"{root}/lib/x86_64-linux-clang",
    }
    tools = tool_environment(sdk, {"PATH": "/bin", "QNN_SDK_ROOT": "/other"})
    assert tools["PATH"].endswith(f"{root}/bin:/bin") and tools["QNN_SDK_ROOT"] == str(root)
    shutil.rmtree(root / "lib/python")
    shutil.rmtree(root / "benchmarks")
    assert "PYTHONPATH" not in qnn_environment(sdk)


def test_files_by_name(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "a sdk")
    sdk = find_qnn_sdk(root, {})
    for name, target, expected in [
        ("qnn-net-run", None, "bin/x86_64-linux-clang/qnn-net-run"),
        ("qnn-net-run", "aarch64-android", "bin/aarch64-android/qnn-net-run"),
        ("libQnnHtp.so", "aarch64-android", "lib/aarch64-android/libQnnHtp.so"),
        ("libQnnHtpV75Skel.so", None, "lib/hexagon-v75/unsigned/libQnnHtpV75Skel.so"),
        ("envsetup.sh", None, "bin/envsetup.sh"),
    ]:
        assert sdk.find_file(name, target) == root / expected
    with pytest.raises(ToolMissing, match=r"no libQnnHtp\.so in this QNN SDK for hexagon-v75"):
        sdk.find_file("libQnnHtp.so", "hexagon-v75")
    assert sdk.target_folders()[:2] == ("aarch64-android", "x86_64-linux-clang")


def states(sdk_root: Path, *, scripts: bool = False) -> dict[str, str]:
    return {c.name: c.state for c in check_sdk(find_qnn_sdk(sdk_root, {}), scripts=scripts)}


def test_check_of_a_complete_sdk(tmp_path: Path) -> None:
    found = states(make_sdk(tmp_path / "sdk"))
    assert {found[name] for name in ("headers", "phone libraries", "hexagon", "host tools")} == {"ok"}
    assert "version" not in found


@pytest.mark.parametrize(
    ("remove", "check", "state", "said"),
    [
        ("lib/aarch64-android", "phone libraries", "broken", "lib/aarch64-android missing"),
        ("lib/aarch64-android/libQnnSystem.so", "phone libraries", "broken", "lacks libQnnSystem.so"),
        ("lib/aarch64-android/libQnnGpu.so", "phone libraries", "warning", "lacks libQnnGpu.so"),
        ("lib/hexagon-v75", "hexagon", "warning", "v75 has no skel"),
        ("lib/aarch64-android/libQnnHtpV79Stub.so", "hexagon", "warning", "v79 has no stub"),
        ("bin/x86_64-linux-clang/qnn-onnx-converter", "host tools", "warning", "qnn-onnx-converter"),
        ("bin/aarch64-android", "host tools", "warning", "bin/aarch64-android/qnn-net-run"),
        ("lib/python", "converters' python", "not needed", "has no converters"),
    ],
)
def test_check_names_what_is_missing(tmp_path: Path, remove: str, check: str, state: str, said: str) -> None:
    root = make_sdk(tmp_path / "sdk")
    victim = root / remove
    shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    checks = check_sdk(find_qnn_sdk(root, {}), scripts=False)
    [found] = [c for c in checks if c.name == check]
    assert found.state == state and said in found.text
    broken = first_broken(checks)
    assert (broken.name if broken else None) == (check if state == "broken" else None)


def test_check_of_no_hexagon_at_all(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "sdk")
    for skel in root.glob("lib/hexagon-v*"):
        # A skel in the folder of another architecture is not found by the DSP.
        skel.rename(root / "lib" / skel.name.replace("hexagon-v", "hexagon-v1"))
    assert states(root)["hexagon"] == "broken"


def test_check_of_old_and_mixed_sdks(tmp_path: Path) -> None:
    assert states(make_sdk(tmp_path / "old", "2.30.0.250109"))["version"] == "warning"
    mixed = make_sdk(tmp_path / "mixed")
    (mixed / "include/QNN/QnnSdkBuildId.h").write_text('#define QNN_SDK_BUILD_ID "v2.38.0.250901"\n')
    assert states(mixed)["headers"] == "warning"


def test_check_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert states(make_sdk(tmp_path / "sdk"))["host tools"] == "not needed"


@pytest.mark.parametrize(
    ("names", "versions"),
    [
        (["linux-x86_64/libPyIrGraph310.so", "linux-aarch64/libPyIrGraph312.so"], ("3.10",)),
        (
            ["linux-x86_64/x.cpython-38-x86_64-linux-gnu.so", "linux-x86_64/libPyIrGraph310.so"],
            ("3.8", "3.10"),
        ),
        (["libPyIrGraph36.so", "windows-x86_64/libPyIrGraph310.so"], ("3.6",)),
        (["linux-x86_64/libPyIrGraph.so", "linux-x86_64/libQnnHtpV73.so"], ()),
    ],
)
def test_the_python_that_converters_want(tmp_path: Path, names: list[str], versions: tuple[str, ...]) -> None:
    root = make_sdk(tmp_path / "sdk")
    shutil.rmtree(root / "lib/python")
    for name in names:
        (root / "lib/python/qti" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "lib/python/qti" / name).touch()
    assert converter_python(find_qnn_sdk(root, {})) == versions


def test_the_python_that_a_library_is_linked_with(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "sdk")
    folder = root / "lib/python/qti/aisw/converters/common/linux-x86_64"
    (folder / "libPyIrGraph310.so").unlink()
    fake = tmp_path / "libpython3.11.so.1.0"
    for command in (
        ["gcc", "-shared", "-o", fake, "-Wl,-soname,libpython3.11.so.1.0", "-x", "c", "/dev/null"],
        ["gcc", "-shared", "-o", folder / "libPyIrGraph.so", "-x", "c", "/dev/null", "-x", "none",
         "-Wl,--no-as-needed", fake],
    ):  # fmt: skip
        subprocess.run(command, check=True)
    assert converter_python(find_qnn_sdk(root, {})) == ("3.11",)


def test_libraries_that_this_machine_lacks(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "sdk")
    missing = tmp_path / "libc++.so.1"
    program = root / "bin/x86_64-linux-clang/qnn-net-run"
    subprocess.run(
        ["gcc", "-shared", "-o", missing, "-Wl,-soname,libc++.so.1", "-x", "c", "/dev/null"], check=True
    )
    subprocess.run(
        ["gcc", "-o", program, "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed", missing],
        input=b"int main(void) { return 0; }", check=True,
    )  # fmt: skip
    checks = {c.name: c for c in check_sdk(find_qnn_sdk(root, {}), scripts=False)}
    found = checks["host libraries"]
    assert (found.state, found.hint) == ("warning", "sudo apt install libc++1")
    assert "libc++.so.1" in found.text
    # With the library in the SDK's own folder all is well.
    shutil.copy(missing, root / "lib/x86_64-linux-clang")
    checks = {c.name: c for c in check_sdk(find_qnn_sdk(root, {}), scripts=False)}
    assert checks["host libraries"].state == "ok"


def test_envcheck_is_run_and_understood(tmp_path: Path) -> None:
    sdk = find_qnn_sdk(make_sdk(tmp_path / "a sdk"), {})
    sections = qnn_scripts.run_envcheck(sdk)
    assert sections is not None
    assert [(s.name, s.ok) for s in sections] == [
        ("Android NDK", True), ("Clang", True), ("ONNX", False), ("PyTorch", True),
    ]  # fmt: skip
    assert sections[1].text == "Found clang++ at /usr/bin/clang++"
    assert sections[2].text == "Unable to import onnx using python3."
    (sdk.path / "bin/envcheck").chmod(0o644)
    assert qnn_scripts.run_envcheck(sdk) == sections
    (sdk.path / "bin/envcheck").unlink()
    assert qnn_scripts.run_envcheck(sdk) is None


def test_the_dependency_script_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real installers stand first on PATH; none of them may be asked."""
    sdk = find_qnn_sdk(make_sdk(tmp_path / "a sdk"), {})
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("apt-get", "sudo", "dpkg"):
        text = "#!/bin/sh\nexit 1\n" if name == "dpkg" else f"#!/bin/sh\ntouch '{tmp_path}/called'\n"
        (trap / name).write_text(text)
        (trap / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{trap}:{os.environ['PATH']}")
    report = qnn_scripts.run_dependency_script(sdk)
    assert report is not None and report.exit_code == 0
    assert report.would_install == ("devkit-no-such-package", "another-one")
    assert report.tail.endswith("Done!!")
    assert not (tmp_path / "called").exists()


def test_a_script_that_knows_dry_run_is_given_it(tmp_path: Path) -> None:
    sdk = find_qnn_sdk(make_sdk(tmp_path / "a sdk"), {})
    script = sdk.path / "bin/check-linux-dependency.sh"
    script.write_text(
        '#!/bin/bash\n[ "$1" = --dry-run ] || exit 9\necho "libfoo: not installed"\necho "Done!!"\n'
    )
    report = qnn_scripts.run_dependency_script(sdk)
    assert report is not None
    assert (report.exit_code, report.would_install, report.missing) == (0, (), ("libfoo: not installed",))
    assert states(sdk.path, scripts=True)["check-linux-dependency.sh"] == "warning"
    script.write_text("#!/bin/bash\necho 'Done!!'\n")
    assert states(sdk.path, scripts=True)["check-linux-dependency.sh"] == "ok"


def test_a_script_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qnn_scripts, "SCRIPT_TIMEOUT_S", 0.5)
    root = make_sdk(tmp_path / "a sdk")
    (root / "bin/check-linux-dependency.sh").write_text("read answer || sleep 60\n")
    (root / "bin/envcheck").write_text("#!/bin/bash\nsleep 60\n")
    found = states(root, scripts=True)
    assert found["check-linux-dependency.sh"] == found["envcheck"] == "warning"
