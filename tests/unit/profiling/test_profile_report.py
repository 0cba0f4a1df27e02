"""Reports of a profile: functions, stacks, lines, files for other viewers."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from devkit.errors import UsageError
from devkit.profiling import Meta, Profile, ProfileBuilder, save_profile
from devkit.profiling.annotate import annotate, annotated_text, bare_name, find_source, without_parameters
from devkit.profiling.export import MOST_TIMED, firefox, speedscope
from devkit.profiling.functions import function_rows
from devkit.profiling.history import History
from devkit.profiling.report import as_csv, as_folded, call_tree, top_table
from devkit.profiling.selection import event_named, only_threads
from devkit.profiling.tree import build_tree, functions_of, merge
from tests.support.json_schema import faults
from tests.support.profiles import profiles

DATA = Path(__file__).parents[2] / "data" / "profiling"


def work_profile(folder: Path | None = None) -> Profile:
    """main calls work on lines 3 and 4; work calls itself once; an inlined helper; an idle second thread."""
    file = str(folder / "work.cpp") if folder else "/elsewhere/src/work.cpp"
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    worker, idle = builder.thread(1, 1, "worker"), builder.thread(1, 2, "idle")
    library = builder.module("/data/local/tmp/libwork.so", "ab12")
    main = builder.frame("main", library, file=file, line=3)
    work, deeper = (builder.frame("kit::work(int, char)", library, file=file, line=line) for line in (7, 8))
    helper = builder.frame("kit::helper<int>()", library, file=file, line=12, inlined=True)
    builder.sample(builder.stack([main, work]), worker, 500)
    builder.sample(builder.stack([main, deeper, work]), worker, 300)
    builder.sample(builder.stack([main, deeper, helper]), worker, 150)
    builder.sample(builder.stack([builder.frame("", library)]), idle, 50)
    return builder.finish(Meta("phone", ("work", "a b"), "simpleperf"))


@settings(max_examples=25, deadline=None)
@given(profiles())
def test_functions_have_what_their_samples_weigh(profile: Profile) -> None:
    functions, function_of = functions_of(profile)
    for event in range(len(profile.events)):
        own: Counter[Any] = Counter()
        total: Counter[Any] = Counter()
        columns = zip(profile.sample_stack, profile.sample_event, profile.sample_weight, strict=True)
        for stack, kind, weight in columns:
            if kind != event or not weight:
                continue
            names = [functions[function_of[f]] for f in profile.frames_of(stack)]
            for name in set(names):
                total[name] += weight
            if names:
                own[names[-1]] += weight
        rows = function_rows(merge(profile), event)
        modules = {module.path: index for index, module in enumerate(profile.modules)} | {"": -1}
        found = {(row.name, modules[row.module]): (row.own, row.total) for row in rows}
        found.pop(("(no stack)", -1), None)
        assert found == {name: (own[name], weight) for name, weight in total.items()}


def test_recursion_counts_once_and_the_hottest_line_is_named() -> None:
    rows = {row.name: row for row in function_rows(merge(work_profile()))}
    work = rows["kit::work(int, char)"]
    assert (work.own, work.total, work.line) == (800, 950, 7)
    assert (rows["main"].own, rows["main"].total, rows["main"].line) == (0, 950, 3)
    assert rows["[libwork.so]"].own == 50
    text = top_table(function_rows(merge(work_profile())), 1000)
    assert "80.00 %  95.00 %  kit::work(int, char)" in text and "src/work.cpp:7" in text


def test_the_call_tree_is_indented_and_the_heaviest_first() -> None:
    lines = call_tree(build_tree(work_profile()), least_share=0.1).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["95.00", "95.00", "30.00", "15.00"]
    assert lines[1].endswith("main  libwork.so")
    assert "  kit::work(int, char)" in lines[2] and "    kit::work" in lines[3]
    # Below the least share: the idle thread's.
    assert not any("[libwork.so]" in line for line in lines)


@settings(max_examples=20, deadline=None)
@given(profiles())
def test_folded_stacks_hold_all_weight_in_lines_that_parse(profile: Profile) -> None:
    merged = merge(profile)
    for event in range(len(profile.events)):
        summed = 0
        for line in as_folded(merged, event):
            stack, _, weight = line.rstrip("\n").rpartition(" ")
            assert line.count("\n") == 1 and all(stack.split(";"))
            summed += int(weight)
        nothing = sum(
            w for s, e, w in zip(
                profile.sample_stack, profile.sample_event, profile.sample_weight, strict=True
            ) if e == event and s < 0 and not merged.node_of[-1]
        )  # fmt: skip
        assert summed + nothing == merged.totals[event]


def test_csv_has_names_with_commas_whole() -> None:
    profile = work_profile()
    text = as_csv(function_rows(merge(profile)), 1000, profile.events[0])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["function"] == "kit::work(int, char)" and rows[0]["self_share"] == "0.800000"
    assert rows[0]["unit"] == "ns" and rows[0]["line"] == "7"


def test_annotated_lines_carry_their_weights(tmp_path: Path) -> None:
    (tmp_path / "work.cpp").write_text("".join(f"line {n};\n" for n in range(1, 21)))
    merged = merge(work_profile(tmp_path))
    found = annotate(merged, "work")
    assert found.functions == ("kit::work(int, char)",)
    lines = found.files[str(tmp_path / "work.cpp")]
    assert {n: (c.own, c.total) for n, c in lines.items()} == {7: (800, 800), 8: (0, 450)}
    text, warnings = annotated_text(found, [], 0)
    assert not warnings
    assert "80.00 %  80.00 %  7" in text and "line 7;" in text and "line 4;" in text
    assert "line 12;" not in text
    # Older than the file as it is now.
    _, warnings = annotated_text(found, [], 1.0)
    assert "was changed after the recording" in warnings[0]


def test_sources_are_found_by_the_end_of_their_path(tmp_path: Path) -> None:
    (tmp_path / "engine/src").mkdir(parents=True)
    (tmp_path / "engine/src/work.cpp").write_text("text\n" * 20)
    assert find_source("/elsewhere/src/work.cpp", [tmp_path / "engine"]) == tmp_path / "engine/src/work.cpp"
    assert find_source("C:\\build\\src\\work.cpp", [tmp_path / "engine"]) is not None
    assert find_source("/elsewhere/other.cpp", [tmp_path]) is None
    text, warnings = annotated_text(annotate(merge(work_profile()), "work"), [tmp_path], 0)
    assert "not on this machine" in warnings[0] and "80.00 %" in text


def test_a_function_is_asked_for_by_any_clear_name() -> None:
    merged = merge(work_profile())
    for name in ("kit::work(int, char)", "kit::work", "work", "wor", "HELPER"):
        assert len(annotate(merged, name).functions) == 1
    with pytest.raises(UsageError, match="several functions are called kit"):
        annotate(merged, "kit")
    with pytest.raises(UsageError, match="no function of this profile is called worked"):
        annotate(merged, "worked")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("f", "f"),
        ("ns::f<void (int)>(int) const", "ns::f<void (int)>"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("Kit::operator()(int)", "Kit::operator()"),
        ("operator-> ()", "operator-> "),
    ],
)
def test_names_without_their_parameters(name: str, plain: str) -> None:
    assert without_parameters(name) == plain


def test_bare_names() -> None:
    assert bare_name("void MNN::gemm<float, std::pair<int, int> >(float*)") == "gemm"
    assert bare_name("main") == "main"


@settings(max_examples=15, deadline=None)
@given(profiles())
def test_speedscope_files_fit_their_schema_and_hold_all_weight(profile: Profile) -> None:
    schema = json.loads((DATA / "speedscope-schema.json").read_text())
    content = json.loads(speedscope(profile, "name"))
    assert faults(content, schema) == []
    assert sum(sum(p["weights"]) for p in content["profiles"]) == sum(profile.sample_weight)
    for one in content["profiles"]:
        assert len(one["samples"]) == len(one["weights"]) and sum(one["weights"]) == one["endValue"]
        assert all(frame < len(content["shared"]["frames"]) for stack in one["samples"] for frame in stack)


def test_speedscope_merges_what_would_be_too_much() -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    thread = builder.thread(1, 1)
    stacks = [builder.stack([builder.frame("main"), builder.frame(name)]) for name in ("a", "b")]
    for number in range(MOST_TIMED + 1):
        builder.sample(stacks[number % 3 == 0], thread, 1, number)
    (one,) = json.loads(speedscope(builder.finish(Meta()), "x"))["profiles"]
    assert len(one["samples"]) == 2 and sum(one["weights"]) == MOST_TIMED + 1


@settings(max_examples=15, deadline=None)
@given(profiles())
def test_firefox_files_have_tables_that_fit_together(profile: Profile) -> None:
    content = json.loads(firefox(profile, "name"))
    shared = content["shared"]
    for name, table in shared.items():
        if name != "stringArray":
            lengths = {len(column) for key, column in table.items() if key != "length"}
            assert lengths <= {table["length"]}, name
    assert all(prefix is None or prefix < at for at, prefix in enumerate(shared["stackTable"]["prefix"]))
    assert all(0 <= frame < shared["frameTable"]["length"] for frame in shared["stackTable"]["frame"])
    assert all(0 <= func < shared["funcTable"]["length"] for func in shared["frameTable"]["func"])
    assert all(c < len(content["meta"]["categories"]) for c in shared["frameTable"]["category"])
    names = [shared["stringArray"][name] for name in shared["funcTable"]["name"]]
    assert names == [function.name for function in functions_of(profile)[0]]
    assert sum(thread["samples"]["length"] for thread in content["threads"]) == len(profile)
    for thread in content["threads"]:
        samples = thread["samples"]
        assert samples["time"] == sorted(samples["time"])
        assert {len(samples[c]) for c in ("stack", "time", "weight")} == {samples["length"]}


def test_a_thread_is_chosen_by_id_or_part_of_its_name() -> None:
    profile = work_profile()
    assert only_threads(profile, ["WORK"]).total() == 950
    assert only_threads(profile, ["2"]).total() == 50
    with pytest.raises(UsageError) as caught:
        only_threads(profile, ["render"])
    assert "worker (1)" in (caught.value.evidence or "")
    assert event_named(profile, None) == event_named(profile, "cpu") == 0
    with pytest.raises(UsageError, match="no event"):
        event_named(profile, "cycles")


def test_recordings_are_found_by_what_people_say(tmp_path: Path) -> None:
    history = History(tmp_path)
    with pytest.raises(UsageError, match="no recording last"):
        history.find("last")
    names = [history.save(work_profile(), app) for app in ("./bin/my app", "my app", "llm")]
    assert sorted(names) == history.names() and len(set(names)) == 3
    assert history.path(history.names()[-1]) == history.find("last")
    assert history.path(history.names()[-2]) == history.find("previous")
    assert history.load(names[0]) == work_profile()
    with pytest.raises(UsageError, match="several recordings"):
        history.find("20")
    assert history.find(str(history.path(names[0]))) == history.path(names[0])


def test_the_command_reports_and_writes_every_kind_of_file(tmp_path: Path) -> None:
    recording = tmp_path / "a b 录.devkit-profile"
    save_profile(work_profile(), recording)
    files = {
        kind: str(tmp_path / f"out.{kind}") for kind in ("html", "csv", "speedscope", "firefox", "folded")
    }
    flags = [part for kind, file in files.items() for part in (f"--{kind}", file)]

    def devkit(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "devkit", "profile", *argv],
            capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path, env=os.environ.copy(),
        )  # fmt: skip

    done = devkit("--show", str(recording), "--json", *flags)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["functions"][0]["function"] == "kit::work(int, char)"
    assert data["functions"][0]["self_share"] == 0.8
    assert sorted(data["files"].values()) == sorted(files.values())
    assert "<canvas" in Path(files["html"]).read_text()
    assert "main;kit::work(int, char) 500" in Path(files["folded"]).read_text()
    done = devkit("--show", str(recording), "--tree", "--annotate", "work")
    assert done.returncode == 0, done.stderr
    tree = devkit("--show", str(recording), "--tree").stdout.splitlines()
    lines = devkit("--show", str(recording), "--annotate", "work").stdout.splitlines()
    assert len(tree) > 3 and len(lines) > 3
    assert set(tree) | set(lines) == set(done.stdout.splitlines())
    done = devkit("--show", str(recording), "--annotate", "nothing like it")
    assert done.returncode == 2 and "no function of this profile" in done.stderr
    done = devkit("--show", str(tmp_path / "absent"))
    assert done.returncode == 2 and "no recording" in done.stderr
