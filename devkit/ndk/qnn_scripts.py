"""The QNN SDK's own checks, run so that they change nothing, and what their output says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devkit import process
from devkit.ndk.qnn_sdk import QnnSdk, tool_environment

SCRIPT_TIMEOUT_S = 120.0
DEPENDENCY_SCRIPT = "bin/check-linux-dependency.sh"
ENVCHECK = "bin/envcheck"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_INSTALLERS = ("apt-get", "apt", "aptitude", "yum", "dnf", "pip", "pip3", "snap")
_MISSING = re.compile(r"(?:not installed|not found|missing|could not find)", re.IGNORECASE)
# Questions to an installer that change nothing.
_READS = "list|show|policy|search|check|info|help|freeze|--version|-v|--help|-h"


@dataclass(frozen=True)
class DependencyReport:
    """What check-linux-dependency.sh said.

    `would_install` are the packages it wanted to install, `missing` its lines about missing things.
    """

    script: Path
    exit_code: int
    would_install: tuple[str, ...]
    missing: tuple[str, ...]
    tail: str


@dataclass(frozen=True)
class EnvcheckSection:
    """One part of envcheck's output: "Android NDK", "Clang", "PyTorch", …"""

    name: str
    ok: bool
    text: str


def run_dependency_script(sdk: QnnSdk) -> DependencyReport | None:
    """Run check-linux-dependency.sh; None when the SDK has none.

    The script installs what is missing, with sudo; newer ones know --dry-run. A check must not
    change the machine, so installers and sudo on its PATH are replaced by scripts that only write
    down what they were asked for.

    Raises:
        OperationTimeout: it does not end.
    """
    script = sdk.path / DEPENDENCY_SCRIPT
    if not script.is_file():
        return None
    knows_dry_run = "--dry-run" in script.read_text("utf-8", "replace")
    with tempfile.TemporaryDirectory(prefix="devkit-qnn-") as folder:
        log = Path(folder) / "asked"
        _write_stand_ins(Path(folder), log)
        done = process.run(
            ["bash", script, *(["--dry-run"] if knows_dry_run else [])],
            env={
                **tool_environment(sdk),
                "PATH": folder + os.pathsep + os.environ.get("PATH", ""),
                "DEBIAN_FRONTEND": "noninteractive",
            },
            stdin=b"",
            check=False,
            timeout_s=SCRIPT_TIMEOUT_S,
        )
        asked = log.read_text("utf-8").splitlines() if log.exists() else []
    text = _plain(done.stdout + done.stderr)
    return DependencyReport(
        script,
        done.exit_code,
        _packages(asked),
        tuple(line.strip() for line in text.splitlines() if _MISSING.search(line)),
        process.tail(text, 5),
    )


def run_envcheck(sdk: QnnSdk) -> list[EnvcheckSection] | None:
    """Run `envcheck -a`; None when the SDK has none.

    Raises:
        OperationTimeout: it does not end.
        ToolMissing: it cannot be started.
    """
    script = sdk.path / ENVCHECK
    if not script.is_file():
        return None
    with script.open("rb") as stream:
        first = stream.readline(200)
    # Archives unpacked by tools without modes lose the executable bit.
    runner = [] if os.access(script, os.X_OK) else ["bash"]
    if runner and b"python" in first:
        runner = ["python3"]
    environment = tool_environment(sdk)
    done = process.run(
        [*runner, script, "-a"], env=environment, stdin=b"", check=False, timeout_s=SCRIPT_TIMEOUT_S
    )
    return parse_envcheck(_plain(done.stdout + b"\n" + done.stderr))


def parse_envcheck(text: str) -> list[EnvcheckSection]:
    """Sections of envcheck's output.

    "Checking X Environment", a line of dashes, `[INFO]` / `[ERROR]` / a sentence, another line.
    """
    sections: list[EnvcheckSection] = []
    name: str | None = None
    lines: list[str] = []

    def close() -> None:
        if name is not None:
            bad = [line for line in lines if re.match(r"\[(ERROR|WARN(ING)?)\]", line)]
            shown = [re.sub(r"^\[\w+\]\s*", "", line) for line in (bad or lines)]
            sections.append(EnvcheckSection(name, not bad and bool(lines), " ".join(shown)))

    for raw in _ANSI.sub("", text).splitlines():
        line = raw.strip()
        found = re.fullmatch(r"Checking (.+?) Environment\W*", line)
        if found:
            close()
            name, lines = found.group(1), []
        elif line and not re.fullmatch(r"-{3,}", line):
            lines.append(line)
    close()
    return sections


def _write_stand_ins(folder: Path, log: Path) -> None:
    path = os.environ.get("PATH", "")
    for name in _INSTALLERS:
        real = shutil.which(name, path=path) or "/bin/false"
        text = (
            "#!/bin/sh\n"
            f"# Not {name}: devkit checks, and a check changes nothing.\n"
            'for word in "$@"; do\n'
            f'  case "$word" in {_READS}) exec {shlex.quote(real)} "$@" ;; -*) ;; *) break ;; esac\n'
            "done\n"
            f"printf '%s' {shlex.quote(name)} >> {shlex.quote(str(log))}\n"
            f"printf ' %s' \"$@\" >> {shlex.quote(str(log))}\n"
            f"echo >> {shlex.quote(str(log))}\n"
        )
        _executable(folder / name, text)
    # sudo would ask for a password; what it was to run meets the stand-ins above.
    _executable(
        folder / "sudo",
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do case "$1" in -*|*=*) shift ;; *) break ;; esac; done\n'
        '[ $# -eq 0 ] || exec "$@"\n',
    )


def _executable(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


def _packages(asked: list[str]) -> tuple[str, ...]:
    """The packages of `apt-get install -y a b`; every other request as it is."""
    found: dict[str, None] = {}
    for line in asked:
        words = line.split()
        if "install" in words:
            found.update(dict.fromkeys(w for w in words[words.index("install") + 1 :] if w[:1] != "-"))
        elif "update" not in words:
            found[line] = None
    return tuple(found)


def _plain(raw: bytes) -> str:
    return _ANSI.sub("", raw.decode("utf-8", "replace"))
