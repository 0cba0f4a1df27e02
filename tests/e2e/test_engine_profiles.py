"""Every profile of MNN, on a project with MNN's options, targets and files, with the stand-in NDK."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import engine, output
from devkit.engine import BuildPlan, BuildResult, DeviceFacts, checkout
from devkit.engine.toolchain import host_abi
from devkit.errors import BuildError, ToolMissing, UsageError
from devkit.symbols import read_elf
from tests.e2e.support import REPO, Cli, Sim
from tests.e2e.terminal import Terminal
from tests.support.qnn_trees import make_sdk
from tests.support.standin_ndk import make_standin_ndk

SHAPE = REPO / "tests/data/mnn-shape"
FACTS = DeviceFacts(abi=host_abi(), api_level=35, libc="glibc")
DEVICE_PROFILES = (
    "cpu", "opencl", "vulkan", "nnapi", "qnn", "qnn-online", "qnn-profile", "hexagon", "asan", "bench",
)  # fmt: skip
TEXT_OPTIONS = ("QNN_SDK_ROOT", "MNN_QNN_CONVERT_MODE", "CMAKE_CXX_FLAGS")
HOST_PROFILES = ("qnn-tools", "host", "host-asan")


@pytest.fixture(scope="module")
def ndk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_standin_ndk(tmp_path_factory.mktemp("安卓 ndk") / "android-ndk-r27d")


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sdk(tmp_path_factory.mktemp("高通 sdk") / "qairt/2.42.0.251225")


@pytest.fixture
def source(workdir: Path, ndk: Path, sdk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = workdir / "MNN 引擎"
    shutil.copytree(SHAPE, folder)
    (folder / "devkit.yaml").write_text("engine: mnn\nbuild: {toolchain: ndk}\n")
    monkeypatch.setenv("ANDROID_NDK", str(ndk))
    monkeypatch.setenv("QNN_SDK_ROOT", str(sdk))
    for name in ("ANDROID_NDK_ROOT", "ANDROID_NDK_HOME", "QAIRT_SDK_ROOT", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def notes(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    output.install(output.Output())
    return lambda: capsys.readouterr().err


def plan_for(source: Path, profile: str, build_type: str | None = None, **options: str) -> BuildPlan:
    config = configuration.load(source, flags={"build.type": ("--type", build_type)})
    return engine.plan_for(config, profile, device=FACTS, extra_options=options)


def artifact(result: BuildResult, target: str) -> Path:
    return next(a.path for a in result.artifacts if a.target == target)


def debug_information(result: BuildResult) -> set[bool]:
    return {product.symbols for product in result.products}


# ---------------------------------------------------------------------------------------------------
# Profiles


def test_every_profile_is_tried_here() -> None:
    assert set(engine.load_profiles("mnn")) == {*DEVICE_PROFILES, *HOST_PROFILES}


@pytest.mark.parametrize("name", [*DEVICE_PROFILES, *HOST_PROFILES])
def test_a_profile_makes_what_it_promises(source: Path, name: str, notes: Callable[[], str]) -> None:
    plan = plan_for(source, name)
    result = engine.build(plan)
    made = {a.target for a in result.artifacts}
    assert set(plan.profile.products) <= made
    assert result.warnings == () and "warning" not in notes()
    assert {p.abi for p in result.products} == {host_abi()}
    # Every option arrived as the profile says, and is the checkout's own.
    cache = engine.fileapi.read_cache(result.build_dir)
    for option, value in plan.options.items():
        kind, now = cache[option]
        assert now == value and (kind == "BOOL" or option in TEXT_OPTIONS), option
    if flags := plan.profile.options.get("CMAKE_CXX_FLAGS"):
        assert result.compile_commands and flags in result.compile_commands.read_text()
    # MNN does not strip a release for the host; all other types are what they promise.
    if plan.build_type.name == "debug" or plan.profile.target == "device":
        assert debug_information(result) == {plan.build_type.symbols}


def test_the_list_and_an_explanation(devkit: Cli, source: Path, sim: Sim) -> None:
    rows = devkit("build", "--list", "--json", cwd=source).data
    assert {row["name"] for row in rows} == {*DEVICE_PROFILES, *HOST_PROFILES}
    assert all(row["about"] and set(row["why"]) == set(row["options"]) for row in rows)
    listed = devkit("build", "--list", cwd=source).out.splitlines()
    assert listed[0].split() == ["PROFILE", "FOR", "NEEDS", "WHAT", "FOR"]
    assert {line.split()[0] for line in listed[1 : 1 + len(rows)]} == {row["name"] for row in rows}
    assert [line.split()[1] for line in listed[2 + len(rows) :]] == list(configuration.BUILD_TYPES)
    explained = devkit("build", "--explain", "qnn", "--json", "-s", f"sim:{sim.name}", cwd=source).data
    planned = devkit("build", "qnn", "--dry-run", "--json", "-s", f"sim:{sim.name}", cwd=source).data
    # It is the command that a build runs, word for word, and no word is without a reason.
    words = [word for argument in explained["arguments"] for word in argument["words"]]
    assert [explained["configure"][0], *words] == explained["configure"] == planned["configure"]
    assert all(argument["why"] for argument in explained["arguments"])
    assert explained["missing"] == [] and explained["needs"] == ["ndk>=21", "qnn>=2.30"]
    assert not (source / "build").exists()


def test_the_explained_command_works_in_a_shell(devkit: Cli, source: Path) -> None:
    text = devkit("build", "--explain", "host", cwd=source).out
    command = text.split("\n\n")[1]
    assert subprocess.run(["sh", "-c", command], cwd="/", check=False, capture_output=True).returncode == 0
    assert (source / f"build/devkit/host-{host_abi()}-debug/CMakeCache.txt").is_file()


def test_an_explanation_without_any_sdk(devkit: Cli, source: Path, workdir: Path) -> None:
    nothing = {"ANDROID_NDK": "", "QNN_SDK_ROOT": "", "HOME": str(workdir), "XDG_DATA_HOME": str(workdir)}
    ran = devkit("build", "--explain", "qnn", cwd=source, **nothing)
    assert ran.code == 0
    assert "missing: no Android NDK was found" in ran.out
    assert "missing: QNN build wanted but QNN_SDK_ROOT is not set" in ran.out
    assert '"-DCMAKE_TOOLCHAIN_FILE=$ANDROID_NDK/build/cmake/android.toolchain.cmake"' in ran.out
    assert devkit("build", "qnn", cwd=source, **nothing).code == 125


def test_a_users_profiles_extend_the_built_in_ones(devkit: Cli, source: Path) -> None:
    (source / "devkit.yaml").write_text(
        "engine: mnn\nprofiles:\n"
        "  host: {options: {MNN_BUILD_TOOLS: OFF}}\n"
        "  lab: {extends: host, type: release, targets: [llm_demo], products: [llm_demo]}\n"
    )
    ran = devkit("build", "lab", "--json", cwd=source)
    assert ran.code == 0, ran.err
    assert ran.data["build_dir"].endswith(f"lab-{host_abi()}-release")
    assert {row["target"] for row in ran.data["artifacts"]} == {"MNN", "MNN_Express", "llm", "llm_demo"}
    explained = devkit("build", "--explain", "lab", "--json", cwd=source).data
    [mine] = [a for a in explained["arguments"] if a["name"] == "MNN_BUILD_TOOLS"]
    assert mine["why"] == "devkit.yaml" and explained["origin"] == "built-in + devkit.yaml"


# ---------------------------------------------------------------------------------------------------
# Build types


@pytest.mark.parametrize("kind", ["debug", "release", "profile", "relwithdebinfo"])
def test_symbols_are_there_where_the_type_promises_them(
    source: Path, kind: str, notes: Callable[[], str]
) -> None:
    result = engine.build(plan_for(source, "cpu", kind))
    assert debug_information(result) == {kind != "release"}
    assert all(product.build_id for product in result.products)
    database = json.loads((result.build_dir / "compile_commands.json").read_bytes())
    command = next(row["command"] for row in database if row["file"].endswith("CPUBackend.cpp"))
    assert ("-O" in command) == (kind != "debug")
    assert ("-fno-omit-frame-pointer" in command) == (kind == "profile")
    assert ("-DMNN_DEBUG" in command) == (kind == "debug")
    assert result.warnings == () and "warning" not in notes()


def test_stripped_products_of_a_type_with_symbols_are_said(source: Path, notes: Callable[[], str]) -> None:
    text = (source / "CMakeLists.txt").read_text()
    (source / "CMakeLists.txt").write_text(
        text.replace("include_directories(include)", "include_directories(include)\nadd_link_options(-s)")
    )
    result = engine.build(plan_for(source, "host", "relwithdebinfo"))
    assert "no debug information, which the type relwithdebinfo promises" in notes()
    assert debug_information(result) == {False}
    # What is wrong is said again, whatever there was to do.
    assert engine.build(plan_for(source, "host", "relwithdebinfo")).warnings == result.warnings


def test_a_profiles_own_type_wins_over_a_file_and_a_flag_over_both(source: Path) -> None:
    (source / "devkit.yaml").write_text("engine: mnn\nbuild: {type: debug}\n")
    assert plan_for(source, "qnn-tools").build_type.name == "release"
    assert plan_for(source, "qnn-tools", "profile").build_type.name == "profile"
    assert plan_for(source, "host").build_type.name == "debug"


# ---------------------------------------------------------------------------------------------------
# AddressSanitizer


def test_asan_finds_an_overflow_on_the_phone(devkit: Cli, sim: Sim, source: Path) -> None:
    ran = devkit("run", "llm_demo", "--profile", "asan", "--", "overflow", cwd=source, timeout=300)
    assert ran.code != 0
    assert "AddressSanitizer: heap-buffer-overflow" in ran.out + ran.err
    assert "llm_demo.cpp:10" in ran.out + ran.err
    # The runtime is the NDK's, and it travelled.
    plan = devkit("deploy", "llm_demo", "--dry-run", "--json", cwd=source).data
    assert plan  # cpu: without the runtime
    folder = sim.device().shell("ls /data/local/tmp/devkit/llm_demo").text
    assert "libclang_rt.asan-" in folder


def test_asan_on_this_machine(source: Path) -> None:
    program = artifact(engine.build(plan_for(source, "host-asan")), "llm_demo")
    done = subprocess.run([program, "overflow"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr


def test_asan_without_a_runtime_fails_before_anything_is_compiled(
    source: Path, ndk: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = workdir / "bare ndk"
    shutil.copytree(ndk, bare, ignore=shutil.ignore_patterns("libclang_rt.asan*"))
    monkeypatch.setenv("ANDROID_NDK", str(bare))
    plan = plan_for(source, "asan")
    with pytest.raises(ToolMissing, match="no AddressSanitizer runtime"):
        engine.build(plan)
    compiler = workdir / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *sanitize*) echo no such library >&2; exit 1;; esac\n'
                        f'exec {shutil.which("c++")} "$@"\n')  # fmt: skip
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler).replace(" ", "\\ "))
    monkeypatch.setenv("CC", shutil.which("cc") or "cc")
    with pytest.raises(ToolMissing, match="cannot link AddressSanitizer"):
        engine.build(plan_for(source, "host-asan"))
    assert not list(source.glob("build/devkit/*/CMakeCache.txt"))


# ---------------------------------------------------------------------------------------------------
# Options against the checkout


def test_an_option_that_is_gone_is_said_with_when_it_matters(source: Path, notes: Callable[[], str]) -> None:
    result = engine.build(plan_for(source, "host", MNN_CPU_WEIGHT_DEQUANT_GEMM="ON", MNN_OPNECL="ON"))
    said = notes()
    assert "this checkout has no option MNN_CPU_WEIGHT_DEQUANT_GEMM" in said and "before June 2026" in said
    assert "MNN_OPNECL (-D or devkit.yaml); did you mean MNN_OPENCL?" in said
    assert len(result.warnings) == 2


def test_a_profiles_option_that_an_old_checkout_lacks(source: Path, notes: Callable[[], str]) -> None:
    file = source / "CMakeLists.txt"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "MNN_HEXAGON" not in line)
                    .replace("NNAPI QNN HEXAGON", "NNAPI QNN"))  # fmt: skip
    engine.build(plan_for(source, "hexagon"))
    assert "no option MNN_HEXAGON (profile hexagon): the backend is new in 2026" in notes()
    engine.build(plan_for(source, "cpu"))
    assert "MNN_HEXAGON" not in notes()


def test_an_option_that_the_engine_overrules(source: Path, notes: Callable[[], str]) -> None:
    engine.build(plan_for(source, "host", MNN_LOW_MEMORY="OFF"))
    assert "has set MNN_LOW_MEMORY to ON, not to OFF" in notes()


def test_kleidiai_is_announced_taken_from_a_folder_or_switched_off(
    source: Path, workdir: Path, notes: Callable[[], str]
) -> None:
    def configure(**options: str) -> tuple[str, str]:
        plan = plan_for(source, "host", MNN_TEST_AS_AARCH64="ON", **options)
        # The table is of arm64; the project has been told to take this machine for one.
        plan = dataclasses.replace(plan, toolchain=dataclasses.replace(plan.toolchain, abi="arm64-v8a"))
        result = engine.build(plan, targets=["MNN"])
        return notes(), result.log.read_text("utf-8")

    said, _ = configure(MNN_KLEIDIAI="ON")
    assert "configuring downloads KleidiAI" in said and "-D KLEIDIAI_SRC_DIR=DIR" in said
    assert "KleidiAI could not be downloaded, the build goes on without it" in said
    local = workdir / "kleidiai 源"
    local.mkdir()
    said, log = configure(MNN_KLEIDIAI="ON", KLEIDIAI_SRC_DIR=str(local))
    assert f"KleidiAI is taken from {local}" in said and "downloads" not in said
    assert f"KleidiAI from {local}" in log
    said, log = configure()
    assert "KleidiAI" not in said and "KleidiAI" not in log.partition("$ ")[2].partition("\n")[2]
    with pytest.raises(UsageError, match="KLEIDIAI_SRC_DIR names no folder"):
        configure(MNN_KLEIDIAI="ON", KLEIDIAI_SRC_DIR=str(workdir / "gone"))


def test_a_table_row_for_every_option_that_can_be_missed() -> None:
    rows = checkout._table()["options"]
    for profile in engine.load_profiles("mnn").values():
        on = {name for name, value in profile.options.items() if value == "ON"}
        assert on - {"MNN_OPENCL", "MNN_VULKAN", "MNN_BUILD_TOOLS", "MNN_BUILD_BENCHMARK"} <= set(rows)


# ---------------------------------------------------------------------------------------------------
# Cases B1 and B3


def test_b1_a_cache_that_cmake_drops_by_itself_is_a_failure(
    source: Path, workdir: Path, notes: Callable[[], str]
) -> None:
    """CMake runs again by itself, inside ninja, and finds another compiler than the one it knows."""
    first = engine.build(plan_for(source, "host"))
    other = workdir / "c++"
    other.symlink_to(shutil.which("c++") or "c++")
    lists = source / "CMakeLists.txt"
    text = lists.read_text()
    forced = f'set(CMAKE_CXX_COMPILER "{other}" CACHE FILEPATH "" FORCE)\n'
    lists.write_text(text.replace("project(MNN", forced + "project(MNN"))
    with pytest.raises(BuildError, match="CMake dropped its cache") as caught:
        engine.build(plan_for(source, "host"))
    assert f"CMAKE_CXX_COMPILER= {other}" in (caught.value.evidence or "")
    lists.write_text(text)
    notes()
    # Never on with what CMake made of it.
    again = engine.build(plan_for(source, "host"))
    assert again.fresh and "starting with an empty build folder" in notes()
    assert "MNN_BUILD_LLM:BOOL=ON" in (again.build_dir / "CMakeCache.txt").read_text()
    assert {a.target for a in again.artifacts} == {a.target for a in first.artifacts}


def test_b3_a_configure_without_the_sdk_fails_then_and_there(source: Path) -> None:
    with pytest.raises(BuildError, match="configured a QNN build without a QNN SDK") as caught:
        engine.build(plan_for(source, "qnn", MNN_TEST_FORGETS_QNN="ON"))
    assert "QNN Root:" in (caught.value.evidence or "")
    assert not list(source.glob("build/devkit/qnn-*/**/*.o"))
    # It does not count as configured.
    with pytest.raises(BuildError, match="without a QNN SDK"):
        engine.build(plan_for(source, "qnn", MNN_TEST_FORGETS_QNN="ON"))


def test_sdks_that_are_too_old(source: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_sdk(workdir / "qairt/2.31.0.250130", "2.31.0.250130")
    monkeypatch.setenv("QNN_SDK_ROOT", str(old))
    assert plan_for(source, "qnn").options["QNN_SDK_ROOT"] == str(old)
    with pytest.raises(ToolMissing, match=r"the QNN SDK 2\.31\.0\.250130 is too old for profile qnn-tools"):
        plan_for(source, "qnn-tools")
    (source / "devkit.yaml").write_text(
        "engine: mnn\nbuild: {toolchain: ndk}\n"
        'profiles: {qnn-tools: {needs: ["qnn>=2.31"]}, cpu: {needs: ["ndk>=28"]}}\n'
    )
    assert plan_for(source, "qnn-tools").options["QNN_SDK_ROOT"] == str(old)
    with pytest.raises(
        ToolMissing, match=r"the NDK 27\.3\.13750724 is too old for profile cpu, which needs 28"
    ):
        plan_for(source, "cpu")


# ---------------------------------------------------------------------------------------------------
# What a build says and leaves


def test_warnings_are_summarised_at_the_end(devkit: Cli, source: Path) -> None:
    for name in ("express/Expr.cpp", "source/core/Backend.cpp"):
        file = source / name
        file.write_text(file.read_text() + "\nstatic int unused_one() { int x; return x; }\n")
    warn = ("-D", "CMAKE_CXX_FLAGS=-Wall")
    ran = devkit("build", "host", *warn, cwd=source)
    assert ran.code == 0 and "warnings in 2 files" in ran.out
    assert "express/Expr.cpp:3: " in ran.out and "[-Wunused-function]" in ran.out
    ran = devkit("build", "host", *warn, "--json", cwd=source)
    assert ran.data["diagnostics"] == [] and ran.data["steps"] == 0
    # The log is still that of the build that did something.
    assert "-Wunused-function" in Path(ran.data["log"]).read_text("utf-8")


def test_the_first_errors_in_full_and_the_others_by_file_and_line(devkit: Cli, source: Path) -> None:
    (source / "express/Expr.cpp").write_text("".join(f"int f{n}() {{ return gone{n}; }}\n" for n in range(8)))
    ran = devkit("build", "host", "-j1", "--target", "MNN_Express", cwd=source)
    assert ran.code == 125
    assert f"{source}/express/Expr.cpp:1:" in ran.err and "gone0" in ran.err
    assert "3 more errors in 1 file" in ran.err and "  express/Expr.cpp:8: " in ran.err
    assert ran.err.count("gone0") == 1 and "the whole log: " in ran.err


def test_ccache_and_timings(source: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("ccache"), "script/test installs it"
    monkeypatch.setenv("CCACHE_DIR", str(workdir / "cache"))
    first = engine.build(plan_for(source, "host"))
    assert first.ccache is not None and first.ccache.misses > 5
    second = engine.build(plan_for(source, "host"), clean=True)
    assert second.ccache is not None and second.ccache.misses == 0
    assert second.ccache.hits == first.ccache.hits + first.ccache.misses
    assert second.slowest and second.slowest[0].seconds >= second.slowest[-1].seconds
    assert 0 < second.configure_s < second.elapsed_s
    assert engine.build(plan_for(source, "host")).ccache is None


def test_a_product_for_another_machine_is_refused(source: Path) -> None:
    plan = plan_for(source, "cpu")
    other = "arm64-v8a" if host_abi() != "arm64-v8a" else "x86_64"
    engine.build(plan)
    wrong = dataclasses.replace(plan, toolchain=dataclasses.replace(plan.toolchain, abi=other))
    with pytest.raises(BuildError, match=f"is for {host_abi()}, not for {other}"):
        engine.build(wrong)


def test_a_source_that_changed_during_the_build_is_said(source: Path, notes: Callable[[], str]) -> None:
    file = source / "CMakeLists.txt"
    late = 'add_custom_command(TARGET llm_demo POST_BUILD COMMAND sh -c "sleep 0.05; touch {0}" VERBATIM)\n'
    changed = source / "transformers/llm/engine/llm_demo.cpp"
    file.write_text(file.read_text() + late.format(f"'{changed}'"))
    result = engine.build(plan_for(source, "host"))
    assert f"llm_demo is older than {changed}" in notes()
    assert {p.artifact.target for p in result.products if p.stale} == {"llm_demo"}


def test_a_promised_target_that_the_checkout_lacks(source: Path, notes: Callable[[], str]) -> None:
    (source / "transformers/llm/engine/CMakeLists.txt").write_text("")
    engine.build(plan_for(source, "host"))
    assert "promises llm, llm_demo, llm_bench, which this checkout does not make" in notes()


# ---------------------------------------------------------------------------------------------------
# Case A5, other engines, and what a terminal shows


@pytest.mark.parametrize("name", (REPO / "tests/data/cases/A5/paths.txt").read_text("utf-8").splitlines())
def test_a5_an_ndk_in_any_path_builds(
    source: Path, ndk: Path, workdir: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One argument for CMake, and one word for a shell, whatever the path holds."""
    odd = workdir / name.lstrip("/")
    shutil.copytree(ndk, odd)
    monkeypatch.setenv("ANDROID_NDK", str(odd))
    plan = plan_for(source, "cpu")
    assert f"-DCMAKE_TOOLCHAIN_FILE={odd}/build/cmake/android.toolchain.cmake" in plan.configure
    configure, compile_line = plan.command_lines()
    for line in (configure, compile_line):  # what --print-commands shows, in a shell
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(plan.build_dir)
    result = engine.build(plan)
    assert result.warnings == () and {p.abi for p in result.products} == {host_abi()}
    assert read_elf(artifact(result, "llm_demo")).needed


