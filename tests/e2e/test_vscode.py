"""`devkit vscode` and `devkit build --why` as a user types them, and clangd with just these settings."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devkit.vscode_templates.jsonc import parse
from tests.e2e.lsp import LanguageServer
from tests.e2e.support import REPO, Cli, Sim, eventually
from tests.support.standin_ndk import make_standin_ndk

EXAMPLE = REPO / "examples/mini-engine"


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example engine, configured for this machine (clangd needs no more) after one `devkit vscode`."""
    folder = tmp_path_factory.mktemp("我的 vscode") / "mini-engine"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    for words in (["vscode", "-q"], ["build", "host", "--target", "help", "-q"]):
        subprocess.run([sys.executable, "-m", "devkit", *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def engine(workdir: Path) -> Path:
    folder = workdir / "mini-engine"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    return folder


def settings(folder: Path) -> dict[str, Any]:
    root = parse((folder / ".vscode/settings.json").read_text("utf-8")).root
    assert root is not None
    value: dict[str, Any] = root.value
    return value


def clangd_of(folder: Path) -> list[str]:
    """clangd's command line as VS Code's extension makes it from the settings."""
    found = settings(folder)
    words = [found["clangd.path"], *found["clangd.arguments"]]
    return [word.replace("${workspaceFolder}", str(folder)) for word in words]


def test_the_build_brought_the_view_up_to_date(configured: Path) -> None:
    entries = json.loads((configured / "compile_commands.json").read_text("utf-8"))
    assert len(entries) > 20 and all(Path(entry["file"]).is_file() for entry in entries)


def test_clangd_knows_the_engine_with_these_settings(configured: Path) -> None:
    session = configured / "source/core/Session.cpp"
    llm = configured / "transformers/llm/engine/src/llm.cpp"
    with LanguageServer(clangd_of(configured), configured) as clangd:
        for file in (session, llm):
            clangd.open(file)
        # Every header is found, the toolchain's too.
        assert clangd.diagnostics(session) == []
        assert clangd.diagnostics(llm) == []
        [header] = clangd.at("textDocument/definition", session, "std::move(", into=len("std::"))
        assert header["uri"].startswith("file:///") and "mini-engine" not in header["uri"]
        [place] = clangd.at("textDocument/definition", session, "Pipeline::Unit", into=len("Pipeline::"))
        assert place["uri"] == (configured / "source/core/Pipeline.hpp").as_uri()
        hover = clangd.at("textDocument/hover", session, "mRuntime->onCreate", into=len("mRuntime->"))
        assert "onCreate" in hover["contents"]["value"] and "KVMeta" in hover["contents"]["value"]


@pytest.mark.slow
def test_clangd_knows_the_engine_built_with_an_ndk(
    devkit: Cli, engine: Path, sim: Sim, workdir: Path
) -> None:
    ndk = make_standin_ndk(workdir / "安卓 ndk")
    text = (engine / "devkit.yaml").read_text("utf-8")
    more = f"\nbuild: {{toolchain: ndk}}\nndk: {{path: '{ndk}'}}\n"
    (engine / "devkit.yaml").write_text(text + more, "utf-8")
    for profile in ("host", "cpu"):
        ran = devkit("build", profile, "--target", "help", "-s", f"sim:{sim.name}", cwd=engine)
        assert ran.code == 0, ran.err
    written = devkit("vscode", "--json", cwd=engine)
    kinds = [name.partition("-")[0] for name in written.data["compile_commands"]["builds"]]
    assert kinds == ["cpu", "host"]  # the phone's entries win
    source = engine / "source/backend/cpu/CPUMatMul.cpp"
    entries = json.loads((engine / "compile_commands.json").read_text("utf-8"))
    [entry] = [entry for entry in entries if entry["file"] == str(source)]
    assert entry["arguments"][0].startswith(str(ndk)) and "-D__ANDROID_API__=24" in entry["arguments"]
    with LanguageServer(clangd_of(engine), engine) as clangd:
        clangd.open(source)
        assert clangd.diagnostics(source) == []
        [place] = clangd.at(
            "textDocument/definition", source, "#include <algorithm>", into=len("#include <c")
        )
        assert place["uri"].endswith("/algorithm")


@pytest.mark.slow
def test_clangd_asks_a_cross_compiler_through_a_link(workdir: Path, devkit: Cli) -> None:
    """A compiler with headers of its own: they are found only if --query-driver matches it."""
    compiler = shutil.which("g++")
    assert compiler
    folder = workdir / "engine"
    real = workdir / "real 真, toolchain"
    for made in (folder / "build/devkit/cpu-arm64-v8a-debug", real / "bin", real / "own"):
        made.mkdir(parents=True)
    (real / "own/only_here.h").write_text("#pragma once\ninline int only_here() { return 7; }\n")
    cross = real / "bin/clang++"
    cross.write_text(f'#!/bin/sh\nexec {compiler} -isystem "{real}/own" "$@"\n')
    cross.chmod(0o755)
    link = workdir / "link, 链"
    link.symlink_to(real)
    (folder / "CMakeLists.txt").touch()
    (folder / "devkit.yaml").write_text("engine: cmake\n")
    source = folder / "a.cpp"
    source.write_text("#include <only_here.h>\n#include <vector>\nint main() { return only_here(); }\n")
    build = folder / "build/devkit/cpu-arm64-v8a-debug"
    (build / ".devkit-build.json").write_text('{"fixed": {"API level": "24"}}')
    other = folder / "b.cpp"
    other.write_text("#include <only_here.h>\nint in_no_open_file() { return only_here(); }\n")
    compiler_name = f"{link}/bin/clang++"
    entries = [
        {"directory": str(build), "file": str(file), "arguments": [compiler_name, "-c", str(file)]}
        for file in (source, other)
    ]
    (build / "compile_commands.json").write_text(json.dumps(entries))
    assert devkit("vscode", cwd=folder).code == 0
    argv = clangd_of(folder)
    with LanguageServer(argv, folder) as clangd:
        clangd.open(source)
        assert clangd.diagnostics(source) == []
        [place] = clangd.at("textDocument/definition", source, "only_here()")
        assert place["uri"].endswith("/own/only_here.h")
        # The list lies where clangd indexes the files that are not open, too.
        assert eventually(
            lambda: bool(clangd.request("workspace/symbol", {"query": "in_no_open_file"})), within_s=60
        )
    # Its index lies in the build folder, not among the sources.
    assert not (folder / ".cache").exists()
    blind = [word for word in argv if not word.startswith("--query-driver")]
    with LanguageServer(blind, folder) as clangd:
        clangd.open(source)
        assert any("only_here.h" in problem["message"] for problem in clangd.diagnostics(source))


def test_written_checked_and_taken_out(devkit: Cli, engine: Path) -> None:
    mine = b'// mine\r\n{\r\n\t"editor.tabSize": 2, // two\r\n\t"clangd.arguments": ["-j=4"]\r\n}\r\n'
    (engine / ".vscode").mkdir()
    (engine / ".vscode/settings.json").write_bytes(mine)
    before = {path.relative_to(engine) for path in engine.rglob("*")}
    dry = devkit("vscode", "--dry-run", cwd=engine)
    assert dry.code == 0 and "+++ b/.vscode/settings.json" in dry.out and "no build yet" in dry.err
    check = devkit("vscode", "--check", cwd=engine)
    assert check.code == 1 and check.out == dry.out
    assert {path.relative_to(engine) for path in engine.rglob("*")} == before
    wrote = devkit("vscode", "--json", cwd=engine)
    assert wrote.code == 0
    assert wrote.data["files"][0]["entries"]["clangd.arguments > --query-driver"] == "added"
    assert settings(engine)["clangd.arguments"][0] == "-j=4" and settings(engine)["editor.tabSize"] == 2
    after = devkit("vscode", "--check", "--json", cwd=engine)
    assert after.code == 0 and after.data["drift"] is False and after.data["diff"] == ""
    assert devkit("vscode", "--remove", cwd=engine).code == 0
    assert (engine / ".vscode/settings.json").read_bytes() == mine
    left = {path.relative_to(engine) for path in engine.rglob("*")}
    assert left - before <= {Path("build"), Path("build/devkit")}


def test_wrong_use_is_one_clear_message(devkit: Cli, engine: Path, workdir: Path) -> None:
    assert "there is no engine" in devkit("vscode").err
    assert "--for host" in devkit("vscode", "--for", "phone", cwd=engine).err
    assert devkit("vscode", "--remove", "--check", cwd=engine).code == 2
    assert devkit("vscode", "--folder", workdir / "none", cwd=engine).code == 2
    (engine / ".vscode").mkdir()
    (engine / ".vscode/launch.json").write_text("{\n  'version': 1\n}\n")
    ran = devkit("vscode", cwd=engine)
    assert (
        ran.code == 2
        and "launch.json:2:3" in ran.err
        and "'version'" in ran.err
        and "double quotes" in ran.err
    )
    assert not (engine / ".vscode/settings.json").exists() and not (engine / ".clangd").exists()
    assert "was never built" in devkit("build", "host", "--why", "x.cpp", cwd=engine).err


def test_extensions_are_installed_by_code(devkit: Cli, engine: Path, workdir: Path) -> None:
    assert "`code` was not found" in devkit("vscode", "--install-extensions", cwd=engine, PATH=os.defpath).err
    folder = workdir / "bin 码"
    folder.mkdir()
    (folder / "code").write_text(f'#!/bin/sh\necho "$@" >> "{folder}/calls"\n')
    (folder / "code").chmod(0o755)
    ran = devkit("vscode", "--install-extensions", cwd=engine, PATH=f"{folder}:{os.environ['PATH']}")
    assert ran.code == 0
    calls = (folder / "calls").read_text().splitlines()
    assert "--install-extension llvm-vs-code-extensions.vscode-clangd" in calls and len(calls) == 3


def test_nine_hundred_files_in_less_than_a_second(devkit: Cli, engine: Path) -> None:
    build = engine / "build/devkit/cpu-arm64-v8a-debug"
    build.mkdir(parents=True)
    (build / ".devkit-build.json").write_text('{"fixed": {"API level": "24"}}')
    flags = " ".join(
        [*(f'-DMNN_OPTION_{i}=\\"{i}\\"' for i in range(8)), *(f"-I{engine}/source/{i}" for i in range(24))]
    )
    entries = [
        {"directory": str(build), "file": f"{engine}/source/{i % 40}/f{i}.cpp",
         "command": f"/opt/ndk/clang++ {flags} -o CMakeFiles/MNN.dir/f{i}.o -c f{i}.cpp"}
        for i in range(900)
    ]  # fmt: skip
    (build / "compile_commands.json").write_text(json.dumps(entries))
    assert devkit("vscode", cwd=engine).code == 0
    # Time on the processor: the machine may be busy with other tests.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = devkit("vscode", "--for", "host", "--json", cwd=engine)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.data["compile_commands"]["entries"] == 900
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_why_a_file_is_compiled_or_not(devkit: Cli, configured: Path) -> None:
    compiled = devkit("build", "host", "--why", "source/core/Session.cpp", cwd=configured)
    assert compiled.code == 0 and "is compiled in host-" in compiled.out and "MNN_LOW_MEMORY" in compiled.out
    guarded = devkit("build", "host", "--why", "source/backend/opencl/OpenCLBackend.cpp", cwd=configured)
    assert guarded.code == 0 and "does not hold: MNN_OPENCL is OFF" in guarded.out
    assert "try: devkit build host -D MNN_OPENCL=ON" in guarded.out
    unknown = devkit("build", "host", "--why", "nowhere.cpp", cwd=configured)
    assert unknown.code == 2 and "does not exist" in unknown.err


def test_why_a_header_is_known(devkit: Cli, workdir: Path) -> None:
    engine = workdir / "small 小"
    (engine / "include").mkdir(parents=True)
    (engine / "devkit.yaml").write_text("engine: cmake\n")
    (engine / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(small CXX)\n"
        "include_directories(include)\nadd_executable(a a.cpp)\nadd_executable(b b.cpp)\n"
    )
    (engine / "include/used.h").write_text("#pragma once\n")
    (engine / "include/unused.h").write_text("#pragma once\n")
    (engine / "a.cpp").write_text('#include "used.h"\nint main() {}\n')
    (engine / "b.cpp").write_text("int main() {}\n")
    assert devkit("build", "host", cwd=engine).code == 0
    used = devkit("build", "host", "--why", engine / "include/used.h", "--json", cwd=engine)
    assert used.data["compiled"] and used.data["included_by"] == [str(engine / "a.cpp")]
    unused = devkit("build", "host", "--why", "include/unused.h", cwd=engine)
    assert "include/unused.h is not compiled" in unused.out
