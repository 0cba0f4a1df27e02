"""`devkit debug APP --vscode`: VS Code is told to start a configuration; a stand-in does what `code` does."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from devkit.device import Device
from tests.e2e.f5_project import ADAPTERS, check_nothing_is_left, make_project
from tests.e2e.support import REPO, Cli, Sim, TinyApp, eventually

# `code` of VS Code: notes its words, and as CodeLLDB does splits the URL, which VS Code has decoded once.
CODE = """\
#!/bin/sh
"exec" "{python}" "$0" "$@"  # a path with a blank may not stand in the first line; Python takes this for text
import json, subprocess, sys
from urllib.parse import unquote
with open({calls!r}, "a", encoding="utf-8") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "--open-url":
    query = unquote(sys.argv[2].partition("?")[2])
    given = {{key: unquote(value) for key, _, value in (part.partition("=") for part in query.split(","))}}
    command = [sys.executable, {f5!r}, given["folder"] + "/.vscode/launch.json", given["name"], *{more!r}]
    with open({log!r}, "wb") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
"""


@pytest.fixture
def project(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(workdir / "home"))
    for name in ("TERM_PROGRAM", "VSCODE_IPC_HOOK_CLI", "CODELLDB_LAUNCH_CONNECT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return make_project(workdir, tiny, devkit)


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device, workdir: Path) -> Iterator[None]:
    yield
    check_nothing_is_left(device, workdir)


def put_on_path(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "code").write_text(text, "utf-8")
    (folder / "code").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def calls_of(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text("utf-8").splitlines()]


def test_code_opens_the_url_and_the_session_begins(
    project: Path, tiny: TinyApp, devkit: Cli, workdir: Path
) -> None:
    folder, log = workdir / "bin 码", workdir / "session.json"
    path = put_on_path(
        folder,
        CODE.format(
            python=sys.executable, calls=str(folder / "calls"), f5=str(REPO / "tests/tools/f5.py"),
            log=str(log),
            more=["--adapter", ADAPTERS["codelldb-23"], "--break", f"{tiny.folder}/inner.cpp:4"],
        ),
    )  # fmt: skip
    ran = devkit("debug", "tiny_app", "--vscode", "--json", cwd=project, PATH=path)
    assert ran.code == 0, ran.err
    assert ran.data == {
        "configuration": "devkit: tiny_app on the phone", "folder": str(project), "way": "url"
    }  # fmt: skip
    assert calls_of(folder)[0] == [str(project)] and calls_of(folder)[1][0] == "--open-url"

    def over() -> bool:
        return log.read_text("utf-8").rstrip().endswith("}")

    assert eventually(over, 60), log.read_text("utf-8")
    session = json.loads(log.read_text("utf-8"))
    assert session["stops"][0]["frames"][0][1:] == [f"{tiny.folder}/inner.cpp", 4]
    assert session["exit"] == 7 and session["task_exit"] == 0


def test_code_that_fails_gives_the_steps(project: Path, devkit: Cli, workdir: Path) -> None:
    path = put_on_path(workdir / "bin", "#!/bin/sh\necho 'cannot open display' >&2\nexit 3\n")
    ran = devkit("debug", "tiny_app", "--vscode", "--stdin", "-", cwd=project, PATH=path)
    assert ran.code == 125 and "cannot open display" in ran.err and "exit code 3" in ran.err
    assert f"try: open {project} in VS Code" in ran.err
    assert "choose 'devkit: tiny_app on the phone, with input'" in ran.err and "F5" in ran.err
    nowhere = devkit("debug", "tiny_app", "--vscode", cwd=project, PATH=str(workdir / "none"))
    assert nowhere.code == 125 and "no `code` on PATH" in nowhere.err and "then F5" in nowhere.err
    remote = devkit("debug", "tiny_app", "--vscode", cwd=project, PATH=path, VSCODE_IPC_HOOK_CLI="/tmp/x")
    assert remote.code == 125 and "VS Code Remote" in remote.err and "rpcServer" in remote.err


class Window:
    """CodeLLDB's port in a window of VS Code: reads to the end, answers once."""

    def __init__(self, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked: dict[str, Any] = {}
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            text = b"".join(iter(lambda: connection.recv(65536), b""))
            self.asked = json.loads(text)
            connection.sendall(self._answer)

    def close(self) -> None:
        self._thread.join(5)
        self._listener.close()


def test_codelldb_of_this_window_is_asked_by_its_port(project: Path, devkit: Cli, workdir: Path) -> None:
    window = Window(b'{"success":true}')
    file = workdir / "rpcaddress.txt"
    file.write_text(f"127.0.0.1:{window.port}")
    ran = devkit(
        "debug", "other", "--vscode", "--wait-for", "--json", cwd=project,
        CODELLDB_LAUNCH_CONNECT_FILE=str(file), CODELLDB_LAUNCH_CONFIG='{ token: "secret" }',
    )  # fmt: skip
    window.close()
    assert ran.code == 0 and ran.data["way"] == "port", ran.err
    assert window.asked["name"] == "devkit: other on the phone, wait for it (tiny)"
    assert window.asked["token"] == "secret" and window.asked["preLaunchTask"].endswith("wait for it (tiny)")
    assert f'"{project}/build/devkit/debug/other-wait/target.lldb"' in window.asked["targetCreateCommands"][0]


def test_a_port_that_refuses_is_told_beside_the_next_way(project: Path, devkit: Cli, workdir: Path) -> None:
    window = Window(b'{"success":false,"message":"Token mismatch"}')
    address = f"127.0.0.1:{window.port}"
    ran = devkit(
        "debug", "other", "--vscode", cwd=project, CODELLDB_LAUNCH_CONNECT=address, PATH=str(workdir / "none")
    )
    window.close()
    assert ran.code == 125 and f"CodeLLDB at {address} says: Token mismatch" in ran.err
    assert "no `code` on PATH" in ran.err
    closed = devkit(
        "debug", "other", "--vscode", cwd=project, CODELLDB_LAUNCH_CONNECT=address, PATH=str(workdir / "none")
    )
    assert closed.code == 125 and "refused" in closed.err


def test_lldb_dap_has_a_url_of_its_own(
    project: Path, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (project / "devkit.yaml").read_text("utf-8").replace("debugger: both", "debugger: lldb-dap")
    (project / "devkit.yaml").write_text(text, "utf-8")
    assert devkit("vscode", cwd=project).code == 0
    folder = workdir / "bin"
    path = put_on_path(
        folder, f'#!/bin/sh\nprintf \'["%s", "%s"]\\n\' "$1" "$2" >> \'{folder}/calls\'\nexit 1\n'
    )
    assert devkit("debug", "other", "--vscode", cwd=project, PATH=path, TERM_PROGRAM="vscode").code == 125
    [[option, url]] = calls_of(folder)
    given = parse_qs(unquote(urlsplit(url).query))
    config = json.loads(given["config"][0])
    assert option == "--open-url" and url.startswith("vscode://llvm-vs-code-extensions.lldb-dap/start?")
    assert config["preLaunchTask"] == "devkit: prepare other on the phone" and config["type"] == "lldb-dap"
    assert [command.rpartition("/")[2] for command in given["attachCommands"]] == [
        'target.lldb"',
        'process.lldb"',
    ]


def test_what_it_cannot_start_is_refused(project: Path, devkit: Cli) -> None:
    for words, told in (
        (["--attach", "7"], "--attach"),
        (["--break", "main", "--no-build"], "--break or --no-build"),
        (["--pick", "--wait-for"], "goes with one of"),
        (["--stdin", "file"], "typed into the task's terminal"),
    ):
        ran = devkit("debug", "tiny_app", "--vscode", *words, cwd=project)
        assert ran.code == 2 and told in ran.err, words
    assert "apps: tiny_app, other" in devkit("debug", "tinyapp", "--vscode", cwd=project).err
    file = project / ".vscode/launch.json"
    file.write_text(file.read_text("utf-8").replace("tiny_app on the phone", "mine"), "utf-8")
    ran = devkit("debug", "tiny_app", "--vscode", cwd=project)
    assert ran.code == 2 and "has no configuration 'devkit: tiny_app on the phone'" in ran.err
    assert "devkit: mine" in ran.err and "try: devkit vscode" in ran.err
    file.write_text("{ 'a': 1 }", "utf-8")
    assert "launch.json:1:3" in devkit("debug", "tiny_app", "--vscode", cwd=project).err
    shutil.rmtree(file.parent)
    assert "there is no such file" in devkit("debug", "tiny_app", "--vscode", cwd=project).err