def test_any_cmake_project_with_options_and_targets(devkit: Cli, workdir: Path) -> None:
    """The habits of llama.cpp: an option, programs in bin/, examples nobody asked for, a static library."""
    (workdir / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(llama C CXX)\noption(GGML_NATIVE \"\" ON)\n"
        "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
        "add_library(ggml STATIC main.cpp)\nadd_executable(llama-cli main.cpp)\n"
        "if(GGML_NATIVE)\n  message(FATAL_ERROR \"for this machine only\")\nendif()\n"
        "add_executable(example broken.cpp)\n"
    )  # fmt: skip
    (workdir / "main.cpp").write_text("int main() { return 0; }\n")
    (workdir / "broken.cpp").write_text("this is no C++\n")
    (workdir / "devkit.yaml").write_text(
        "engine: cmake\nprofiles:\n"
        "  cli: {extends: host, about: the command line, options: {GGML_NATIVE: OFF},"
        " targets: [llama-cli, ggml], products: [llama-cli]}\n"
    )
    ran = devkit("build", "host")
    assert ran.code == 125 and "for this machine only" in ran.err
    ran = devkit("build", "cli", "--json")
    assert ran.code == 0, ran.err
    assert {Path(row["path"]).name for row in ran.data["artifacts"]} == {"llama-cli", "libggml.a"}
    explained = devkit("build", "--explain", "cli").out
    assert "the command line" in explained and "-DGGML_NATIVE=OFF\n      devkit.yaml" in explained


def test_a_terminal_shows_a_bar(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = source / "CMakeLists.txt"
    slow = "".join(
        f"add_custom_command(OUTPUT slow{n} COMMAND sleep 0.7 COMMAND touch slow{n})\n" for n in range(3)
    )
    file.write_text(file.read_text() + slow + "add_custom_target(slow ALL DEPENDS slow0 slow1 slow2)\n")
    monkeypatch.chdir(source)
    with Terminal("build", "host", "-j1") as terminal:
        terminal.wait_for(b"building host", 60)
        terminal.wait_for(b"/19", 60)
        terminal.wait_for(b"built host in", 60)
        assert terminal.end() == 0


def test_memory_that_limits_the_jobs_is_said(
    source: Path, notes: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.jobs, "available_memory_mb", lambda: 1000)
    monkeypatch.setattr(engine.jobs, "available_cores", lambda: 16)
    plan = plan_for(source, "host")
    assert plan.build_argv()[-2:] == ("--parallel", "1")
    engine.build(plan)
    assert "compiling with 1 of 16 cores, for 1.0 GB of free memory (-j sets it)" in notes()
    config = configuration.load(source, environ={"DEVKIT_BUILD_JOBS": "3"})
    assert engine.plan_for(config, "host").build_argv()[-2:] == ("--parallel", "3")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("devkit build qnn-", {"qnn-online", "qnn-profile", "qnn-tools"}),
        ("devkit build la", {"lab"}),
        ("devkit build --type rel", {"release", "relwithdebinfo"}),
        ("devkit run --profile host", {"host", "host-asan"}),
    ],
)
def test_profiles_and_types_are_completed(devkit: Cli, source: Path, line: str, wanted: set[str]) -> None:
    (source / "devkit.yaml").write_text("engine: mnn\nprofiles: {lab: {extends: cpu}}\n")
    count = str(len(line.split()) - 1)
    ran = devkit(cwd=source, _DEVKIT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=count)
    assert set(ran.out.split()) == wanted
    (source / "devkit.yaml").write_text("engine: nothing\n")
    ran = devkit(cwd=source, _DEVKIT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=count)
    assert "error" not in ran.err
