"""Entries as logd sends them."""

from __future__ import annotations

import struct

from devkit.logcat.record import BUFFERS, Record

HEAD = struct.Struct("<HHiIIIII")
SHORT_HEAD = struct.Struct("<HHiIIII")


def entry(
    message: bytes,
    *,
    tag: bytes = b"MNNJNI",
    at_ns: int = 1778754150_101233456,
    pid: int = 100,
    level: int = 4,
    buffer: str = "main",
    uid: int = 2000,
) -> bytes:
    payload = bytes([level]) + tag + b"\0" + message + b"\0"
    lid = BUFFERS.index(buffer)
    return HEAD.pack(len(payload), 28, pid, pid + 1, at_ns // 10**9, at_ns % 10**9, lid, uid) + payload


def texts(records: list[Record]) -> list[bytes]:
    return [record.message for record in records]
