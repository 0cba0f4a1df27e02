"""Reading, hashing and stripping what will probably travel, while the phone is awaited."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import DevkitError
from devkit.runtime.hashes import HashCache
from devkit.symbols import ElfInfo, Stripper, is_elf, read_elf

if TYPE_CHECKING:
    from devkit.config import Config


class WarmUp:
    """Fills the caches of hashes and of stripped copies in the background, from the moment it is made.

    A guess, and nothing rests on it: the plan asks the same caches, which know a file by its size and times,
    and does itself what is not in them.

    Args:
        program: the program; of the libraries it needs those that are `libraries`, or beside it, are read.
        opened: further files that travel.
        stripper_for: makes the stripper for a program; None: nothing is stripped.
    """

    def __init__(
        self,
        program: Path,
        libraries: Iterable[Path],
        opened: Iterable[Path],
        stripper_for: Callable[[ElfInfo], Stripper | None],
    ) -> None:
        self._program, self._opened, self._stripper_for = program, tuple(opened), stripper_for
        self._libraries = {path.name: path for path in libraries}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the caches are filled."""
        if self._thread.is_alive():
            with output.current().progress("hashing and stripping", None):
                self._thread.join()

    def _run(self) -> None:
        try:
            files = self._likely()
            stripper = self._stripper_for(files[0])
            with HashCache() as hashes:
                for file in files:
                    hashes.sha256(file.path)
                    copy = stripper.stripped(file, hashes.sha256) if stripper else None
                    if copy is not None:
                        hashes.sha256(copy)
        except (DevkitError, OSError):
            # The plan meets the same and says it.
            pass

    def _likely(self) -> list[ElfInfo]:
        files = [read_elf(path) for path in (self._program, *self._opened)]
        seen = {file.path.name for file in files}
        for file in files:
            for name in file.needed:
                path = self._libraries.get(name, file.path.parent / name)
                if name not in seen and is_elf(path):
                    seen.add(name)
                    files.append(read_elf(path))
        return files


def libc_of(program: ElfInfo) -> str:
    """The C library a program needs, by the linker it asks for; the phone need not be asked."""
    return "glibc" if "ld-linux" in (program.interpreter or "") else "bionic"


def stripper_for(config: Config, libc: str) -> Stripper | None:
    """What strips programs for this C library; None: `deploy.strip` forbids it."""
    if config.deploy.strip == "never":
        return None
    tool = None
    if libc != "glibc":
        from devkit.ndk import ndk_for

        with contextlib.suppress(DevkitError):  # then one of this machine, if it has one
            tool = ndk_for(config).find_tool("llvm-strip")
    return Stripper(tool, keep_symbols=config.deploy.strip == "debug")
