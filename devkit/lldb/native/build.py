"""`python -m devkit.lldb.native.build`: compile wait.c into prebuilt/, with zig."""

from __future__ import annotations

import sys
from pathlib import Path

from devkit import output, process

SOURCES = Path(__file__).parent
PREBUILT = SOURCES / "prebuilt"
PROCESSORS = ("x86_64", "aarch64")
# The compiler that made what is in prebuilt/; another one makes other bytes.
ZIG_VERSION = "0.17.1"
# 16 KiB pages: phones with them load nothing that is aligned to less.
_OPTIONS = (
    *("-std=c11", "-Os", "-ffreestanding", "-nostdlib", "-fPIC", "-fvisibility=hidden", "-shared", "-s"),
    *("-fno-stack-protector", "-fno-sanitize=all", "-fno-builtin", "-fno-unwind-tables"),
    *("-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none"),
    *("-Wl,--gc-sections", "-Wl,-z,max-page-size=16384", "-Wl,-soname,devkit_wait.so"),
)


def prebuilt(machine: str) -> Path:
    """The library for a processor, as ElfInfo.machine names it; it may not exist."""
    return PREBUILT / f"wait-{machine}.so"


def build_all(target: Path) -> list[Path]:
    """Compile it for every processor into a folder.

    Raises:
        ToolFailed: zig is not there or finds an error.
    """
    target.mkdir(parents=True, exist_ok=True)
    made = [target / prebuilt(processor).name for processor in PROCESSORS]
    for processor, result in zip(PROCESSORS, made, strict=True):
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{processor}-linux-none"]
        # Relative names, so that the place of this checkout leaves no trace in the result.
        process.run([*command, *_OPTIONS, "-o", str(result), "wait.c"], cwd=SOURCES)
    return made


if __name__ == "__main__":
    for path in build_all(PREBUILT):
        output.current().note(f"{path.relative_to(SOURCES)}: {path.stat().st_size} bytes")
