"""What the phone's linker would refuse, on files that a real compiler and linker made (case C3)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devkit.errors import DeployError
from devkit.runtime.closure import NeededFile, OpenedFile, SearchDir, needed_closure
from devkit.runtime.elf_checks import ERROR, Finding, check_files, page_size_matters, refuse
from devkit.symbols import read_elf

CASES = Path(__file__).parents[2] / "data" / "cases"
C3 = CASES / "C3" / "push"
EXPECTED = json.loads((CASES / "C3" / "expected.json").read_text())
IDENT = """
struct note {{ int name, size, type; char who[8]; int api; char release[64], build[64]; }};
__attribute__((section(".note.android.ident"), aligned(4), used))
const struct note ident = {{8, 132, 1, "Android", {api}, "{release}", "1"}};
"""
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds a library or program for this machine that looks like one of an NDK."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"

    def run(name: str, *flags: str, api: int = 24, release: str = "r27d", program: bool = False) -> Path:
        source = tmp_path / "source.c"
        source.write_text(IDENT.format(api=api, release=release) + "void _start(void) { for (;;); }\n")
        kind = ["-pie", "-Wl,--dynamic-linker=/system/bin/linker64"] if program else ["-shared"]
        # The C library only for a PT_INTERP: without one the linker makes a static program.
        needs = ["-Wl,--no-as-needed", "-lc"] if program else []
        argv = [compiler, "-nostdlib", "-fPIC", *kind, *flags, source, *needs, "-o", tmp_path / name]
        subprocess.run(argv, check=True, capture_output=True)
        return tmp_path / name

    return run


def files(*paths: Path, origin: str = "build") -> list[NeededFile]:
    return [NeededFile(path.name, read_elf(path), None, origin) for path in paths]


def look(found: list[NeededFile], own: dict[str, Path] | None = None, **more: Any) -> list[Finding]:
    abi = found[0].elf.abi
    assert abi is not None
    facts = {"abi": abi, "abilist": [abi], "libc": "bionic", "api_level": 34, "page_bytes": None, **more}
    return check_files(found, own or {}, **facts)


def texts(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.text) for finding in findings]


def test_what_an_ndk_notes_is_read(make: Make) -> None:
    elf = read_elf(make("libx.so", "-Wl,-z,max-page-size=16384", api=29, release="r28b"))
    assert (elf.android_api, elf.ndk_release, elf.load_align, elf.is_fixed) == (29, "r28b", 16384, False)
    assert read_elf(CASES / "C1/build/llm_demo").load_align == 0x4000
    plain = read_elf(C3 / "libQnnHtpV75Skel.so")
    assert (plain.android_api, plain.ndk_release) == (None, None)


def test_a_program_as_the_ndk_makes_it_passes(make: Make) -> None:
    assert look(files(make("prog", program=True), make("libx.so"))) == []


def test_c3_each_file_as_the_case_says() -> None:
    program = CASES / "C1/build/llm_demo"
    own = {path.name: path for path in C3.iterdir()}
    findings = {f.file: f for f in look(files(program), own, abilist=["arm64-v8a", "armeabi-v7a"])}
    wrong = {name for name, said in EXPECTED.items() if said.startswith("error")}
    assert set(findings) == wrong == {"libMNN.so", "libllm.so"}
    assert all(f.severity == ERROR for f in findings.values())
    assert "32-bit arm" in findings["libMNN.so"].text and "x86_64" in findings["libllm.so"].text
    with pytest.raises(DeployError) as caught:
        refuse(findings.values())
    assert caught.value.exit_code == 125 and "also: " in (caught.value.evidence or "")
    # In a folder of its own a library of another ABI may have its reason; what the phone cannot run is said.
    below = {f"more/{path.name}": path for path in C3.iterdir()}
    findings_below = look(files(program), below, abilist=["arm64-v8a", "armeabi-v7a"])
    assert [(f.severity, f.file) for f in findings_below] == [("warning", "more/libllm.so")]
    refuse(findings_below)


def test_a_program_of_a_desktop_linux(make: Make) -> None:
    desktop = make("prog", "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2", program=True)
    assert look(files(desktop))[0].text == (
        "prog is for a Linux computer: it asks for /lib64/ld-linux-x86-64.so.2, which is not on the phone"
    )
    assert look(files(desktop), libc="glibc") == []
    (other,) = look(files(make("prog", program=True)), libc="glibc")
    assert "prog is for Android: it asks for /system/bin/linker64" in other.text


def test_no_pie(make: Make) -> None:
    (found,) = look(files(make("prog", "-no-pie", "-fno-pic", program=True)))
    assert found.severity == ERROR and "not position independent" in found.text


def test_pages(make: Make) -> None:
    program = make("prog", "-Wl,-z,max-page-size=16384", program=True)
    small = make("libsmall.so", "-Wl,-z,max-page-size=4096")
    large = make("liblarge.so", "-Wl,-z,max-page-size=16384")
    found = files(program, small, large)
    (finding,) = look(found, page_bytes=16384)
    assert finding.text == "libsmall.so is aligned to 4096 bytes, the phone's pages have 16384"
    assert finding.severity == ERROR and "max-page-size=16384" in (finding.hint or "")
    assert look(found, page_bytes=4096) == []
    # The phone is asked only where the answer can matter.
    assert page_size_matters(found, 35)
    assert not page_size_matters(found, 34) and not page_size_matters(files(program, large), 35)


def test_a_newer_api_level(make: Make) -> None:
    found = files(make("prog", program=True), make("libnew.so", api=35))
    assert texts(look(found)) == [
        ("warning", "libnew.so was built for API level 35, the phone has 34: it may lack symbols")
    ]
    assert look(found, api_level=35) == []


def test_ndks_that_do_not_mix(make: Make) -> None:
    program = make("prog", program=True)
    (found,) = look(files(program, make("libold.so", release="r21e")))
    assert "libold.so (r21e); prog (r27d)" in found.text and "_Unwind_Resume" in found.text
    (found,) = look(files(program, make("libc++_shared.so", release="r25c")))
    assert found.text == "libc++_shared.so is of NDK r25c, prog was built with r27d"
    assert look(files(program, make("libc++_shared.so", release="r29"))) == []
    # Qualcomm's libraries bring their own C++ library inside.
    assert look([*files(program), *files(make("libQnnX.so", release="r21"), origin="QNN SDK")]) == []


def test_two_files_with_one_soname(make: Make) -> None:
    one = make("libone.so", "-Wl,-soname,libone.so")
    other = make("libone_old.so", "-Wl,-soname,libone.so")
    program = make("prog", program=True)
    (found,) = look(files(program, one), {"libone_old.so": other})
    assert found.text == "libone.so and libone_old.so have one soname, libone.so: one hides the other"
    assert look(files(program, one), {"backup/libone_old.so": other}) == []


def test_data_that_only_looks_like_elf(make: Make, tmp_path: Path) -> None:
    broken = tmp_path / "broken.bin"
    broken.write_bytes(b"\x7fELF\x02garbage")
    assert look(files(make("prog", program=True)), {"broken.bin": broken}) == []


def test_what_is_opened_at_run_time_travels_with_what_it_needs(tmp_path: Path) -> None:
    build = CASES / "C1/build"
    shutil.copy(build / "libMNN.so", tmp_path / "libMNN_CL.so")
    found = needed_closure(
        build / "libMNN.so",
        abi="arm64-v8a",
        api_level=34,
        search=[SearchDir(build, "build"), SearchDir(CASES / "C1/ndk-stl", "toolchain")],
        opened=[OpenedFile(tmp_path / "libMNN_CL.so", "opened at run time (profile opencl)", "build")],
    )
    assert [f.name for f in found.files] == ["libMNN.so", "libMNN_CL.so", "libc++_shared.so"]
    assert found.files[1].reason == "opened at run time (profile opencl)"
    with pytest.raises(DeployError, match=r"libc\+\+_shared\.so, needed by"):
        needed_closure(
            C3 / "libMNN_Express.so",
            abi="arm64-v8a",
            api_level=34,
            opened=[OpenedFile(tmp_path / "libMNN_CL.so", "opened", "build")],
        )
    with pytest.raises(DeployError, match=r"libllm\.so is for x86_64"):
        needed_closure(
            build / "libMNN.so",
            abi="arm64-v8a",
            api_level=34,
            search=[SearchDir(build, "build"), SearchDir(CASES / "C1/ndk-stl", "toolchain")],
            opened=[OpenedFile(C3 / "libllm.so", "opened", "build")],
        )
