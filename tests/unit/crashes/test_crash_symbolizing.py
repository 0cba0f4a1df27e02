"""Real programs, built here: their addresses come back as the file and line they were compiled from."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.crashes import Crash, SymbolFolders, as_text, own_frame, read_crashes, symbolize
from devkit.crashes.model import MATCH, MISMATCH, UNKNOWN
from devkit.errors import ToolFailed, ToolMissing, UsageError
from devkit.symbols import LineCache, Symbolizer, read_elf, symbolizer
from devkit.symbols.addresses import address_of_function, mapped_address
from devkit.symbols.elf_file import ElfFile

SOURCE = """\
#include <execinfo.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline)) static void report(void) {
    void *frames[32];
    int count = backtrace(frames, 32); /* report */
    backtrace_symbols_fd(frames, count, 1);
    dprintf(1, "addresses alone:\\n");
    for (int at = 0; at < count; at++)
        dprintf(1, "#%d %p\\n", at, frames[at]);
    sink = count;
}
static inline __attribute__((always_inline)) void inner(int x) {
    sink = x;
    report(); /* inner */
    sink = x + 1;
}
__attribute__((noinline)) void kit_step(int x) {
    sink = x;
    inner(x); /* step */
    sink = 0;
}
__attribute__((noinline, noreturn)) void kit_last(int x) {
    kit_step(x); /* last */
    exit(0);
}
int main(int argc, char **argv) {
    (void)argv;
    char text[65536];
    int maps = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(maps, text, sizeof text)) > 0;)
        write(1, text, got);
    sink = 7;
    kit_last(argc); /* main */
}
"""
LINES = {
    mark: number
    for number, line in enumerate(SOURCE.splitlines(), 1)
    for mark in re.findall(r"/\* (\w+) \*/", line)
}
STACK = [["report"], ["inner", "step"], ["last"], ["main"]]
FUNCTIONS = [["report"], ["inner", "kit_step"], ["kit_last"], ["main"]]
REPORT_LINES = len(STACK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with debug information, its stripped copy (on the `phone`), another build, and its output."""
    place = tmp_path_factory.mktemp("symbols 符号")
    for name in ("src", "built", "phone", "other"):
        (place / name).mkdir()
    source = place / "src" / "main 程序.c"
    source.write_text(SOURCE)
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler
    command = [compiler, "-g", "-O1", "-fPIE", "-pie", "-Wl,--build-id", source, "-o"]
    subprocess.run([*command, place / "built" / "prog"], check=True)
    text = source.read_text().replace("sink = 7;", "sink = 7;\n\n    sink += argc;")
    (place / "other" / "main.c").write_text(text)
    command[-2] = place / "other" / "main.c"
    subprocess.run([*command, place / "other" / "prog"], check=True)
    subprocess.run(["strip", "-o", place / "phone" / "prog", place / "built" / "prog"], check=True)
    done = subprocess.run([place / "phone" / "prog"], stdout=subprocess.PIPE, check=True)
    (place / "backtrace.txt").write_bytes(done.stdout)
    return place


def check(crash: Crash) -> None:
    frames = [frame for frame in crash.frames if (frame.module or "").endswith("prog")][:REPORT_LINES]
    assert [[loc.function for loc in frame.locations] for frame in frames] == FUNCTIONS
    for frame, marks in zip(frames, STACK, strict=True):
        assert [loc.line for loc in frame.locations] == [LINES[mark] for mark in marks]
        assert all((loc.file or "").endswith("src/main 程序.c") for loc in frame.locations)


def backtrace_of(folder: Path) -> Crash:
    return stacks_of(folder)[0]


def stacks_of(folder: Path) -> list[Crash]:
    crashes = read_crashes((folder / "backtrace.txt").read_text().splitlines()).crashes
    assert len(crashes) == 2
    return crashes


def tombstone_of(folder: Path, build_id: str | None) -> Crash:
    """What debuggerd would print of the same stack: call sites, and the build-id."""
    lines = ["pid: 7, tid: 7, name: prog  >>> ./prog <<<", "backtrace:"]
    for frame in backtrace_of(folder).frames[:REPORT_LINES]:
        assert frame.pc is not None
        known = f" (BuildId: {build_id})" if build_id else ""
        lines.append(f"      #{len(lines) - 2:02d} pc {frame.pc - 1:016x}  /data/local/tmp/a/prog{known}")
    (crash,) = read_crashes(lines).crashes
    return crash


def own_id(folder: Path) -> str:
    found = read_elf(folder / "built" / "prog").build_id
    assert found
    return found


