"""Where `--logcat` of a session may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.cli.run_logcat import check_place
from devkit.errors import UsageError


def test_nothing_is_written_into_a_prompt(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="prompt"):
        check_place(Path("-"), prompt=True)
    with pytest.raises(UsageError, match="folder"):
        check_place(tmp_path, prompt=False)
    check_place(Path("-"), prompt=False)
    check_place(tmp_path / "log.txt", prompt=True)
    check_place(None, prompt=True)
