"""A phone that keeps a log, and a link that is cut at chosen places: a source for `Follower`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from devkit.device.failures import PhoneLost
from devkit.errors import DeviceError
from devkit.logcat.binary import BinaryParser
from devkit.logcat.follow import LogStream, PhoneLook
from devkit.logcat.save import TextForm
from tests.support.log_entries import entry

BASE_NS = 1778754150 * 10**9
Entry = tuple[int, bytes]


class Phone:
    """Keeps entries as logd does, and sends those from a stamp on.

    Args:
        cuts: for each reading after how many bytes it breaks; None: it does not.
        text: it sends `logcat -v threadtime,year,nsec,zone -D` instead of `-B`.
    """

    name = "phone"
    event_tags: Mapping[int, bytes] = {}

    def __init__(self, entries: Sequence[Entry], cuts: Sequence[int | None], *, text: bool = False) -> None:
        self.text = text
        self.kept = list(entries)
        self.cuts = list(cuts)
        self.starts: list[int | None] = []
        self.boot = "boot 1"
        self.now_ns = BASE_NS + 10**15
        self.before_reopening: Callable[[], None] = lambda: None
        self.unreachable = 0
        self.end_code: int | None = None
        self.complaint = ""

    def open(self, start_ns: int | None) -> LogStream:
        if self.starts:
            self.before_reopening()
        self.starts.append(start_ns)
        data = b"".join(entry(m, at_ns=t) for t, m in self.kept if start_ns is None or t >= start_ns)
        if self.text:
            data = TextForm().lines(BinaryParser().feed(data))
        return Stream(self, data, self.cuts.pop(0))

    def look(self) -> PhoneLook:
        if self.unreachable and self.starts:
            self.unreachable -= 1
            raise DeviceError("the phone is not connected")
        return PhoneLook(self.boot, self.now_ns)


class Stream:
    def __init__(self, phone: Phone, data: bytes, cut: int | None) -> None:
        self.data, self.cut, self.phone = data, cut, phone
        self.exit_code: int | None = None
        self.complaint = ""
        self.closed = False

    def read(self, timeout_s: float) -> bytes | None:
        if self.cut is not None and self.cut <= 0:
            if self.phone.end_code is None:
                raise PhoneLost("the connection broke off", evidence="cut")
            self.exit_code, self.complaint = self.phone.end_code, self.phone.complaint
            return None
        if not self.data:
            self.exit_code = 0
            return None
        size = min(33, len(self.data) if self.cut is None else self.cut)
        piece, self.data = self.data[:size], self.data[size:]
        if self.cut is not None:
            self.cut = self.cut - size if piece else 0
        return piece

    def close(self) -> None:
        self.closed = True
