"""Case D5: what is quoted comes back unchanged from a real sh."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devkit.device.quoting import quote
from devkit.errors import UsageError

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)] or ["sh"]


def words_seen_by(shell: str, line: str) -> list[str]:
    script = f"for word in {line}; do printf '%s\\0' \"$word\"; done"
    out = subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout
    return [word.decode() for word in out.split(b"\0")[:-1]]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_row_comes_back_unchanged(shell: str, case: Callable[[str, str], str]) -> None:
    for row in json.loads(case("D5", "argv.json")):
        assert words_seen_by(shell, quote(row)) == row


@pytest.mark.parametrize(
    "word", ["~", "~root", "a=b", "#x", "!!", "{a,b}", "a\rb", "\x7f", "ü 字", "-", "'", "''", "\\'", "a\n"]
)
@pytest.mark.parametrize("shell", SHELLS)
def test_words_that_shells_treat_specially(shell: str, word: str) -> None:
    assert words_seen_by(shell, quote(["x", word, "y"])) == ["x", word, "y"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=6))
def test_any_words(words: list[str]) -> None:
    assert words_seen_by(SHELLS[0], quote(words)) == words


def test_plain_words_stay_readable() -> None:
    assert quote(["ls", "-l", "/data/local/tmp/a_b.so", "x y"]) == "ls -l /data/local/tmp/a_b.so 'x y'"


def test_nul_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        quote(["echo", "a\0b"])
