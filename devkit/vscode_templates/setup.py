"""All files of `devkit vscode`: planned as a whole, shown as a diff, written, or taken out."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import paths
from devkit.engine import editor_view
from devkit.errors import ConfigError, FileError
from devkit.vscode_templates import merge
from devkit.vscode_templates.facts import Facts, collect_facts
from devkit.vscode_templates.jsonc import JsoncError, parse
from devkit.vscode_templates.render import JSON_FILES, render_slots, render_text
from devkit.vscode_templates.state import STATE_FILE, FileState, digest_of, dump_states, read_states

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.engine.editor_view import View

FOLDER = ".vscode"
CLANGD_FILE = ".clangd"
_WORDS = {
    merge.USERS: "is yours and differs from devkit's; kept",
    merge.EDITED: "was changed by you; kept",
    merge.TAKEN_OUT: "was taken out by you; left out",
    merge.UNUSABLE: "cannot be merged: its list or object has another type; kept",
}


@dataclass(frozen=True)
class FilePlan:
    """One file before and after; None is no file."""

    path: Path
    before: str | None
    after: str | None
    changes: tuple[merge.Change, ...] = ()

    @property
    def action(self) -> str:
        """ "create", "update", "remove" or "same"."""
        if self.before == self.after:
            return "same"
        return "create" if self.before is None else "remove" if self.after is None else "update"


@dataclass(frozen=True)
class Setup:
    """What will be done to a folder.

    Attributes:
        files: VS Code's files and .clangd.
        state: devkit's memory, beside them.
        view: the compile commands; None when everything is taken out.
        missing: what could not be found, a sentence each.
        notes: what was kept although devkit wants it otherwise, and what is odd.
    """

    folder: Path
    files: tuple[FilePlan, ...]
    state: FilePlan
    view: View | None
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def drift(self) -> bool:
        """Whether anything but devkit's memory would change."""
        stale = self.view is not None and (not self.view.is_current or self.view.link == "wanted")
        return stale or any(file.action != "same" for file in self.files)

    def diff(self) -> str:
        """All changes as a unified diff; the compile commands by number only."""
        pieces = [_diff(file, self.folder) for file in self.files]
        if self.view is not None and not self.view.is_current:
            count = len(self.view.database.entries)
            pieces.append(f"{self.view.folder / editor_view.NAME}: out of date, will hold {count} files\n")
        if self.view is not None and self.view.link == "wanted":
            pieces.append(f"{self.view.source / editor_view.NAME}: will be a link to it\n")
        return "".join(pieces)

    def as_dict(self) -> dict[str, object]:
        """The plan as --json prints it."""
        return {
            "folder": str(self.folder),
            "drift": self.drift,
            "files": [
                {
                    "path": str(file.path),
                    "action": file.action,
                    "entries": {change.label: change.what for change in file.changes},
                }
                for file in self.files
            ],
            "compile_commands": None
            if self.view is None
            else {
                "path": str(self.view.folder / editor_view.NAME),
                "entries": len(self.view.database.entries),
                "for": self.view.prefer,
                "builds": [build.name for build in self.view.builds],
                "link": self.view.link,
                "current": self.view.is_current,
            },
            "missing": list(self.missing),
            "notes": list(self.notes),
        }


def plan_setup(
    config: Config, *, folder: Path | None = None, prefer: str | None = None, force: bool = False
) -> Setup:
    """Plan what the editor needs. Changes nothing; needs no build, no phone and no NDK.

    Args:
        folder: the folder VS Code opens (default: devkit.yaml's).
        prefer: "device" or "host": whose compile command a file gets that both builds compile.
        force: the user's values in devkit's entries are replaced.

    Raises:
        ConfigError: a file of the user's cannot be parsed; nothing is written then.
        FileError: a file cannot be read.
    """
    folder = folder or config.root
    view = editor_view.plan_view(config.source, prefer)
    facts = collect_facts(config, view, folder)
    states = read_states(folder / FOLDER)
    files: list[FilePlan] = []
    notes: list[str] = [*view.database.warnings, *facts.codelldb.notes]
    for name in JSON_FILES:
        path = folder / FOLDER / name
        before = _read(path)
        merged = _merged(path, before, render_slots(name, facts), states.get(name, FileState()), force)
        states[name] = merged.state
        files.append(FilePlan(path, before, merged.text, merged.changes))
        notes += _kept(path, folder, merged.changes)
        notes += _duplicates(path, folder, before)
    clangd, states[CLANGD_FILE], kept = _plan_clangd(config.source, facts, states.get(CLANGD_FILE), force)
    files.append(clangd)
    notes += kept
    if view.link == "users":
        notes.append(
            f"{config.source / editor_view.NAME} is your own and stays; the editor reads {view.folder}"
        )
    return Setup(folder, tuple(files), _plan_state(folder, states), view, facts.missing, tuple(notes))


