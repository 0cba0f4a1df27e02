"""devkit's own reading of ELF files against pyelftools: recorded files, other machines', damaged ones."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from devkit.errors import FileError
from devkit.symbols import read_elf

DATA = Path(__file__).parents[2] / "data"
KINDS = {"ET_EXEC": "executable", "ET_REL": "object", "ET_CORE": "core"}
MACHINES = {
    "EM_386": "i386", "EM_ARM": "arm", "EM_X86_64": "x86_64", "EM_AARCH64": "aarch64",
    "EM_RISCV": "riscv64", "EM_QDSP6": "hexagon",
}  # fmt: skip


def elf_files() -> list[Path]:
    """Files of several machines: the recorded ones, and some of this machine's."""
    found = [path for path in sorted(DATA.rglob("*")) if path.is_file() and is_elf(path)]
    folders = [Path(sysconfig.get_paths()["stdlib"]) / "lib-dynload", Path("/usr/lib/x86_64-linux-gnu")]
    for folder in folders:
        if folder.is_dir():
            found += [p for p in sorted(folder.glob("*.so*")) if p.is_file() and is_elf(p)][:25]
    return found


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def facts_of_pyelftools(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        segments = list(elf.iter_segments())
        dynamic = [s for s in segments if s["p_type"] == "PT_DYNAMIC"]
        tags = [tag for s in dynamic for tag in s.iter_tags()]
        notes = [n for s in segments if s["p_type"] == "PT_NOTE" for n in s.iter_notes()]
        interpreters = [s.get_interp_name() for s in segments if s["p_type"] == "PT_INTERP"]
        return {
            "machine": MACHINES.get(elf["e_machine"]),
            "bits": elf.elfclass,
            "kind": KINDS.get(elf["e_type"], "executable" if interpreters else "shared"),
            "soname": next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), None),
            "needed": tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            "interpreter": next(iter(interpreters), None),
            "build_id": next((n["n_desc"] for n in notes if n["n_type"] == "NT_GNU_BUILD_ID"), None),
            "has_debug_info": any(s.name in (".debug_info", ".zdebug_info") for s in elf.iter_sections()),
            "load_align": min((s["p_align"] for s in segments if s["p_type"] == "PT_LOAD"), default=0),
        }


def test_the_same_facts_as_pyelftools() -> None:
    files = elf_files()
    seen = set()
    for path in files:
        info, facts = read_elf(path), facts_of_pyelftools(path)
        assert {name: getattr(info, name) for name in facts} == facts, path
        seen.add((info.machine, info.bits))
    assert {("aarch64", 64), ("hexagon", 32)} <= seen, seen


def test_debug_information_is_found_in_objects_and_in_very_many_sections(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    assert compiler
    # More sections than the header's half can count: their number is in section header 0.
    source, made = tmp_path / "many.s", tmp_path / "many.o"
    many = "".join(f'.section .s{n},"a"\n.byte 1\n' for n in range(66000))
    for last, found in ((".debug_info", True), (".debug_other", False)):
        source.write_text(f'{many}.section {last},"",@progbits\n.byte 1\n')
        subprocess.run([compiler, "-c", source, "-o", made], check=True)
        assert struct.unpack_from("<H", made.read_bytes(), 60) == (0,)
        info = read_elf(made)
        assert info.kind == "object" and info.has_debug_info is found


def test_a_damaged_file_is_an_error_or_harmless_never_a_traceback(tmp_path: Path) -> None:
    program = Path(shutil.which("true") or "/bin/true").resolve().read_bytes()
    rng = random.Random(5)
    refused = 0
    for number in range(400):
        damaged = bytearray(program)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(4, 1200)] = rng.randrange(256)
        file = tmp_path / f"damaged{number}"
        file.write_bytes(damaged)
        try:
            read_elf(file)
        except FileError as error:
            assert "not a usable ELF file" in error.what
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("size", [4, 16, 40, 63])
def test_a_file_cut_in_its_header(tmp_path: Path, size: int) -> None:
    file = tmp_path / "cut"
    file.write_bytes(Path("/bin/true").read_bytes()[:size])
    with pytest.raises(FileError) as caught:
        read_elf(file)
    assert "not a usable ELF file" in caught.value.what and "beyond its end" in (caught.value.evidence or "")
