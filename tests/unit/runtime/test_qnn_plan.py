"""What of QNN travels to a phone with a Hexagon, and what is refused before (cases K1, K3, C3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devkit.config import AppConfig, Config, FileMapping, load
from devkit.device import Device
from devkit.errors import ConfigError, DeployError, DeviceError, ToolMissing
from devkit.ndk.qnn_sets import vendor_libraries
from devkit.runtime.apps import PreparedApp
from devkit.runtime.closure import SearchDir, needed_closure
from devkit.runtime.qnn import QnnPlan, plan_qnn
from devkit.runtime.request import RunRequest, plan_launch
from devkit.runtime.run import launch_for
from tests.support.qnn_parts import BUILD_ID, VERSION, genuine_context, genuine_sdk, with_build_id

CASES = Path(__file__).parents[2] / "data" / "cases"
C1 = CASES / "C1"
K1 = json.loads((CASES / "K1" / "expected.json").read_text())
K3 = json.loads((CASES / "K3" / "expected.json").read_text())
PROGRAM = C1 / "build" / "llm_demo"


@dataclass
class Phone:
    """What the plan asks of a phone."""

    chip: str = "SM8650"
    libc: str = "bionic"
    abi: str = "arm64-v8a"
    serial: str = "S"
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.properties |= {"ro.soc.manufacturer": "QTI", "ro.soc.model": self.chip}

    def shell(self, _command: object) -> Any:
        return type("Result", (), {"text": ""})


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genuine_sdk(tmp_path_factory.mktemp("SDK 版") / VERSION)


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def planned(
    sdk: Path, chip: str = "SM8650", backend: str = "htp", files: tuple[Path, ...] = (), **options: str
) -> QnnPlan | None:
    app = AppConfig("chat", backend=backend, files=tuple(FileMapping(f, f.name) for f in files))
    config: Config = load(sdk, environ={"DEVKIT_QNN_PATH": str(sdk)})
    return plan_qnn(config, cast(Device, Phone(chip)), app, PROGRAM, options)


def some(plan: QnnPlan | None) -> QnnPlan:
    assert plan is not None and plan.files is not None
    return plan


def context(file: Path, build_id: str = BUILD_ID, arch: int = 75, soc: str = "SM8650") -> Path:
    options = f"soc_type={soc};arch={arch};num_nsps=1;l2tcm_kb=0;vtcm_size={8 << 20};"
    file.write_bytes(
        b"\0\0\0\2\0\0\0\3".ljust(820, b"\0") + build_id.encode() + b"\0" * 9000 + options.encode()
    )
    return file


def names(plan: QnnPlan | None) -> list[str]:
    return [opened.path.name for opened in some(plan).opened()]


def test_htp_is_online_or_offline_as_profile_and_files_say(sdk: Path, tmp_path: Path) -> None:
    online = ["libQnnHtp.so", "libQnnHtpPrepare.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"]
    offline = ["libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"]
    assert names(planned(sdk)) == online
    assert names(planned(sdk, MNN_WITH_PLUGIN="ON")) == offline
    assert names(planned(sdk, files=(context(tmp_path / "graph0.bin"),))) == offline
    assert names(planned(sdk, backend="htp-online", MNN_WITH_PLUGIN="ON")) == online
    assert names(planned(sdk, chip="SM8550"))[-1] == "libQnnHtpV73Skel.so"
    assert planned(sdk, backend="none") is None


def test_a_build_with_qnn_gets_the_set_unless_the_app_says_otherwise(
    sdk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def plan(text: str, chip: str = "SM8650", **options: str) -> QnnPlan | None:
        (tmp_path / "devkit.yaml").write_text(f"qnn: {{path: '{sdk}'}}\napps: {text}\n")
        config = load(tmp_path, environ={})
        return plan_qnn(config, cast(Device, Phone(chip)), config.apps["chat"], PROGRAM, options)

    assert names(plan("{chat: }", MNN_QNN="ON", MNN_WITH_PLUGIN="ON"))[1] == "libQnnSystem.so"
    assert plan("{chat: {backend: none}}", MNN_QNN="ON") is None
    assert plan("{chat: }") is None and plan("{chat: }", MNN_QNN="ON", MNN_QNN_CONVERT_MODE="ON") is None
    # Who sends libraries by hand is not overruled.
    own = [str(sdk / f"lib/aarch64-android/libQnnHtp{name}.so") for name in ("", "V75Stub", "Prepare")]
    own.append(str(sdk / "lib/hexagon-v75/unsigned/libQnnHtpV75Skel.so"))
    assert plan(f"{{chat: {{files: {own}}}}}", MNN_QNN="ON") is None
    assert not capsys.readouterr().err
    # Nobody has asked for an NPU by name: a phone without one runs the program all the same.
    assert plan("{chat: }", chip="SM9999", MNN_QNN="ON") is None
    said = capsys.readouterr().err
    assert "no QNN libraries travel" in said and "apps.chat.backend in devkit.yaml" in said


def test_the_sdk_whose_headers_the_build_took(sdk: Path, tmp_path: Path) -> None:
    config = load(tmp_path, environ={"DEVKIT_QNN_PATH": str(tmp_path / "no such SDK")})
    app = AppConfig("chat", backend="gpu")
    found = plan_qnn(config, cast(Device, Phone()), app, PROGRAM, {"QNN_SDK_ROOT": str(sdk)})
    assert some(found).files.sdk.path == sdk  # type: ignore[union-attr]
    with pytest.raises(ToolMissing, match="names no QNN SDK"):
        plan_qnn(config, cast(Device, Phone()), app, PROGRAM, {})


def test_k3_no_set_for_a_chip_that_is_not_known(sdk: Path) -> None:
    with pytest.raises(DeviceError, match="not certain"):
        planned(sdk, chip="SM9999")
    # The GPU's set does not depend on it.
    assert names(planned(sdk, chip="SM9999", backend="gpu")) == ["libQnnGpu.so", "libQnnSystem.so"]


def test_k3_an_export_for_another_chip_is_refused_before_the_push(sdk: Path, tmp_path: Path) -> None:
    assert K3["runtime_check"].startswith("export for v75 on a v73 phone is refused before the push")
    graph = context(tmp_path / "graph0.bin", arch=75)
    with pytest.raises(DeployError) as caught:
        planned(sdk, chip="SM8550", files=(graph,))
    assert caught.value.what == "graph0.bin is for Hexagon v75 (SM8650), the phone has v73 (SM8550)"
    assert "soc_model 43, dsp_arch v73" in caught.value.hints[0]
    assert caught.value.exit_code == 125
    # The other way round is said and tried.
    assert (
        some(planned(sdk, chip="SM8750", files=(graph,))).record()["contexts"]["graph0.bin"]["arch"] == "v75"
    )


@pytest.mark.slow
def test_k3_a_genuine_context_binary_for_a_newer_hexagon_is_refused(sdk: Path, tmp_path: Path) -> None:
    made = genuine_context(tmp_path / "made", 69, "79")
    with pytest.raises(DeployError) as caught:
        planned(sdk, chip="SM8650", files=(made,))
    assert f"{made.name} is for Hexagon v79 (SM8750), the phone has v75 (SM8650)" in caught.value.what
    assert planned(sdk, chip="SM8750", files=(made,))


def test_a_graph_of_a_newer_qnn_is_refused(sdk: Path, tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="made by a newer QNN than the libraries"):
        planned(sdk, files=(context(tmp_path / "g.bin", "v2.52.0.261001000000"),))
    assert planned(sdk, files=(context(tmp_path / "g.bin", "v2.42.0.251225120000"),))


def test_what_the_manifest_says(sdk: Path, tmp_path: Path) -> None:
    plan = some(planned(sdk, files=(context(tmp_path / "graph0.bin"),)))
    ((remote, local, _),) = plan.manifest()
    assert remote == ".devkit-qnn.json"
    said = json.loads(local.read_text("utf-8"))
    assert said == plan.record()
    assert {key: said[key] for key in ("sdk", "build_id", "backend", "arch", "soc_model", "chip")} == {
        "sdk": VERSION, "build_id": BUILD_ID, "backend": "htp-offline", "arch": "v75", "soc_model": 57,
        "chip": "SM8650",
    }  # fmt: skip
    assert said["contexts"] == {
        "graph0.bin": {"build_id": BUILD_ID, "soc": "SM8650", "arch": "v75", "vtcm_mb": 8}
    }


def test_k1_libraries_by_hand(sdk: Path, tmp_path: Path) -> None:
    folder = sdk / "lib/aarch64-android"
    skel = sdk / "lib/hexagon-v75/unsigned/libQnnHtpV75Skel.so"
    htp, system, stub = (folder / f"lib{name}.so" for name in ("QnnHtp", "QnnSystem", "QnnHtpV75Stub"))
    assert "missing Stub is found before the run" in K1["pre_check"]
    with pytest.raises(DeployError, match="travels without libQnnHtpV75Stub") as caught:
        planned(sdk, backend="none", files=(htp, system, skel))
    assert "the phone's own, of another version" in (caught.value.evidence or "")
    assert planned(sdk, backend="none", files=(htp, system, stub, skel)) is None
    old = with_build_id(stub, tmp_path / stub.name, "v2.25.17.24101711000")
    with pytest.raises(DeployError, match="several versions") as caught:
        planned(sdk, backend="none", files=(htp, old, skel))
    assert f"v2.25.17.24101711000: {old}" in (caught.value.evidence or "")
    # With a backend the set is complete; the old one would take its place.
    with pytest.raises(DeployError, match=r"libQnnHtpV75Stub\.so under `files:` is not of the QNN SDK"):
        planned(sdk, files=(old,))


def test_libraries_by_hand_are_complete_and_for_the_phone(
    sdk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sdk / "lib/aarch64-android"
    htp, system, prepare, stub = (
        folder / f"lib{name}.so" for name in ("QnnHtp", "QnnSystem", "QnnHtpPrepare", "QnnHtpV75Stub")
    )
    skel = sdk / "lib/hexagon-v75/unsigned/libQnnHtpV75Skel.so"
    graph = context(tmp_path / "g.bin")
    refused = {
        "travels without libQnnHtpV##Stub": (htp, system),
        "travels without libQnnHtpV75Skel": (htp, system, stub),
        r"g\.bin travels without libQnnSystem": (htp, stub, skel, graph),
        "made by a newer QNN": (htp, system, stub, skel, context(tmp_path / "n.bin", "v2.52.0.261001000000")),
        "is for Hexagon v79": (htp, system, stub, skel, context(tmp_path / "o.bin", arch=79, soc="SM8750")),
    }
    for what, files in refused.items():
        with pytest.raises(DeployError, match=what) as caught:
            planned(sdk, backend="none", files=files)
        assert caught.value.exit_code == 125
    with pytest.raises(DeployError, match=r"libQnnHtpV73Stub\.so is missing: the phone has Hexagon v73"):
        planned(sdk, chip="SM8550", backend="none", files=(htp, system, stub, skel))
    # A chip that is not certain proves nothing.
    assert planned(sdk, chip="SM9999", backend="none", files=(htp, system, stub, skel, graph)) is None
    capsys.readouterr()
    assert planned(sdk, backend="none", files=(htp, prepare, stub, skel)) is None
    assert "Prepare" not in capsys.readouterr().err
    assert planned(sdk, backend="none", files=(htp, system, stub, skel)) is None
    assert "only context binaries can be run" in capsys.readouterr().err


def test_c3_a_skel_travels_and_is_no_android_library(sdk: Path) -> None:
    plan = some(planned(sdk))
    found = needed_closure(
        PROGRAM,
        abi="arm64-v8a",
        api_level=34,
        search=[SearchDir(C1 / "build", "build"), SearchDir(C1 / "ndk-stl", "toolchain")],
        opened=plan.opened(),
        vendor=vendor_libraries(),
    )
    travels = {f.name: f for f in found.files}
    assert travels["llm_demo"].reason == "the program"
    assert travels["libQnnHtpV75Skel.so"].reason == f"QNN htp-online, SDK {VERSION}: runs on the DSP"
    assert travels["libQnnHtpV75Skel.so"].elf.abi is None
    # The Hexagon's own C++ library is no concern of the phone's linker, the maker's driver is on the phone.
    assert "libc++.so.1" not in travels and "libcdsprpc.so" in found.system
    # These come from a Linux package: what Android has not is said, and stops nothing.
    assert ("libc.so.6", "libQnnHtp.so") in found.unresolved


def test_the_variables(sdk: Path) -> None:
    plan = some(planned(sdk))
    folder = "/data/local/tmp/my folder"
    assert plan.environment({"X": "1"}, folder) == {
        "X": "1", "LD_LIBRARY_PATH": folder, "ADSP_LIBRARY_PATH": folder,
    }  # fmt: skip
    mine = {"LD_LIBRARY_PATH": "/a:/b", "ADSP_LIBRARY_PATH": "/vendor/dsp;/dsp"}
    assert plan.environment(mine, folder) == {
        "LD_LIBRARY_PATH": f"{folder}:/a:/b", "ADSP_LIBRARY_PATH": f"{folder};/vendor/dsp;/dsp",
    }  # fmt: skip
    text = launch_for(folder, "p", (), plan.environment(mine, folder)).shell_text()
    assert f"'ADSP_LIBRARY_PATH={folder};/vendor/dsp;/dsp'" in text
    with pytest.raises(ConfigError, match="ADSP_LIBRARY_PATH separates folders by `;`, not by `:`") as caught:
        plan.environment({"ADSP_LIBRARY_PATH": "/a:/b"}, folder)
    assert "'/a;/b'" in caught.value.hints[0]
    with pytest.raises(ConfigError, match="LD_LIBRARY_PATH separates folders by `:`"):
        plan.environment({"LD_LIBRARY_PATH": "/a;/b"}, folder)
    assert "ADSP_LIBRARY_PATH" not in some(planned(sdk, backend="gpu")).environment({}, folder)


def test_variables_of_the_command_line_come_after_the_set_as_those_of_the_app(sdk: Path) -> None:
    local: Any = SimpleNamespace(app=AppConfig(name="app", env={"LD_LIBRARY_PATH": "/of the app", "A": "1"}))
    place: Any = SimpleNamespace(folder="/d/app", program="app")
    nothing: Any = None
    closure: Any = SimpleNamespace(files=())
    prepared = PreparedApp(local, closure, place, "/d", qnn=some(planned(sdk)))
    request = RunRequest(env={"LD_LIBRARY_PATH": "/mine", "ADSP_LIBRARY_PATH": "/dsp", "B": "2"})
    assert plan_launch(nothing, prepared, (), request).environment() == {
        "A": "1", "B": "2", "LD_LIBRARY_PATH": "/d/app:/mine", "ADSP_LIBRARY_PATH": "/d/app;/dsp",
    }  # fmt: skip
