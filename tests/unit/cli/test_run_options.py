"""What the options of `devkit run` say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.cli.run_detached import check_actions
from devkit.cli.run_options import make_request, parse_env
from devkit.config import AppConfig
from devkit.errors import FileError, UsageError
from devkit.runtime.request import RunRequest


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "a=b")
    assert parse_env(["A=1", "B=", "C=x=y", "HERE", "A=2"]) == {"A": "2", "B": "", "C": "x=y", "HERE": "a=b"}


def test_a_dash_is_this_process_stdin() -> None:
    nothing = {"env": None, "cwd": None, "tty": None, "live": False, "timeout": None, "taskset": None}
    request = make_request(stdin=Path("-"), root=False, pull=None, pull_to=None, **nothing)  # type: ignore[arg-type]
    assert request == RunRequest()


def test_what_is_refused_before_a_build(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        RunRequest(stdin=tmp_path / "none").check(AppConfig("a"))
    with pytest.raises(UsageError, match="no path below"):
        RunRequest().check(AppConfig("a", pull=("../x",)))
    assert RunRequest(pull=("b", "a")).patterns(AppConfig("a", pull=("a",))) == ("a", "b")


@pytest.mark.parametrize("action", ["detach", "logs", "status", "stop"])
def test_one_action_alone(action: str) -> None:
    none = dict.fromkeys(("detach", "logs", "status", "stop", "follow"), False)
    check_actions(**{**none, action: True}, args=(), foreground=False)
    for other in ("detach", "logs", "status", "stop"):
        if other != action:
            with pytest.raises(UsageError, match="together"):
                check_actions(**{**none, action: True, other: True}, args=(), foreground=False)
    with pytest.raises(UsageError, match="do not go with"):
        check_actions(**{**none, action: True}, args=(), foreground=True)
