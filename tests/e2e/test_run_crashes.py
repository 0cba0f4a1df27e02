"""Crashes of programs that devkit runs, in lines of source: real signals and sanitizers, stripped files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli, Sim, eventually

SOURCE = REPO / "tests/data/tiny/faults.cpp"
LINES = {
    mark: number
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1)
    for mark in re.findall(r"// ([A-Z]+)$", line)
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program `plain` and, as `checked`, with AddressSanitizer."""
    folder = tmp_path_factory.mktemp("错 faults")
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    for name, flags in (("plain", []), ("checked", ["-fsanitize=address", "-shared-libasan"])):
        if "g++" in compiler:
            flags = [flag for flag in flags if flag != "-shared-libasan"]
        command = [compiler, "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", *flags]
        subprocess.run([*command, SOURCE, "-o", folder / name], check=True)
    return folder


def part(crash: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [part for part in crash["parts"] if part["part"] == name]
    assert isinstance(found, dict)
    return found


def test_a_signal(sim: Sim, devkit: Cli, faults: Path, device: Device) -> None:
    ran = devkit("run", faults / "plain", "--", "null")
    assert ran.code == 139 and ran.out == ""
    assert f"read_weight(int const*, int) at {SOURCE}:{LINES['READ']}" in ran.err
    assert f"> {LINES['READ']} |   return weights[index];" in ran.err
    assert "a null pointer was used: 0x8" in ran.err and "devkit debug plain -b read_weight" in ran.err
    assert ran.err.count("SIGSEGV (SEGV_MAPERR)") == 1
    sizes = device.shell(["stat", "-c", "%s", "/data/local/tmp/devkit/plain/plain"]).text
    assert int(sizes) < (faults / "plain").stat().st_size / 2  # what is there has no lines

    [crash] = devkit("run", faults / "plain", "--json", "--", "null").data["crashes"]
    assert (crash["own"]["function"], crash["own"]["line"]) == ("read_weight(int const*, int)", LINES["READ"])
    assert crash["stacks"][0]["frames"][0]["verdict"] == "match"


def test_last_words_are_part_of_it(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit("run", faults / "plain", "--json", "--", "throw")
    [crash] = ran.data["crashes"]
    assert ran.code == 134 and crash["class"] == "uncaught C++ exception"
    assert "std::out_of_range" in crash["abort_message"] and "no tensor attention.7" in crash["abort_message"]
    assert crash["own"]["line"] == LINES["THROW"]


def test_with_the_log_it_is_told_once(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit("run", faults / "plain", "--logcat", "--", "abort")
    assert ran.code == 134 and ran.err.count(f"{SOURCE}:{LINES['ABORT']}") == 2  # summary and stack
    dump, _, summary = ran.err.partition("\nSIGABRT")
    assert re.search(r" F DEBUG +backtrace:", dump) and "where:   own_handler(int)" in summary


@pytest.mark.slow
def test_a_crash_while_it_is_recorded(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit("profile", faults / "plain", "--logcat", "--", "abort")
    # It may be over before the first sample.
    assert ran.code == 134 or "holds no samples" in ran.err, ran.err
    assert "where:   own_handler(int)" in ran.err and re.search(r" F DEBUG +backtrace:", ran.err)


def test_no_crash_costs_nothing(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit("run", faults / "plain", "--json")
    assert ran.code == 0 and ran.data["crashes"] == []


def test_a_report_of_asan_in_its_parts(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit("run", faults / "checked", "--json", "--", "overflow")
    [crash] = ran.data["crashes"]
    assert ran.code == 1 and crash["what"] == "heap-buffer-overflow" and crash["access"] == "READ of size 4"
    assert "==ERROR: AddressSanitizer: heap-buffer-overflow" in ran.err  # the report itself is whole
    where = {name: part(crash, name)["line"] for name in ("access", "allocated", "thread")}
    # libstdc++ has no frame pointers: gcc's runtime steps over the function that called it.
    assert (where["access"], where["allocated"]) == (LINES["READ"], LINES["MALLOC"])
    assert where["thread"] in (LINES["THREAD"], LINES["CALL"])
    assert part(crash, "thread")["text"] == "thread T1 was started by thread T0"
    assert part(crash, "block")["text"] == "4 bytes behind the end of a block of 40 bytes"
    assert part(crash, "allocated")["text"] == "allocated by thread T0"

    ran = devkit("run", faults / "checked", "--", "free", ASAN_OPTIONS="ignored=here")
    assert ran.code == 1
    summary = ran.err[ran.err.index("\nAddressSanitizer: heap-use-after-free") :]
    assert f"where:   read_weight(int const*, int) at {SOURCE}:{LINES['READ']}" in summary
    assert f"freed:   freed by thread T0: late_use() at {SOURCE}:{LINES['FREE']}" in summary
    assert "block:   byte 4 of a block of 16 bytes, which had been freed" in summary


def test_options_of_the_runtime(sim: Sim, devkit: Cli, faults: Path) -> None:
    """devkit's own come first, those of the user win; a program without a sanitizer gets none."""
    text = devkit("run", faults / "checked", "-e", "ASAN_OPTIONS=exitcode=77", "--", "free")
    assert text.code == 77
    shown = devkit("run", faults / "checked", "--print-commands").out
    assert "ASAN_OPTIONS=abort_on_error=0" in shown and "UBSAN_OPTIONS=print_stacktrace=1" in shown
    assert "SAN_OPTIONS" not in devkit("run", faults / "plain", "--print-commands").out


def test_in_the_log_with_lines_of_what_was_built(sim: Sim, devkit: Cli, faults: Path, workdir: Path) -> None:
    built = workdir / "build/devkit/cpu-host-debug"
    built.mkdir(parents=True)
    shutil.copy(faults / "plain", built / "in_the_log")
    (workdir / "devkit.yaml").write_text("engine: cmake\n")
    assert devkit("run", built / "in_the_log", "--", "null").code == 139
    ran = devkit("logcat", "--dump", "--since", "5m")
    assert re.search(r"F DEBUG +backtrace:", ran.out)  # the log is whole
    summary = ran.err[ran.err.index("SIGSEGV (SEGV_MAPERR)") :]
    assert f"where:   read_weight(int const*, int) at {SOURCE}:{LINES['READ']}" in summary
    rows = [
        json.loads(line) for line in devkit("logcat", "--dump", "--since", "5m", "--json").out.splitlines()
    ]
    crashes = [row["crash"] for row in rows if "crash" in row]
    assert any(
        "in_the_log" in crash["process"] and crash["own"]["line"] == LINES["READ"] for crash in crashes
    )
    # What is not shown is not told: nobody asked for it.
    assert "SIGSEGV" not in devkit("logcat", "--dump", "MNNJNI:I").err


def test_under_the_debugger(sim: Sim, devkit: Cli, faults: Path) -> None:
    ran = devkit(
        "debug", faults / "checked", "--batch", "-", "--json", "--", "free", stdin="continue\ncontinue\n"
    )
    [crash] = ran.data["crashes"]
    assert crash["what"] == "heap-use-after-free" and part(crash, "freed")["line"] == LINES["FREE"]


def test_a_file_that_only_the_phone_has(
    sim: Sim, devkit: Cli, faults: Path, workdir: Path, device: Device
) -> None:
    """Asked for with --pull, kept by its build-id, and never taken for another build."""
    folder = "/data/local/tmp/nur hier/plain"
    assert devkit("deploy", faults / "plain", "--device-dir", "/data/local/tmp/nur hier").code == 0
    remote = f"{folder}/plain"
    device.push_bytes((faults / "plain").read_bytes(), remote)
    device.shell(["chmod", "755", remote], check=True)
    device.shell("logcat -c -b crash")
    assert device.shell(["env", f"LD_LIBRARY_PATH={folder}", remote, "null"]).exit_code == 139
    assert eventually(lambda: "backtrace" in device.shell("logcat -d -b crash -v threadtime").text)
    log = workdir / "log.txt"
    log.write_bytes(device.shell("logcat -d -b crash -v threadtime").stdout)
    cache = {"XDG_CACHE_HOME": str(workdir / "cache")}

    text = devkit("symbolize", log, **cache).out
    assert SOURCE.name not in text and "devkit symbolize LOG --pull" in text
    assert devkit("symbolize", log, "-s", sim.name, **cache).code == 2

    ran = devkit("symbolize", log, "--pull", "-s", f"sim:{sim.name}", "--json", **cache)
    [crash] = ran.data["crashes"]
    assert (crash["own"]["function"], crash["own"]["line"]) == ("read_weight(int const*, int)", LINES["READ"])
    assert "was fetched to" in ran.err and crash["stacks"][0]["frames"][0]["verdict"] == "match"
    again = devkit("symbolize", log, "--json", **cache).data["crashes"][0]
    assert again["own"]["line"] == LINES["READ"]  # without the phone

    device.push_bytes((faults / "checked").read_bytes(), remote)
    other = devkit("symbolize", log, "--pull", "-s", f"sim:{sim.name}", XDG_CACHE_HOME=str(workdir / "b"))
    assert "is another build by now" in other.err and SOURCE.name not in other.out
    device.shell(["rm", remote])
    gone = devkit("symbolize", log, "--pull", "-s", f"sim:{sim.name}", XDG_CACHE_HOME=str(workdir / "b"))
    assert gone.code == 0 and "was not fetched" in gone.err and "SIGSEGV" in gone.out
    no_phone = devkit("symbolize", log, "--pull", "-s", "sim:none", XDG_CACHE_HOME=str(workdir / "b"))
    assert no_phone.code == 0 and "nothing was fetched" in no_phone.err and "SIGSEGV" in no_phone.out


SWITCHES = {
    # switch: function and a part of the line that its crash names, plain and with ASan
    "null": ("readWeight", "return weights[index]", "SEGV"),
    "overflow": ("crashByStackOverflow", "", "stack-buffer-overflow"),
    "use-after-free": ("crashByUseAfterFree", "return stale->run(7)", "heap-use-after-free"),
    "abort": ("crashByAbort", "assert(heads % 2 == 0", ""),
    "throw": ("crashByException", "throw std::out_of_range", ""),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("profile", ["cpu", "asan"])
def test_every_switch_of_the_example_engine(sim: Sim, devkit: Cli, workdir: Path, profile: str) -> None:
    engine = workdir / "engine"
    shutil.copytree(REPO / "examples/mini-engine", engine)
    source = (engine / "source/core/Crash.cpp").read_text().splitlines()
    assert devkit("deploy", "llm_demo", "--profile", profile, cwd=engine, timeout=600).code == 0
    for switch, (function, line, error) in SWITCHES.items():
        how = ("--profile", profile, "--no-build", "--json", "-e", f"MINI_ENGINE_CRASH={switch}")
        ran = devkit("run", "llm_demo", *how, cwd=engine)
        [crash] = ran.data["crashes"]
        own = crash["own"]
        assert function in own["function"] and own["file"].endswith("source/core/Crash.cpp"), (switch, own)
        assert line in source[own["line"] - 1], (switch, own)
        if profile == "asan" and error:
            assert crash["kind"] == "sanitizer" and crash["what"] == error
        else:
            assert crash["kind"] == "signal"
        if switch != "overflow" or profile == "asan":  # which overwrites what leads to its callers
            assert any("llm_demo.cpp" in str(frame) for frame in crash["stacks"][0]["frames"]), switch
