"""Library sets and versions, on Qualcomm's own libraries (cases K1, C3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import ToolMissing
from devkit.ndk.qnn_sdk import QnnSdk, open_qnn_sdk
from devkit.ndk.qnn_sets import backend_names, library_set, needs_arch, target_for
from devkit.ndk.qnn_version import is_qnn_name, read_build_id, read_context, short_version
from devkit.symbols import read_elf
from tests.support.qnn_parts import BUILD_ID, VERSION, genuine_sdk, with_build_id
from tests.support.qnn_trees import make_sdk

ANDROID = "aarch64-android"
K1 = Path(__file__).parents[2] / "data" / "cases" / "K1"


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> QnnSdk:
    return open_qnn_sdk(genuine_sdk(tmp_path_factory.mktemp("SDK 版") / VERSION), "a test")


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def names(sdk: QnnSdk, backend: str, **more: str) -> list[str]:
    return [f.name for f in library_set(sdk, backend, ANDROID, **more).files]


def test_the_sets_of_a_phone(genuine: QnnSdk) -> None:
    assert names(genuine, "htp-online", arch="v75") == [
        "libQnnHtp.so", "libQnnHtpPrepare.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so",
    ]  # fmt: skip
    assert names(genuine, "htp-offline", arch="v79") == [
        "libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV79Stub.so", "libQnnHtpV79Skel.so",
    ]  # fmt: skip
    assert names(genuine, "gpu") == ["libQnnGpu.so", "libQnnSystem.so"]
    assert "libQnnHtpNetRunExtensions.so" in names(genuine, "htp-offline", arch="v79", program="qnn-net-run")
    assert "libQnnHtpNetRunExtensions.so" not in names(genuine, "gpu", program="qnn-net-run")


def test_one_version_and_the_files_that_say_it(genuine: QnnSdk) -> None:
    found = library_set(genuine, "htp-offline", ANDROID, arch="v75")
    assert (found.build_id, found.version, found.arch) == (BUILD_ID, VERSION, "v75")
    said = {f.name: f.build_id for f in found.files}
    # Qualcomm leaves none in libQnnSystem.so.
    assert said == {
        "libQnnHtp.so": BUILD_ID, "libQnnSystem.so": None,
        "libQnnHtpV75Stub.so": BUILD_ID, "libQnnHtpV75Skel.so": BUILD_ID,
    }  # fmt: skip
    skel = next(f for f in found.files if f.kind == "skel")
    assert skel.path.parent.name == "unsigned"
    assert (read_elf(skel.path).machine, read_elf(skel.path).bits) == ("hexagon", 32)


@pytest.mark.parametrize("number", ["68", "69", "73", "75", "79", "81"])
def test_every_architecture_that_qualcomm_ships(genuine: QnnSdk, number: str) -> None:
    assert names(genuine, "htp-online", arch=f"v{number}")[-1] == f"libQnnHtpV{number}Skel.so"


def test_an_architecture_that_the_sdk_does_not_know(genuine: QnnSdk) -> None:
    with pytest.raises(
        ToolMissing, match=r"no libQnnHtpV99Stub\.so, which the backend htp-online needs"
    ) as caught:
        library_set(genuine, "htp-online", ANDROID, arch="v99")
    assert "libQnnHtpV81Stub.so" in (caught.value.evidence or "")


def test_a_folder_of_two_sdks_is_refused(genuine: QnnSdk, tmp_path: Path) -> None:
    root = genuine_sdk(tmp_path / VERSION)
    stub = root / "lib" / ANDROID / "libQnnHtpV75Stub.so"
    stub.unlink()
    with_build_id(genuine.path / "lib" / ANDROID / stub.name, stub, "v2.49.0.260929181845")
    with pytest.raises(ToolMissing, match="several versions") as caught:
        library_set(open_qnn_sdk(root, "a test"), "htp-online", ANDROID, arch="v75")
    assert f"v2.49.0.260929181845: lib/{ANDROID}/libQnnHtpV75Stub.so" in (caught.value.evidence or "")
    # Another chip's set is not touched by it.
    assert library_set(open_qnn_sdk(root, "a test"), "htp-online", ANDROID, arch="v79").build_id == BUILD_ID


def test_libraries_that_are_not_the_sdks_version(tmp_path: Path) -> None:
    root = genuine_sdk(tmp_path / "2.42.0.251225")
    (root / "sdk.yaml").write_text("version: 2.42.0\n")
    with pytest.raises(ToolMissing, match="several versions") as caught:
        library_set(open_qnn_sdk(root, "a test"), "gpu", ANDROID)
    assert "says 2.42.0.251225" in (caught.value.evidence or "")


def test_libraries_without_a_version_are_taken_as_they_are(tmp_path: Path) -> None:
    sdk = open_qnn_sdk(make_sdk(tmp_path / "2.42.0.251225"), "a test")
    found = library_set(sdk, "cpu", ANDROID)
    assert ([f.name for f in found.files], found.build_id) == (["libQnnCpu.so"], None)
    host = library_set(sdk, "htp-online", "x86_64-linux-clang")
    # There it simulates the NPU: no Stub, no Skel, and another name for what prepares.
    assert [f.name for f in host.files] == ["libQnnHtp.so", "libHtpPrepare.so"] and host.arch is None


def test_which_folder_is_for_which_phone(tmp_path: Path) -> None:
    sdk = open_qnn_sdk(make_sdk(tmp_path / "2.42.0.251225"), "a test")
    assert target_for(sdk, "arm64-v8a", "bionic") == ANDROID
    assert target_for(sdk, "x86_64", "glibc") == "x86_64-linux-clang"
    with pytest.raises(ToolMissing, match="no libraries for armeabi-v7a") as caught:
        target_for(sdk, "armeabi-v7a", "bionic")
    assert ANDROID in (caught.value.evidence or "")
    assert [b for b in backend_names() if needs_arch(b, ANDROID)] == ["htp-online", "htp-offline"]
    assert not any(needs_arch(b, "x86_64-linux-clang") for b in backend_names())


def test_k1_build_ids_are_read_as_the_log_shows_them(tmp_path: Path) -> None:
    pushed = [line.split() for line in (K1 / "pushed.txt").read_text().splitlines() if line.startswith("/")]
    file = tmp_path / "lib.so"
    for _, build_id in pushed:
        file.write_bytes(b"\x7fELF\0\0version v1.2.3.4 \0" + build_id.encode() + b"\0tail")
        assert read_build_id(file) == build_id and short_version(build_id) == "2.42.0"
    file.write_bytes(b"xv2.42.0.251225\0 v2.42.0.12\0")
    assert read_build_id(file) is None
    file.write_bytes(b"")
    assert read_build_id(file) is None


def test_a_build_id_is_read_once(genuine: QnnSdk, monkeypatch: pytest.MonkeyPatch) -> None:
    library = genuine.path / "lib" / ANDROID / "libQnnHtpPrepare.so"
    assert read_build_id(library) == BUILD_ID
    monkeypatch.setattr("devkit.ndk.qnn_version._scan", lambda path: pytest.fail(f"{path} was read again"))
    assert read_build_id(library) == BUILD_ID


def test_names() -> None:
    for name in ("libQnnHtp.so", "libQnnHtpV75Skel.so", "libHtpPrepare.so", "libQnnHtpPrepare.so"):
        assert is_qnn_name(name)
    for name in ("libMNN.so", "libQnnHtp.so.bak", "myQnn.so"):
        assert not is_qnn_name(name)


def test_context_binaries(tmp_path: Path) -> None:
    file = tmp_path / "graph0.bin"
    file.write_bytes(context(b"v2.51.0.260929181845", b"SM8750", b"79"))
    facts = read_context(file)
    assert facts is not None
    assert (facts.build_id, facts.soc, facts.arch, facts.vtcm_mb) == (BUILD_ID, "SM8750", "v79", 8)
    file.write_bytes(b"weights" * 10_000)
    assert read_context(file) is None
    file.write_bytes(b"\x7fELF" + b"v2.51.0.260929181845")
    assert read_context(file) is None


def context(build_id: bytes, soc: bytes, arch: bytes, vtcm: int = 8 << 20) -> bytes:
    """The shape of a context binary of QNN 2.51: the version in its head, the options after the graph."""
    head = bytes.fromhex("0000000200000003000000000000000190030000000000000010000000000000")
    options = b"debug=false;soc_type=%s;arch=%s;num_nsps=1;l2tcm_kb=0;vtcm_size=%d;" % (soc, arch, vtcm)
    return (
        head.ljust(820, b"\0")
        + build_id
        + b"\0" * 11_000
        + b"Vr"
        + build_id
        + b".\0"
        + options
        + b"\0" * 9000
    )
