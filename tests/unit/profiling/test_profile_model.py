"""Profiles as columns: built, changed, saved and read again."""

from __future__ import annotations

import json
import zipfile
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.errors import FileError
from devkit.profiling import Frame, Meta, Profile, ProfileBuilder, load_profile, save_profile
from devkit.profiling.builder import with_frames
from devkit.profiling.store import fault_of, is_profile
from tests.support.profiles import chain_of, profiles


def small() -> Profile:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    main, run = builder.frame("main"), builder.frame("run", builder.module("/x/lib.so"))
    thread = builder.thread(1, 2)
    builder.sample(builder.stack([main, run]), thread, 10)
    builder.sample(builder.stack([main]), thread, 5)
    builder.sample(-1, thread, 1)
    return builder.finish(Meta())


def test_equal_parts_are_there_once() -> None:
    builder = ProfileBuilder()
    assert builder.module("/a", "1") == builder.module("/a", "1") != builder.module("/a", "2")
    assert builder.frame("f", line=1) == builder.frame("f", line=1) != builder.frame("f", line=2)
    frames = [builder.frame("main"), builder.frame("run")]
    assert builder.stack(frames) == builder.stack([frames[1]], parent=builder.stack([frames[0]]))
    assert builder.stack([]) == -1
    builder.thread(1, 2, "early")
    builder.thread(1, 2)
    assert builder.thread(1, 2, "later") == 0
    profile = builder.finish(Meta())
    assert [thread.name for thread in profile.threads] == ["later"]
    assert len(profile.stack_parent) == 2


def test_samples_of_one_event_are_summed() -> None:
    assert small().total() == 16
    assert len(small()) == 3


@settings(max_examples=20, deadline=None)
@given(profiles())
def test_what_is_built_fits_together(profile: Profile) -> None:
    assert fault_of(profile) is None


@settings(max_examples=20, deadline=None)
@given(profiles())
def test_a_saved_profile_is_the_same_when_read(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile
) -> None:
    path = tmp_path_factory.mktemp("saved") / "设置 run.devkit-profile"
    save_profile(profile, path)
    assert is_profile(path)
    assert load_profile(path) == profile


@settings(max_examples=20, deadline=None)
@given(profiles(), st.data())
def test_replaced_frames_stand_in_every_stack(profile: Profile, data: st.DataObject) -> None:
    new = st.lists(
        st.tuples(st.sampled_from(["inner", "outer", "main"]), st.integers(0, 3), st.booleans()).map(
            lambda parts: Frame(parts[0], line=parts[1], inlined=parts[2])
        ),
        max_size=3,
    )
    mapping = data.draw(st.dictionaries(st.sampled_from(range(len(profile.frames))), new))
    changed = with_frames(profile, mapping)
    assert fault_of(changed) is None
    for before, after in zip(profile.sample_stack, changed.sample_stack, strict=True):
        expected: list[Frame] = []
        for frame in profile.frames_of(before):
            expected.extend(mapping.get(frame, [profile.frames[frame]]))
        assert chain_of(changed, after) == tuple(expected)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("sample_stack", 9, "sample_stack points outside"),
        ("sample_thread", -1, "sample_thread points outside"),
        ("stack_parent", 1, "a stack comes before its parent"),
        ("sample_weight", -5, "sample_weight points outside"),
    ],
)
def test_a_profile_that_points_outside_is_called_damaged(
    tmp_path: Path, column: str, value: int, words: str
) -> None:
    profile = small()
    bad = array(getattr(profile, column).typecode, getattr(profile, column))
    bad[0] = value
    save_profile(replace(profile, **{column: bad}), tmp_path / "bad")
    with pytest.raises(FileError) as caught:
        load_profile(tmp_path / "bad")
    assert caught.value.evidence == words


@settings(max_examples=20, deadline=None)
@given(cut=st.floats(0, 1), flip=st.floats(0, 1))
def test_damaged_files_are_refused_or_read_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, cut: float, flip: float
) -> None:
    path = tmp_path_factory.mktemp("cut") / "p"
    save_profile(small(), path)
    data = bytearray(path.read_bytes())
    data[int(flip * (len(data) - 1))] ^= 0x41
    path.write_bytes(bytes(data[: int(cut * len(data)) + 1]))
    try:
        load_profile(path)
    except FileError:
        pass


def test_other_files_and_newer_versions_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        load_profile(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    assert not is_profile(tmp_path / "text")
    with pytest.raises(FileError, match="no profile"):
        load_profile(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "newer", "w") as archive:
        archive.writestr("profile.json", json.dumps({"format": "devkit-profile", "version": 99}))
    with pytest.raises(FileError, match="newer devkit"):
        load_profile(tmp_path / "newer")


def test_a_column_that_claims_to_be_huge_is_not_read(tmp_path: Path) -> None:
    save_profile(small(), tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as good, zipfile.ZipFile(tmp_path / "huge", "w") as huge:
        for name in good.namelist():
            data = good.read(name)
            if name == "profile.json":
                head = json.loads(data)
                head["columns"]["sample_stack"] = 1 << 40
                data = json.dumps(head).encode()
            huge.writestr(name, data)
    with pytest.raises(FileError, match="damaged"):
        load_profile(tmp_path / "huge")
