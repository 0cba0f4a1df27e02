"""The linker's messages: the sentences of each API level, and the check on real ELF files."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from devkit.sim.linker import messages
from devkit.sim.linker.check import LinkChecker, Start
from devkit.sim.linker.objects import BadObject, ElfObject, ObjectCache

MACHINE = os.uname().machine
NUMBER = {"x86_64": 62, "aarch64": 183}[MACHINE]
OTHER = {"x86_64": ("EM_AARCH64", 183), "aarch64": ("EM_X86_64", 62)}[MACHINE]
PHONE = Path("/data/local/tmp/dev kit")


@pytest.mark.parametrize(
    ("api_level", "text", "aborts"),
    [
        (
            23,
            'CANNOT LINK EXECUTABLE: could not load library "libx.so" needed by "./a"; '
            'caused by library "libx.so" not found',
            False,
        ),
        (26, 'CANNOT LINK EXECUTABLE "./a": library "libx.so" not found', True),
        (28, 'CANNOT LINK EXECUTABLE "./a": library "libx.so" not found', False),
        (30, 'CANNOT LINK EXECUTABLE "./a": library "libx.so" not found: needed by main executable', False),
    ],
)
def test_a_missing_library(api_level: int, text: str, aborts: bool) -> None:
    refused = messages.refusal("./a", messages.missing_library("libx.so", None, "./a", api_level), api_level)
    assert (refused.text, refused.aborts) == (text, aborts)


@pytest.mark.parametrize(
    ("problem", "api_level", "text"),
    [
        (BadObject("class", 1), 34, '"/p/l.so" is 32-bit instead of 64-bit'),
        (BadObject("class", 7), 34, '"/p/l.so" has unknown ELF class: 7'),
        (BadObject("machine", 183), 34, '"/p/l.so" is for EM_AARCH64 (183) instead of EM_X86_64 (62)'),
        (BadObject("machine", 183), 26, '"/p/l.so" has unexpected e_machine: 183'),
        (BadObject("magic", 0x6E6F7465), 34, '"/p/l.so" has bad ELF magic: 6e6f7465'),
        (BadObject("magic", 0x6E6F7465), 29, '"/p/l.so" has bad ELF magic'),
        (BadObject("small", 7), 34, '"/p/l.so" is too small to be an ELF executable: only found 7 bytes'),
    ],
)
def test_files_that_are_no_libraries(problem: BadObject, api_level: int, text: str) -> None:
    assert messages.bad_object("/p/l.so", problem, 62, api_level) == text


def test_the_other_sentences() -> None:
    assert messages.missing_library("a.so", "/x/b.so", "p", 34) == (
        'library "a.so" not found: needed by /x/b.so in namespace (default)'
    )
    assert messages.missing_symbol("_Unwind_Resume", "/x/b.so") == (
        'cannot locate symbol "_Unwind_Resume" referenced by "/x/b.so"...'
    )
    assert messages.bad_alignment("/x/b.so", 4096, 16384) == (
        '"/x/b.so" program alignment (4096) cannot be smaller than system page size (16384)'
    )


# ---- real files


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A phone's files: program → liba.so → libb.so, with a system that has the C library."""
    root = tmp_path_factory.mktemp("root")
    folder = root / PHONE.relative_to("/")
    folder.mkdir(parents=True)
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"

    def build(name: str, source: str, *options: str) -> None:
        (folder / f"{name}.c").write_text(source)
        command = [compiler, f"{name}.c", "-o", name, *options]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "LC_ALL": "C"})

    shared = ("-shared", "-fPIC")
    build("libb.so", "int b(void) { return 1; }", *shared)
    build("liba.so", "int b(void); int a(void) { return b(); }", *shared, "-L.", "-l:libb.so")
    build("prog", "int a(void); int main(void) { return a(); }", "-L.", "-l:liba.so", "-Wl,-rpath-link,.")
    build("origin", "int b(void); int main(void) { return b(); }", "-L.", "-l:libb.so", "-Wl,-rpath,$ORIGIN")
    build("plain", "int main(void) { return 0; }")
    system = root / "system/lib64"
    system.mkdir(parents=True)
    (root / "system/bin").mkdir()
    ldd = subprocess.run(["ldd", folder / "plain"], capture_output=True, text=True, check=True).stdout
    for line in ldd.splitlines():
        words = [word for word in line.split() if word.startswith("/")]
        if words and "ld-linux" in words[0]:
            shutil.copy(words[0], root / "system/bin/linker64")
        elif words:
            shutil.copy(words[0], system / Path(words[0]).name)
    return root


def checker(root: Path, api_level: int = 34, page_size: int = 4096) -> LinkChecker:
    return LinkChecker(api_level, MACHINE, page_size, lambda path: root / path.relative_to("/"))


