"""Starts a configuration of launch.json in the VS Code that runs, by what its extensions take from outside.

CodeLLDB: a URL, and JSON on a local port (`lldb.rpcServer`), see extension/externalLaunch.ts of its source;
lldb-dap: a URL, see extension/src/uri-launch-handler.ts of LLVM's.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from devkit import lldb, output, process
from devkit.engine.plan import BUILD_ROOT
from devkit.errors import ConfigError, DebugError
from devkit.vscode_templates.jsonc import JsoncError, parse
from devkit.vscode_templates.merge import MARK
from devkit.vscode_templates.phone_sessions import LLDB_DAP, PhoneSession, phone_sessions

if TYPE_CHECKING:
    from devkit.config import Config

# The command, and the scheme of the URLs that its editor takes.
_EDITORS = (
    ("code", "vscode"),
    ("code-insiders", "vscode-insiders"),
    ("codium", "vscodium"),
    ("cursor", "cursor"),
)
_CODE_TIMEOUT_S = 60.0
# How long VS Code may take from the URL to the task: it asks whether the extension may open it.
START_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 5.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Started:
    """A session that VS Code has begun: by "port" or "url"."""

    configuration: str
    folder: Path
    way: str


def start_in_vscode(
    config: Config, app: str, kind: str, *, environ: Mapping[str, str], timeout_s: float = START_TIMEOUT_S
) -> Started:
    """Start the configuration of an app, and wait until its task runs.

    Args:
        kind: that of a PhoneSession.
        environ: says whether this is a terminal of VS Code, and how to reach it.

    Raises:
        ConfigError: launch.json has no such configuration, or cannot be read.
        DebugError: it could not be started; the hints say how to do it by hand.
    """
    folder = config.root
    sessions = phone_sessions(config.apps[app], str(config.source / BUILD_ROOT / "debug"))
    session = next(session for session in sessions if session.kind == kind)
    place = Path(session.place)
    entry = _find_configuration(config, folder, session)
    if lldb.is_begun(place):
        raise DebugError(
            f"{entry['name']} goes on already",
            hints=["end it in VS Code (Shift+F5)", f"devkit debug {app} --serve {place} --end"],
        )
    failures: list[str] = []
    address = _rpc_address(environ) if entry["type"] == "lldb" else None
    if address is not None:
        failure = _start_by_port(entry, address, environ, place)
        if failure is None:
            return Started(entry["name"], folder, "port")
        failures.append(failure)
    failure = _start_by_url(entry, folder, environ, place, timeout_s)
    if failure is None:
        return Started(entry["name"], folder, "url")
    failures.append(failure)
    raise DebugError(
        "VS Code could not be told to start it",
        evidence="\n".join(failures),
        hints=[
            f"open {folder} in VS Code: File > Open Folder",
            f"there: View > Run, choose {entry['name']!r} in the list on top, then F5",
        ],
    )


def _find_configuration(config: Config, folder: Path, session: PhoneSession) -> dict[str, Any]:
    name = MARK + session.name
    both = (
        (f"{name} (lldb-dap)", name) if config.vscode.debugger == LLDB_DAP else (name, f"{name} (lldb-dap)")
    )
    file = folder / ".vscode" / "launch.json"
    try:
        root = parse(file.read_bytes().decode("utf-8")).root
        there = root.value.get("configurations", ()) if root is not None else ()
    except FileNotFoundError:
        there = ()
    except (OSError, UnicodeDecodeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be read", evidence=str(error)) from None
    except JsoncError as error:
        raise ConfigError(
            f"{file}:{error.line}:{error.column} is not JSON with comments", evidence=error.what
        ) from None
    known = {entry.get("name"): entry for entry in there if isinstance(entry, dict)}
    found = next((known[name] for name in both if name in known), None)
    if found is None or found.get("type") not in ("lldb", LLDB_DAP):
        names = "\n".join(str(entry) for entry in known) or "it holds no configuration"
        raise ConfigError(
            f"{file} has no configuration {both[0]!r}",
            evidence=names if file.exists() else "there is no such file",
            hints=["devkit vscode   writes it", "devkit vscode --force   if you took it out"],
        )
    resolved: dict[str, Any] = _in_folder(found, folder)
    return resolved


def _in_folder(value: Any, folder: Path) -> Any:
    """The value as VS Code resolves it: not every way to it knows which folder is meant."""
    if isinstance(value, str):
        return value.replace("${workspaceFolder}", str(folder))
    if isinstance(value, list):
        return [_in_folder(item, folder) for item in value]
    if isinstance(value, dict):
        return {key: _in_folder(item, folder) for key, item in value.items()}
    return value


def _rpc_address(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Where CodeLLDB of this terminal's window listens (codelldb-launch reads the same variables)."""
    text = environ.get("CODELLDB_LAUNCH_CONNECT", "")
    try:
        if not text:
            text = Path(environ["CODELLDB_LAUNCH_CONNECT_FILE"]).read_text("utf-8")
        host, _, port = text.strip().rpartition(":")
        return host.strip("[]"), int(port)
    except (KeyError, OSError, ValueError):
        return None