def plan_removal(config: Config, *, folder: Path | None = None, force: bool = False) -> Setup:
    """Plan to take out what is ours, and nothing else.

    Raises:
        ConfigError: a file of the user's cannot be parsed.
        FileError: a file cannot be read.
    """
    folder = folder or config.root
    states = read_states(folder / FOLDER)
    files: list[FilePlan] = []
    notes: list[str] = []
    for name in JSON_FILES:
        path = folder / FOLDER / name
        before = _read(path)
        state = states.get(name, FileState())
        try:
            merged = merge.unmerge(before, state, force=force)
        except JsoncError as error:
            raise _unparsable(path, before or "", error) from None
        states[name] = FileState()
        files.append(FilePlan(path, before, merged.text, merged.changes))
        notes += _kept(path, folder, merged.changes)
    path = config.source / CLANGD_FILE
    before = _read(path)
    ours = before is not None and states.get(CLANGD_FILE, FileState()).whole == digest_of(before)
    files.append(FilePlan(path, before, None if ours else before))
    states.pop(CLANGD_FILE, None)
    return Setup(folder, tuple(files), _plan_state(folder, states), None, (), tuple(notes))


def apply_setup(config: Config, setup: Setup) -> None:
    """Write what was planned.

    Raises:
        FileError: a file changed since it was read, or cannot be written.
    """
    for file in (*setup.files, setup.state):
        if file.action != "same" and _read(file.path) != file.before:
            raise FileError(
                f"{file.path} has changed just now; nothing was written", hints=["run the command again"]
            )
    if setup.view is not None:
        editor_view.write_view(setup.view)
    else:
        editor_view.remove_view(config.source)
    _write_all((*setup.files, setup.state))
    if setup.view is None:
        _remove_empty(setup.folder / FOLDER)


def _merged(
    path: Path, before: str | None, slots: Sequence[merge.Slot], state: FileState, force: bool
) -> merge.Merged:
    try:
        return merge.merge(before, slots, state, force=force)
    except JsoncError as error:
        raise _unparsable(path, before or "", error) from None


def _unparsable(path: Path, text: str, error: JsoncError) -> ConfigError:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line = lines[error.line - 1].lstrip("\ufeff") if error.line <= len(lines) else ""
    pointer = "".join("\t" if c == "\t" else " " for c in line[: error.column - 1]) + "^ " + error.what
    return ConfigError(
        f"{path}:{error.line}:{error.column} is not JSON with comments; nothing was written",
        evidence=f"{line}\n{pointer}",
        hints=[f"mend line {error.line} of {path} and run it again"],
    )


def _kept(path: Path, folder: Path, changes: Sequence[merge.Change]) -> list[str]:
    name = os.path.relpath(path, folder)
    return [
        f"{name}: {change.label} {_WORDS[change.what]} (--force puts devkit's in)"
        for change in changes
        if change.what in merge.KEPT
    ]


def _duplicates(path: Path, folder: Path, text: str | None) -> list[str]:
    if text is None:
        return []
    return [
        f"{os.path.relpath(path, folder)}:{line}: {key} is given more than once; VS Code takes the last"
        for key, line in parse(text).duplicates()
    ]


def _plan_clangd(
    source: Path, facts: Facts, state: FileState | None, force: bool
) -> tuple[FilePlan, FileState, list[str]]:
    path = source / CLANGD_FILE
    before = _read(path)
    wanted = render_text("clangd", facts)
    written = state.whole if state else None
    mine = FileState(whole=digest_of(wanted))
    if before == wanted:
        return FilePlan(path, before, before), mine if written else FileState(), []
    if before is None and (written is None or force):
        return FilePlan(path, None, wanted), mine, []
    if before is not None and (written == digest_of(before) or (force and written)):
        return FilePlan(path, before, wanted), mine, []
    kept = replace(FileState(), whole=written)
    if before is None:
        return FilePlan(path, None, None), kept, [f"{CLANGD_FILE} was taken out by you; left out"]
    return FilePlan(path, before, before), kept, [f"{CLANGD_FILE} is yours; kept"]


def _plan_state(folder: Path, states: dict[str, FileState]) -> FilePlan:
    path = folder / FOLDER / STATE_FILE
    return FilePlan(path, _read(path), dump_states(states))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path} is not UTF-8; nothing was written",
            evidence=str(error),
            hints=['save it in VS Code with the encoding "UTF-8"'],
        ) from None
    except OSError as error:
        raise FileError(f"{path} cannot be read; nothing was written", evidence=str(error)) from None


def _write_all(files: Sequence[FilePlan]) -> None:
    """All files or none: what devkit remembers must be what stands there."""
    done: list[FilePlan] = []
    try:
        for file in files:
            _write(file)
            done.append(file)
    except FileError:
        for file in reversed(done):
            try:
                _write(FilePlan(file.path, file.after, file.before))
            except FileError:
                continue  # the first error is the one to tell
        raise


def _write(file: FilePlan) -> None:
    # Through a symbolic link: dotfiles are often kept elsewhere.
    path = Path(os.path.realpath(file.path))
    try:
        if file.action == "remove":
            file.path.unlink()
        elif file.action != "same" and file.after is not None:
            mode = path.stat().st_mode & 0o777 if file.before is not None else 0o644
            paths.write_atomically(path, file.after.encode("utf-8"), mode=mode)
    except OSError as error:
        raise FileError(f"{file.path} cannot be written", evidence=str(error)) from None


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass  # not empty, or not there


def _diff(file: FilePlan, folder: Path) -> str:
    if file.action == "same":
        return ""
    name = os.path.relpath(file.path, folder)
    lines = difflib.unified_diff(
        (file.before or "").splitlines(keepends=True),
        (file.after or "").splitlines(keepends=True),
        "/dev/null" if file.before is None else f"a/{name}",
        "/dev/null" if file.after is None else f"b/{name}",
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
