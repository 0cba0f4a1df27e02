"""The outer layout of perf.data: header, events, features. Written by Linux perf and by simpleperf.

Sources: tools/perf/Documentation/perf.data-file-format.txt of Linux, record_file_format.h of simpleperf.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

from devkit.errors import FileError

MAGIC = b"PERFILE2"
_HEADER = struct.Struct("<8sQQ6Q32s")
_SECTION = struct.Struct("<QQ")
# type, size, config, period or frequency, sample_type, read_format, flags.
_ATTR = struct.Struct("<IIQQQQQ")
_FLAG_FREQ = 1 << 10
FLAG_SAMPLE_ID_ALL = 1 << 18

BUILD_ID, ARCH, CMDLINE, EVENT_DESC, HOSTNAME, OSRELEASE, VERSION = 2, 6, 11, 12, 3, 4, 5
FILE, META_INFO, FILE2 = 128, 129, 132

# (type, config) → the name perf has for it.
_EVENTS = {
    (0, 0): "cpu-cycles", (0, 1): "instructions", (0, 2): "cache-references", (0, 3): "cache-misses",
    (0, 4): "branch-instructions", (0, 5): "branch-misses", (0, 6): "bus-cycles",
    (0, 7): "stalled-cycles-frontend", (0, 8): "stalled-cycles-backend",
    (1, 0): "cpu-clock", (1, 1): "task-clock", (1, 2): "page-faults", (1, 3): "context-switches",
    (1, 4): "cpu-migrations", (1, 5): "minor-faults", (1, 6): "major-faults", (1, 9): "dummy",
}  # fmt: skip


@dataclass(frozen=True)
class Attr:
    """One recorded event: a perf_event_attr.

    Attributes:
        period: fixed, in events; 0 when the recorder was asked for a frequency.
        ids: of the event's counters, one for each processor and thread.
    """

    kind: int
    config: int
    period: int
    sample_type: int
    read_format: int
    flags: int
    ids: tuple[int, ...] = ()

    @property
    def default_name(self) -> str:
        """The name by type and number."""
        return _EVENTS.get((self.kind, self.config), f"type {self.kind}, config {self.config:#x}")


@dataclass
class PerfFile:
    """A file that is open, with its parts by number. Use as a context manager.

    Raises:
        FileError: it is no such file, was cut off, or never finished.
    """

    path: Path
    attrs: list[Attr] = field(default_factory=list)
    features: dict[int, bytes] = field(default_factory=dict)
    data_start: int = 0
    data_end: int = 0

    def __post_init__(self) -> None:
        try:
            with self.path.open("rb") as stream:
                size = stream.seek(0, 2)
                if size == 0:
                    raise damaged(self.path, "it is empty")
                self.data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise FileError(f"{self.path} cannot be read", evidence=error.strerror) from None
        try:
            self._read(size)
        except struct.error:
            self.data.close()
            raise damaged(self.path, "it ends within its header") from None
        except FileError:
            self.data.close()
            raise

    def __enter__(self) -> PerfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()

    @property
    def meta_info(self) -> dict[str, str]:
        """What simpleperf says of the recording; empty for Linux perf."""
        words = [w.decode("utf-8", "replace") for w in self.features.get(META_INFO, b"").split(b"\0")]
        return dict(zip(words[::2], words[1::2], strict=False))

    @property
    def is_simpleperf(self) -> bool:
        """Whether simpleperf wrote it. Its oldest versions wrote no meta info, but always this."""
        command = self.strings(CMDLINE)
        return META_INFO in self.features or bool(command and "simpleperf" in command[0])

    def string(self, feature: int) -> str:
        """A feature that is one text."""
        data = self.features.get(feature, b"")
        return data[4:].partition(b"\0")[0].decode("utf-8", "replace")

    def strings(self, feature: int) -> list[str]:
        """A feature that is a list of texts."""
        data = self.features.get(feature, b"")
        found: list[str] = []
        at = 4
        while at + 4 <= len(data) and len(found) < 65536:
            length = int.from_bytes(data[at : at + 4], "little")
            found.append(data[at + 4 : at + 4 + length].partition(b"\0")[0].decode("utf-8", "replace"))
            at += 4 + length
        return found

    def event_names(self) -> dict[int, str]:
        """Index of an attribute → the event's name as the recorder had it."""
        names: dict[int, str] = {}
        known = {attr.ids[0]: index for index, attr in enumerate(self.attrs) if attr.ids}
        for name, ids in self._event_descriptions():
            for event_id in ids:
                if event_id in known:
                    names[known[event_id]] = name
        told = {}
        # simpleperf: lines of NAME,TYPE,CONFIG.
        for line in self.meta_info.get("event_type_info", "").splitlines():
            name, _, rest = line.partition(",")
            told[rest] = name
        for index, attr in enumerate(self.attrs):
            name = names.get(index) or told.get(f"{attr.kind},{attr.config}") or attr.default_name
            # exclude_kernel: simpleperf and perf both write it as :u.
            names[index] = name if ":" in name or not attr.flags & 1 << 5 else f"{name}:u"
        return names

    def _event_descriptions(self) -> list[tuple[str, tuple[int, ...]]]:
        data = self.features.get(EVENT_DESC, b"")
        found: list[tuple[str, tuple[int, ...]]] = []
        try:
            count, attr_size = struct.unpack_from("<II", data)
            at = 8
            for _ in range(min(count, 4096)):
                at += attr_size
                id_count, length = struct.unpack_from("<II", data, at)
                name = data[at + 8 : at + 8 + length].partition(b"\0")[0].decode("utf-8", "replace")
                at += 8 + length
                found.append((name, struct.unpack_from(f"<{id_count}Q", data, at)))
                at += 8 * id_count
        except (struct.error, MemoryError):
            pass  # a name is nice to have
        return found

    def _read(self, size: int) -> None:
        magic = self.data[:8]
        if magic == MAGIC[::-1]:
            raise damaged(self.path, "it is of a big-endian machine, which devkit does not read")
        if magic != MAGIC:
            raise FileError(
                f"{self.path} is no perf.data",
                evidence=f"it begins with {magic!r}",
                hints=["devkit reads what simpleperf record and perf record write"],
            )
        head = _HEADER.unpack_from(self.data)
        header_size, attr_size, attrs_at, attrs_size, self.data_start, data_size = head[1:7]
        if header_size < _HEADER.size:
            raise damaged(self.path, "it was written to a pipe; record into a file (-o)")
        self.data_end = self.data_start + data_size
        if data_size == 0:
            raise damaged(self.path, "it has no data: the recorder was killed before it could finish it")
        if self.data_end > size or attrs_at + attrs_size > size:
            raise damaged(self.path, f"it is cut off: {size} bytes of at least {self.data_end}")
        if attr_size < _ATTR.size + _SECTION.size or attrs_size < attr_size:
            raise damaged(self.path, "it names no event")
        for index in range(min(attrs_size // attr_size, 4096)):
            self.attrs.append(self._attr(attrs_at + index * attr_size, attr_size, size))
        self._read_features(head[9], size)

    def _attr(self, at: int, attr_size: int, size: int) -> Attr:
        kind, _, config, period, sample_type, read_format, flags = _ATTR.unpack_from(self.data, at)
        ids_at, ids_size = _SECTION.unpack_from(self.data, at + attr_size - _SECTION.size)
        if ids_at + ids_size > size:
            raise damaged(self.path, "an event's ids lie behind its end")
        ids = struct.unpack_from(f"<{ids_size // 8}Q", self.data, ids_at)
        fixed = 0 if flags & _FLAG_FREQ else period
        return Attr(kind, config, fixed, sample_type, read_format, flags, ids)

    def _read_features(self, bits: bytes, size: int) -> None:
        at = self.data_end
        mask = int.from_bytes(bits, "little")
        for number in range(256):
            if not mask >> number & 1:
                continue
            start, length = _SECTION.unpack_from(self.data, at)
            at += _SECTION.size
            if start + length > size:
                raise damaged(self.path, f"it is cut off: feature {number} lies behind its end")
            self.features[number] = self.data[start : start + length]


def damaged(path: Path, why: str) -> FileError:
    """The error for a file that cannot be used."""
    return FileError(
        f"the recording {path} is damaged",
        evidence=why,
        hints=["record it again: devkit profile APP", "or copy it again, and compare the sizes"],
    )
