"""Merging devkit's entries into one JSON-with-comments file of the user's, and taking them out again.

An entry (a *slot*) is ours when its value is the one we wrote last, as the state remembers. What the
user wrote, or changed, or took out stays as it is unless forced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from devkit.vscode_templates import jsonc_edit
from devkit.vscode_templates.jsonc import Document, Item, JsoncError, parse
from devkit.vscode_templates.state import FileState, Written, digest_of

MARK = "devkit: "  # begins the names of our launch configurations and tasks
_MARKS = (MARK, "devkit.")  # those of inputs cannot hold a colon
_IDENTIFIERS = ("name", "label", "id")
_FLAG = re.compile(r"-j(?=[0-9]*$)|-D[^=:]+|[^=]+")

ADDED, UPDATED, SAME, REMOVED, RESTORED = "added", "updated", "same", "removed", "restored"
USERS, EDITED, TAKEN_OUT, UNUSABLE = "users", "edited", "taken out", "unusable"
KEPT = (USERS, EDITED, TAKEN_OUT, UNUSABLE)


@dataclass(frozen=True)
class Slot:
    """One entry that devkit wants in a file.

    Attributes:
        path: keys from the outermost object to the container.
        key: a member's name, or what identifies an element.
        kind: "member" of an object; or an element found by "name", "label", "id", "flag" or "text".
        optional: written only where nothing is, and never mentioned (a file's version).
        beside: may stand next to a user's own element of the same identity.
    """

    path: tuple[str, ...]
    key: str
    value: Any
    kind: str = "member"
    optional: bool = False
    beside: bool = False

    @property
    def id(self) -> str:
        """Its name in the state."""
        return json.dumps([*self.path, self.key], ensure_ascii=False)


@dataclass(frozen=True)
class Change:
    """What became of a slot; one of the words above. KEPT ones differ from what devkit wants."""

    slot: str
    what: str

    @property
    def label(self) -> str:
        """The slot's name for people."""
        return " > ".join(json.loads(self.slot))


@dataclass(frozen=True)
class Merged:
    """A file's new text (None: no file) and what is ours in it."""

    text: str | None
    state: FileState
    changes: tuple[Change, ...]


def merge(text: str | None, slots: Sequence[Slot], state: FileState, *, force: bool = False) -> Merged:
    """Put all slots into a file's text, and take out of it what is ours but no longer wanted.

    Args:
        text: the file's text, or None when there is none.
        force: user's values in our slots are replaced, what the user took out comes back.

    Raises:
        JsoncError: the text is no JSON with comments, or its outermost value is no object.
    """
    if text is None:
        state = FileState(is_new=True)
    merger = _Merger(text or "", state, force)
    for slot_id in [s for s in state.slots if s not in {slot.id for slot in slots}]:
        merger.drop(slot_id)
    for slot in slots:
        merger.put(slot)
    merger.tidy()
    return merger.result()


def unmerge(text: str | None, state: FileState, *, force: bool = False) -> Merged:
    """Take everything of ours out; what the user has changed inside stays unless forced.

    Raises:
        JsoncError: as for `merge`.
    """
    if text is None:
        return Merged(None, FileState(), ())
    merger = _Merger(text, state, force)
    for slot_id in list(state.slots):
        merger.drop(slot_id)
    merger.tidy()
    return merger.result()


def flag_name(argument: str) -> str:
    """What makes two command-line arguments the same one: `--x=1` and `--x=2`, `-DA=1` and `-DA:BOOL=2`."""
    found = _FLAG.match(argument)
    return found.group() if found else argument


class _Merger:
    def __init__(self, text: str, state: FileState, force: bool) -> None:
        self._force = force
        self._state = state
        self._slots = dict(state.slots)
        self._created = list(state.created)
        self._closed = dict(state.closed)
        self._skeleton = state.skeleton
        self._changes: list[Change] = []
        self._document: Document = parse(text)
        root = self._document.root
        if root is not None and root.kind != "object":
            raise JsoncError("the outermost value must be an object", *self._document.position(root.start))

    def put(self, slot: Slot) -> None:
        if not self._usable(slot):
            self._note(slot.id, UNUSABLE)
            return
        found = self._candidates(slot.path, slot.key, slot.kind)
        known = self._slots.get(slot.id)
        ours = next((i for i in found if known and digest_of(i.node.value) == known.digest), None)
        equal = next((i for i in found if i.node.value == slot.value), None)
        if ours is not None:
            self._refresh(slot, ours)
        elif equal is not None:
            # Ours by its mark (a checkout without its state); a user's own equal value stays the user's.
            if known or slot.key.startswith(_MARKS):
                self._slots[slot.id] = Written(digest_of(slot.value), known.replaced if known else None)
            self._note(slot.id, SAME)
        elif found and not (slot.beside and known is None):
            self._conflict(slot, found[-1])
        elif known is not None and not self._force:
            if not slot.optional:
                self._note(slot.id, TAKEN_OUT)
        else:
            self._add(slot)

    def drop(self, slot_id: str) -> None:
        """Take an entry of ours out; one that the user has changed is the user's from now on."""
        written = self._slots.pop(slot_id)
        *path, key = json.loads(slot_id)
        container = self._document.find(path)
        if container is None or container.kind == "scalar":
            return
        if container.kind == "object":
            found = self._candidates(tuple(path), key, "member")
        else:
            kinds = (*_IDENTIFIERS, "flag", "text")
            found = [i for kind in kinds for i in self._candidates(tuple(path), key, kind)]
        ours = [i for i in found if digest_of(i.node.value) == written.digest and not self._commented(i)]
        if not ours and found and self._force and (container.kind == "object" or key.startswith(_MARKS)):
            ours = [found[-1]]
        if not ours:
            if found:
                self._note(slot_id, EDITED)
            return
        index = container.index(ours[-1])
        if written.replaced is not None:
            self._edit(jsonc_edit.put_back(self._document.text, path, index, written.replaced))
            self._note(slot_id, RESTORED)
        else:
            self._edit(jsonc_edit.remove(self._document.text, path, index))
            self._note(slot_id, REMOVED)

    def tidy(self) -> None:
        """Take out containers of ours that are empty now, and put brackets back, innermost first."""
        in_use = {tuple(json.loads(slot_id)[:-1]) for slot_id in self._slots}
        for path in sorted({*self._closed, *self._created}, key=len, reverse=True):
            if any(used[: len(path)] == path for used in in_use):
                continue
            if path in self._closed:
                closed = self._closed.pop(path)
                self._edit(jsonc_edit.reopen(self._document.text, path, closed))
            if path in self._created:
                self._created.remove(path)
                self._remove_if_empty(path)
        if self._skeleton is not None and not self._slots and self._document.text.endswith(self._skeleton):
            self._edit(self._document.text[: -len(self._skeleton)])
            self._skeleton = None

    def result(self) -> Merged:
        text: str | None = self._document.text
        is_new = self._state.is_new
        if is_new and not text:
            text = None
        state = replace(
            self._state,
            slots=self._slots,
            created=tuple(self._created),
            closed=self._closed,
            skeleton=self._skeleton,
        )
        return Merged(text, state, tuple(self._changes))

    def _refresh(self, slot: Slot, ours: Item) -> None:
        if ours.node.value == slot.value:
            self._note(slot.id, SAME)
        elif self._commented(ours) and not self._force:
            self._note(slot.id, EDITED)
        else:
            self._write_over(slot, ours, self._slots[slot.id].replaced)
            self._note(slot.id, UPDATED)

    def _conflict(self, slot: Slot, theirs: Item) -> None:
        """A value that is neither what we want nor what we wrote."""
        if slot.optional:
            return
        known = self._slots.get(slot.id)
        if not self._force:
            self._note(slot.id, EDITED if known or slot.key.startswith(_MARKS) else USERS)
            return
        raw = self._document.text[theirs.node.start : theirs.end]
        mine = known is not None or slot.key.startswith(_MARKS)
        self._write_over(slot, theirs, (known.replaced if known else None) if mine else raw)
        self._note(slot.id, UPDATED)

    def _write_over(self, slot: Slot, item: Item, replaced: str | None) -> None:
        container = self._document.find(slot.path)
        assert container is not None
        index = container.index(item)
        self._edit(jsonc_edit.replace(self._document.text, slot.path, index, slot.value))
        self._slots[slot.id] = Written(digest_of(slot.value), replaced)

    def _add(self, slot: Slot) -> None:
        self._make_containers(slot)
        key = slot.key if slot.kind == "member" else None
        self._insert(slot.path, key, slot.value)
        self._slots[slot.id] = Written(digest_of(slot.value))
        self._note(slot.id, ADDED)

    def _usable(self, slot: Slot) -> bool:
        """Whether what the user has at the slot's path, if anything, can hold it."""
        for depth in range(1, len(slot.path) + 1):
            node = self._document.find(slot.path[:depth])
            if node is None:
                return True
            is_array = depth == len(slot.path) and slot.kind != "member"
            if node.kind != ("array" if is_array else "object"):
                return False
        return True

    def _make_containers(self, slot: Slot) -> None:
        if self._document.root is None:
            self._skeleton = jsonc_edit.skeleton(self._document.text, self._document.newline)
            self._edit(self._document.text + self._skeleton)
        for depth in range(1, len(slot.path) + 1):
            path = slot.path[:depth]
            if self._document.find(path) is None:
                is_last = depth == len(slot.path)
                self._insert(path[:-1], path[-1], [] if is_last and slot.kind != "member" else {})
                if path not in self._created:
                    self._created.append(path)

    def _insert(self, path: tuple[str, ...], key: str | None, value: Any) -> None:
        text, closed = jsonc_edit.insert(self._document.text, path, key, value)
        if closed is not None:
            self._closed[path] = closed
        self._edit(text)

    def _remove_if_empty(self, path: tuple[str, ...]) -> None:
        node = self._document.find(path)
        above = self._document.find(path[:-1])
        if node is None or above is None or node.kind == "scalar" or node.items:
            return
        item = above.member(path[-1])
        if item is not None and not self._commented(item):
            self._edit(jsonc_edit.remove(self._document.text, path[:-1], above.index(item)))

    def _candidates(self, path: tuple[str, ...], key: str, kind: str) -> list[Item]:
        container = self._document.find(path)
        if container is None or container.kind == "scalar":
            return []
        return [item for item in container.items if _identity(item, kind) == key]

    def _commented(self, item: Item) -> bool:
        return self._document.has_comment(item.node.start, item.end)

    def _edit(self, text: str) -> None:
        if text != self._document.text:
            self._document = parse(text)

    def _note(self, slot_id: str, what: str) -> None:
        self._changes.append(Change(slot_id, what))


def _identity(item: Item, kind: str) -> str | None:
    if kind == "member":
        return item.key
    value = item.node.value
    if kind in _IDENTIFIERS:
        found = value.get(kind) if isinstance(value, dict) else None
        return found if isinstance(found, str) else None
    if not isinstance(value, str):
        return None
    return flag_name(value) if kind == "flag" else value
