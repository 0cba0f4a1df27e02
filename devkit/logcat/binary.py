"""The stream of `logcat -B`: struct logger_entry and payload, one after the other (log/log_read.h).

Nothing is guessed here, as it has to be with text: where a message ends, where its tag ends, which year and
time zone. Android 6 has headers of 24 bytes (without user), later releases 28; the size is in the header.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from devkit.logcat.events import decode_event
from devkit.logcat.record import BUFFERS, INFO, Record

_HEAD = struct.Struct("<HHiIIIII")
_SHORT_HEAD = struct.Struct("<HHiIII")
_SIZES = (20, 24, 28)
# LOGGER_ENTRY_MAX_LEN is 5 KiB; vendors have raised it.
_MAX_PAYLOAD_BYTES = 32 * 1024
_BINARY = frozenset({"events", "stats", "security"})


class BinaryParser:
    """Takes the stream in any pieces. `skipped_bytes` counts what was no entry.

    Args:
        event_tags: names of the tags of events, by number.
    """

    def __init__(self, event_tags: Mapping[int, bytes] | None = None) -> None:
        self._rest = b""
        self._names = event_tags or {}
        self.skipped_bytes = 0

    def feed(self, data: bytes) -> list[Record]:
        """The records that are complete now."""
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        records: list[Record] = []
        add, new, unpack = records.append, tuple.__new__, _HEAD.unpack_from
        # 28 bytes are there even of a shorter head: no payload has less than 4 (5 with the padding below).
        while at + 28 <= size:
            length, head, pid, tid, sec, nsec, lid, uid = unpack(data, at)
            if head != 28 or lid > 7 or nsec > 999_999_999 or not 0 < length <= _MAX_PAYLOAD_BYTES:
                if not _plausible(length, head, lid, nsec):
                    at = self._resync(data, at)
                    continue
                if head < 24:
                    lid = 0
                start, user = at + (head or 20), None
            else:
                start, user = at + 28, uid
            end = start + length
            if end > size:
                break
            buffer = BUFFERS[lid]
            if buffer in _BINARY:
                tag, message = decode_event(data[start:end], self._names)
                level = INFO
            else:
                level = data[start]
                zero = data.find(b"\0", start + 1, end)
                if zero < 0:
                    zero = end
                tag = data[start + 1 : zero]
                # Without the end of the string; a message may hold zeros before it.
                message = data[zero + 1 : end - 1 if data[end - 1] == 0 and zero < end - 1 else end]
            at = end
            add(new(Record, (sec * 1_000_000_000 + nsec, buffer, user, pid, tid, level, tag, message, None)))
        self._rest = data[at:]
        return records

    def finish(self) -> list[Record]:
        """What remains at the end of the stream. A cut entry is counted as skipped."""
        records: list[Record] = []
        rest = self._rest
        # The last entry of a short head may have fewer bytes than the longest head.
        if 20 < len(rest) < 28:
            length, head, *_ = _SHORT_HEAD.unpack_from(rest)
            if head in _SIZES and head + length == len(rest):
                records = self.feed(b"\0" * (28 - len(rest)))
                self._rest = b""
                return records
        self.skipped_bytes += len(rest)
        self._rest = b""
        return records

    def _resync(self, data: bytes, start: int) -> int:
        """Where the next entry may begin: text of an error message, say, was mixed into the stream."""
        at = start + 1
        while at + 28 <= len(data):
            length, head, pid, _tid, _sec, nsec, lid, _uid = _HEAD.unpack_from(data, at)
            if head in (24, 28) and pid >= 0 and _plausible(length, head, lid, nsec):
                break
            at += 1
        self.skipped_bytes += at - start
        return at


def _plausible(length: int, head: int, lid: int, nsec: int) -> bool:
    if not 0 < length <= _MAX_PAYLOAD_BYTES or nsec > 999_999_999:
        return False
    return head in (0, 20) or (head in (24, 28) and lid < len(BUFFERS))
