"""The engine room with the real cmake, ninja and compiler; and the example engine's habits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import engine, output
from devkit.engine import (
    BuildPlan,
    BuildResult,
    DeviceFacts,
    Profile,
    host_compilers,
    host_toolchain,
    plan_build,
)
from devkit.errors import BuildError, ToolMissing, UsageError
from devkit.process import is_alive
from devkit.symbols import read_elf
from tests.support.standin_ndk import TRIPLES

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "data" / "engine" / "captures"
ANSWER = "It multiplies small matrices on real threads, so that a debugger has something real to stop at."
NOOP_LIMIT_S = 3.0
RUN_LIMIT_S = 30

# ---------------------------------------------------------------------------------------------------
# The example engine


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e2e") / "引擎 engine"
    shutil.copytree(ROOT / "examples" / "mini-engine", folder, ignore=shutil.ignore_patterns("build"))
    return folder


@pytest.fixture(scope="module")
def built(source: Path) -> BuildResult:
    return engine.build(plan_for(source), jobs=2)


def plan_for(source: Path, **options: str) -> BuildPlan:
    return engine.plan_for(configuration.load(source), "host", extra_options=options)


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    """A working folder with the model where the captures had theirs, and its prompt."""
    shutil.copytree(source / "model", tmp_path / "模型 x" / "short2")
    shutil.copy(source / "prompt.txt", tmp_path / "模型 x" / "p.txt")
    return tmp_path / "模型 x"


def llm_demo(
    built: BuildResult, folder: Path, *args: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    program = next(a.path for a in engine.list_apps(built) if a.target == "llm_demo")
    return subprocess.run(
        [program, *args],
        cwd=folder,
        input=stdin,
        text=True,
        errors="replace",
        capture_output=True,
        timeout=RUN_LIMIT_S,
    )


def set_config(folder: Path, **values: object) -> None:
    file = folder / "short2" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def shape(text: str) -> list[str]:
    """Numbers are what differs between two machines and two versions."""
    return re.sub(r"-?\d+(\.\d+)?|-?nan", "N", text).splitlines()


def test_artifacts_are_read_from_the_build(built: BuildResult) -> None:
    found = {a.target: (a.kind, str(a.path.relative_to(built.build_dir))) for a in built.artifacts}
    assert found == {
        "MNN": ("shared", "libMNN.so"),
        "MNN_Express": ("shared", "express/libMNN_Express.so"),
        "llm": ("shared", "libllm.so"),
        "llm_bench": ("executable", "llm_bench"),
        "llm_demo": ("executable", "llm_demo"),
    }
    assert built.build_dir.name == f"host-{host_toolchain().abi}-debug"
    assert built.compile_commands is not None
    database = json.loads(built.compile_commands.read_bytes())
    assert {"CPUMatMul.cpp", "llm.cpp"} <= {Path(entry["file"]).name for entry in database}
    assert built.steps >= len(database)
    assert built.fresh and built.configured


def test_no_warnings(built: BuildResult) -> None:
    assert "warning:" not in built.log.read_text("utf-8")  # a compiler's; CMake says "CMake Warning"


def test_a_prompt_file_as_in_the_capture(built: BuildResult, folder: Path) -> None:
    run = llm_demo(built, folder, "short2/config.json", "p.txt")
    captured = (CAPTURES / "llm_demo_ok.txt").read_text().splitlines()
    at = captured.index("prompt file is p.txt") + 1
    captured[at] = ANSWER
    captured.insert(at + 1, "")  # the model ends its answer; the captured one was cut off
    assert shape(run.stdout) == shape("\n".join(captured))
    assert (run.returncode, run.stderr) == (0, "")
    assert "decode tokens num = 20\n" in run.stdout


@pytest.mark.parametrize("case", ["usage", "missing_config", "missing_tokenizer", "missing_weight"])
def test_failures_as_in_the_captures(built: BuildResult, folder: Path, case: str) -> None:
    set_config(folder, tokenizer_file="tokenizer.mtok")
    (folder / "short2/tokenizer.txt").rename(folder / "short2/tokenizer.mtok")
    config = {"usage": (), "missing_config": ("nowhere/config.json",)}.get(case, ("short2/config.json",))
    if case == "missing_tokenizer":
        (folder / "short2/tokenizer.mtok").unlink()
    if case == "missing_weight":
        (folder / "short2/llm.mnn.weight").unlink()
    run = llm_demo(built, folder, *config)
    expected = (CAPTURES / f"llm_demo_{case}_rc0.txt").read_text()
    program = str(built.build_dir / "llm_demo")
    assert shape(run.stdout.replace(program, "P")) == shape(expected.replace("../b_host/llm_demo", "P"))
    assert run.returncode == 0


def test_a_chat_as_in_the_capture(built: BuildResult, folder: Path) -> None:
    run = llm_demo(built, folder, "short2/config.json", stdin="Hello\n/exit\n")
    head, _, _ = (CAPTURES / "llm_demo_chat.txt").read_text().partition("A: ")
    answer = "A: Hello from a small engine with the shape of a big one.\n\nUser: "
    assert shape(run.stdout) == shape(head + answer)
    assert run.returncode == 0


def test_every_turn_of_a_chat_is_answered(built: BuildResult, folder: Path) -> None:
    run = llm_demo(built, folder, "short2/config.json", stdin="你好\n/reset\nWho are you?\n/exit\n")
    answers = [line for line in run.stdout.splitlines() if line.startswith("A: ")]
    assert answers[0] == "A: 你好，手机。"
    assert answers[1] == "A: reset done."
    assert answers[2].startswith("A: A tiny model that knows five answers by heart")


def test_a_chat_outlives_its_stdin_without_eating_a_core(built: BuildResult, folder: Path) -> None:
    program = built.build_dir / "llm_demo"
    running = subprocess.Popen(
        [program, "short2/config.json"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(1.5)
        assert running.poll() is None
        fields = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        assert cpu_s < 0.5
    finally:
        running.kill()
        running.wait()


def test_the_text_does_not_depend_on_threads_or_kernels(built: BuildResult, folder: Path) -> None:
    texts = set()
    for threads, memory in ((1, "low"), (2, "high"), (5, "low")):
        set_config(folder, thread_num=threads, memory=memory)
        run = llm_demo(built, folder, "short2/config.json", "p.txt")
        texts.add(run.stdout.partition("prompt file is p.txt\n")[2].partition("\n")[0])
    assert texts == {ANSWER}


def test_sampling_repeats_with_its_seed(built: BuildResult, folder: Path) -> None:
    def sample(seed: int) -> str:
        set_config(folder, sampler_type="mixed", temperature=8.0, seed=seed)
        said = llm_demo(built, folder, "short2/config.json", "p.txt").stdout
        return said.partition("p.txt\n")[2].partition("\n#")[0]

    assert sample(7) == sample(7) != sample(8)


def test_max_tokens_and_prompt_file_rules(built: BuildResult, folder: Path) -> None:
    (folder / "p.txt").write_text("# not a prompt\n\nHello\r\nWho are you?\n")
    run = llm_demo(built, folder, "short2/config.json", "p.txt", "2", "no-think")
    assert "prompt file is p.txt\nHello fromA tiny\n####" in run.stdout
    assert "decode tokens num = 4\n" in run.stdout


def test_a_damaged_model_is_an_init_error(built: BuildResult, folder: Path) -> None:
    os.truncate(folder / "short2/llm.mnn.weight", 1000)
    run = llm_demo(built, folder, "short2/config.json", "p.txt")
    assert "LLM init error" in run.stdout
    assert run.returncode == 0


def test_nothing_to_do_is_quick(source: Path, built: BuildResult) -> None:
    started = time.monotonic()
    again = engine.build(plan_for(source))
    assert time.monotonic() - started < NOOP_LIMIT_S
    assert (again.configured, again.fresh, again.steps) == (False, False, 0)
    assert again.artifacts == built.artifacts
    assert engine.last_build(plan_for(source)).artifacts == built.artifacts


@pytest.mark.slow
def test_an_option_comes_and_goes(source: Path, built: BuildResult, folder: Path) -> None:
    """Runs after the tests of the plain build: both use one build folder."""
    with_cl = engine.build(plan_for(source, MNN_OPENCL="ON"), jobs=2)
    assert (with_cl.configured, with_cl.fresh) == (True, False)
    assert "libMNN_CL.so" in {a.name for a in with_cl.artifacts}
    set_config(folder, backend_type="opencl")
    run = llm_demo(with_cl, folder, "short2/config.json", "p.txt")
    assert (
        "OpenCL: this example engine has no device code\nCan't Find type=3 backend, use 0 instead\n"
        in run.stdout
    )
    assert ANSWER in run.stdout
    without = engine.build(plan_for(source), jobs=2)
    assert without.configured
    assert "libMNN_CL.so" not in {a.name for a in without.artifacts}
    assert "MNN_OPENCL:BOOL=OFF" in (without.build_dir / "CMakeCache.txt").read_text()


def test_the_demo_breakpoint_has_its_marker(source: Path) -> None:
    lines = (source / "source/backend/cpu/CPUMatMul.cpp").read_text().splitlines()
    marked = [number for number, line in enumerate(lines) if "// devkit demo: breakpoint" in line]
    assert len(marked) == 1
    before = "\n".join(lines[: marked[0]])
    assert before.rindex("CPUMatMul::onExecute") < before.rindex("const int threads")


@pytest.mark.slow
@pytest.mark.slow
def test_release_and_one_library(source: Path, folder: Path) -> None:
    config = configuration.load(source, flags={"build.type": ("--type", "release")})
    plan = engine.plan_for(
        config, "host", extra_options={"MNN_SEP_BUILD": "OFF", "MNN_BUILD_BENCHMARK": "ON"}
    )
    assert plan.build_dir.name.endswith("-release")
    result = engine.build(plan, jobs=2)
    assert {a.name for a in result.artifacts} == {"libMNN.so", "llm_bench", "llm_demo", "benchmark.out"}
    library = next(a.path for a in result.artifacts if a.name == "libMNN.so")
    assert not read_elf(library).has_debug_info  # the trap: Release links with -s
    assert ANSWER in llm_demo(result, folder, "short2/config.json", "p.txt").stdout


# ---------------------------------------------------------------------------------------------------
# Builds that change, fail or are broken off, on a project of one file

PROJECT = """cmake_minimum_required(VERSION 3.21)
project(tiny LANGUAGES C CXX)
option(TINY_FAST "" OFF)
add_executable(tiny main.cpp)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "小 tiny"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "main.cpp").write_text("int main() {\n  return 0;\n}\n")
    return folder


