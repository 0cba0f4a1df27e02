"""What must hold for every file and every set of entries."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings

from devkit.vscode_templates.jsonc import parse
from devkit.vscode_templates.jsonc_edit import insert
from devkit.vscode_templates.merge import KEPT, Slot, merge, unmerge
from devkit.vscode_templates.state import FileState, dump_states, read_states
from tests.unit.vscode_templates.documents import documents, wanted

MANY = settings(max_examples=120, deadline=None)


@MANY
@given(documents())
def test_the_parser_agrees_with_json_once_comments_and_commas_are_gone(text: str) -> None:
    document = parse(text)
    plain = list(text)
    for start, end in document.comments:
        plain[start:end] = " " * (end - start)
    bare = "".join(plain).removeprefix("\ufeff")
    if document.root is None:
        assert not bare.strip(" \t\r\n")
        return
    # Trailing commas, outside of texts only.
    text_or_comma = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
    bare = text_or_comma.sub(lambda found: found.group(1) or "", bare)
    assert document.root.value == json.loads(bare)


@MANY
@given(documents(), wanted())
def test_taking_out_gives_back_the_file_byte_for_byte(text: str, slots: list[Slot]) -> None:
    merged = merge(text, slots, FileState())
    assert merged.text is not None
    assert unmerge(merged.text, merged.state).text == text


@MANY
@given(documents(), wanted())
def test_forced_values_are_given_back_too(text: str, slots: list[Slot]) -> None:
    merged = merge(text, slots, FileState(), force=True)
    assert merged.text is not None
    assert unmerge(merged.text, merged.state).text == text


@MANY
@given(documents(), wanted())
def test_merging_twice_is_merging_once(text: str, slots: list[Slot]) -> None:
    once = merge(text, slots, FileState())
    again = merge(once.text, slots, once.state)
    assert again.text == once.text and again.state == once.state


@MANY
@given(documents(), wanted(), wanted())
def test_other_wishes_later_leave_no_trace(text: str, first: list[Slot], second: list[Slot]) -> None:
    one = merge(text, first, FileState())
    two = merge(one.text, second, one.state)
    assert two.text is not None
    assert unmerge(two.text, two.state).text == text


@MANY
@given(documents(), wanted(), wanted())
def test_what_the_user_writes_between_two_runs_stays(
    text: str, first: list[Slot], second: list[Slot]
) -> None:
    one = merge(text, first, FileState())
    assert one.text is not None
    if parse(one.text).root is None:
        return
    edited, _ = insert(one.text, (), "mine", {"x": [1]})
    two = merge(edited, second, one.state)
    assert two.text is not None
    left = unmerge(two.text, two.state).text
    assert left is not None
    expected = parse(text).root
    assert parse(left).root is not None
    assert parse(left).root.value == {**(expected.value if expected else {}), "mine": {"x": [1]}}  # type: ignore[union-attr]
    old, new = parse(text), parse(left)
    assert [old.text[a:b] for a, b in old.comments] == [new.text[a:b] for a, b in new.comments]


@MANY
@given(documents(), wanted())
def test_everything_of_the_users_stays_and_everything_wanted_is_there(text: str, slots: list[Slot]) -> None:
    merged = merge(text, slots, FileState())
    assert merged.text is not None
    kept = {change.slot for change in merged.changes if change.what in KEPT}
    before, after = parse(text), parse(merged.text)
    # Every comment, in order, with its very text.
    assert [before.text[a:b] for a, b in before.comments] == [after.text[a:b] for a, b in after.comments]
    # What was there is there in the same order: the new text has the old one as a subsequence.
    rest = iter(merged.text)
    assert all(character in rest for character in text)
    for slot in slots:
        node = after.find(slot.path)
        if slot.id in kept or node is None:
            assert slot.id in kept
        elif slot.kind == "member":
            item = node.member(slot.key)
            assert item is not None and item.node.value == slot.value
        else:
            assert slot.value in node.value
    assert after.newline == before.newline or not re.search(r"[\r\n]", text)


@MANY
@given(documents(), wanted())
def test_the_state_survives_its_file(tmp_path_factory, text: str, slots: list[Slot]) -> None:  # type: ignore[no-untyped-def]
    state = merge(text, slots, FileState()).state
    folder = tmp_path_factory.mktemp("状态 state")
    content = dump_states({"settings.json": state})
    if content is None:
        assert state.empty
        return
    (folder / "devkit.state.json").write_text(content, "utf-8")
    assert read_states(folder) == {"settings.json": state}
