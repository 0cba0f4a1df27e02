"""The variables that toolchains want: for a shell to read, or for one marked block in its rc file."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.errors import FileError, UsageError
from devkit.ndk.lock import changing

SHELLS = ("bash", "zsh", "fish")
BEGIN = "# >>> devkit env >>>"
END = "# <<< devkit env <<<"
# The block was put behind a last line without a newline: removing it takes that newline, too.
_BEGIN_AFTER_CUT_LINE = BEGIN + " (after a line without newline)"
BACKUP_SUFFIX = ".devkit-backup"


@dataclass(frozen=True)
class Exports:
    """Variables to set, folders to add to list variables, and why something is not there.

    `additions` are (variable, folder) pairs, as ("PATH", "/opt/ndk/bin"). They come last on
    purpose: an SDK's own clang or python must not hide the machine's.
    """

    variables: tuple[tuple[str, str], ...]
    additions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def apply(self, environ: Mapping[str, str]) -> dict[str, str]:
        """An environment with these exports on top."""
        result = {**environ, **dict(self.variables)}
        for name, folder in self.additions:
            known = [part for part in result.get(name, "").split(os.pathsep) if part]
            if folder not in known:
                result[name] = os.pathsep.join([*known, folder])
        return result


def render(exports: Exports, shell: str) -> str:
    """Lines that a bash, zsh or fish evaluates. Evaluating them twice changes nothing more.

    Raises:
        UsageError: a shell devkit does not write for.
    """
    if shell not in SHELLS:
        raise UsageError(f"devkit env does not write for {shell!r}", hints=[f"--shell {s}" for s in SHELLS])
    lines: list[str] = []
    if shell == "fish":
        lines += [f"set -gx {name} {_fish(value)}" for name, value in exports.variables]
        for name, folder in exports.additions:
            word = _fish(folder)
            lines.append(f"contains -- {word} ${name}; or set -gx --path {name} ${name} {word}")
    else:
        lines += [f"export {name}={shlex.quote(value)}" for name, value in exports.variables]
        for name, folder in exports.additions:
            word = shlex.quote(folder)
            # ${X-}: also under `set -u`.
            lines.append(
                f'case ":${{{name}-}}:" in *:{word}:*) ;; '
                f'*) export {name}="${{{name}:+${name}:}}"{word} ;; esac'
            )
    return "".join(line + "\n" for line in lines)


def detect_shell(environ: Mapping[str, str], ancestors: Sequence[str] = ()) -> str:
    """The shell to write for: the nearest ancestor process that is one, else $SHELL, else bash.

    Args:
        ancestors: names of the parent processes, nearest first.
    """
    for name in [*ancestors, Path(environ.get("SHELL", "")).name]:
        plain = name.lstrip("-")
        if plain in SHELLS:
            return plain
    return "bash"


def ancestor_names(pid: int | None = None) -> list[str]:
    """Names of the parent processes, nearest first (Linux; empty elsewhere)."""
    names: list[str] = []
    current = os.getppid() if pid is None else pid
    while current > 1 and len(names) < 16:
        try:
            text = Path(f"/proc/{current}/stat").read_text("utf-8", "replace")
        except OSError:
            break
        names.append(text[text.index("(") + 1 : text.rindex(")")])
        current = int(text.rpartition(")")[2].split()[1])
    return names


def rc_file(shell: str, environ: Mapping[str, str]) -> Path:
    """The file that an interactive shell of that kind reads."""
    home = Path(environ.get("HOME") or Path.home())
    if shell == "zsh":
        return Path(environ.get("ZDOTDIR") or home) / ".zshrc"
    if shell == "fish":
        return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "config.fish"
    return home / ".bashrc"


def read_block(file: Path) -> dict[str, str] | None:
    """The variables that devkit's block in an rc file sets; None when it has no block.

    Raises:
        FileError: the markers are damaged, or the file cannot be read.
    """
    data = _read(Path(os.path.realpath(file)))
    found = _find_block(data, file)
    if found is None:
        return None
    values: dict[str, str] = {}
    for line in data[found[0] : found[1]].decode("utf-8", "surrogateescape").splitlines():
        if match := re.match(r"export (\w+)=(.*)", line):
            values[match.group(1)] = "".join(shlex.split(match.group(2)))
        elif match := re.match(r"set -gx (\w+) '(.*)'$", line):
            values[match.group(1)] = re.sub(r"\\(['\\])", r"\1", match.group(2))
    return values


def install_block(file: Path, text: str, *, dry_run: bool = False) -> bool:
    """Put `text` between devkit's markers into an rc file; replace the block that is there.

    Everything else keeps every byte. A file that is a symbolic link stays one; before a block is
    added to it a copy is kept beside it (BACKUP_SUFFIX).

    Args:
        dry_run: only say whether it would change.

    Returns:
        False when the file holds exactly this block already.

    Raises:
        FileError: the markers are damaged, or the file cannot be read or written; it is unchanged.
    """
    target = Path(os.path.realpath(file))
    with _alone(target, dry_run):
        before = _read(target)
        return _replace(target, before, _with_block(before, text, file), file, dry_run)


def _with_block(before: bytes, text: str, file: Path) -> bytes:
    # Line feeds also in a file with CRLF: a shell would take the CR into every value.
    found = _find_block(before, file)
    if found is None:
        cut = bool(before) and not before.endswith(b"\n")
        begin_line = (_BEGIN_AFTER_CUT_LINE if cut else BEGIN).encode()
        head, tail = before + (b"\n" if cut else b""), b""
    else:
        begin_line = before[found[0] :].partition(b"\n")[0].removesuffix(b"\r")
        head, tail = before[: found[0]], before[found[1] :]
    return head + begin_line + b"\n" + text.encode() + END.encode() + b"\n" + tail


def uninstall_block(file: Path, *, dry_run: bool = False) -> bool:
    """Take devkit's block out of an rc file: what was there before it, byte for byte.

    Returns:
        False when there is no block.

    Raises:
        FileError: the markers are damaged, or the file cannot be written; it is unchanged.
    """
    target = Path(os.path.realpath(file))
    with _alone(target, dry_run):
        before = _read(target)
        found = _find_block(before, file)
        if found is None:
            return False
        return _replace(target, before, _without_block(before, *found), file, dry_run)


def _without_block(before: bytes, start: int, end: int) -> bytes:
    head, tail = before[:start], before[end:]
    if before[start:].startswith(_BEGIN_AFTER_CUT_LINE.encode()) and not tail:
        # CRLF only when something has turned the whole file's line ends since.
        turned = before[start:].partition(b"\n")[0].endswith(b"\r")
        head = head.removesuffix(b"\r\n" if turned else b"\n")
    return head + tail


def _alone(target: Path, dry_run: bool) -> contextlib.AbstractContextManager[None]:
    """A look changes nothing, not even devkit's own folders."""
    return contextlib.nullcontext() if dry_run else changing(target)


