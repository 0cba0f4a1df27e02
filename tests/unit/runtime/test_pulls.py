"""Which files of a phone are outputs of a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkit.errors import DeployError, UsageError
from devkit.runtime.pull_plan import (
    RemoteFile,
    check_patterns,
    parse_listing,
    pattern_regex,
    plan_pull,
)
from devkit.runtime.pulls import PullResult, _pull_one, _safe_target


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("out.txt", ["out.txt"], ["a/out.txt", "out_txt", "out.txt2"]),
        ("*.txt", ["a.txt", ".txt"], ["a/b.txt", "a.txt~"]),
        ("out/*", ["out/a", "out/b.c"], ["out/a/b", "out"]),
        ("**/*.json", ["a.json", "x/y/a.json"], ["a.jsonl"]),
        ("out/**", ["out/a", "out/a/b"], ["out2/a"]),
        ("a?c", ["abc", "a中c"], ["ac", "a/c"]),
        ("[ab].x", ["a.x", "b.x"], ["c.x"]),
        ("[!ab].x", ["c.x"], ["a.x", "/.x"]),
        ("[]a].x", ["].x", "a.x"], ["b.x"]),
        ("a[b", ["a[b"], ["ab"]),
        ("it's $(x) {y}", ["it's $(x) {y}"], ["its"]),
    ],
)
def test_globs(pattern: str, matching: list[str], others: list[str]) -> None:
    expression = pattern_regex(pattern)
    assert [path for path in matching if not expression.fullmatch(path)] == []
    assert [path for path in others if expression.fullmatch(path)] == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*?["), min_size=1))
def test_a_name_without_wildcards_matches_itself_alone(name: str) -> None:
    expression = pattern_regex(name)
    assert expression.fullmatch(name) and not expression.fullmatch(name + "x")


def test_patterns_are_made_plain() -> None:
    assert check_patterns(["./a//b", "out/", "out/**", "a/./b"]) == ("a/b", "out/**")
    for pattern in ("", " ", ".", "/abs", "../x", "a/../../x"):
        with pytest.raises(UsageError, match="no path below"):
            check_patterns([pattern])


def test_lines_of_stat() -> None:
    lines = [
        "12 1700000000 2023-11-14 22:13:20.123456789 +0000 ./a b.txt",
        "0 1700000001 2023-11-14 22:13:21 ./toolbox",
        "3 1700000002 2023-11-14 22:13:22.5 +0800 ./two",
        "lines",
    ]
    assert parse_listing(lines) == [
        RemoteFile("a b.txt", 12, (1700000000, 123456789)),
        RemoteFile("toolbox", 0, (1700000001, 0)),
        RemoteFile("two\nlines", 3, (1700000002, 500000000)),
    ]


def test_only_what_the_run_changed_is_its_output() -> None:
    files = [
        RemoteFile("old.txt", 1, (99, 999_999_999)),
        RemoteFile("same-tick.txt", 1, (100, 5)),
        RemoteFile("new.txt", 1, (100, 6)),
        RemoteFile("sub/new.bin", 1, (200, 0)),
    ]
    plan = plan_pull("/d", ["*.txt", "old.txt", "sub/**", "none", "*.bin"], files, (100, 5))
    assert [file.path for file in plan.files] == ["new.txt", "same-tick.txt", "sub/new.bin"]
    assert (plan.missing, plan.untouched) == (("none", "*.bin"), ("old.txt",))
    assert not plan.is_complete
    told = "\n".join(PullResult(plan, Path("/here")).lines())
    assert re.search("missing: nothing on the phone matches none", told) and "old.txt" in told


class Wire:
    """A file service that sends what it is told to."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = list(contents)

    def pull(self, remote: str, write: Callable[[bytes], object]) -> int:
        content = self.contents.pop(0)
        write(content)
        return len(content)


def test_what_arrives_otherwise_than_it_was_replaces_nothing(tmp_path: Path) -> None:
    target = tmp_path / "sub" / "out.txt"
    digest = hashlib.sha256(b"right").hexdigest()
    wire = Wire(b"wrong", b"righ", b"right")

    def pull() -> str | None:
        return _pull_one(wire, "/d/out.txt", target, 5, digest, "sha256")  # type: ignore[arg-type]

    assert "sha256 here" in (pull() or "") and not target.exists()
    assert "4 bytes came, the phone counted 5" in (pull() or "") and not target.exists()
    assert pull() is None and target.read_bytes() == b"right"
    wire.contents = [b"wrong"]
    assert pull() is not None and target.read_bytes() == b"right"
    assert [path.name for path in target.parent.iterdir()] == ["out.txt"]


def test_a_phone_cannot_name_a_place_outside(tmp_path: Path) -> None:
    for path in ("../x", "a/../../x", "/etc/passwd"):
        with pytest.raises(DeployError, match="outside its folder"):
            _safe_target(tmp_path, path)
