"""Looks at a program about to be linked: finds its libraries as ld.so will, judges them as Android does."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit.sim.adbd.log import log
from devkit.sim.linker import messages
from devkit.sim.linker.messages import Refusal, refusal
from devkit.sim.linker.objects import BadObject, ElfObject, ObjectCache
from devkit.sim.logs.wire import CRASH, FATAL, LogWriter

SYSTEM_LIBRARIES = Path("/system/lib64")
SYSTEM = "/system/"
LOADER = Path("/system/bin/linker64")
_LOADER_PREFIX = "ld-linux"
_MACHINES = {"x86_64": 62, "aarch64": 183}
# Answers to native/linker_hook.c.
_FINE, _EXIT, _ABORT = b"\0", b"\1", b"\2"
_MAX_TEXT_BYTES = 4000


@dataclass(frozen=True)
class Start:
    """A program that is starting.

    Args:
        path: the file.
        name: its argv[0].
        folder: its working directory.
    """

    path: Path
    name: str
    folder: Path
    environment: Mapping[str, str]


class LinkChecker:
    """Checks programs for one phone.

    Args:
        page_size: of the phone.
        map_path: where a path of the phone is found; for tests.
    """

    def __init__(
        self, api_level: int, machine: str, page_size: int, map_path: Callable[[Path], Path] = Path
    ) -> None:
        self._api = api_level
        self._machine = _MACHINES[machine]
        self._page_size = page_size
        self._map = map_path
        self._objects = ObjectCache(self._machine)

    def check(self, start: Start) -> Refusal | None:
        """Why a program cannot be linked, None when it can.

        Raises:
            OSError: the program cannot be read.
        """
        program = self._objects.load(self._map(start.path))
        if isinstance(program, BadObject):
            return None
        loaded: dict[str, tuple[Path, ElfObject]] = {}
        waiting = deque([(start.path, program)])
        while waiting:
            user_path, user = waiting.popleft()
            for name in user.needed:
                if name in loaded or name.startswith(_LOADER_PREFIX):
                    continue
                found = self._find(name, user_path, user, start, program)
                if isinstance(found, str):
                    return refusal(start.name, found, self._api)
                loaded[name] = found
                # What the phone itself brings is complete.
                if not str(found[0]).startswith(SYSTEM):
                    waiting.append(found)
        symbol = self._missing_symbol([(start.path, program), *loaded.values()], start)
        return refusal(start.name, symbol, self._api) if symbol else None

    def _find(
        self, name: str, user_path: Path, user: ElfObject, start: Start, program: ElfObject
    ) -> tuple[Path, ElfObject] | str:
        for path in self._candidates(name, user_path, user, start, program):
            try:
                found = self._objects.load(self._map(path))
            except OSError:
                continue
            if isinstance(found, BadObject):
                # ld.so would look on, Android's linker does not.
                return messages.bad_object(str(path), found, self._machine, self._api)
            too_small = 1 < found.alignment < self._page_size
            if too_small and self._api >= messages.CHECKS_ALIGNMENT_SINCE_API:
                return messages.bad_alignment(str(path), found.alignment, self._page_size)
            return path, found
        user_name = None if user_path == start.path else str(user_path)
        return messages.missing_library(name, user_name, start.name, self._api)

    def _candidates(
        self, name: str, user_path: Path, user: ElfObject, start: Start, program: ElfObject
    ) -> Iterator[Path]:
        if "/" in name:
            yield start.folder / name
            return
        for folder in self._folders(user_path, user, start, program):
            yield folder / name

    def _folders(self, user_path: Path, user: ElfObject, start: Start, program: ElfObject) -> Iterator[Path]:
        """Where ld.so looks, in its order (ld.so(8))."""
        own = _run_path(user.run_path, user_path)
        if user.old_run_path:
            yield from own
        if program.old_run_path and not user.run_path:
            yield from _run_path(program.run_path, start.path)
        for text in start.environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
            # An empty entry is the working directory, but no variable is none.
            if "LD_LIBRARY_PATH" in start.environment:
                yield start.folder / text
        if not user.old_run_path:
            yield from own
        yield SYSTEM_LIBRARIES

    def _missing_symbol(self, loaded: list[tuple[Path, ElfObject]], start: Start) -> str:
        """The first symbol that nobody defines; Android binds all of them at the start."""
        known: set[bytes] = set()
        for _, found in loaded:
            known |= found.defined
        for path in [LOADER, *self._preloaded(start)]:
            try:
                extra = self._objects.load(self._map(path))
            except OSError:
                continue
            if isinstance(extra, ElfObject):
                known |= extra.defined
        for path, found in loaded:
            if not str(path).startswith(SYSTEM):
                missing = found.wanted - known
                if missing:
                    return messages.missing_symbol(os.fsdecode(min(missing)), str(path))
        return ""

    @staticmethod
    def _preloaded(start: Start) -> list[Path]:
        words = start.environment.get("LD_PRELOAD", "").replace(":", " ").split()
        return [start.folder / word if "/" in word else SYSTEM_LIBRARIES / word for word in words]


class LinkService:
    """Answers programs that ask, over a socket, whether they can be linked."""

    def __init__(self, api_level: int) -> None:
        machine = os.uname().machine
        self._checker = LinkChecker(api_level, machine, os.sysconf("SC_PAGE_SIZE"))
        self._log = LogWriter("linker")

    def answer(self, pid: int) -> tuple[bytes, str]:
        """What a starting process is told, and what it aborts with if it is to."""
        try:
            start = _read_start(pid)
            refused = self._checker.check(start)
        except (OSError, ValueError) as error:
            log(f"linker: pid {pid}: {error}")
            return _FINE, ""
        if refused is None:
            return _FINE, ""
        self._log.write(FATAL, refused.text, log_id=CRASH, author=(pid, pid))
        text = refused.text.encode("utf-8", "surrogateescape")[:_MAX_TEXT_BYTES] + b"\n"
        if refused.aborts:
            return _ABORT + text, refused.text
        return _EXIT + text, ""


def _read_start(pid: int) -> Start:
    folder = Path(f"/proc/{pid}")
    words = (folder / "cmdline").read_bytes().split(b"\0")
    pairs = (entry.partition(b"=") for entry in (folder / "environ").read_bytes().split(b"\0"))
    return Start(
        Path(os.readlink(folder / "exe")),
        os.fsdecode(words[0]),
        Path(os.readlink(folder / "cwd")),
        {os.fsdecode(key): os.fsdecode(value) for key, sep, value in pairs if sep},
    )


def _run_path(text: str, user: Path) -> list[Path]:
    if not text:
        return []
    origin = str(user.parent)
    return [
        Path(part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) for part in text.split(":") if part
    ]
