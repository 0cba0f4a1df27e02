"""The text of `perf script`: with DWARF perf unwinds call chains only when it reads its file.

Source: tools/perf/builtin-script.c and util/evsel_fprintf.c of Linux. For files of a process the addresses
are places in the file; those of callers are inside their call already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import NONE, Meta, Module, Profile

FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"

# The thread's name is padded, and may hold blanks.
_SAMPLE = re.compile(
    r"^\s*(?P<comm>\S.*?|)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?P<s>\d+)\.(?P<fraction>\d+):\s+"
    r"(?P<period>\d+)\s+(?P<event>\S.*?):\s*$"
)
_FRAME = re.compile(r"^\s+(?P<ip>[0-9a-f]+) (?P<symbol>.*) \((?P<dso>.*)\)\s*$")
_DELETED = " (deleted))"
_UNKNOWN = "[unknown]"
_NS_DIGITS = 9
# perf knows clocks by these names; all else counts something.
_CLOCKS = ("cpu-clock", "task-clock")
_CYCLES = ("cycles", "cpu-cycles")
_MOST = (1 << 63) - 1

# The virtual address of a place in a file that is known here.
Locate = Callable[[Module, int], "int | None"]


def read_perf_script(
    lines: Iterable[str],
    meta: Meta,
    *,
    build_ids: Mapping[str, str] | None = None,
    locate: Locate | None = None,
) -> Profile:
    """The samples as a profile; lines that are none are passed over.

    Args:
        build_ids: path → hex, as `perf buildid-list` tells them.
    """
    ids = build_ids or {}
    builder = ProfileBuilder()
    frames: dict[str, int] = {}
    stacks: dict[tuple[str, ...], int] = {}
    sample: re.Match[str] | None = None
    chain: list[str] = []

    def frame_of(line: str) -> int:
        # ` (deleted)` behind a path would look like the path.
        found = _FRAME.match(line.replace(_DELETED, ")"))
        if found is None:
            return builder.frame(line.strip())
        dso = found["dso"]
        place = int(found["ip"], 16)
        name = "" if found["symbol"] == _UNKNOWN else found["symbol"]
        if dso in (_UNKNOWN, "inlined"):
            return builder.frame(name, address=min(place, _MOST) if not name else NONE)
        module = Module(dso, ids.get(dso, ""))
        index = builder.module(*module)
        virtual = locate(module, place) if locate is not None else None
        return builder.frame(name, index, address=min(place if virtual is None else virtual, _MOST))

    def finish() -> None:
        if sample is None:
            return
        key = tuple(chain)
        stack = stacks.get(key)
        if stack is None:
            for line in chain:
                if line not in frames:
                    frames[line] = frame_of(line)
            # perf writes the innermost first.
            stack = stacks[key] = builder.stack(frames[line] for line in reversed(chain))
        event = sample["event"].strip()
        plain = event.partition(":")[0]
        unit = "ns" if plain in _CLOCKS else "cycles" if plain in _CYCLES else "count"
        fraction = sample["fraction"][:_NS_DIGITS].ljust(_NS_DIGITS, "0")
        builder.sample(
            stack,
            builder.thread(int(sample["pid"]), int(sample["tid"]), sample["comm"]),
            min(int(sample["period"]), _MOST),
            min(int(sample["s"] + fraction), _MOST),
            builder.event(event, unit),
        )

    for line in lines:
        if not line.strip():
            continue
        if sample is not None and line[0] in "\t " and _FRAME.match(line):
            chain.append(line)
        elif found := _SAMPLE.match(line):
            finish()
            sample, chain = found, []
    finish()
    return builder.finish(meta)


def parse_build_ids(text: str) -> dict[str, str]:
    """`perf buildid-list`: a build-id and a path a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        build_id, _, path = line.strip().partition(" ")
        if path and re.fullmatch(r"[0-9a-f]{8,64}", build_id):
            found[path.strip()] = build_id
    return found
