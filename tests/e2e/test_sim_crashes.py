"""Crashes on the virtual phone: every switch of the example engine, and whether the numbers are true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import adbutils
import pytest

from devkit import sim
from devkit.sim import Phone

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
ENGINE = Path(__file__).parents[2] / "examples/mini-engine"
DEVICE_DIR = "/data/local/tmp/motor"
FRAME = re.compile(
    r"      #(\d\d+) pc ([0-9a-f]{16})  (\S+)(?: \((.+)\+(\d+)\))?(?: \(BuildId: ([0-9a-f]+)\))?"
)
PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static int deeper(int n) {
    char window[4096];
    memset(window, n, sizeof window);
    return deeper(n + 1) + window[n & 7];
}
// A debugger that hands every signal on.
static int trace(int pid) {
    int status;
    if (ptrace(PTRACE_SEIZE, pid, 0, 0)) return 1;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, pid, 0, (long)WSTOPSIG(status));
    return 0;
}
static void *wait_long(void *unused) { pause(); return unused; }
static void *fall(void *unused) { *(volatile int *)16 = 1; return unused; }
static void on_signal(int number) { abort(); }
int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (!strcmp(kind, "recursion")) return deeper(1);
    if (!strcmp(kind, "call")) { void (*volatile f)(void) = 0; f(); }
    if (!strcmp(kind, "divide")) { volatile int zero = 0; return 5 / zero; }
    if (!strcmp(kind, "trap")) __builtin_trap();
    if (!strcmp(kind, "free")) { char *volatile p = malloc(10); free(p); free(p); }
    if (!strcmp(kind, "handler")) { signal(SIGUSR1, on_signal); raise(SIGUSR1); }
    if (!strcmp(kind, "own")) { signal(SIGSEGV, SIG_DFL); *(volatile int *)0 = 1; }
    if (!strcmp(kind, "thread")) {
        pthread_create(&thread, 0, wait_long, 0);
        pthread_setname_np(thread, "waiter");
        usleep(50000);
        pthread_create(&thread, 0, fall, 0);
        pthread_join(thread, 0);
    }
    if (!strcmp(kind, "wait")) { puts("ready"); fflush(stdout); pause(); }
    if (!strcmp(kind, "trace")) return trace(atoi(argv[2]));
    if (!strcmp(kind, "many")) for (int i = 0; i < 8; i++) pthread_create(&thread, 0, fall, 0);
    sleep(5);
    return 0;
}
"""


@dataclass(frozen=True)
class Frame:
    pc: int
    file: str
    function: str
    offset: int
    build_id: str


