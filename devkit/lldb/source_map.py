"""Where sources are now that were compiled elsewhere: target.source-map, from the debug information."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.symbols.compile_units import CompileUnit, read_units

# What builds write that hide where they ran; each stands for the folder of the whole source tree.
HIDDEN = ("/proc/self/cwd", ".")
# Source folders of gcc's and LLVM's runtimes, which programs hold or have as a library beside them.
_RUNTIMES = re.compile(
    r"(?:^|/)(?:libsanitizer|compiler-rt|libstdc\+\+-v3|libgcc|libgomp|libcxx|libcxxabi|libunwind|openmp/runtime)/"
)


@dataclass(frozen=True)
class SourceMap:
    """Folders as the debug information has them, each with the one of this machine; what is doubtful."""

    pairs: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


def source_map_of(files: Iterable[Path], roots: Sequence[Path]) -> SourceMap:
    """The map for programs and libraries.

    Args:
        roots: folders that may be the source tree, the likeliest first.
    """
    units = [unit for file in files for unit in read_units(file)]
    return derive_source_map(units, roots)


def derive_source_map(units: Sequence[CompileUnit], roots: Sequence[Path]) -> SourceMap:
    """As `source_map_of`, from what the debug information says.

    A source that is where it was compiled needs no entry, unless a root is another name (a link) of its tree:
    then the debug information's name is mapped to the root's, by which an editor asks for it. Sources of a
    toolchain's runtime libraries count only where they are here.
    """
    units = [unit for unit in dict.fromkeys(units) if not _is_foreign(unit.path)]
    tree = _Tree(roots)
    found: Counter[tuple[str, str]] = Counter()
    missing: list[str] = []
    for unit in units:
        path = unit.path
        hidden = _hidden(unit)
        if hidden is not None:
            rest = posixpath.relpath(path, hidden)
            root = tree.with_file(rest)
            found[(hidden, str(root or roots[0]))] += 1
            if root is None:
                missing.append(path)
            continue
        if any(path.startswith(f"{root}/") for root in roots) and os.path.exists(path):
            continue
        known = next((pair for pair in found if _maps(pair, path)), None)
        pair = known or tree.place_of(path)
        if pair is not None:
            found[pair] += 1
        elif not os.path.exists(path):
            missing.append(path)
    pairs = sorted(found, key=lambda pair: (-len(pair[0]), pair))
    return SourceMap(tuple(pairs), tuple(_warnings(pairs, missing, len(units), roots)))


class _Tree:
    """The folders that may be the source tree."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots

    def with_file(self, rest: str) -> Path | None:
        return next((root for root in self._roots if (root / rest).exists()), None)

    def place_of(self, path: str) -> tuple[str, str] | None:
        """The beginning of `path` that stands for a root: what is left of it is a file there."""
        parts = path.split("/")
        exists = os.path.exists(path)
        for root in self._roots:
            for number in range(1, len(parts)):
                here = root.joinpath(*parts[number:])
                if not here.is_file() or (exists and not os.path.samefile(here, path)):
                    continue
                return "/".join(parts[:number]) or "/", str(root)
        return None


def _is_foreign(path: str) -> bool:
    return _RUNTIMES.search(path) is not None and not os.path.exists(path)


def _hidden(unit: CompileUnit) -> str | None:
    path = unit.path
    if path == HIDDEN[0] or path.startswith(f"{HIDDEN[0]}/"):
        return HIDDEN[0]
    is_absolute = path.startswith("/") or path[1:3] in (":/", ":\\")
    return None if is_absolute else HIDDEN[1]


def _maps(pair: tuple[str, str], path: str) -> bool:
    before, root = pair
    return path.startswith(f"{before}/") and os.path.isfile(root + path[len(before) :])


def _warnings(
    pairs: Sequence[tuple[str, str]], missing: Sequence[str], count: int, roots: Sequence[Path]
) -> Iterable[str]:
    if any(before == HIDDEN[1] for before, _ in pairs):
        yield (
            "the debug information hides its source folder as '.', which some versions of LLDB do not map; "
            "build with -ffile-prefix-map=…=/src, or without it, if lines are not found"
        )
    # A few are always those of others: what a toolchain adds to each program.
    if missing and 2 * len(missing) > count:
        yield (
            f"{len(missing)} of {count} sources are not on this machine, as {missing[0]}: stops there show "
            f"no source (looked in {', '.join(str(root) for root in roots)}; source: in devkit.yaml)"
        )