@pytest.mark.parametrize("tool", ["llvm-symbolizer", "addr2line"])
def test_return_addresses_of_backtrace(folder: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tool == "addr2line":
        monkeypatch.setattr(symbolizer, "find_symbolizer", lambda: None)
    else:
        assert symbolizer.find_symbolizer() is not None, "install llvm"
    crash = backtrace_of(folder)
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    check(crash)
    assert {frame.verdict for frame in crash.frames[:REPORT_LINES]} == {UNKNOWN}


def test_addresses_alone_with_the_map_of_the_process(folder: Path) -> None:
    crash = stacks_of(folder)[1]
    assert {frame.origin for frame in crash.frames} == {"address"}
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    check(crash)


def test_addresses_alone_stay_what_they_are(folder: Path) -> None:
    lines = [frame.text for frame in stacks_of(folder)[1].frames]
    reading = read_crashes(lines)
    assert len(reading.crashes[0].frames) == len(lines) and "map" in as_text(reading, [], [])
    assert read_crashes(lines[:2]).crashes == []


@pytest.mark.parametrize("where", ["built", "both"])
def test_call_sites_of_a_stripped_program_by_its_build_id(folder: Path, where: str) -> None:
    crash = tombstone_of(folder, own_id(folder))
    places = [folder / "phone", folder / "other", folder / "built"] if where == "both" else [folder / "built"]
    with SymbolFolders(places) as folders:
        symbolize([crash], folders, Symbolizer())
    check(crash)
    assert {frame.verdict for frame in crash.frames} == {MATCH}
    assert {frame.local for frame in crash.frames} == {folder / "built" / "prog"}
    found = own_frame(crash)
    assert found is not None and found[1] is not None and found[1].line == LINES["report"]
    text = as_text(read_of(crash), [], [])
    assert re.search(rf"> +{LINES['report']} \|     int count = backtrace", text)


def read_of(crash: Crash) -> object:
    from devkit.crashes import Reading

    return Reading([crash])


def test_another_build_of_the_same_name_gives_no_line(folder: Path) -> None:
    crash = tombstone_of(folder, own_id(folder))
    with SymbolFolders([folder / "other"]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert {frame.verdict for frame in crash.frames} == {MISMATCH}
    assert all(not frame.locations for frame in crash.frames)


def test_two_builds_of_a_name_and_no_build_id_is_open(folder: Path) -> None:
    crash = tombstone_of(folder, None)
    with SymbolFolders([folder / "other", folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert all(not frame.locations and "2 builds of prog" in (frame.note or "") for frame in crash.frames)


def test_a_printed_function_that_is_not_there_unmasks_another_build(folder: Path) -> None:
    crash = tombstone_of(folder, None)
    line = crash.frames[0].text + " (somebody_else+4)"
    (crash,) = read_crashes(["pid: 7, tid: 7, name: p  >>> p <<<", "backtrace:", line]).crashes
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert crash.frames[0].verdict == MISMATCH and not crash.frames[0].locations


def test_a_file_for_another_processor_is_not_asked(folder: Path) -> None:
    lines = ["ABI: 'arm64'", "pid: 7, tid: 7, name: p  >>> p <<<", "backtrace:", "  #00 pc 1139  /d/prog"]
    (crash,) = read_crashes(lines).crashes
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert crash.frames[0].verdict == MISMATCH and "x86_64" in (crash.frames[0].note or "")


def test_function_and_offset_alone(folder: Path) -> None:
    """What glibc prints of exported functions, and LLDB of libraries it has no lines for."""
    start = address_of_function(folder / "built" / "prog", "kit_last")
    assert start is not None
    back = backtrace_of(folder).frames[2].pc
    assert back is not None
    lines = [f"./prog(kit_last+{back - start:#x}) [0x55550000]"]
    (crash,) = read_crashes(lines).crashes
    stop = [f"  frame #1: 0x55550000 prog`kit_last + {back - start}"]
    (bare,) = read_crashes(stop).crashes
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash, bare], folders, Symbolizer())
    for found in (crash, bare):
        assert [loc.line for loc in found.frames[0].locations] == [LINES["last"]]


@pytest.mark.parametrize("function", ["kit_last+4", "kit_last", ""])
@pytest.mark.parametrize("counted_from", ["mapping", "file"])
def test_pcs_of_android_9_and_older(folder: Path, counted_from: str, function: str) -> None:
    """`(offset 0x1000)` behind a plain library: the printed function tells which way the pc counts."""
    program = folder / "built" / "prog"
    vaddr = tombstone_of(folder, None).frames[2].pc
    assert vaddr is not None
    loads = [s for s in ElfFile(io.BytesIO(program.read_bytes())).segments if s.kind == 1]
    code = next(s for s in loads if s.address <= vaddr < s.address + s.file_size)
    offset = code.offset // 4096 * 4096
    if not offset:
        pytest.skip("this linker puts the ELF header into the code's mapping")
    distance = vaddr - code.address + code.offset - offset
    assert mapped_address(program, offset, distance) == vaddr
    pc = vaddr if counted_from == "file" else distance
    printed = f" ({function})" if function else ""
    line = f"  #00 pc {pc:08x}  /d/prog (offset {offset:#x}){printed}"
    (crash,) = read_crashes(["pid: 7, tid: 7, name: p  >>> p <<<", "backtrace:", line]).crashes
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer())
    (frame,) = crash.frames
    if function or len({loc.line for loc in frame.locations}) == 1:
        assert [loc.line for loc in frame.locations] == [LINES["last"]]
    else:
        assert "in two ways" in (frame.note or "")


def test_one_process_for_all_frames(folder: Path, tmp_path: Path) -> None:
    real = symbolizer.find_symbolizer()
    assert real is not None
    counting = tmp_path / "llvm-symbolizer"
    counting.write_text(f'#!/bin/sh\necho x >> "{tmp_path}/calls"\nexec "{real}" "$@"\n')
    counting.chmod(0o755)
    crashes = [tombstone_of(folder, own_id(folder)), backtrace_of(folder)]
    with SymbolFolders([folder / "built", folder / "phone"]) as folders:
        symbolize(crashes, folders, Symbolizer(counting))
    assert (tmp_path / "calls").read_text() == "x\n"
    check(crashes[0])


@pytest.fixture
def counted(tmp_path: Path) -> tuple[Path, Path]:
    """A symbolizer that writes a line for each call."""
    real = symbolizer.find_symbolizer()
    assert real is not None
    tool, calls = tmp_path / "llvm-symbolizer", tmp_path / "calls"
    tool.write_text(f'#!/bin/sh\necho x >> "{calls}"\nexec "{real}" "$@"\n')
    tool.chmod(0o755)
    calls.touch()
    return tool, calls


def test_the_same_crash_again_asks_nobody(
    folder: Path, tmp_path: Path, counted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tool, calls = counted
    copy = tmp_path / "built/prog"
    copy.parent.mkdir()
    shutil.copy2(folder / "built/prog", copy)

    def lines() -> None:
        crash = tombstone_of(folder, own_id(folder))
        with SymbolFolders([copy.parent]) as folders:
            symbolize([crash], folders, Symbolizer(tool, LineCache()))
        check(crash)

    lines()
    lines()
    assert calls.read_text() == "x\n"
    os.utime(copy, (1, 1))  # another file may be there now
    lines()
    assert calls.read_text() == "x\n" * 2
    [kept] = (tmp_path / "cache/devkit/lines").iterdir()
    kept.write_bytes(kept.read_bytes()[:-20])
    lines()
    assert calls.read_text() == "x\n" * 3
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("no folder")
    lines()
    assert calls.read_text() == "x\n" * 4


def test_a_stripped_file_does_not_answer_for_the_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for place in ("phone", "built"):
        crash = tombstone_of(folder, own_id(folder))
        with SymbolFolders([folder / place]) as folders:
            symbolize([crash], folders, Symbolizer(None, LineCache()))
    check(crash)


def test_a_file_that_the_tool_breaks_off_at_is_one(folder: Path, tmp_path: Path) -> None:
    real = symbolizer.find_symbolizer()
    assert real is not None
    picky = tmp_path / "llvm-symbolizer"
    picky.write_text(
        f'#!/bin/sh\ncat > "{tmp_path}/in"\ngrep -q /other/ "{tmp_path}/in" && exit 139\n'
        f'exec "{real}" "$@" < "{tmp_path}/in"\n'
    )
    picky.chmod(0o755)
    good = tombstone_of(folder, own_id(folder))
    other = read_elf(folder / "other/prog").build_id
    assert other is not None
    bad = tombstone_of(folder, other)
    tool = Symbolizer(picky)
    with SymbolFolders([folder / "built", folder / "other"]) as folders:
        symbolize([good, bad], folders, tool)
    check(good)
    assert list(tool.failed) == [folder / "other/prog"] and not any(f.locations for f in bad.frames)


def test_a_symbolizer_older_than_json(folder: Path, tmp_path: Path) -> None:
    """LLVM 12 and older (NDK r23) print pairs of lines only."""
    real = symbolizer.find_symbolizer()
    assert real is not None
    old = tmp_path / "llvm-symbolizer"
    old.write_text(
        '#!/bin/sh\ncase "$*" in *output-style=JSON*)\n'
        "  echo \"llvm-symbolizer: for the --output-style option: Cannot find option named 'JSON'!\" >&2\n"
        f'  exit 1;; esac\nexec "{real}" --output-style=LLVM "$@"\n'
    )
    old.chmod(0o755)
    crash = tombstone_of(folder, own_id(folder))
    with SymbolFolders([folder / "built"]) as folders:
        symbolize([crash], folders, Symbolizer(old))
    check(crash)


def test_a_symbolizer_that_breaks_off(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "llvm-symbolizer"
    broken.write_text("#!/bin/sh\necho sick >&2\nexit 3\n")
    broken.chmod(0o755)
    with SymbolFolders([folder / "built"]) as folders, pytest.raises(ToolFailed, match="did not answer"):
        symbolize([tombstone_of(folder, own_id(folder))], folders, Symbolizer(broken))


def test_no_tool_at_all(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with SymbolFolders([folder / "built"]) as folders, pytest.raises(ToolMissing, match="addr2line"):
        symbolize([tombstone_of(folder, own_id(folder))], folders, Symbolizer())


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        SymbolFolders([tmp_path / "nowhere"])