class Device:
    def __init__(self, phone: Phone) -> None:
        self.base = [str(ADB), "-P", str(phone.record.adb_port), "-s", phone.record.serial]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.base, "shell", command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )

    def __call__(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def push(self, *paths: Path, to: str = DEVICE_DIR) -> None:
        self(f"mkdir -p {to}")
        words = [*self.base, "push", *map(str, paths), to + "/"]
        subprocess.run(words, capture_output=True, check=True)

    def crash(self, command: str) -> tuple[subprocess.CompletedProcess[str], str]:
        """Run a program that crashes; its end, and the crash buffer after it, without the heads."""
        self("logcat -b all -c")
        done = self.run(command)
        return done, self("logcat -d -b crash -v raw")


def frames_of(text: str) -> list[Frame]:
    found = [FRAME.fullmatch(line) for line in text.splitlines()]
    frames = [match.groups() for match in found if match]
    assert [int(number) for number, *_ in frames] == list(range(len(frames)))
    return [
        Frame(int(pc, 16), file, name or "", int(n or 0), bid or "") for _, pc, file, name, n, bid in frames
    ]


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


def place_of(path: Path, pc: int) -> tuple[str, str, int]:
    """Function, file and line of an address, by binutils."""
    words = ["addr2line", "-C", "-f", "-e", str(path), hex(pc)]
    function, place = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[
        :2
    ]
    file, _, line = re.sub(r" \(discriminator \d+\)$", "", place).rpartition(":")
    return function, Path(file).name, int(line)


def line_of(source: Path, text: str) -> int:
    lines = source.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 崩溃"))
        with sim.start_phone(
            "crashes", adb=ADB, lifeline=True, su=True, memory_limit_bytes=300 << 20
        ) as started:
            yield started
            log = (started.record.state_dir / "adbd.log").read_text()
    assert "Traceback" not in log and "late import" not in log, log


@pytest.fixture
def device(phone: Phone) -> Device:
    return Device(phone)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, phone: Phone) -> Path:
    """The example engine, built with symbols and with its log, on the phone."""
    folder = tmp_path_factory.mktemp("bau 构建") / "build"
    options = ["-DMNN_BUILD_LLM=ON", "-DMNN_USE_LOGCAT=ON", "-DCMAKE_BUILD_TYPE=Debug", "-G", "Ninja"]
    subprocess.run(["cmake", "-S", ENGINE, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "-j2"], check=True, stdout=subprocess.DEVNULL)
    libraries = [folder / "libMNN.so", folder / "libllm.so", folder / "express/libMNN_Express.so"]
    Device(phone).push(
        folder / "llm_demo", folder / "llm_bench", *libraries, *runtime(folder), ENGINE / "model"
    )
    Device(phone).push(ENGINE / "prompt.txt")
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, phone: Phone) -> Path:
    folder = tmp_path_factory.mktemp("prog 程序")
    (folder / "prog.c").write_text(PROGRAM)
    flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-w", "-pthread"]
    subprocess.run(["gcc", *flags, "prog.c", "-o", "prog"], cwd=folder, check=True)
    Device(phone).push(folder / "prog")
    return folder / "prog"


def runtime(folder: Path) -> list[Path]:
    """The C++ runtime, which a phone does not have."""
    listing = subprocess.run(["ldd", folder / "llm_demo"], capture_output=True, text=True, check=True).stdout
    words = [word for line in listing.splitlines() for word in line.split() if word.startswith("/")]
    return [Path(word) for word in words if "libstdc++" in word or "libgcc_s" in word]


RUN = f"cd {DEVICE_DIR} && LD_LIBRARY_PATH=. exec ./llm_demo model/config.json prompt.txt"

