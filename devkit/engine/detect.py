"""What kind of engine a source folder holds."""

from __future__ import annotations

import re
from pathlib import Path

_PROJECT_MNN = re.compile(r"^\s*project\s*\(\s*\"?MNN\"?[\s)]", re.IGNORECASE | re.MULTILINE)
_MNN_OPTION = re.compile(r"^\s*option\s*\(\s*MNN_\w+", re.IGNORECASE | re.MULTILINE)


def detect_engine(root: Path) -> str | None:
    """ "mnn", "cmake" for any other CMake project, or None when there is no CMakeLists.txt."""
    try:
        text = (root / "CMakeLists.txt").read_text("utf-8", "replace")
    except OSError:
        return None
    return "mnn" if _PROJECT_MNN.search(text) and _MNN_OPTION.search(text) else "cmake"
