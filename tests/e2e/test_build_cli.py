"""`devkit build` and `devkit init` as a user types them; wrong input gets one clear message."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from tests.e2e.support import REPO, Cli, Sim

EXAMPLE = REPO / "examples/mini-engine"


@pytest.fixture
def engine(workdir: Path) -> Path:
    folder = workdir / "mini-engine"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    return folder


def default_adb_listens() -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", 5037)) == 0


def test_init_detects_the_engine_and_never_overwrites(devkit: Cli, engine: Path) -> None:
    (engine / "devkit.yaml").unlink()
    would = devkit("init", "--dry-run", "--json", cwd=engine)
    assert would.data["dry_run"] and not (engine / "devkit.yaml").exists()
    ran = devkit("init", "--json", cwd=engine)
    assert ran.code == 0 and ran.data["engine"] == "mnn"
    shown = devkit("config", "show", "--json", cwd=engine).data
    assert shown["engine"] == "mnn" and shown["apps.llm_demo.profile"] == "cpu"
    (engine / "devkit.yaml").write_text("# mine\n")
    again = devkit("init", cwd=engine)
    assert again.code == 2 and "stays as it is" in again.err
    assert (engine / "devkit.yaml").read_text() == "# mine\n"


def test_any_cmake_project_runs_right_after_init(devkit: Cli, sim: Sim, workdir: Path) -> None:
    """A newcomer's own engine: a program with a blank in its file name, a library, a data file."""
    (workdir / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(toy CXX)\nadd_library(core SHARED core.cpp)\n"
        "add_executable(toy main.cpp)\ntarget_link_libraries(toy core)\n"
        'set_target_properties(toy PROPERTIES OUTPUT_NAME "toy run")\n'
    )
    (workdir / "core.cpp").write_text("int twice(int n) { return 2 * n; }\n")
    (workdir / "main.cpp").write_text(
        "#include <fstream>\n#include <iostream>\nint twice(int);\n"
        'int main() { int n = 0; std::ifstream("data/n.txt") >> n;\n'
        'std::cout << twice(n) << "\\n"; return n; }\n'
    )
    (workdir / "data").mkdir()
    (workdir / "data" / "n.txt").write_text("21\n")
    ran = devkit("init")
    assert ran.code == 0 and "engine: cmake" in ran.out
    ran = devkit("run", "toy")
    assert (ran.code, ran.out) == (0, "0\n")  # no data file yet
    yaml = workdir / "devkit.yaml"
    yaml.write_text(yaml.read_text() + "apps: {toy: {files: [data]}}\n")
    ran = devkit("run", "toy")
    assert (ran.code, ran.out) == (21, "42\n")
    for verb in ("run", "debug"):
        lines = devkit(verb, "toy", "--print-commands").out.splitlines()
        assert "cmake" in lines[0] and " -S " in lines[0] and " --build " in lines[1]
    ran = devkit("debug", "toy", "-b", "twice", "--batch", "-", stdin="frame variable n\n")
    assert ran.code == 0 and "(int) n = 21" in ran.out


def test_init_outside_an_engine(devkit: Cli, workdir: Path) -> None:
    ran = devkit("init")
    assert ran.code == 2 and "no CMakeLists.txt" in ran.err and "try: " in ran.err
    assert list(workdir.iterdir()) == []


def test_build_without_an_engine_or_with_a_wrong_name(devkit: Cli, engine: Path, workdir: Path) -> None:
    ran = devkit("build")
    assert ran.code == 2 and "there is no engine to build" in ran.err
    ran = devkit("build", "cpy", cwd=engine)
    assert ran.code == 2 and "cpu" in ran.err
    ran = devkit("build", "host", "-D", "MNN_OPENCL", cwd=engine)
    assert ran.code == 2 and "-D MNN_OPENCL=ON" in ran.err
    ran = devkit("build", "host", "--type", "fast", cwd=engine)
    assert ran.code == 2 and "--type cannot be 'fast'" in ran.err