def _start_by_port(
    entry: dict[str, Any], address: tuple[str, int], environ: Mapping[str, str], place: Path
) -> str | None:
    """Ask CodeLLDB. It answers when the session stands, that is after the build; None: it does."""
    import yaml

    try:
        given = yaml.safe_load(environ.get("CODELLDB_LAUNCH_CONFIG", "")) or {}
        token = {"token": given["token"]} if "token" in given else {}
    except (yaml.YAMLError, TypeError):
        token = {}
    where = f"CodeLLDB at {address[0]}:{address[1]}"
    try:
        with socket.create_connection(address, _CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(None)
            connection.sendall(json.dumps({**entry, **token}).encode())
            connection.shutdown(socket.SHUT_WR)
            with output.current().progress("VS Code builds and starts it", None):
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
        said = json.loads(answer)
        # 1.11.6 to 1.12.2 answer like a failure when they were not told to wait for the session's end.
        if said.get("success") or lldb.is_begun(place):
            return None
        return f"{where} says: {said.get('message') or 'no reason'}"
    except OSError as error:
        return f"{where}: {error}"
    except (ValueError, AttributeError):
        return f"{where} gave an answer that is none: {answer[:200]!r}"


def _start_by_url(
    entry: dict[str, Any], folder: Path, environ: Mapping[str, str], place: Path, timeout_s: float
) -> str | None:
    """Have the editor open a URL; None: its task runs."""
    if environ.get("VSCODE_IPC_HOOK_CLI"):
        # https://github.com/microsoft/vscode-remote-release/issues/4260
        return (
            "this is a terminal of VS Code Remote, whose `code` takes no URL; lldb.rpcServer in its settings "
            "gives CodeLLDB a port that this command uses (docs/vscode.md)"
        )
    path = environ.get("PATH")
    found = ((shutil.which(name, path=path), scheme) for name, scheme in _EDITORS)
    code, scheme = next(((program, scheme) for program, scheme in found if program), (None, ""))
    if code is None:
        return "there is no `code` on PATH (VS Code: Shell Command: Install 'code' command in PATH)"
    calls = [[code, "--open-url", _url(entry, folder, scheme)]]
    if environ.get("TERM_PROGRAM") != "vscode":
        # The window that was used last gets the URL.
        calls.insert(0, [code, str(folder)])
    for call in calls:
        done = process.run(call, timeout_s=_CODE_TIMEOUT_S, check=False)
        if done.exit_code != 0:
            said = process.tail(done.stderr or done.stdout, 3)
            return f"{process.show(call)} failed (exit code {done.exit_code})" + (f": {said}" if said else "")
    deadline = time.monotonic() + timeout_s
    with output.current().progress("VS Code starts it (it may ask whether to open the URL)", None):
        while not lldb.is_begun(place):
            if time.monotonic() > deadline:
                return (
                    f"{process.show(calls[-1])} was run, but within {timeout_s:g} s VS Code started nothing"
                )
            time.sleep(_POLL_S)
    return None


def _url(entry: dict[str, Any], folder: Path, scheme: str) -> str:
    # Quoted twice: VS Code takes the first layer off, and gives the extension a text that it splits itself.
    def value(text: str) -> str:
        return quote(quote(text, safe=""), safe="")

    if entry["type"] == "lldb":
        return (
            f"{scheme}://vadimcn.vscode-lldb/launch?name={value(entry['name'])},folder={value(str(folder))}"
        )
    # Lists given in `config` are overwritten by those given one by one, also when there are none.
    lists = {key: item for key, item in entry.items() if isinstance(item, list)}
    others = {key: item for key, item in entry.items() if key not in lists}
    words = [f"config={value(json.dumps(others, ensure_ascii=False))}"]
    words += [f"{key}={value(command)}" for key, commands in lists.items() for command in commands]
    return f"{scheme}://llvm-vs-code-extensions.lldb-dap/start?{'&'.join(words)}"
