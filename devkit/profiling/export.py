"""Profiles for other viewers: speedscope and the Firefox Profiler.

Sources: speedscope's file-format-schema.json; the Firefox Profiler's docs-developer/CHANGELOG-formats.md and
src/types/profile.ts (version 60 of the processed format, which newer ones upgrade when they open it).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import Any

from devkit import __version__
from devkit.profiling.model import INDEX, NONE, Profile
from devkit.profiling.tree import functions_of

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
FIREFOX_VERSION = 60
# With more samples stacks are merged: speedscope writes the whole stack of each sample.
MOST_TIMED = 100_000

_NS_PER_MS = 1_000_000
# Colours the Firefox Profiler has for categories; grey is the default one's.
_COLOURS = ("orange", "blue", "green", "purple", "yellow", "magenta", "lightblue", "brown", "red", "lightred")


def speedscope(profile: Profile, name: str) -> str:
    """A file for speedscope.app: one profile for each thread of each event.

    Samples are in the order of time while there are no more than MOST_TIMED, else merged by stack.
    """
    functions, function_of = functions_of(profile)
    frames: list[dict[str, Any]] = []
    for frame, function in zip(profile.frames, function_of, strict=True):
        shown: dict[str, Any] = {"name": functions[function].name}
        if frame.file:
            shown["file"] = frame.file
            if frame.line:
                shown["line"] = frame.line
        elif frame.module >= 0:
            shown["file"] = profile.modules[frame.module].path
        frames.append(shown)
    timed = len(profile) <= MOST_TIMED
    profiles: list[dict[str, Any]] = []
    for event, thread, order in _groups(profile):
        unit = profile.events[event].unit
        stacks, weights = _run_lengths(profile, order) if timed else _merged(profile, order)
        total = sum(weights)
        of = profile.threads[thread]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{of.name or '?'} ({of.tid}): {profile.events[event].name}",
                "unit": "nanoseconds" if unit == "ns" else "none",
                "startValue": 0,
                "endValue": total,
                "samples": [profile.frames_of(stack) for stack in stacks],
                "weights": weights,
            }
        )
    # The heaviest thread of the first event is what is opened.
    first = max(range(len(profiles)), key=lambda i: sum(profiles[i]["weights"]), default=0)
    content = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"devkit {__version__}",
        "name": name,
        "activeProfileIndex": first,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(content, separators=(",", ":"))


def firefox(profile: Profile, name: str) -> str:
    """A file for profiler.firefox.com: threads on the time line, libraries as categories."""
    strings: dict[str, int] = {}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    categories = [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]
    categories += [
        {"name": module.name, "color": _COLOURS[i % len(_COLOURS)], "subcategories": ["Other"]}
        for i, module in enumerate(profile.modules)
    ]
    functions, function_of = functions_of(profile)
    sources: dict[str, int] = {}
    source_of: list[int | None] = [None] * len(functions)
    for frame, function in zip(profile.frames, function_of, strict=True):
        if frame.file and source_of[function] is None:
            source_of[function] = sources.setdefault(frame.file, len(sources))
    nothing = [None] * len(profile.frames)
    frame_table = {
        "address": [max(frame.address, NONE) for frame in profile.frames],
        "inlineDepth": _inline_depths(profile),
        "category": [frame.module + 1 for frame in profile.frames],
        "subcategory": [0] * len(profile.frames),
        "func": function_of.tolist(),
        "nativeSymbol": nothing,
        "innerWindowID": nothing,
        "line": [frame.line or None for frame in profile.frames],
        "column": nothing,
        "length": len(profile.frames),
    }
    func_table = {
        "name": [string(function.name) for function in functions],
        "isJS": [False] * len(functions),
        "relevantForJS": [False] * len(functions),
        "resource": [function.module for function in functions],
        "source": source_of,
        "lineNumber": [None] * len(functions),
        "columnNumber": [None] * len(functions),
        "length": len(functions),
    }
    resource_table = {
        "lib": list(range(len(profile.modules))),
        "name": [string(module.name) for module in profile.modules],
        "host": [None] * len(profile.modules),
        "type": [1] * len(profile.modules),
        "length": len(profile.modules),
    }
    stack_table = {
        "frame": profile.stack_frame.tolist(),
        "prefix": [parent if parent >= 0 else None for parent in profile.stack_parent],
        "length": len(profile.stack_frame),
    }
    source_table = {
        "uuid": [None] * len(sources),
        "filename": [string(file) for file in sources],
        "length": len(sources),
    }
    begin = min(profile.sample_time_ns, default=0)
    threads = [_firefox_thread(profile, begin, *group) for group in _groups(profile)]
    meta = profile.meta
    content = {
        "meta": {
            "interval": 1,
            "startTime": meta.recorded_at * 1000,
            "processType": 0,
            "product": name,
            "importedFrom": meta.recorder or "devkit",
            "stackwalk": 1,
            "debug": False,
            "version": 30,
            "preprocessedProfileVersion": FIREFOX_VERSION,
            "symbolicated": True,
            "categories": categories,
            "markerSchema": [],
            "CPUName": meta.machine,
            "arguments": " ".join(meta.command),
        },
        "libs": [
            {
                "arch": meta.arch,
                "name": module.name,
                "path": module.path,
                "debugName": module.name,
                "debugPath": module.path,
                "breakpadId": (module.build_id.upper() + "0" * 32)[:32] + "0",
                "codeId": module.build_id or None,
            }
            for module in profile.modules
        ],
        "shared": {
            "stackTable": stack_table,
            "frameTable": frame_table,
            "funcTable": func_table,
            "resourceTable": resource_table,
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "sources": source_table,
            "stringArray": list(strings),
        },
        "threads": threads,
    }
    return json.dumps(content, separators=(",", ":"))


def _firefox_thread(
    profile: Profile, begin_ns: int, event: int, thread: int, order: list[int]
) -> dict[str, Any]:
    of, kind = profile.threads[thread], profile.events[event]
    weights = [profile.sample_weight[index] for index in order]
    if kind.unit == "ns":
        shown, weight_type = [weight / _NS_PER_MS for weight in weights], "tracing-ms"
    else:
        # There is no such unit as a cycle: in samples of the average weight.
        mean = sum(weights) / len(weights) or 1
        shown, weight_type = [round(weight / mean, 4) for weight in weights], "samples"
    stacks = (profile.sample_stack[index] for index in order)
    several = len(profile.events) > 1
    return {
        "processType": "default",
        "processName": profile.meta.command[0] if profile.meta.command else "",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "showMarkersInTimeline": False,
        "name": f"{of.name or '?'}: {kind.name}" if several else of.name or "?",
        "isMainThread": of.pid == of.tid,
        "pid": str(of.pid),
        "tid": of.tid,
        "samples": {
            "stack": [stack if stack >= 0 else None for stack in stacks],
            "time": [(profile.sample_time_ns[index] - begin_ns) / _NS_PER_MS for index in order],
            "weight": shown,
            "weightType": weight_type,
            "length": len(order),
        },
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0,
        },
    }  # fmt: skip


def _inline_depths(profile: Profile) -> list[int]:
    """How many functions each inlined frame is away from the one that really is there; 0 for real ones."""
    depths = [0] * len(profile.frames)
    of_stack = array(INDEX)
    for parent, frame in zip(profile.stack_parent, profile.stack_frame, strict=True):
        above = of_stack[parent] if parent >= 0 else 0
        of_stack.append(min(above + 1, 255) if profile.frames[frame].inlined else 0)
        depths[frame] = max(depths[frame], of_stack[-1])
    return depths


def _groups(profile: Profile) -> Iterator[tuple[int, int, list[int]]]:
    """(event, thread, its samples in the order of time)."""
    groups: dict[tuple[int, int], list[int]] = {}
    columns = zip(profile.sample_event, profile.sample_thread, strict=True)
    for index, key in enumerate(columns):
        groups.setdefault(key, []).append(index)
    for event, thread in sorted(groups):
        order = groups[event, thread]
        order.sort(key=profile.sample_time_ns.__getitem__)
        yield event, thread, order


def _run_lengths(profile: Profile, order: list[int]) -> tuple[list[int], list[int]]:
    """Samples with equal neighbours put together."""
    stacks: list[int] = []
    weights: list[int] = []
    for index in order:
        stack, weight = profile.sample_stack[index], profile.sample_weight[index]
        if stacks and stacks[-1] == stack:
            weights[-1] += weight
        else:
            stacks.append(stack)
            weights.append(weight)
    return stacks, weights


def _merged(profile: Profile, order: list[int]) -> tuple[list[int], list[int]]:
    weights: dict[int, int] = {}
    for index in order:
        stack = profile.sample_stack[index]
        weights[stack] = weights.get(stack, 0) + profile.sample_weight[index]
    stacks = sorted(weights, key=lambda stack: -weights[stack])
    return stacks, [weights[stack] for stack in stacks]
