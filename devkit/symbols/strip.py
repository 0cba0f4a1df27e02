"""Copies of programs and libraries without what only a debugger on this machine needs."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from devkit import paths, process
from devkit.errors import DevkitError
from devkit.symbols.elf import ElfInfo, read_elf

_TIMEOUT_S = 300.0
_KEEP_DAYS = 30
# GNU triples under which Debian has binutils for other machines.
_TRIPLES = {
    "aarch64": "aarch64-linux-gnu", "arm": "arm-linux-gnueabihf", "x86_64": "x86_64-linux-gnu",
    "i386": "i686-linux-gnu", "riscv64": "riscv64-linux-gnu",
}  # fmt: skip


class Stripper:
    """Makes stripped copies and keeps them by content, so that each file is stripped once.

    Args:
        tool: of the NDK (llvm-strip), which strips every machine's files; None: one of this machine is
            looked for.
        keep_symbols: leave the symbol table in them, by which the phone's own crash reports name functions.
            Of MNN's libMNN.so it is a third of what is left without debug information.
    """

    def __init__(self, tool: Path | None = None, *, keep_symbols: bool = False) -> None:
        self._tool = tool
        self._option = "--strip-debug" if keep_symbols else "--strip-all"
        self._folder = paths.cache_dir() / "stripped"
        self._swept = False

    def stripped(self, elf: ElfInfo, digest: Callable[[Path], str]) -> Path | None:
        """The copy that travels instead of a file, None where the file itself does.

        That is what has no build-id (nothing would lead from the copy back to its symbols), has no debug
        information, or cannot be stripped here.

        Args:
            digest: the SHA-256 of a file, in hexadecimal.
        """
        if elf.build_id is None or not elf.has_debug_info or elf.machine not in _TRIPLES:
            return None
        tool = self._tool or _tool_for(elf.machine)
        if tool is None:
            return None
        copy = self._folder / f"{elf.build_id}-{digest(elf.path)[:16]}{self._option}"
        if not copy.is_file():
            self._sweep()
            if not _strip(tool, self._option, elf, copy):
                return None
        with contextlib.suppress(OSError):
            os.utime(copy)  # kept while it is used
        return copy

    def _sweep(self) -> None:
        """Remove copies that nothing has used for a month."""
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - _KEEP_DAYS * 86400
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
                if file.stat().st_mtime < oldest:
                    file.unlink()


def _strip(tool: Path, option: str, elf: ElfInfo, copy: Path) -> bool:
    """Make the copy; whether it can take the file's place."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}.tmp")
    try:
        process.run([tool, option, "-o", temporary, elf.path], timeout_s=_TIMEOUT_S)
        made = read_elf(temporary)
        # A tool that does not know the file's features may damage it without a word.
        same = (made.build_id, made.needed, made.soname, made.interpreter, made.machine) == (
            elf.build_id, elf.needed, elf.soname, elf.interpreter, elf.machine,
        )  # fmt: skip
        if not same or temporary.stat().st_size >= elf.path.stat().st_size:
            return False
        temporary.chmod(elf.path.stat().st_mode & 0o777)
        os.replace(temporary, copy)
        return True
    except (DevkitError, OSError):
        return False
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _tool_for(machine: str) -> Path | None:
    own = os.uname().machine if hasattr(os, "uname") else ""
    names = [f"{_TRIPLES[machine]}-strip", "llvm-strip"]
    if machine == {"arm64": "aarch64"}.get(own, own):
        names.insert(0, "strip")
    for name in names:
        found = shutil.which(name)
        if found:
            return Path(found)
    return None
