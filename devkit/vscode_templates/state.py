"""What devkit wrote last into a folder's VS Code files: how its entries are told from the user's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.vscode_templates.jsonc_edit import Closed

STATE_FILE = "devkit.state.json"
_ABOUT = "What `devkit vscode` wrote into this folder; keep it beside those files."


@dataclass(frozen=True)
class Written:
    """One entry of ours. `replaced` is the user's own text that --force put it in place of."""

    digest: str
    replaced: str | None = None


@dataclass(frozen=True)
class FileState:
    """What is ours in one file.

    Attributes:
        slots: a slot's id → what was written there.
        created: paths of containers that were not there before.
        closed: containers whose bracket an insertion moved, by path.
        skeleton: what was appended to a file without any value.
        is_new: there was no such file.
        whole: digest of the file's text, for files that are ours as a whole.
    """

    slots: Mapping[str, Written] = field(default_factory=dict)
    created: tuple[tuple[str, ...], ...] = ()
    closed: Mapping[tuple[str, ...], Closed] = field(default_factory=dict)
    skeleton: str | None = None
    is_new: bool = False
    whole: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing in the file is ours."""
        return not self.slots and self.whole is None


def digest_of(value: Any) -> str:
    """A short digest of a value; formatting and the order of members do not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def read_states(folder: Path) -> dict[str, FileState]:
    """The states of all files, by name; empty when there are none or they cannot be read."""
    try:
        files = json.loads((folder / STATE_FILE).read_bytes())["files"]
        return {name: _from_json(entry) for name, entry in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def dump_states(states: Mapping[str, FileState]) -> str | None:
    """The text of STATE_FILE, or None when nothing is ours any more."""
    files = {name: _to_json(state) for name, state in sorted(states.items()) if not state.empty}
    if not files:
        return None
    return json.dumps({"about": _ABOUT, "files": files}, indent=1, ensure_ascii=False) + "\n"


def _to_json(state: FileState) -> dict[str, Any]:
    entry = {
        "slots": {
            slot: written.digest if written.replaced is None else [written.digest, written.replaced]
            for slot, written in sorted(state.slots.items())
        },
        "created": [list(path) for path in state.created],
        "closed": [[list(path), c.anchor, c.inserted] for path, c in sorted(state.closed.items())],
        "skeleton": state.skeleton,
        "new": state.is_new,
        "whole": state.whole,
    }
    return {key: value for key, value in entry.items() if value}


def _from_json(entry: Mapping[str, Any]) -> FileState:
    return FileState(
        slots={
            slot: Written(value) if isinstance(value, str) else Written(*value)
            for slot, value in entry.get("slots", {}).items()
        },
        created=tuple(tuple(path) for path in entry.get("created", ())),
        closed={tuple(path): Closed(*rest) for path, *rest in entry.get("closed", ())},
        skeleton=entry.get("skeleton"),
        is_new=bool(entry.get("new")),
        whole=entry.get("whole"),
    )