def _find_block(data: bytes, file: Path) -> tuple[int, int] | None:
    """Start and end (behind the newline) of the one block in a file."""
    begins = _lines_starting(data, BEGIN.encode())
    ends = _lines_starting(data, END.encode())
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise FileError(
            f"the devkit block in {file} is damaged; nothing was changed",
            evidence=f"{len(begins)} times '{BEGIN}', {len(ends)} times '{END}'",
            hints=[f"remove the lines of devkit from {file} by hand, then repeat"],
        )
    newline = data.find(b"\n", ends[0])
    return begins[0], len(data) if newline < 0 else newline + 1


def _lines_starting(data: bytes, word: bytes) -> list[int]:
    found, position = [], data.find(word)
    while position >= 0:
        if position == 0 or data[position - 1 : position] == b"\n":
            found.append(position)
        position = data.find(word, position + 1)
    return found


def _read(target: Path) -> bytes:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise FileError(
            f"{target} cannot be read", evidence=error.strerror, hints=[f"ls -ld {shlex.quote(str(target))}"]
        ) from None


def _replace(target: Path, before: bytes, after: bytes, file: Path, dry_run: bool) -> bool:
    if after == before:
        return False
    if dry_run:
        return True
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
        # Replacing it would work where only the file is read-only, but that is somebody's wish
        # (dotfiles made by home-manager, chezmoi, …).
        if not mode & stat.S_IWUSR:
            raise _unwritable(file, f"{target} is read-only")
        if before and BEGIN.encode() not in before:
            paths.write_atomically(target.with_name(target.name + BACKUP_SUFFIX), before, mode=mode)
        paths.write_atomically(target, after, mode=mode)
    except OSError as error:
        raise _unwritable(file, error.strerror or str(error)) from None
    return True


def _unwritable(file: Path, why: str) -> FileError:
    return FileError(
        f"{file} cannot be written; it is unchanged",
        evidence=why,
        hints=[
            'where your dotfiles are made, the line  eval "$(devkit env)"  does the same',
            "make it writable and repeat",
        ],
    )


def _fish(word: str) -> str:
    # In fish's single quotes only \ and ' are special.
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
