"""Which files on the phone are outputs of a run: globs, listings and times; nothing here asks the phone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devkit.errors import UsageError

# %Z is the epoch, %z the same with its fraction, as "2026-08-01 10:00:00.123456789 +0800".
STAT = "stat -c '%s %Z %z %n'"
_STAT_LINE = re.compile(r"(\d+) (-?\d+) \S+ [\d:]+(?:\.(\d+))?(?: [+-]\d+)? (.*)")


@dataclass(frozen=True)
class RemoteFile:
    """A file below the working directory. `changed` is its ctime: seconds and nanoseconds."""

    path: str
    size: int
    changed: tuple[int, int]


@dataclass(frozen=True)
class PullPlan:
    """What will come back.

    Attributes:
        folder: the working directory on the phone.
        files: outputs of this run.
        stale: files that a pattern without wildcards names, and that this run did not write.
        missing: patterns to which no file at all belongs.
        untouched: patterns to which only files of before belong.
    """

    folder: str
    files: tuple[RemoteFile, ...]
    stale: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.untouched


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Globs without `./` and doubled slashes.

    Raises:
        UsageError: one is absolute or leaves the working directory.
    """
    checked = []
    for pattern in patterns:
        plain = posixpath.normpath(pattern) if pattern.strip() else ""
        if plain in ("", ".") or plain.startswith("/") or plain.split("/")[0] == "..":
            raise UsageError(
                f"`pull: {pattern}` is no path below the program's working directory on the phone",
                hints=["use a path or glob relative to it: out/*.bin, **/*.json", "cwd: sets the directory"],
            )
        # A folder means all that is in it.
        checked.append(plain + "/**" if pattern.endswith("/") else plain)
    return tuple(dict.fromkeys(checked))


def pattern_regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression for whole paths: `*` and `?` stay within a folder, `**` does not."""
    parts = []
    position = 0
    for found in re.finditer(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]", pattern):
        parts.append(re.escape(pattern[position : found.start()]))
        position = found.end()
        text = found.group()
        if text.startswith("["):
            inner = text[1:-1].replace("\\", "\\\\")
            parts.append("[^/" + inner[1:] + "]" if inner.startswith("!") else f"[{inner}]")
        else:
            parts.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}[text])
    parts.append(re.escape(pattern[position:]))
    return re.compile("".join(parts), re.DOTALL)


def plan_pull(
    folder: str, patterns: Sequence[str], there: Iterable[RemoteFile], started: tuple[int, int]
) -> PullPlan:
    """Which files are outputs of the run that started then.

    Args:
        there: all files below the folder.
        started: ctime of the run's marker.
    """
    files = sorted(there, key=lambda file: file.path)
    chosen: dict[str, RemoteFile] = {}
    missing, untouched, stale = [], [], []
    for pattern in patterns:
        expression = pattern_regex(pattern)
        matching = [file for file in files if expression.fullmatch(file.path)]
        fresh = [file for file in matching if file.changed >= started]
        chosen.update({file.path: file for file in fresh})
        if not matching:
            missing.append(pattern)
        elif not fresh:
            untouched.append(pattern)
            stale += [file.path for file in matching]
    outputs = tuple(chosen[path] for path in sorted(chosen))
    return PullPlan(folder, outputs, tuple(dict.fromkeys(stale)), tuple(missing), tuple(untouched))


def parse_listing(lines: Iterable[str]) -> list[RemoteFile]:
    """Files from the lines of `stat`; a line that is none continues the name before it."""
    found: list[RemoteFile] = []
    for line in lines:
        match = _STAT_LINE.fullmatch(line)
        if match:
            path = posixpath.normpath(match[4])
            found.append(RemoteFile(path, int(match[1]), (int(match[2]), _nanoseconds(match[3]))))
        elif found:
            last = found[-1]
            found[-1] = RemoteFile(f"{last.path}\n{line}", last.size, last.changed)
    return found


def _nanoseconds(fraction: str | None) -> int:
    return int((fraction or "0").ljust(9, "0")[:9])


def changed_time(line: str) -> tuple[int, int] | None:
    """The ctime in one line of STAT; None when it is none."""
    match = _STAT_LINE.fullmatch(line)
    return (int(match[2]), _nanoseconds(match[3])) if match else None
