"""The program of the self-test: compiled with the toolchain that builds for the phone, and kept."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.engine.small_programs import compile_small

if TYPE_CHECKING:
    from devkit.engine.toolchain import Toolchain

PROGRAM, SOURCE = "devkit-self-test", "self_test.c"
MARKER = "devkit self-test: breakpoint"


def compile_program(toolchain: Toolchain) -> Path:
    """The program for the toolchain's ABI. Raises as `compile_small`."""
    return compile_small(toolchain, __name__, PROGRAM, SOURCE)


def breakpoint_line() -> int:
    """The line of the source that the marker comment announces."""
    text = resources.files(__name__).joinpath(SOURCE).read_text("utf-8")
    return next(number for number, line in enumerate(text.splitlines(), start=1) if MARKER in line)
