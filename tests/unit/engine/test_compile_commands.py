"""compile_commands.json of several builds as one list for an editor."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkit.engine.compile_commands import merge, read_database, split_command
from devkit.errors import FileError

CASES = Path(__file__).parents[2] / "data/cases"


def write(folder: Path, entries: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "compile_commands.json"
    file.write_text(entries if isinstance(entries, str) else json.dumps(entries), "utf-8")
    return file


@pytest.fixture
def g3(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The case's tree: the source folder, the Android database, the host database behind a link."""
    home, link = tmp_path / "家 home/dev", tmp_path / "mnt/src"
    (home / "MNN/source/core").mkdir(parents=True)
    (home / "MNN/include").mkdir()
    (home / "MNN/source/core/Session.cpp").touch()
    link.parent.mkdir()
    link.symlink_to(home)
    files = []
    for name, folder in (("android", home / "MNN/build_android"), ("host", home / "MNN/build_host")):
        text = (CASES / f"G3/{name}.json").read_text()
        text = text.replace("/home/dev", str(home)).replace("/mnt/src", str(link))
        files.append(write(folder, text))
    response = home / "MNN/build_android/CMakeFiles/MNN.dir/includes.rsp"
    response.parent.mkdir(parents=True)
    response.write_text(f'-I"{home}/MNN/include" -DNAME=\\"x\\"\n', "utf-8")
    return home / "MNN", files[0], files[1]


def test_g3_one_entry_for_a_file_of_two_builds(g3: tuple[Path, Path, Path]) -> None:
    source, android, host = g3
    databases = [read_database(file, root=source) for file in (android, host)]
    session = str(source / "source/core/Session.cpp")
    merged = merge(databases)
    assert [entry.file for entry in merged.entries] == [f"{source}/build_android/gen/x.cpp", session]
    assert merged.entries[1].compiler == "/opt/ndk/bin/clang++"
    other = merge(databases[::-1])
    assert [entry.compiler for entry in other.entries] == ["/opt/ndk/bin/clang++", "/usr/bin/c++"]
    # Known by one name only, whatever the build called it.
    assert other.entries[1].file == session and session in other.entries[1].arguments


def test_g3_response_files_glued_arguments_and_files_to_come(g3: tuple[Path, Path, Path]) -> None:
    source, android, _ = g3
    database = read_database(android, root=source)
    generated, session = database.entries
    assert generated.file.endswith("gen/x.cpp") and not Path(generated.file).exists()
    assert generated.output == "x.o"
    assert session.arguments == (
        "/opt/ndk/bin/clang++", "-target", "aarch64-none-linux-android29",
        f"-I{source}/include", '-DNAME="x"', "-c", str(source / "source/core/Session.cpp"),
    )  # fmt: skip
    [warning] = database.warnings
    assert "'-target aarch64-none-linux-android29'" in warning


def test_relative_paths_and_links_get_the_source_folders_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real 实", tmp_path / "link"
    (real / "src").mkdir(parents=True)
    (real / "src/a.cpp").touch()
    link.symlink_to(real)
    file = write(
        real / "build",
        [{"directory": f"{real}/build", "file": "../src/a.cpp",
          "arguments": ["cc", f"-I{real}/src", "-isystem", f"{real}/sys", "-I/usr/include", "-Irel",
                        "../src/a.cpp"]}],
    )  # fmt: skip
    [entry] = read_database(file, root=link).entries
    assert entry.file == f"{link}/src/a.cpp" and entry.directory == f"{link}/build"
    assert entry.arguments == (
        "cc", f"-I{link}/src", "-isystem", f"{link}/sys", "-I/usr/include", "-Irel", f"{link}/src/a.cpp",
    )  # fmt: skip
    [as_written] = read_database(file, root=real).entries
    assert as_written.file == f"{real}/src/a.cpp"


