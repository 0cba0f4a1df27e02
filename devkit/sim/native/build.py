"""`python -m devkit.sim.native.build`: compile the C files of this folder into prebuilt/, with zig."""

from __future__ import annotations

import sys
from pathlib import Path

from devkit import output, process

SOURCES = Path(__file__).parent
PREBUILT = SOURCES / "prebuilt"
PROCESSORS = ("x86_64", "aarch64")
# The compiler that made what is in prebuilt/; another one makes other bytes.
ZIG_VERSION = "0.17.1"
_OPTIONS = (
    *("-std=c11", "-Os", "-ffreestanding", "-nostdlib", "-fPIC", "-fvisibility=hidden"),
    *("-fno-stack-protector", "-fno-sanitize=all", "-fno-builtin"),
    *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    *("-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none", "-Wl,--gc-sections", "-s"),
)
_PROGRAMS = {
    "applet": ("-static",),
    # Small pages keep its parts together: it is mapped as one piece behind ld.so.
    "linker_hook": ("-static", "-Wl,-e,hook_start", "-Wl,-z,max-page-size=4096"),
    "clock": ("-shared", "-Wl,-soname,libdevkit_clock.so"),
    "crash": ("-shared", "-Wl,-soname,libdevkit_crash.so"),
}


def build_all(target: Path) -> list[Path]:
    """Compile every program for every processor into a folder.

    Raises:
        ToolFailed: zig is not there or finds an error.
    """
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for name, options in _PROGRAMS.items():
        for processor in PROCESSORS:
            result = target / f"{name}-{processor}"
            command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{processor}-linux-none"]
            # Relative names, so that the place of this checkout leaves no trace in the result.
            process.run([*command, *_OPTIONS, *options, "-o", str(result), f"{name}.c"], cwd=SOURCES)
            made.append(result)
    return made


if __name__ == "__main__":
    for path in build_all(PREBUILT):
        output.current().note(f"{path.relative_to(SOURCES)}: {path.stat().st_size} bytes")
