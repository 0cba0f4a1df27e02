"""The LLDB commands, and what counts as a breakpoint."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from devkit.errors import UsageError
from devkit.lldb import recipes
from devkit.lldb.platform_commands import PlatformMode, explain_unreachable
from devkit.lldb.platform_server import platform_command
from devkit.lldb.recipes import SessionScript, parse_breakpoint
from devkit.lldb.server import server_command
from devkit.runtime.run import Launch

F1 = Path(__file__).parents[2] / "data/cases/F1"
SCRIPT = SessionScript(
    program=Path("/b 中/llm_demo"),
    libraries=(Path("/b 中/libMNN.so"),),
    search_paths=(Path("/b 中"), Path('/we"ird')),
    port=4711,
    platform="remote-android",
    breakpoints=("CPUMatMul.cpp:42", "MNN::Transformer::Llm::response"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.cpp:12", ("a.cpp", 12)),
        ("/x y/ü.cpp:1", ("/x y/ü.cpp", 1)),
        (r"C:\src\a.cpp:7", (r"C:\src\a.cpp", 7)),
        ("main", ("main", None)),
        ("MNN::CPUMatMul::onExecute", ("MNN::CPUMatMul::onExecute", None)),
        ("ns::f<int, char*>(const A&)", ("ns::f<int, char*>(const A&)", None)),
        ("operator==", ("operator==", None)),
    ],
)
def test_breakpoints(text: str, expected: tuple[str, int | None]) -> None:
    assert parse_breakpoint(text) == expected


@pytest.mark.parametrize("text", ["", "a.cpp:", "a.cpp:0", "12", "a;b", "`id`", "x\ny"])
def test_what_is_no_breakpoint_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_breakpoint(text)


def test_setup_quotes_every_path_and_needs_no_link() -> None:
    lines = recipes.setup_commands(SCRIPT)
    assert lines == [
        "settings clear plugin.symbol-locator.debuginfod.server-urls",
        'settings set target.exec-search-paths "/b 中" "/we\\"ird"',
        'target create --no-dependents --platform remote-android "/b 中/llm_demo"',
        'target modules add "/b 中/libMNN.so"',
        'breakpoint set --file "CPUMatMul.cpp" --line 42',
        'breakpoint set --name "MNN::Transformer::Llm::response"',
    ]


def test_without_breakpoints_a_launch_stops_once_in_main() -> None:
    plain = SessionScript(SCRIPT.program, (), (), 1, "remote-linux", ())
    assert recipes.setup_commands(plain)[-1] == "breakpoint set --one-shot true --name main"
    attached = SessionScript(SCRIPT.program, (), (), 1, "remote-linux", (), attach=True)
    assert not any("breakpoint" in line for line in recipes.setup_commands(attached))


def test_an_attached_program_is_not_continued() -> None:
    assert recipes.connect_commands(SCRIPT) == ["gdb-remote 127.0.0.1:4711", "process continue"]
    attached = SessionScript(SCRIPT.program, (), (), 9, "remote-linux", (), attach=True)
    assert recipes.connect_commands(attached) == ["gdb-remote 127.0.0.1:9"]


def test_the_helper_is_plain_enough_for_old_ndks() -> None:
    tree = ast.parse(recipes.HELPER.read_text("utf-8"), feature_version=(3, 8))
    imported = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"json", "os", "re", "time", "lldb"}


def test_a_program_that_lldb_launches() -> None:
    script = replace(SCRIPT, launch_plan=Path("/a b/launch.json"))
    load, launch, hook, last = recipes.recorded_connect_commands(script)
    assert load.startswith("command script import") and hook.startswith("target stop-hook add")
    # A raw command: what follows its name is the path, blanks and all.
    assert (launch, last) == ("devkit-launch /a b/launch.json", "process continue")


def test_an_adapter_runs_the_same_commands() -> None:
    files = recipes.adapter_files(SCRIPT)
    settings, target, process = files.values()
    assert settings + target == recipes.setup_commands(SCRIPT)
    # The adapter continues by itself, and would do so too early after a command that does not wait.
    assert process[-1] == "devkit-stopped gdb-remote 127.0.0.1:4711"
    assert recipes.adapter_files(SCRIPT, 23)[recipes.PROCESS_FILE][1:] == ["devkit-client 23", process[-1]]
    # A raw command, as devkit-launch.
    with_empty = recipes.adapter_files(SCRIPT, empty=Path("/a b/empty.json"))[recipes.PROCESS_FILE]
    assert with_empty[1:] == [process[-1], "devkit-empty /a b/empty.json"]
    launched = replace(SCRIPT, launch_plan=Path("/a b/launch.json"))
    assert recipes.adapter_files(launched)[recipes.PROCESS_FILE] == recipes.process_commands(launched)
    named = recipes.adapter_commands('/w "x"/d')
    assert list(files) == [words[-1].rpartition("/")[2].rstrip('"') for words in named.values()]
    assert named["init"] == ['command source --stop-on-error false "/w \\"x\\"/d/settings.lldb"']


def test_the_platform_mode_needs_no_files_of_the_phone_and_leaves_its_own_alone() -> None:
    mode = PlatformMode(
        "remote-android",
        "connect://[127.0.0.1:16001]:5039",
        {"ANDROID_SERIAL": "127.0.0.1:16001"},
        "/d/app/prog",
        working_dir="/d/a b",
        args=("x y", '"q"'),
        env={"K": "v w", "BAD": "two\nlines"},
    )
    script = replace(SCRIPT, mode=mode)
    lines = recipes.setup_commands(script)
    assert lines[2:8] == [
        "settings set platform.use-module-cache false",
        "settings set target.auto-install-main-executable false",
        "script import os; os.environ.update({'ANDROID_SERIAL': '127.0.0.1:16001'})",
        "platform select remote-android",
        "platform connect connect://[127.0.0.1:16001]:5039",
        'target create --no-dependents --remote-file "/d/app/prog" "/b 中/llm_demo"',
    ]
    [launch] = recipes.process_commands(script)
    assert launch == (
        "process launch --stop-at-entry --disable-aslr false "
        r'--working-dir "/d/a b" --environment "K=v w" -- "x y" "\"q\""'
    )
    [_, waits] = recipes.adapter_files(script)[recipes.PROCESS_FILE]
    assert waits == f"devkit-stopped {launch}"
    joins = replace(script, mode=replace(mode, pid=47), attach=True)
    assert recipes.connect_commands(joins) == ["process attach --pid 47"]


def test_f1_both_ports_of_the_platform_are_fixed() -> None:
    """What travels between the hosts is in tests/e2e/test_tunnel_ports.py."""
    plan, right = (json.loads((F1 / name).read_text()) for name in ("plan_input.json", "expected.json"))
    ports = plan["platform_port"], plan["gdbserver_port"]
    assert (
        platform_command("lldb-server", *ports, stays=True)
        == (right["lldb_server_command"].partition(" (")[0])
    )
    for said in re.findall("'([^']+)'", right["must_fail_loudly"]):
        assert explain_unreachable(f"(lldb) process attach --pid 3\nerror: {said}\n") == f"error: {said}"
    # The alternative with one port: devkit's is a socket of the phone that no other machine reaches.
    words = right["one_port_alternative"].partition(",")[0].replace("PID", "47").split()
    words[2] = "unix-abstract://x"
    assert server_command("lldb-server", "x", None, 47) == "exec " + " ".join(words)


@pytest.mark.parametrize(
    "said",
    [
        "error: attach failed: Failed to connect port",
        "error: failed to connect to port 5040",
        "error: Unable to launch: failed to get reply to handshake packet within timeout of 6.0 seconds",
    ],
)
def test_a_second_port_that_is_missing(said: str) -> None:
    assert explain_unreachable(f"(lldb) process attach --pid 3\n{said}\n") == said
    assert explain_unreachable("(lldb) process attach --pid 3\nProcess 3 stopped\n") is None


def test_a_server_that_waits_gets_no_program() -> None:
    launch = Launch("/d/app/prog", ("a b",), "/d/app", {"K": "v"})
    told = server_command("/d/lldb-server", "name", launch, None)
    waiting = server_command("/d/lldb-server", "name", launch, None, waits=True)
    assert told == waiting + " -- /d/app/prog 'a b'"