def test_compiler_launchers_are_not_compilers(tmp_path: Path) -> None:
    commands = ["/usr/bin/ccache /opt/clang++ -c a.cpp", "ccache.exe cl -c b.cpp", "/usr/bin/ccache -c c.cpp"]
    entries = [{"directory": "/b", "file": f"/s/{i}.cpp", "command": text} for i, text in enumerate(commands)]
    database = read_database(write(tmp_path, entries))
    assert [entry.compiler for entry in database.entries] == ["/opt/clang++", "cl", "/usr/bin/ccache"]


def test_a_missing_response_file_and_one_that_names_itself(tmp_path: Path) -> None:
    (tmp_path / "self.rsp").write_text("-DX @self.rsp")
    entries = [
        {"directory": str(tmp_path), "file": "a.cpp", "arguments": ["cc", "@none.rsp", "a.cpp"]},
        {"directory": str(tmp_path), "file": "b.cpp", "arguments": ["cc", "@self.rsp", "b.cpp"]},
    ]
    database = read_database(write(tmp_path, entries))
    assert "@none.rsp" in database.entries[0].arguments
    assert any("none.rsp" in warning for warning in database.warnings)
    assert "-DX" in database.entries[1].arguments


def test_broken_files_and_entries(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        read_database(tmp_path / "none.json")
    with pytest.raises(FileError, match="not valid JSON"):
        read_database(write(tmp_path / "a", "[{"))
    with pytest.raises(FileError, match="no list"):
        read_database(write(tmp_path / "b", "{}"))
    good = {"directory": "/x", "file": "/x/a.c", "command": "cc a.c"}
    bad = [1, {}, {"file": "b.c"}, {"file": "c.c", "command": 'cc "open'}]
    database = read_database(write(tmp_path / "c", [*bad, good]))
    assert [entry.file for entry in database.entries] == ["/x/a.c"]
    assert any("was left out" in warning for warning in database.warnings)


def test_the_target_is_read_from_the_object_file(tmp_path: Path) -> None:
    entries = [
        {"directory": "/b", "file": "/s/a.c", "command": "cc -o CMakeFiles/MNN.dir/a.c.o -c /s/a.c"},
        {
            "directory": "/b",
            "file": "/s/b.c",
            "command": "cc -c /s/b.c",
            "output": "llm/CMakeFiles/llm.dir/b.o",
        },
        {"directory": "/b", "file": "/s/c.c", "command": "cc -c /s/c.c"},
    ]
    targets = [entry.target for entry in read_database(write(tmp_path, entries)).entries]
    assert targets == ["MNN", "llm", None]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8), max_size=6
    )
)
def test_quoted_command_lines_come_apart_again(words: list[str]) -> None:
    assert split_command(shlex.join(words)) == words


@given(st.text(" ab\\\"'", max_size=14))
def test_split_as_shlex_does(command: str) -> None:
    try:
        expected = shlex.split(command)
    except ValueError:
        with pytest.raises(ValueError):
            split_command(command)
        return
    assert split_command(command) == expected


def test_nine_hundred_entries_are_quick_and_stable(tmp_path: Path) -> None:
    flags = " ".join(f'-DM{i}=\\"v {i}\\"' if i % 9 == 0 else f"-I{tmp_path}/include/{i}" for i in range(40))
    entries = [
        {
            "directory": str(tmp_path),
            "file": f"src/{i % 30}/f{i}.cpp",
            "command": f"/opt/clang++ {flags} -c f{i}.cpp",
        }
        for i in range(900)
    ]
    file, backwards = write(tmp_path / "a", entries), write(tmp_path / "b", entries[::-1])
    started = time.process_time()
    database = merge([read_database(file, root=tmp_path), read_database(file, root=tmp_path)])
    content = database.dump()
    assert time.process_time() - started < 0.8
    assert len(database.entries) == 900
    assert content == merge([read_database(backwards, root=tmp_path)]).dump()
    assert json.loads(content)[0]["arguments"][0] == "/opt/clang++"
