"""C++ names as they are in the source: by a tool of this machine or of an NDK, all names at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from devkit import process
from devkit.errors import DevkitError
from devkit.symbols.functions import qualified_name

_TOOLS = ("llvm-cxxfilt", "c++filt")
_TIMEOUT_S = 60.0


def demangle(names: Iterable[str], *, beside: Path | None = None) -> dict[str, str]:
    """Each mangled name that could be read, and what it means; the others are left out.

    Where there is no tool, scope and name are told without parameters.

    Args:
        beside: a program of an NDK; its folder is looked into first.
    """
    wanted = [name for name in dict.fromkeys(names) if name.startswith("_Z") and "\n" not in name]
    if not wanted:
        return {}
    found = _by_tool(wanted, beside)
    if found is None:
        found = {name: plain for name in wanted if (plain := qualified_name(name)) is not None}
    return {name: text for name, text in found.items() if text != name}


def _by_tool(names: list[str], beside: Path | None) -> dict[str, str] | None:
    near = [beside.with_name(_TOOLS[0] + beside.suffix)] if beside is not None else []
    tools = [tool for tool in near if tool.is_file()]
    tools += [Path(there) for name in _TOOLS if (there := shutil.which(name)) is not None]
    for tool in tools:
        try:
            done = process.run([tool], stdin="\n".join(names).encode(), timeout_s=_TIMEOUT_S, check=False)
        except DevkitError:
            continue
        lines = done.text.splitlines()
        if done.exit_code == 0 and len(lines) == len(names):
            return dict(zip(names, lines, strict=True))
    return None