@pytest.fixture
def notes(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    output.install(output.Output())
    return lambda: capsys.readouterr().err


def tiny_plan(folder: Path, environ: dict[str, str] | None = None, **options: str) -> BuildPlan:
    return plan_build(
        folder, Profile("host", target="host"), host_toolchain(environ), "debug", extra_options=options
    )


def wrapped_compilers(folder: Path) -> dict[str, str]:
    folder.mkdir()
    environ = {"PATH": os.environ["PATH"]}
    for variable, name, real in (("CC", "my-gcc", "cc"), ("CXX", "my-g++", "c++")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shutil.which(real)} "$@"\n')
        script.chmod(0o755)
        environ[variable] = str(script).replace(" ", "\\ ")
    return environ


def test_another_toolchain_starts_with_an_empty_folder(
    tiny: Path, tmp_path: Path, notes: Callable[[], str]
) -> None:
    first = engine.build(tiny_plan(tiny, TINY_FAST="ON"))
    (first.build_dir / "left over").touch()
    notes()
    second = engine.build(tiny_plan(tiny, wrapped_compilers(tmp_path / "编译 cc"), TINY_FAST="ON"))
    said = notes()
    assert "starting with an empty build folder" in said and "my-g++" in said
    assert second.build_dir == first.build_dir and second.fresh
    assert not (second.build_dir / "left over").exists()
    # The options survive, which they do not when CMake drops its cache by itself.
    assert "TINY_FAST:BOOL=ON" in (second.build_dir / "CMakeCache.txt").read_text()


def test_a_compile_error_is_shown_with_its_place_and_the_build_goes_on_after(tiny: Path) -> None:
    main = tiny / "main.cpp"
    main.write_text("int main() {\n  return missing;\n}\n")
    with pytest.raises(BuildError) as caught:
        engine.build(tiny_plan(tiny))
    evidence = caught.value.evidence or ""
    assert evidence.startswith(f"{main}:2:")
    assert "missing" in evidence and "FAILED" not in evidence
    log = Path(caught.value.hints[0].removeprefix("the whole log: "))
    assert "missing" in log.read_text("utf-8")
    main.write_text("int main() { return 0; }\n")
    mended = engine.build(tiny_plan(tiny))
    assert not mended.configured and mended.steps == 2


def test_a_cmake_error_is_shown_and_configuring_is_tried_again(tiny: Path) -> None:
    (tiny / "CMakeLists.txt").write_text(PROJECT + 'message(FATAL_ERROR "no SDK here")\n')
    with pytest.raises(BuildError) as caught:
        engine.build(tiny_plan(tiny))
    assert "CMakeLists.txt:5 (message)" in (caught.value.evidence or "")
    assert "no SDK here" in (caught.value.evidence or "")
    with pytest.raises(BuildError, match="was never built"):
        engine.last_build(tiny_plan(tiny))
    (tiny / "CMakeLists.txt").write_text(PROJECT)
    assert engine.build(tiny_plan(tiny)).configured


def test_a_changed_cmakelists_needs_no_help(tiny: Path) -> None:
    engine.build(tiny_plan(tiny))
    (tiny / "CMakeLists.txt").write_text(PROJECT + "add_library(more SHARED main.cpp)\n")
    result = engine.build(tiny_plan(tiny))
    assert {a.name for a in result.artifacts} == {"tiny", "libmore.so"}


def test_clean_compiles_everything_again(tiny: Path) -> None:
    engine.build(tiny_plan(tiny))
    again = engine.build(tiny_plan(tiny), clean=True)
    assert again.fresh and again.configured and again.steps == 2


def test_a_moved_checkout_starts_over(tiny: Path, notes: Callable[[], str]) -> None:
    engine.build(tiny_plan(tiny))
    moved = tiny.rename(tiny.parent / "移 moved")
    result = engine.build(tiny_plan(moved))
    assert result.fresh and "source folder" in notes()
    assert str(moved) in result.artifacts[0].path.as_posix()


def test_targets(tiny: Path) -> None:
    (tiny / "CMakeLists.txt").write_text(
        PROJECT + "add_library(more SHARED main.cpp)\nadd_custom_target(nothing)\n"
    )
    only = engine.build(tiny_plan(tiny), targets=["more"])
    assert {a.name for a in only.artifacts} == {"libmore.so"}
    assert engine.build(tiny_plan(tiny), targets=["nothing"]).steps == 0
    with pytest.raises(UsageError) as caught:
        engine.build(tiny_plan(tiny), targets=["tinny"])
    assert caught.value.hints == ("did you mean tiny?",)
    assert "more, nothing, tiny" in (caught.value.evidence or "")


def test_a_target_without_its_file_is_no_success(tiny: Path) -> None:
    line = "add_custom_command(TARGET tiny POST_BUILD COMMAND ${CMAKE_COMMAND} -E rm $<TARGET_FILE:tiny>)\n"
    (tiny / "CMakeLists.txt").write_text(PROJECT + line)
    with pytest.raises(BuildError, match="tiny was not made"):
        engine.build(tiny_plan(tiny), targets=["tiny"])


def test_a_mistyped_option_is_told(tiny: Path, notes: Callable[[], str]) -> None:
    engine.build(tiny_plan(tiny, TINY_FATS="ON"))
    said = notes()
    assert "warning: this checkout has no option TINY_FATS" in said and "did you mean TINY_FAST?" in said
    # A profile's option that is to be off is as good as not there.
    for value in ("OFF", "ON"):
        profile = Profile("host", target="host", options={"NOT_IN_THIS_CHECKOUT": value})
        engine.build(plan_build(tiny, profile, host_toolchain(), "debug"))
        said = notes()
        assert ("warning: this checkout has no option NOT_IN_THIS_CHECKOUT" in said) == (value == "ON")


def test_make_instead_of_ninja(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = engine.find_build_tools()
    make = shutil.which("make")
    assert make is not None
    from dataclasses import replace

    tools = replace(tools, generator="Unix Makefiles", make_program=Path(make))
    profile = Profile("host", target="host")
    result = engine.build(plan_build(tiny, profile, host_toolchain(), "release", tools=tools))
    assert result.steps == 2 and result.artifacts[0].path.is_file()


def fake_ndk(folder: Path, revision: str) -> Path:
    """An NDK whose toolchain file writes down what it was given and takes this machine's compiler."""
    triple = TRIPLES[host_toolchain().abi]
    library = folder / f"toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/{triple}/libc++_shared.so"
    toolchain = folder / "build/cmake/android.toolchain.cmake"
    for file in (library, toolchain):
        file.parent.mkdir(parents=True)
        file.touch()
    (folder / "source.properties").write_text(f"Pkg.Revision = {revision}\n")
    toolchain.write_text(
        'file(WRITE "${CMAKE_SOURCE_DIR}/seen.txt" "${ANDROID_ABI} ${ANDROID_PLATFORM} ${ANDROID_STL}\\n'
        '${CMAKE_CURRENT_LIST_FILE}\\n$ENV{ANDROID_NDK}\\n$ENV{ANDROID_NDK_ROOT}\\n$ENV{ANDROID_NDK_HOME}")\n'
    )
    return folder


def test_an_ndk_in_an_odd_path_and_then_another(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: Callable[[], str]
) -> None:
    (tiny / "devkit.yaml").write_text("engine: cmake\n")
    # This machine's compiler stands behind it: for another ABI its products would be refused.
    phone = DeviceFacts(abi=host_toolchain().abi, api_level=34)
    results = []
    for name, revision in (("Müller's $ndk 26", "26.3.11579264"), ("安卓 28", "28.2.13676358")):
        ndk = fake_ndk(tmp_path / name, revision)
        monkeypatch.setenv("ANDROID_NDK", str(ndk))
        monkeypatch.setenv("ANDROID_NDK_ROOT", str(tmp_path / "gone"))
        results.append(engine.build(engine.plan_for(configuration.load(tiny), "cpu", device=phone)))
        seen = (tiny / "seen.txt").read_text("utf-8").splitlines()
        assert seen[0] == f"{phone.abi} android-24 c++_shared"
        assert seen[1] == str(ndk / "build/cmake/android.toolchain.cmake")
        assert seen[2:] == [str(ndk)] * 3
    assert results[0].build_dir == results[1].build_dir == tiny / f"build/devkit/cpu-{phone.abi}-debug"
    assert results[1].fresh
    said = notes()
    assert "the NDK variables and settings disagree: ANDROID_NDK_ROOT (no NDK)" in said
    assert "toolchain: NDK r26d" in said and "NDK r28c" in said


def test_no_compiler_anywhere(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(host_compilers, "package_folders", lambda name: [])
    with pytest.raises(ToolMissing, match=r"no C\+\+ compiler"):
        engine.plan_for(configuration.load(tiny), "host")
    assert not (tiny / "build").exists()


def test_no_project_and_a_folder_in_the_way(tiny: Path) -> None:
    plan = tiny_plan(tiny)
    plan.build_dir.mkdir(parents=True)
    (plan.build_dir / "thesis.txt").write_text("years of work")
    for clean in (False, True):
        with pytest.raises(BuildError, match="is in the way"):
            engine.build(plan, clean=clean)
    assert (plan.build_dir / "thesis.txt").exists()
    (tiny / "CMakeLists.txt").unlink()
    with pytest.raises(BuildError, match=r"holds no CMakeLists\.txt"):
        engine.build(plan)


def test_ctrl_c_ends_everything_and_the_next_build_goes_on(tiny: Path) -> None:
    slow = (
        'add_custom_command(OUTPUT slow.txt COMMAND sh -c "echo $$$$ > \\"${CMAKE_SOURCE_DIR}/pid\\"; '
        'test -e \\"${CMAKE_SOURCE_DIR}/fast\\" || sleep 60; touch slow.txt" VERBATIM)\n'
        "add_custom_target(slow ALL DEPENDS slow.txt)\n"
    )
    (tiny / "CMakeLists.txt").write_text(PROJECT + slow)
    running = subprocess.Popen(
        [sys.executable, "-m", "devkit", "build", "host"], cwd=tiny, stderr=subprocess.PIPE, text=True
    )
    pid_file = tiny / "pid"
    deadline = time.monotonic() + RUN_LIMIT_S
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < deadline:
        assert running.poll() is None, running.stderr and running.stderr.read()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=RUN_LIMIT_S)
    assert running.returncode == 130
    assert "Traceback" not in stderr and "the next `devkit build host` goes on from here" in stderr
    child = Path(f"/proc/{int(pid_file.read_text())}")
    assert not child.exists() or " Z " in (child / "stat").read_text()
    (tiny / "fast").touch()
    result = engine.build(engine.plan_for(configuration.load(tiny), "host"))
    assert not result.fresh and (result.build_dir / "slow.txt").exists()


LIBRARY = "add_library(part SHARED part.cpp)\ntarget_link_libraries(tiny part)\n"


@pytest.mark.parametrize("name", ['a"b', "a;b", "a|b", "a,b", "a:b", "a$(x)b"])
def test_folders_that_cannot_be_built_in(tmp_path: Path, name: str) -> None:
    """Without the refusal the tools fail, each in its own words: the table is about these very tools."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT + LIBRARY)
    (folder / "main.cpp").write_text("int part();\nint main() { return part(); }\n")
    (folder / "part.cpp").write_text("int part() { return 0; }\n")
    plan = tiny_plan(folder)
    with pytest.raises(BuildError, match="in its path, with which") as caught:
        engine.build(plan)
    assert repr(str(folder)) in caught.value.hints[0] and not (folder / "build").exists()
    shown = subprocess.run(
        [sys.executable, "-m", "devkit", "build", "host", "--dry-run"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 125 and "in its path, with which" in shown.stderr and not shown.stdout
    works = (
        subprocess.run(plan.configure, capture_output=True, check=False).returncode == 0
        and subprocess.run(plan.build_argv(), capture_output=True, check=False).returncode == 0
        and subprocess.run([plan.build_dir / "tiny"], capture_output=True, check=False).returncode == 0
    )
    assert not works


def test_a_folder_of_a_file_manager_is_built_in(tmp_path: Path) -> None:
    folder = tmp_path / "it's MNN (copy) #2 & 50%"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "main.cpp").write_text("int main() { return 0; }\n")
    plan = tiny_plan(folder)
    assert engine.build(plan).steps == 2
    (folder / "main.cpp").write_text("int main() { return x; }\n")
    with pytest.raises(BuildError) as caught:
        engine.build(plan)
    assert "a #, a (, a ), a ', a &" in caught.value.hints[0]


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_kill_9_leaves_no_build_behind(
    tiny: Path, generator: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next build begins when the killed one has really ended, not beside it."""
    if generator != "Ninja":
        folder = tmp_path / "make only"
        folder.mkdir()
        for name in ("cmake", "make", "c++", "cc", "sh", "ld", "as", "ar", "ranlib", "nm", "touch", "sleep"):
            found = shutil.which(name)
            assert found, name
            (folder / name).symlink_to(found)
        monkeypatch.setenv("PATH", str(folder))
    (tiny / "slow.sh").write_text(
        "echo $$ >> pids\n"
        '[ -e fast ] && { echo start >> log; echo end >> log; touch "$1"; exit; }\n'
        # It takes its time to go (each make above it asks once more).
        "trap 'trap : TERM; sleep 1; echo end >> log; exit 1' TERM\n"
        # The shell says of its sleep that it was terminated, and nobody reads that any more.
        "echo start >> log; exec 2> /dev/null\n"
        "while :; do sleep 0.1; done\n"
    )
    slow = (
        "foreach(name one two)\n"
        "  add_custom_command(OUTPUT ${name}.txt COMMAND sh slow.sh ${CMAKE_BINARY_DIR}/${name}.txt\n"
        "    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)\n"
        "endforeach()\nadd_custom_target(slow ALL DEPENDS one.txt two.txt)\n"
    )
    (tiny / "CMakeLists.txt").write_text(PROJECT + slow)
    command = [sys.executable, "-m", "devkit", "build", "host", "-j2"]
    running = subprocess.Popen(command, cwd=tiny, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log, pids = tiny / "log", tiny / "pids"
    deadline = time.monotonic() + RUN_LIMIT_S
    while not (log.exists() and log.read_text().split() == ["start"] * 2) and time.monotonic() < deadline:
        assert running.poll() is None, running.stderr and running.stderr.read()
        time.sleep(0.05)
    running.kill()
    running.wait()
    (tiny / "fast").touch()
    again = subprocess.run(command, cwd=tiny, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stderr
    said = log.read_text().split()
    assert said[:4] == ["start", "start", "end", "end"]
    assert sorted(said[4:]) == ["end", "end", "start", "start"]
    assert [pid for pid in pids.read_text().split() if is_alive(int(pid))] == []


def test_two_devkits_share_a_folder(tiny: Path) -> None:
    command = [sys.executable, "-m", "devkit", "build", "host"]
    both = [
        subprocess.Popen(command, cwd=tiny, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert engine.build(engine.plan_for(configuration.load(tiny), "host")).steps == 0
