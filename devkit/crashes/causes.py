"""The probable cause of a crash, from causes.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from devkit.crashes.model import SIGNAL, Crash

_UNKNOWN = "the text does not say why"
_TOMBSTONE = (
    "adb logcat -d -b crash  # the dump, while the buffer has it",
    "adb bugreport  # holds the tombstones of /data/tombstones, which only root may read",
)


@dataclass(frozen=True)
class Cause:
    """`kind` is a short name that a script can branch on, `text` one sentence, `next` what to do."""

    kind: str
    text: str
    next: tuple[str, ...] = ()


def cause_of(crash: Crash) -> Cause:
    """What most likely happened, and what to do next."""
    texts = {
        "message": crash.abort_message or "",
        "printed": crash.printed_cause or "",
        "what": crash.what or "",
        "signal": " ".join(filter(None, (crash.signal, crash.code))),
        "tool": crash.tool or "",
    }
    values = {
        "process": crash.process or "the process",
        "pid": str(crash.pid),
        "what": crash.what or "",
        "address": crash.fault_address or "its address",
        "message": crash.abort_message or "",
    }
    for entry in _table():
        if _holds(entry, crash, texts):
            text = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], m[0]), entry["cause"])
            return Cause(entry["class"], text, _next(crash, tuple(entry.get("next", ()))))
    return Cause("unknown", _UNKNOWN, _next(crash, ()))


def _next(crash: Crash, steps: tuple[str, ...]) -> tuple[str, ...]:
    return (*_TOMBSTONE, *steps) if crash.kind == SIGNAL and not crash.frames else steps


def _holds(entry: Mapping[str, Any], crash: Crash, texts: Mapping[str, str]) -> bool:
    if "kind" in entry and entry["kind"] != crash.kind:
        return False
    if "below" in entry:
        address = crash.fault_address
        if address is None or int(address, 16) >= entry["below"]:
            return False
    return all(pattern.search(texts[name]) for name, pattern in entry["patterns"].items())


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, Any], ...]:
    import yaml

    text = resources.files("devkit.crashes").joinpath("causes.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[dict[str, Any]] = yaml.load(text, Loader=loader)
    for entry in entries:
        entry["patterns"] = {
            name: re.compile(entry[name])
            for name in ("message", "printed", "what", "signal", "tool")
            if name in entry
        }
    return tuple(entries)