def test_looking_at_a_build_starts_no_adb_server(devkit: Cli, engine: Path) -> None:
    before = default_adb_listens()
    ran = devkit("build", "host", "--dry-run", "--json", cwd=engine)
    assert ran.code == 0
    devkit("build", "cpu", "--dry-run", cwd=engine)
    for words in (("select", "nobody"), ("tcpip",), ("usb",)):
        devkit("device", *words, "--dry-run")
    assert default_adb_listens() == before
    assert not (engine / "build").exists()


def test_a_build_for_a_phone_that_was_not_chosen_says_why(
    devkit: Cli, engine: Path, monkeypatch: pytest.MonkeyPatch, workdir: Path
) -> None:
    """Two phones: without a word it would be a missing NDK, although neither phone needs one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(workdir / "state"))
    try:
        for name in ("one", "two"):
            assert devkit("sim", "start", name).code == 0
        ran = devkit("build", "--explain", "--json", cwd=engine)
        assert ran.code == 0 and "for arm64-v8a: 2 phones are connected: say which one (-s SERIAL)" in ran.err
        ran = devkit("build", "--explain", "--json", "-s", "sim:two", cwd=engine)
        assert ran.code == 0 and "phones are connected" not in ran.err
    finally:
        devkit("sim", "stop", "--all")


def test_no_compiler_is_one_clear_message(devkit: Cli, engine: Path, sim: Sim, workdir: Path) -> None:
    empty = workdir / "empty"
    empty.mkdir()
    # An empty package in front of an installed ziglang: no zig either.
    (empty / "ziglang").mkdir()
    (empty / "ziglang" / "__init__.py").write_text("")
    nothing = {"PATH": str(empty), "PYTHONPATH": str(empty), "CXX": "", "CC": ""}
    ran = devkit("run", "llm_demo", cwd=engine, **nothing)
    assert ran.code == 125
    assert "compiler" in ran.err and "try: " in ran.err and "g++" in ran.err
    assert not list(engine.glob("build/**/CMakeCache.txt"))


def test_a_compile_error_names_file_and_line(devkit: Cli, engine: Path, sim: Sim) -> None:
    [source] = engine.rglob("llm_demo.cpp")
    source.write_text("int main() { return undeclared; }\n")
    ran = devkit("run", "llm_demo", cwd=engine, timeout=300)
    assert ran.code == 125
    assert "llm_demo.cpp:1:" in ran.err and "undeclared" in ran.err


@pytest.mark.slow
def test_run_builds_deploys_and_runs(devkit: Cli, engine: Path, sim: Sim) -> None:
    ran = devkit("run", "llm_demo", cwd=engine, timeout=300)
    assert ran.code == 0 and "decode tokens num" in ran.out
    # The chat mode of the real llm_demo, fed from a pipe, until /exit.
    chat = devkit("run", "llm_demo", "--", "model/config.json", cwd=engine, stdin="hello\n/exit\n")
    assert chat.code == 0 and "User: " in chat.out and "A: " in chat.out
    unknown = devkit("run", "llm_dmeo", cwd=engine)
    assert unknown.code == 2 and "did you mean llm_demo?" in unknown.err


def test_debug_builds_and_stops_across_libraries(devkit: Cli, engine: Path, sim: Sim, workdir: Path) -> None:
    batch = workdir / "b.lldb"
    batch.write_text("breakpoint delete --force\nprocess continue\n")
    ran = devkit(
        "debug", "llm_demo", "-b", "MNN::CPUMatMul::onExecute", "--batch", batch, "--json",
        cwd=engine, timeout=300,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    frames = ran.data["stops"][0]["frames"]
    assert {"libMNN.so", "libMNN_Express.so", "libllm.so", "llm_demo"} <= {f["module"] for f in frames}
    assert all(Path(f["file"]).is_relative_to(engine) for f in frames if f["module"].startswith("libMNN"))
