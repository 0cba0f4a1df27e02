"""A program with many libraries, as an engine's process on a phone has them: generated, and built here."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIBRARIES = 200
# Where the benchmark stops: this library's function, at its only line.
STOP_AT = 150
# What a library carries besides: 200 of them make the 34 MB that field measurements had.
_PADDING_BYTES = 128 * 1024


def build(folder: Path) -> Path:
    """The program `crowd`, which calls all its libraries for ever; they are beside it."""

    def library(number: int) -> None:
        source = folder / f"s{number}.c"
        source.write_text(
            f"const unsigned char padding{number}[{_PADDING_BYTES}] = {{1, {number}}};\n"
            f"int f{number}(int x) {{ return x + padding{number}[1]; }}\n"
        )
        name = f"libcrowd{number:03d}.so"
        flags = ["-g", "-O0", "-fPIC", "-shared", "-nostdlib", "-Wl,--build-id", f"-Wl,-soname,{name}"]
        subprocess.run(["gcc", *flags, "-o", folder / name, source], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(library, range(LIBRARIES)))
    calls = "".join(f"int f{n}(int); " for n in range(LIBRARIES))
    total = " + ".join(f"f{n}(i)" for n in range(LIBRARIES))
    (folder / "crowd.c").write_text(
        f"#include <stdio.h>\n#include <unistd.h>\n{calls}\n"
        f"int tick(int i) {{ return {total}; }}\n"
        "int main(void) { for (int i = 0;; i++) { tick(i); usleep(20000); } }\n"
    )
    names = [f"-lcrowd{n:03d}" for n in range(LIBRARIES)]
    command = ["gcc", "-g", "-O0", "-Wl,--build-id", "-o", "crowd", "crowd.c", "-L.", "-Wl,--no-as-needed"]
    subprocess.run([*command, *names], cwd=folder, check=True)
    return folder / "crowd"
