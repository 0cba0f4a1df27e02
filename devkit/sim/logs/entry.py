"""An entry as logcat shows it: the packet of logdr taken apart (android_log_processLogBuffer)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from devkit.sim.logs.wire import BINARY_BUFFERS, ENTRY, INFO

_INT, _LONG, _STRING, _LIST, _FLOAT = range(5)
_ODD_IN_TAG = b"".join(bytes([c]) for c in range(256) if c <= 0x20 or c >= 0x7F or c == ord(":"))


class Entry(NamedTuple):
    """One message."""

    log_id: int
    uid: int
    pid: int
    tid: int
    sec: int
    nsec: int
    priority: int
    tag: bytes
    message: bytes


def parse_packet(packet: bytes) -> Entry | None:
    """Take a packet apart; None when it is too short to be a message."""
    length, head, pid, tid, sec, nsec, log_id, uid = ENTRY.unpack_from(packet)
    payload = packet[head : head + length]
    if log_id in BINARY_BUFFERS:
        parsed = _parse_binary(payload)
        if parsed is None:
            return None
        return Entry(log_id, uid, pid, tid, sec, nsec, INFO, *parsed)
    parts = payload[1:].split(b"\0", 2)
    if len(parts) == 3:
        tag, message = parts[0], parts[1]
    elif length < 3:
        return None
    elif len(parts) == 2:
        # Not terminated: its last byte makes room for the end.
        tag, message = parts[0], parts[1][:-1]
    else:
        tag, message = _split_malformed(payload)
    return Entry(log_id, uid, pid, tid, sec, nsec, payload[0], tag, message)


def _split_malformed(payload: bytes) -> tuple[bytes, bytes]:
    """Tag and message when there is no NUL at all: the tag ends where no tag can go on."""
    text = payload[1:]
    end = next((i for i, c in enumerate(text) if c in _ODD_IN_TAG), None)
    if end is None:
        return text[:-1], b""
    return text[:end], text[end + 1 : -1]


def _parse_binary(payload: bytes) -> tuple[bytes, bytes] | None:
    """Tag number and values of an event, as logcat shows them without a file of tag names."""
    if len(payload) < 4:
        return None
    tag = b"[%d]" % struct.unpack_from("<I", payload)[0]
    if len(payload) == 4:
        return tag, b""
    try:
        text, _ = _value(payload, 4)
    except (struct.error, IndexError):
        return None
    return tag, text


def _value(data: bytes, at: int) -> tuple[bytes, int]:
    kind = data[at]
    at += 1
    if kind == _INT:
        return b"%d" % struct.unpack_from("<i", data, at)[0], at + 4
    if kind == _LONG:
        return b"%d" % struct.unpack_from("<q", data, at)[0], at + 8
    if kind == _FLOAT:
        return b"%f" % struct.unpack_from("<f", data, at)[0], at + 4
    if kind == _STRING:
        (size,) = struct.unpack_from("<I", data, at)
        return data[at + 4 : at + 4 + size], at + 4 + size
    if kind == _LIST:
        count = data[at]
        at += 1
        texts = []
        for _ in range(count):
            text, at = _value(data, at)
            texts.append(text)
        return b"[" + b",".join(texts) + b"]", at
    raise IndexError(kind)
