"""Entries of the events buffer: a tag's number and typed values (log/log_event_list.h)."""

from __future__ import annotations

import struct

_INT, _LONG, _STRING, _LIST, _FLOAT = range(5)
_MAX_DEPTH = 8


def decode_event(payload: bytes) -> tuple[bytes, bytes]:
    """Tag (its number as text) and values as logcat shows them; what cannot be decoded stays as it is."""
    if len(payload) < 4:
        return b"", payload
    tag = b"%d" % struct.unpack_from("<I", payload)[0]
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
