"""Whose an entry is, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from devkit.vscode_templates.jsonc import JsoncError, parse
from devkit.vscode_templates.merge import MARK, Merged, Slot, flag_name, merge, unmerge
from devkit.vscode_templates.state import FileState

PATH = Slot((), "clangd.path", "/ndk/clangd")
DIRECTORY = Slot(("clangd.arguments",), "--compile-commands-dir", "--compile-commands-dir=/b", "flag")
DRIVER = Slot(("clangd.arguments",), "--query-driver", "--query-driver=/ndk/clang*", "flag", beside=True)
APP = Slot(("configurations",), MARK + "app", {"name": MARK + "app", "program": "/p"}, "name")
VERSION = Slot((), "version", "0.2.0", optional=True)


def again(merged: Merged, text: str, slots: Sequence[Slot], *, force: bool = False) -> Merged:
    """A later run, after the user has edited the file."""
    return merge(text, slots, merged.state, force=force)


def what(merged: Merged) -> dict[str, str]:
    return {change.label: change.what for change in merged.changes}


def value(text: str | None) -> object:
    root = parse(text or "").root
    return root.value if root else None


def test_a_new_file_comes_and_goes() -> None:
    merged = merge(None, [VERSION, APP], FileState())
    assert merged.text == (
        '{\n    "version": "0.2.0",\n    "configurations": [\n        {\n'
        '            "name": "devkit: app",\n            "program": "/p"\n        }\n    ]\n}\n'
    )
    assert unmerge(merged.text, merged.state).text is None
    mine = merged.text.replace("\n}\n", ',\n    "mine": 1\n}\n')
    assert unmerge(mine, merged.state).text == '{\n    "mine": 1\n}\n'


def test_the_articles_settings_by_hand_stay_and_work() -> None:
    text = (
        '{\n    "clangd.arguments": [\n        "-j=16", \t// threads\n'
        '        "--compile-commands-dir=${workspaceFolder}/project/android/build64",\n'
        '        "--query-driver=/root/ndk/bin/clang*"  // glob\n    ], \n'
        '    "clangd.path": "/root/ndk/bin/clangd",\n}\n'
    )
    merged = merge(text, [PATH, DIRECTORY, DRIVER], FileState())
    assert what(merged) == {
        "clangd.path": "users",
        "clangd.arguments > --compile-commands-dir": "users",
        "clangd.arguments > --query-driver": "added",
    }
    assert merged.text == text.replace(
        '"--query-driver=/root/ndk/bin/clang*"  // glob\n',
        '"--query-driver=/root/ndk/bin/clang*",  // glob\n        "--query-driver=/ndk/clang*"\n',
    )
    forced = merge(merged.text, [PATH, DIRECTORY, DRIVER], merged.state, force=True)
    assert forced.text is not None
    assert "project/android" not in forced.text and "/root/ndk/bin/clangd" not in forced.text
    assert unmerge(forced.text, forced.state).text == text


def test_ours_is_updated_in_place_and_never_twice() -> None:
    merged = merge('{"editor.tabSize": 2}', [PATH, DRIVER], FileState())
    newer = [
        Slot((), "clangd.path", "/new"),
        Slot(DRIVER.path, DRIVER.key, "--query-driver=/new*", "flag", beside=True),
    ]
    updated = merge(merged.text, newer, merged.state)
    assert value(updated.text) == {
        "editor.tabSize": 2, "clangd.path": "/new", "clangd.arguments": ["--query-driver=/new*"],
    }  # fmt: skip
    assert unmerge(updated.text, updated.state).text == '{"editor.tabSize": 2}'


def test_a_users_edit_inside_ours_is_kept_unless_forced() -> None:
    merged = merge(None, [APP, PATH], FileState())
    assert merged.text is not None
    edited = merged.text.replace('"/p"', '"/p", "args": ["mine"]').replace("/ndk/clangd", "/my/clangd")
    newer = [Slot(APP.path, APP.key, {"name": APP.key, "program": "/p2"}, "name"), PATH]
    later = again(merged, edited, newer)
    assert later.text == edited
    assert what(later) == {"configurations > devkit: app": "edited", "clangd.path": "edited"}
    assert unmerge(edited, later.state).text == edited
    forced = again(merged, edited, newer, force=True)
    assert "mine" not in (forced.text or "") and "/p2" in (forced.text or "")
    assert unmerge(forced.text, forced.state).text is None
    assert unmerge(edited, later.state, force=True).text is None


def test_what_the_user_took_out_stays_out_unless_forced() -> None:
    merged = merge(None, [PATH, DIRECTORY], FileState())
    assert merged.text is not None
    without = merged.text.replace('    "clangd.path": "/ndk/clangd",\n', "")
    later = again(merged, without, [PATH, DIRECTORY])
    assert later.text == without and what(later)["clangd.path"] == "taken out"
    third = again(later, without, [PATH, DIRECTORY])
    assert third.text == without  # remembered
    assert value(again(later, without, [PATH, DIRECTORY], force=True).text) == value(merged.text)


def test_a_comment_inside_ours_is_the_users() -> None:
    merged = merge(None, [APP], FileState())
    assert merged.text is not None
    commented = merged.text.replace('"program"', '// why\n            "program"')
    same = again(merged, commented, [APP])
    assert same.text == commented and what(same) == {"configurations > devkit: app": "same"}
    newer = [Slot(APP.path, APP.key, {"name": APP.key}, "name")]
    assert again(merged, commented, newer).text == commented
    assert unmerge(commented, merged.state).text == commented


def test_entries_that_are_no_longer_wanted_go() -> None:
    other = Slot(("configurations",), MARK + "old", {"name": MARK + "old"}, "name")
    text = '{"configurations": [{"name": "mine"}]}'
    merged = merge(text, [other, APP], FileState())
    later = merge(merged.text, [APP], merged.state)
    assert [entry["name"] for entry in value(later.text)["configurations"]] == ["mine", MARK + "app"]  # type: ignore[index]
    assert unmerge(later.text, later.state).text == text


def test_without_its_state_marked_entries_are_known_and_equal_values_stay_the_users() -> None:
    merged = merge(None, [APP, PATH], FileState())
    fresh = merge(merged.text, [APP, PATH], FileState())
    assert fresh.text == merged.text
    left = unmerge(fresh.text, fresh.state).text
    assert value(left) == {"configurations": [], "clangd.path": "/ndk/clangd"}


def test_a_list_that_is_none_is_left_alone() -> None:
    for text in ('{"clangd.arguments": "--x"}', '{"clangd.arguments": {}}', '{"clangd.arguments": null}'):
        merged = merge(text, [DRIVER], FileState(), force=True)
        assert merged.text == text and what(merged) == {"clangd.arguments > --query-driver": "unusable"}


def test_a_key_given_twice() -> None:
    text = '{"clangd.path": "/ndk/clangd", "clangd.path": "/mine"}'
    merged = merge(text, [PATH], FileState())
    assert merged.text == text
    ours = merge("{}", [PATH], FileState())
    assert ours.text is not None
    doubled = ours.text.replace("\n}", ',\n    "clangd.path": "/mine"\n}')
    later = again(ours, doubled, [Slot((), "clangd.path", "/new")])
    assert '"/new"' in (later.text or "") and '"/mine"' in (later.text or "")
    assert value(unmerge(later.text, later.state).text) == {"clangd.path": "/mine"}


def test_the_outermost_value_must_be_an_object() -> None:
    with pytest.raises(JsoncError, match="line 2, column 1: the outermost value"):
        merge("// x\n[1]", [PATH], FileState())


def test_names_of_flags() -> None:
    names = {
        "-j8": "-j",
        "-j": "-j",
        "--x=1=2": "--x",
        "-DA=1": "-DA",
        "-DA:BOOL=ON": "-DA",
        "-v": "-v",
        "": "",
    }
    assert {flag: flag_name(flag) for flag in names} == names
    assert flag_name("-json") == "-json" and flag_name("-j=16") == "-j"
