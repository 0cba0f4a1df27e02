"""Entries of the events buffer: a tag's number and typed values (log/log_event_list.h)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_INT, _LONG, _STRING, _LIST, _FLOAT = range(5)
_MAX_DEPTH = 8
# Where Android keeps the names of tags: "30014 am_proc_start (User|1|5),…".
TAGS_FILE = "/system/etc/event-log-tags"


def parse_tags(data: bytes) -> dict[int, bytes]:
    """Names of event tags by their numbers."""
    names = {}
    for line in data.splitlines():
        words = line.split(None, 2)
        if len(words) > 1 and words[0].isdigit():
            names[int(words[0])] = words[1]
    return names


def decode_event(payload: bytes, names: Mapping[int, bytes]) -> tuple[bytes, bytes]:
    """Tag and values as logcat shows them; what cannot be decoded stays as it is.

    Args:
        names: of tags; others are shown as numbers.
    """
    if len(payload) < 4:
        return b"", payload
    number = struct.unpack_from("<I", payload)[0]
    tag = names.get(number) or b"%d" % number
    if len(payload) == 4:
        return tag, b""
    try:
        text, _ = _value(payload, 4, 0)
    except (struct.error, IndexError, RecursionError):
        return tag, payload[4:]
    return tag, text


def _value(data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    kind, at = data[at], at + 1
    if kind == _INT:
        return b"%d" % struct.unpack_from("<i", data, at)[0], at + 4
    if kind == _LONG:
        return b"%d" % struct.unpack_from("<q", data, at)[0], at + 8
    if kind == _FLOAT:
        return b"%f" % struct.unpack_from("<f", data, at)[0], at + 4
    if kind == _STRING:
        (size,) = struct.unpack_from("<I", data, at)
        if at + 4 + size > len(data):
            raise IndexError("a string longer than the entry")
        return data[at + 4 : at + 4 + size], at + 4 + size
    if kind == _LIST and depth < _MAX_DEPTH:
        count, at = data[at], at + 1
        parts = []
        for _ in range(count):
            part, at = _value(data, at, depth + 1)
            parts.append(part)
        return b"[" + b",".join(parts) + b"]", at
    raise IndexError(f"type {kind}")
