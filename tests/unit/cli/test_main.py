"""The command line's frame: lazy loading, one error handler, exit codes, JSON errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from devkit import __version__
from devkit.cli.commands import COMMANDS


def devkit(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devkit", *args],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_is_answered_without_typer() -> None:
    code = (
        "import sys; sys.argv = ['devkit', '--version']\nfrom devkit.__main__ import main\n"
        "try: main()\nfinally: assert 'typer' not in sys.modules and 'yaml' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"devkit {__version__}\n", "")


def test_help_lists_every_command_and_loads_none() -> None:
    done = devkit("--help")
    assert done.returncode == 0
    for name, entry in COMMANDS.items():
        assert name in done.stdout and entry.help.split(".")[0] in done.stdout
    heavy = ("yaml", "adbutils", "paramiko", "rich", "elftools", "jinja2", "devkit.sim", "devkit.engine")
    code = (
        "import sys\nfrom devkit.cli.main import run\nrun(['--help'])\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stderr.strip() == "[]"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    app = import_module(f"devkit.cli.{COMMANDS[name].module}").app
    assert isinstance(app, typer.Typer)
    done = devkit(name, "--help")
    assert done.returncode == 0 and "Usage: devkit " + name in done.stdout


@pytest.mark.parametrize("args", [("cnofig",), ("config", "shw"), ("config", "show", "--orign"), ("run",)])
def test_usage_errors_exit_2_with_a_hint_and_no_traceback(args: tuple[str, ...]) -> None:
    done = devkit(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error" in done.stderr and "try: devkit" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_command_names_the_nearest() -> None:
    assert "try: devkit config" in devkit("cnofig").stderr


def test_json_errors_are_json_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "devkit.yaml").write_text("enigne: mnn\n")
    done = devkit("config", "show", "--json", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == ""
    error = json.loads(done.stdout)
    assert error["kind"] == "ConfigError" and error["hints"][0] == "did you mean `engine`?"


def test_a_fault_of_devkit_is_named_as_one(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom devkit import config\nfrom devkit.cli.main import run\n"
        "def broken(*a, **k): raise RuntimeError('boom')\nconfig.load = broken\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    for extra, traceback_shown in ([], False), (["--debug"], True):
        done = subprocess.run(
            [sys.executable, "-c", code, "config", "show", *extra],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 125
        assert "devkit itself failed: RuntimeError: boom" in done.stderr
        assert ("Traceback (most recent call last)" in done.stderr) is traceback_shown


def test_config_show_origin(tmp_path: Path) -> None:
    (tmp_path / "devkit.yaml").write_text("engine: mnn\napps: {llm_demo: {args: [a b]}}\n")
    done = devkit("config", "show", "--origin", "--json", cwd=tmp_path, DEVKIT_BUILD_JOBS="2")
    shown = json.loads(done.stdout)
    assert shown["engine"] == {"value": "mnn", "origin": f"project ({tmp_path / 'devkit.yaml'}:1)"}
    assert shown["build.jobs"] == {"value": 2, "origin": "environment (DEVKIT_BUILD_JOBS)"}
    assert shown["apps.llm_demo.args"]["value"] == ["a b"]


def test_config_keys_lists_all_options() -> None:
    rows = json.loads(devkit("config", "keys", "--json").stdout)
    keys = {row["key"] for row in rows}
    assert {"engine", "device.serial", "profiles.NAME.options", "apps.NAME.files"} <= keys


def test_a_closed_pipe_ends_it_as_it_ends_any_program() -> None:
    command = f"'{sys.executable}' -m devkit config keys | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_version_is_json_when_asked() -> None:
    assert json.loads(devkit("--version", "--json").stdout) == {"version": __version__}


def test_common_options_may_come_before_the_command(tmp_path: Path) -> None:
    assert json.loads(devkit("--json", "config", "show", cwd=tmp_path).stdout)["build.type"]


def test_completion_is_offered_once_and_helps_are_whole_sentences() -> None:
    assert "--install-completion" in devkit("--help").stdout
    for words in (["device"], ["device", "list"], ["run"]):
        assert "completion" not in devkit(*words, "--help").stdout
    listed = devkit("device", "--help", COLUMNS="200").stdout
    assert "with their state and what to do about it" in " ".join(listed.split())


def test_completion_knows_the_lazy_commands() -> None:
    for words, word_number, expected in (
        ("devkit de", "1", {"demo", "deploy", "debug", "device"}),
        ("devkit device se", "2", {"select"}),
        ("devkit run --time", "2", {"--timeout"}),
    ):
        done = devkit(_DEVKIT_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=word_number)
        assert set(done.stdout.split()) == expected, done.stderr
    assert "complete_bash" in devkit(_DEVKIT_COMPLETE="source_bash").stdout


def raising(exception: str, *args: str) -> subprocess.CompletedProcess[str]:
    """devkit whose settings cannot be loaded, for a reason given as Python text."""
    code = (
        "import errno, sys\nfrom devkit import config\nfrom devkit.cli.main import run\n"
        f"def broken(*a, **k): raise {exception}\nconfig.load = broken\nsys.exit(run(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_refused_file_is_not_a_fault_of_devkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    refused = tmp_path / "state" / "devkit" / "file"
    for number, reason in (("EACCES", "Permission denied"), ("ENOSPC", "No space left on device")):
        done = raising(f"OSError(errno.{number}, 'x', {str(refused)!r})", "config", "show")
        assert done.returncode == 125
        assert f"{refused} cannot be used: {reason}" in done.stderr
        assert "XDG_STATE_HOME=" in done.stderr and "fault" not in done.stderr
    assert "devkit itself failed" in raising("OSError(errno.ENOENT, 'x', 'y')", "config", "show").stderr


def test_ctrl_c_says_so_in_words_and_in_json() -> None:
    done = raising("KeyboardInterrupt", "config", "show")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    done = raising("RuntimeError('in a class') from KeyboardInterrupt()", "config", "show")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    done = raising("KeyboardInterrupt", "config", "show", "--json")
    assert done.returncode == 130 and json.loads(done.stdout)["error"] == "interrupted"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize("args", ["config keys", "--version", "nosuch"])
def test_closed_standard_streams(closed: str, args: str, tmp_path: Path) -> None:
    """A new file must not get the number of a stream that others believe to be theirs."""
    command = f"'{sys.executable}' -m devkit {args} {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if args == "nosuch" else 0), done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_behind_stdout_is_said_and_behind_stderr_is_not_fatal() -> None:
    run = f"'{sys.executable}' -m devkit"
    done = subprocess.run(["sh", "-c", f"{run} config keys >/dev/full"], capture_output=True, text=True)
    assert done.returncode == 125
    assert "the output cannot be written" in done.stderr and "No space left on device" in done.stderr
    done = subprocess.run(
        ["sh", "-c", f"{run} config keys --json >/dev/full"], capture_output=True, text=True
    )
    assert done.returncode == 125 and "the output cannot be written" in done.stderr
    done = subprocess.run(["sh", "-c", f"{run} nosuch 2>/dev/full"], capture_output=True, text=True)
    assert done.returncode == 2


def test_a_missing_value_names_the_command(tmp_path: Path) -> None:
    missing = devkit("qnn", "export", "--soc", cwd=tmp_path)
    assert missing.returncode == 2
    assert "devkit qnn export: Option '--soc' requires" in missing.stderr
    assert "try: devkit qnn export --help" in missing.stderr


def test_qnn_export_tells_a_wrong_folder_before_it_asks_for_an_sdk(tmp_path: Path) -> None:
    done = devkit("qnn", "export", "nowhere", cwd=tmp_path, HOME=str(tmp_path))
    assert (done.returncode, "there is no model folder" in done.stderr) == (2, True)


def test_logcat_of_a_file_has_no_adb_command_to_print(tmp_path: Path) -> None:
    done = devkit("logcat", "--file", "log.txt", "--print-commands", cwd=tmp_path)
    assert (done.returncode, "--file reads a saved one" in done.stderr) == (2, True)
