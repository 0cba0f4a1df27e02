"""Which frame is the user's own, and the lines of source around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.crashes.frames import is_file, split_module
from devkit.crashes.model import THREADS, Crash, Frame
from devkit.symbols import Location

_SYSTEM_FOLDERS = re.compile(
    r"/(?:system|system_ext|apex|vendor|odm|product|lib|lib32|lib64|usr/lib|usr/lib64|usr/libexec)/"
)
_SYSTEM_LIBRARIES = re.compile(
    r"(?:libc|libm|libdl|liblog|libpthread|libc\+\+|libc\+\+_shared|libc\+\+abi|libstdc\+\+|libgcc_s|libunwind|libomp|libart)\.so"
    r"|libclang_rt\.|lib[alt]?(?:hw)?san\b|libasan|libubsan|linker(?:64)?$|ld-(?:linux|android|musl)"
)
# Sources of the system and of compilers, as their debug information has them.
_SYSTEM_SOURCES = re.compile(
    r"(?:\.{0,2}/){0,9}(?:usr/include|usr/lib|buildbot|build/(?:gcc|glibc|llvm)|src/libsanitizer|sysdeps|csu|nptl)\b"
    r"|.{0,500}/(?:include/c\+\+|lib/clang)/"
)
# The standard library's own, inlined into everything; what runs between an error and its report.
_NOT_OWN = re.compile(
    r"(?:std|__gnu_cxx|__cxxabiv1|__sanitizer|__asan|__hwasan|__ubsan|__interception)::"
    r"|__(?:asan|hwasan|ubsan|tsan|msan|lsan|interceptor|sanitizer|libc|cxa|gxx|restore_rt|kernel_rt)_?"
    r"|operator (?:new|delete)|(?:abort|raise|tgkill|gsignal|memcpy|memmove|memset|strlen|malloc|free|calloc"
    r"|realloc|_start|_Unwind_\w+)$"
)
# Engines have allocators of their own (MNN: MNNMemoryAllocAlign, onAcquire): of a block that is too small,
# the interesting line is behind them. The last part of a name only: a class may be called Allocator.
_ALLOCATES = re.compile(
    r"(?:\w{1,32}?[mM]emory_?)?(?:on)?(?i:re|de|m|c)?(?:[Aa]lloc|[Ff]ree|[Aa]cquire|[Rr]elease|[Rr]ecycle|[Dd]estroy|[Dd]elete)"
    r"(?:at\w+)?(?![a-z])|\w+_(?:[mc]|re|de)?alloc$|\w+_free$|~|operator (?:new|delete)"
)
_EXCERPT_LINES = 2
_MOST_BYTES = 8 << 20


@dataclass(frozen=True)
class Excerpt:
    """Lines around a place: (number, text); `file` is where they were read."""

    file: Path
    line: int
    lines: tuple[tuple[int, str], ...]

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {"file": str(self.file), "line": self.line, "lines": [list(pair) for pair in self.lines]}


def own_frame(crash: Crash) -> tuple[Frame, Location | None] | None:
    """The first frame in the user's code, and the innermost location in it that is not the library's."""
    if crash.what == THREADS:
        # The first thread is not more to blame than the others.
        return next(own_frames(frame for stack in crash.stacks for frame in stack.frames), None)
    return next(own_frames(crash.frames), None)


def caller_of_allocator(frames: Sequence[Frame]) -> tuple[Frame, Location | None] | None:
    """As `own_frame`, of a stack that allocates or frees: who asked, not the engine's own allocator."""
    found = list(own_frames(frames))
    for frame, location in found:
        name = (location.function if location else frame.function) or ""
        if not _ALLOCATES.match(_last_part(name)):
            return frame, location
    return found[0] if found else None


def _last_part(name: str) -> str:
    return name.replace("(anonymous namespace)", "").partition("(")[0].partition("<")[0].rpartition("::")[2]


def own_frames(frames: Iterable[Frame]) -> Iterator[tuple[Frame, Location | None]]:
    """The frames in the user's code, each with its innermost location that is not the library's."""
    for frame in frames:
        # A report that came with its lines names no file for them.
        if not is_own(frame) and not (frame.module is None and frame.locations):
            continue
        if not frame.locations:
            if frame.function and _NOT_OWN.match(frame.function):
                continue
            yield frame, None
        for location in frame.locations:
            if location.function and _NOT_OWN.match(location.function):
                continue
            if not _SYSTEM_SOURCES.match(location.file or ""):
                yield frame, location
                break


def excerpt(location: Location, roots: Sequence[Path]) -> Excerpt | None:
    """The source around a place; None where the file is not on this machine.

    A build made elsewhere has other folders: the end of its path is looked for below `roots`.
    """
    if not location.file or not location.line:
        return None
    file = _find(location.file, roots)
    if file is None:
        return None
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    if location.line > len(lines):
        return None
    first = max(location.line - _EXCERPT_LINES, 1)
    last = min(location.line + _EXCERPT_LINES, len(lines))
    return Excerpt(file, location.line, tuple((n, lines[n - 1]) for n in range(first, last + 1)))


def is_own(frame: Frame) -> bool:
    """Whether a frame is in a file that is neither the system's nor the compiler's."""
    if not is_file(frame.module):
        return False
    assert frame.module is not None
    outer, inner = split_module(frame.module)
    name = frame.library or inner or outer.rpartition("/")[2]
    return not _SYSTEM_FOLDERS.match(outer) and not _SYSTEM_LIBRARIES.match(name)


def _find(name: str, roots: Sequence[Path]) -> Path | None:
    path = Path(name)
    if path.is_absolute() and path.is_file():
        return path
    parts = [part for part in path.parts if part not in ("/", "..", ".")]
    for root in roots:
        # At least a folder and a name: a bare main.cpp is anybody's, except where it lies in the root itself.
        for start in range(len(parts)):
            candidate = root.joinpath(*parts[start:])
            if candidate.is_file():
                return candidate
    return None