SWITCHES = {
    # switch: (exit code, signal line, further line, function, text of the source line)
    "null": (
        139,
        "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000008",
        "Cause: null pointer dereference",
        "readWeight",
        "return weights[index];",
    ),
    "overflow": (
        134,
        "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------",
        "Abort message: '*** stack smashing detected ***: terminated'",
        "crashByStackOverflow",
        None,
    ),
    "abort": (
        134,
        "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------",
        "\"the number of heads must be even\"' failed.'",
        "crashByAbort",
        "assert(heads",
    ),
    "throw": (
        134,
        "signal 6 (SIGABRT), code -6 (SI_TKILL)",
        "",
        "crashByException",
        "throw std::out_of_range",
    ),
    "use-after-free": (139, "signal 11 (SIGSEGV), code ", "", "crashByUseAfterFree", "return stale->run(7);"),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_leaves_a_tombstone_with_true_numbers(device: Device, engine: Path, switch: str) -> None:
    code, signal_line, further, function, source_text = SWITCHES[switch]
    done, text = device.crash(RUN.replace("exec", f"MINI_ENGINE_CRASH={switch} exec"))
    assert done.returncode == code
    assert signal_line in text and further in text, text
    frames = frames_of(text)
    own = [frame for frame in frames if frame.file.endswith("/libMNN.so")]
    assert function in own[0].function
    unstripped = {
        path.name: path for path in engine.rglob("*") if path.name in ("llm_demo",) or path.suffix == ".so"
    }
    for frame in frames:
        local = unstripped.get(Path(frame.file).name)
        if local is None or not frame.build_id:
            continue
        assert frame.build_id == build_id(local)
        if frame.function and frame.function != "_start":
            assert place_of(local, frame.pc)[0].split("(")[0] in frame.function.replace(
                "(anonymous namespace)::", ""
            )
    if source_text is not None:
        source = ENGINE / "source/core/Crash.cpp"
        place = place_of(unstripped["libMNN.so"], own[0].pc)
        assert place[1:] == ("Crash.cpp", line_of(source, source_text)), place
    if switch != "overflow":
        # Through three libraries down to main, and its line there.
        names = [frame.function for frame in frames]
        for part in ("Session::run()", "StaticModule::onForward", "Llm::generate", "answerFile", "main"):
            assert any(part in name for name in names), (part, names)
        main = next(frame for frame in frames if frame.function == "main")
        demo = ENGINE / "transformers/llm/engine/demo/llm_demo.cpp"
        expected = line_of(demo, "return answerFile(llm.get()")
        assert place_of(unstripped["llm_demo"], main.pc)[1:] == ("llm_demo.cpp", expected)


def test_a_stripped_program_is_unwound_all_the_same(device: Device, engine: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libMNN.so"
    subprocess.run(["strip", "--strip-all", "-o", stripped, engine / "libMNN.so"], check=True)
    device.push(stripped)
    try:
        _, text = device.crash(RUN.replace("exec", "MINI_ENGINE_CRASH=null exec"))
    finally:
        device.push(engine / "libMNN.so")
    frames = frames_of(text)
    assert frames[0].function == "" and frames[0].build_id == build_id(engine / "libMNN.so")
    source = ENGINE / "source/core/Crash.cpp"
    expected = ("Crash.cpp", line_of(source, "return weights[index];"))
    assert place_of(engine / "libMNN.so", frames[0].pc)[1:] == expected
    assert any("MNN::Transformer::Llm::response" in frame.function for frame in frames)


def test_the_log_tells_the_whole_story(device: Device, engine: Path) -> None:
    device.crash(RUN.replace("exec", "MINI_ENGINE_CRASH=null exec"))
    lines = device("logcat -d").splitlines()
    fatal = next(line for line in lines if " F libc    : " in line)
    found = re.search(r"in tid (\d+) \(llm_demo\), pid (\d+) \(llm_demo\)$", fatal)
    assert found and fatal.split()[2:4] == [found[2], found[1]]
    pid = found[2]
    dumper = next(line for line in lines if " crash_dump64: performing dump" in line)
    assert dumper.endswith(f"performing dump of process {pid} (target tid = {pid})")
    assert any(
        line.endswith("obtaining output fd from tombstoned, type: kDebuggerdTombstoneProto") for line in lines
    )
    assert any(line.endswith(f"I tombstoned: received crash request for pid {pid}") for line in lines)
    debug = [line for line in lines if " F DEBUG   : " in line]
    assert {line.split()[2] for line in debug} == {dumper.split()[2]}
    assert debug[0].endswith("*** *** ***")
    written = next(line for line in lines if "Tombstone written to: " in line)
    assert " E tombstoned: " in written
    # What the engine prints goes to the log as MNN's does on Android.
    assert any("I MNNJNI  : " in line and "cost time" in line for line in lines)
    assert f"pid: {pid}, tid: {pid}, name: llm_demo  >>> ./llm_demo <<<" in debug[7]


def test_tombstones_are_for_root_only(device: Device, engine: Path) -> None:
    _, text = device.crash(RUN.replace("exec", "MINI_ENGINE_CRASH=abort exec"))
    name = device("logcat -d -v raw -s tombstoned:E | tail -n 1").split()[-1]
    assert re.fullmatch(r"tombstone_\d\d", name)
    refused = device.run(f"cat /data/tombstones/{name}")
    assert refused.returncode != 0 and "ermission denied" in refused.stderr
    file = device(f"su -c 'cat /data/tombstones/{name}'")
    for line in text.splitlines():
        assert line.startswith("Fatal signal") or line == "--------- beginning of crash" or line in file
    for part in ("memory near rsp", "memory map (", "open files:", "--------- tail end of log main"):
        assert part in file, part
    assert f"{DEVICE_DIR}/libMNN.so (BuildId: {build_id(engine / 'libMNN.so')})" in file
    assert "    fd 1: " in file and "--- --- ---" in file and "MNNJNI" in file


CASES = {
    "recursion": (139, "SIGSEGV", "stack overflow", "deeper"),
    "call": (139, "SIGSEGV", "null pointer dereference", "main"),
    "divide": (136, "SIGFPE), code 1 (FPE_INTDIV)", "", "main"),
    "trap": (132, "SIGILL", "", "main"),
    "free": (134, "SIGABRT", "Abort message: 'free(): double free detected in tcache 2'", "main"),
    "handler": (134, "SIGABRT", "", "on_signal"),
    "thread": (139, "SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000010", "", "fall"),
}


@pytest.mark.parametrize("case", CASES)
def test_other_ways_to_die(device: Device, program: Path, case: str) -> None:
    code, signal, further, function = CASES[case]
    done, text = device.crash(f"exec {DEVICE_DIR}/prog {case}")
    assert done.returncode == code
    assert signal in text and further in text, text
    frames = [frame for frame in frames_of(text) if frame.file.endswith("/prog")]
    assert frames[0].function == function
    assert place_of(program, frames[0].pc)[:2] == (function, "prog.c")
    if case == "recursion":
        assert len(frames) > 200
    elif case == "handler":
        # Through the frame that the kernel has made for the signal.
        assert [frame.function for frame in frames][:2] == ["on_signal", "main"]
    elif case == "thread":
        assert "name: prog  >>> " in text
        path = device("logcat -d -v raw -s tombstoned:E | tail -n 1").split()[-1]
        file = device(f"su -c 'cat /data/tombstones/{path}'")
        waiting = file[file.index("name: waiter") :]
        assert "wait_long" in waiting.split("--- --- ---")[0]


def test_a_program_may_decide_for_itself(device: Device, program: Path) -> None:
    done, text = device.crash(f"exec {DEVICE_DIR}/prog own")
    assert done.returncode == 139 and text == ""


def test_a_signal_from_outside_names_its_sender(device: Device, program: Path) -> None:
    _, text = device.crash(f"{DEVICE_DIR}/prog wait >/dev/null & sleep 0.3; kill -SEGV $!; wait $!; true")
    assert re.search(
        r"signal 11 \(SIGSEGV\), code 0 \(SI_USER from pid \d+, uid \d+\), fault addr -----", text
    ), text


def test_threads_that_crash_together_leave_one_tombstone(device: Device, program: Path) -> None:
    done, text = device.crash(f"exec {DEVICE_DIR}/prog many")
    assert done.returncode == 139
    assert text.count("*** *** ***\n") == 1 and text.count("Fatal signal") == 1


def test_many_processes_that_crash_at_once(device: Device, program: Path) -> None:
    count = 6
    command = f"for i in {' '.join('x' * count)}; do {DEVICE_DIR}/prog call & done; wait; true"
    _, text = device.crash(command)
    assert text.count("Fatal signal") == count and text.count(">>> ") == count
    names = device("logcat -d -v raw -s tombstoned:E").splitlines()
    assert len({line for line in names if line.startswith("Tombstone written")}) == count


def test_a_traced_program_is_not_dumped_and_refuses_a_second_tracer(device: Device, program: Path) -> None:
    prog = f"{DEVICE_DIR}/prog"
    script = (
        f"{prog} wait >/dev/null & victim=$!; sleep 0.2; {prog} trace $victim & tracer=$!; sleep 0.2; "
        f"{prog} trace $victim; echo second $?; kill -SEGV $victim; wait $victim; echo ended $?; echo $tracer"
    )
    done, text = device.crash(script)
    second, ended, tracer = done.stdout.splitlines()
    assert (second, ended) == ("second 1", "ended 139")
    assert "Fatal signal 11" in text and "backtrace" not in text
    said = device("logcat -d -v raw -s crash_dump64").splitlines()[-1]
    assert re.fullmatch(rf"failed to attach to thread \d+, already traced by {tracer} \(prog\)", said), said


def test_attaching_can_be_forbidden(device: Device, program: Path) -> None:
    import lldb_for_pwndbg

    device.push(Path(lldb_for_pwndbg.__file__).parent / "_vendor/bin/lldb-server")
    device("setprop debug.devkit.ptrace_scope 1")
    try:
        waiting = f"{DEVICE_DIR}/prog wait >/dev/null & "
        attach = f"{DEVICE_DIR}/lldb-server gdbserver unix-abstract://devkit-forbidden --attach $!"
        refused = device.run(f"{waiting}sleep 0.2; {attach}; code=$?; kill $!; exit $code")
        assert refused.returncode != 0
        assert "not permitted" in (refused.stdout + refused.stderr).lower(), refused
    finally:
        device("setprop debug.devkit.ptrace_scope 0")


def test_the_memory_limit_kills_the_biggest(device: Device, engine: Path) -> None:
    done, text = device.crash(RUN.replace("exec", "MINI_ENGINE_CRASH=oom exec"))
    assert done.returncode == 137 and text == ""
    lines = device("logcat -d -v brief -s lowmemorykiller").splitlines()
    assert re.match(
        r"I/lowmemorykiller\( *\d+\): Kill 'llm_demo' \(\d+\), uid 2000, oom_score_adj -1000 to free ",
        lines[1],
    )
    assert "Out of memory: Killed process" in device("logcat -d -b kernel")


def test_a_deadlock_can_be_looked_at_and_ended(device: Device, engine: Path) -> None:
    done = device.run(RUN.replace("exec", "MINI_ENGINE_CRASH=deadlock exec timeout 1"))
    assert done.returncode == 124


def test_llm_bench_runs(device: Device, engine: Path) -> None:
    options = "-m model/config.json -t 1 -p 8 -n 4 -rep 2 -j b.json"
    text = device(f"cd {DEVICE_DIR} && LD_LIBRARY_PATH=. ./llm_bench {options}")
    head, rule, prefill, decode = text.splitlines()[:4]
    columns = (
        "| model                          |  modelSize | backend    | threads | precision  | test          |"
    )
    assert head == columns + "        t/s |"
    lines = (
        "| ------------------------------ | ---------: | ---------- | ----: | ---------- | ------------- |"
    )
    assert rule == lines + " ---------: |"
    row = r"\| model {26}\|   0\.\d\d MiB \| CPU {8}\|     1 \| Low {8}\| "
    assert re.match(row + r"pp8 {11}\| +\d+\.\d\d ± \d+\.\d\d \|$", prefill), prefill
    assert re.match(row + r"tg4 {11}\| +\d+\.\d\d ± \d+\.\d\d \|$", decode), decode
    data = json.loads(device(f"cat {DEVICE_DIR}/b.json"))
    assert data["model"] == "model" and [r["type"] for r in data["results"]] == ["prefill", "decode"]


def test_devkit_symbolize_names_the_lines_of_a_stripped_program(
    device: Device, program: Path, tmp_path: Path
) -> None:
    stripped = tmp_path / "prog"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    device.push(stripped, to=f"{DEVICE_DIR}/stripped")
    done, _ = device.crash(f"cd {DEVICE_DIR}/stripped && exec ./prog thread")
    assert done.returncode == 139
    name = device("logcat -d -v raw -s tombstoned:E | tail -n 1").split()[-1]
    texts = [device(f"su -c 'cat /data/tombstones/{name}'")]
    texts += [device(f"logcat -d -b main,crash -v {layout}") for layout in ("threadtime", "long")]
    source = program.parent / "prog.c"
    line = line_of(source, "static void *fall")
    for text in texts:
        words = [sys.executable, "-m", "devkit", "symbolize", "--symbols", str(program.parent), "-", "--json"]
        ran = subprocess.run(words, input=text, capture_output=True, text=True, check=True, cwd=tmp_path)
        (crash,) = json.loads(ran.stdout)["crashes"]
        assert (crash["signal"], crash["fault_address"], crash["class"]) == (
            "SIGSEGV",
            "0x10",
            "null pointer",
        )
        own = crash["own"]
        assert (own["frame"], own["function"], own["line"]) == (0, "fall", line)
        assert [line, source.read_text().splitlines()[line - 1]] in crash["source"]["lines"]
        first = crash["stacks"][0]["frames"][0]
        assert (first["verdict"], first["build_id"]) == ("match", build_id(program))