def start(name: str = "prog", **environment: str) -> Start:
    return Start(PHONE / name, f"./{name}", PHONE, environment)


def sentence(root: Path, begin: Start, **options: int) -> str:
    refused = checker(root, **options).check(begin)
    return "" if refused is None else refused.text.replace('CANNOT LINK EXECUTABLE "./prog": ', "")


@pytest.fixture
def copy(tree: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tree, tmp_path / "copy"))


def test_a_complete_program(tree: Path) -> None:
    assert sentence(tree, start(LD_LIBRARY_PATH=str(PHONE))) == ""
    assert sentence(tree, start(LD_LIBRARY_PATH="/none:.")) == ""
    # An empty entry is the working directory.
    assert sentence(tree, start(LD_LIBRARY_PATH="")) == ""
    assert sentence(tree, start("plain")) == sentence(tree, start("origin")) == ""


def test_nothing_is_found_without_a_path(tree: Path) -> None:
    assert sentence(tree, start()) == 'library "liba.so" not found: needed by main executable'


def test_a_library_two_levels_down(copy: Path) -> None:
    (copy / PHONE.relative_to("/") / "libb.so").unlink()
    expected = f'library "libb.so" not found: needed by {PHONE}/liba.so in namespace (default)'
    assert sentence(copy, start(LD_LIBRARY_PATH=".")) == expected


def test_a_missing_symbol(copy: Path) -> None:
    folder = copy / PHONE.relative_to("/")
    shutil.copy(folder / "liba.so", folder / "libb.so")
    expected = f'cannot locate symbol "b" referenced by "{PHONE}/liba.so"...'
    assert sentence(copy, start(LD_LIBRARY_PATH=".")) == expected
    # What is preloaded defines symbols too.
    shutil.copy(folder / "libb.so", folder / "extra.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "extra.so", "libb.so.c"], cwd=folder, check=True)
    assert sentence(copy, start(LD_LIBRARY_PATH=".", LD_PRELOAD="./extra.so")) == ""


def test_a_library_of_another_processor(copy: Path) -> None:
    library = copy / PHONE.relative_to("/") / "libb.so"
    data = bytearray(library.read_bytes())
    data[18:20] = OTHER[1].to_bytes(2, "little")
    library.write_bytes(data)
    expected = f"is for {OTHER[0]} ({OTHER[1]}) instead of"
    assert expected in sentence(copy, start(LD_LIBRARY_PATH="."))
    data[4] = 1
    library.write_bytes(data)
    assert sentence(copy, start(LD_LIBRARY_PATH=".")) == f'"{PHONE}/libb.so" is 32-bit instead of 64-bit'
    library.write_text("no library at all, but long enough to be looked at as one: 64 bytes")
    assert "has bad ELF magic: 6e6f206c" in sentence(copy, start(LD_LIBRARY_PATH="."))


def test_page_sizes_count_since_android_15(tree: Path) -> None:
    begin = start(LD_LIBRARY_PATH=".")
    facts = ObjectCache(NUMBER).load(tree / PHONE.relative_to("/") / "liba.so")
    assert isinstance(facts, ElfObject)
    if facts.alignment >= 16384:
        pytest.skip("this compiler aligns for large pages")
    assert sentence(tree, begin, api_level=34, page_size=16384) == ""
    expected = f'"{PHONE}/liba.so" program alignment ({facts.alignment}) cannot be smaller than'
    assert sentence(tree, begin, api_level=35, page_size=16384).startswith(expected)


def test_a_changed_file_is_read_again(copy: Path) -> None:
    library = copy / PHONE.relative_to("/") / "libb.so"
    check = checker(copy)
    assert check.check(start(LD_LIBRARY_PATH=".")) is None
    library.write_bytes(b"short")
    refused = check.check(start(LD_LIBRARY_PATH="."))
    assert refused is not None and "only found 5 bytes" in refused.text


def test_a_push_that_changes_neither_size_nor_time_is_seen(copy: Path) -> None:
    """adb push writes into the same file and sets its time, in whole seconds."""
    library = copy / PHONE.relative_to("/") / "libb.so"
    check = checker(copy)
    assert check.check(start(LD_LIBRARY_PATH=".")) is None
    status = library.stat()
    data = bytearray(library.read_bytes())
    data[4] = 1
    time.sleep(0.02)  # A tick of the clock that stamps files.
    library.write_bytes(data)
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns))
    refused = check.check(start(LD_LIBRARY_PATH="."))
    assert refused is not None and "is 32-bit instead of 64-bit" in refused.text


def test_broken_libraries_are_left_to_the_loader(copy: Path) -> None:
    library = copy / PHONE.relative_to("/") / "libb.so"
    data = library.read_bytes()
    library.write_bytes(data[:1000] + os.urandom(len(data) - 1000))
    checker(copy).check(start(LD_LIBRARY_PATH="."))
