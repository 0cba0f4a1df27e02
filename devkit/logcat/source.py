"""logcat on a phone: its command line for each Android release, and its output as a stream of bytes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DeviceError, OperationTimeout
from devkit.logcat.events import TAGS_FILE, parse_tags
from devkit.logcat.follow import LogStream, PhoneLook

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.device.shell import ShellStream

DEFAULT_BUFFERS = ("main", "system", "crash")
BUFFER_NAMES = ("main", "system", "crash", "radio", "events", "kernel", "security", "stats", "default", "all")
# Their entries are no text.
BINARY_BUFFERS = frozenset({"events", "security", "stats", "all"})
# Names that stand for several.
_SETS = frozenset({"default", "all"})
# `-T sssss.mmm` came with Android 7.
_EPOCH_SINCE_API = 24
_LOOK_TIMEOUT_S = 10.0
_COMPLAINT_BYTES = 2000
# `nsec` is not in logcat's help. It came with Android 8; text is asked of later ones only.
TEXT_SINCE_API = 28
_TEXT_WORDS = ("-D", *(word for name in ("threadtime", "year", "nsec", "zone") for word in ("-v", name)))
# Few large pieces cost less than many small ones: a log that comes fast is given time to gather. After a
# large piece the next may be there already, held up by what its socket takes; where it was not, that is
# tried again only after some more.
_GATHER_S = 0.1
_SMALL_BYTES, _LARGE_BYTES = 4 * 1024, 96 * 1024
_TRUSTED_PIECES = 20
# HOST:PORT, as `adb connect` names phones.
_ADDRESS = re.compile(r"\S+:\d+\Z")
_LOOK = "cat /proc/sys/kernel/random/boot_id 2>/dev/null; getprop ro.runtime.firstboot; echo; date +%s"


def logcat_words(
    buffers: Sequence[str],
    *,
    api_level: int,
    start_ns: int | None = None,
    ends: bool = False,
    text: bool = False,
) -> list[str]:
    """The command line that prints the log in binary, or as the text that `save.TextForm` writes."""
    words = ["logcat", *_TEXT_WORDS] if text else ["logcat", "-B"]
    for name in buffers:
        words += ["-b", name]
    if ends:
        words.append("-d")
    if start_ns is not None:
        words += ["-T", _stamp(start_ns, api_level)]
    return words


def is_one(buffers: Sequence[str]) -> bool:
    """Whether these names are one buffer, whose log has no dividers but at its beginning."""
    return len(buffers) == 1 and not _SETS.intersection(buffers)


def _stamp(start_ns: int, api_level: int) -> str:
    second, nanosecond = divmod(start_ns, 10**9)
    if api_level >= _EPOCH_SINCE_API:
        return f"{second}.{nanosecond:09d}"
    # In UTC: the command has TZ set so.
    return time.strftime("%m-%d %H:%M:%S.", time.gmtime(second)) + f"{nanosecond:09d}"


class PhoneLog:
    """The log of a phone, for `Follower`.

    Args:
        buffers: names as logcat's -b takes them.
        ends: read what is there and end.
        text: as text with stamps of this machine's time zone, for `reading.Lines`; else in binary.
    """

    def __init__(
        self,
        device: Device,
        buffers: Sequence[str] = DEFAULT_BUFFERS,
        *,
        ends: bool = False,
        text: bool = False,
    ) -> None:
        self._device = device
        self._buffers = tuple(buffers)
        self._ends = ends
        self._text = text
        # One for all readings: their lines are compared.
        self._zone = posix_zone(time.localtime().tm_gmtoff) if text else "UTC"
        self.name = device.serial
        self.event_tags: Mapping[int, bytes] = {}
        self._asked_tags = not BINARY_BUFFERS.intersection(buffers)

    def open(self, start_ns: int | None) -> LogStream:
        """Start logcat on the phone."""
        from devkit.device import quote

        self._ask_tags()
        words = logcat_words(
            self._buffers,
            api_level=self._device.api_level,
            start_ns=start_ns,
            ends=self._ends,
            text=self._text,
        )
        line = f"export TZ={quote([self._zone])}; exec {quote(words)}"
        if "shell_v2" not in self._device.features:
            line += " 2>/dev/null"  # both streams are one there
        stream = self._device.open_shell(line, doing="reading its log")
        return _ShellLog(stream, gathers=not self._ends)

    def look(self) -> PhoneLook:
        """The phone's boot and clock. A network phone that its adb server has forgotten is connected anew."""
        from devkit.device import DeviceNotReady

        try:
            lines = self._device.shell(_LOOK, timeout_s=_LOOK_TIMEOUT_S).text.split()
        except DeviceNotReady as error:
            if error.state not in ("not found", "offline") or not self._is_network_phone:
                raise
            from devkit.device.network import bring_online

            bring_online(self._device.server, self._device.serial)
            lines = self._device.shell(_LOOK, timeout_s=_LOOK_TIMEOUT_S).text.split()
        now = lines[-1] if lines else ""
        return PhoneLook(" ".join(lines[:-1]), int(now) * 10**9 if now.isdigit() else 0)

    def _ask_tags(self) -> None:
        """Once; a phone that does not tell them has numbers in their place."""
        if self._asked_tags:
            return
        self._asked_tags = True
        try:
            self.event_tags = parse_tags(self._device.read_bytes(TAGS_FILE))
        except DeviceError:
            pass

    @property
    def _is_network_phone(self) -> bool:
        # Virtual phones look like some, but are brought back by those who keep them.
        return bool(_ADDRESS.match(self._device.serial)) and self._device.server.origin != "sim"


class _ShellLog:
    def __init__(self, stream: ShellStream, *, gathers: bool) -> None:
        self._stream, self._gathers = stream, gathers
        self.exit_code: int | None = None
        self.complaint = ""
        self._waits = self._was_large = False
        self._trusted = 0
        stream.close_stdin()

    def read(self, timeout_s: float) -> bytes | None:
        if self._waits:
            time.sleep(_GATHER_S)
        try:
            chunks = self._stream.read_ready(timeout_s)
        except OperationTimeout:
            self._note(0)
            return b""
        parts: list[bytes] = []
        for name, data in chunks:
            if isinstance(data, int):
                self.exit_code = data
                self.complaint = self.complaint.strip()
                if not parts:
                    return None
            elif name == "stderr":
                self.complaint = (self.complaint + data.decode("utf-8", "replace"))[-_COMPLAINT_BYTES:]
            else:
                parts.append(data)
        piece = b"".join(parts)
        self._note(len(piece))
        return piece

    def _note(self, size: int) -> None:
        """Whether to wait before the next piece."""
        is_large = size >= _LARGE_BYTES
        if self._was_large and not self._waits:
            self._trusted = 0 if is_large else _TRUSTED_PIECES
        elif is_large:
            self._trusted = max(0, self._trusted - 1)
        self._was_large = is_large
        self._waits = self._gathers and size >= _SMALL_BYTES and (not is_large or self._trusted > 0)

    def close(self) -> None:
        self._stream.close()


def says_no_layout(complaint: str) -> bool:
    """Whether logcat has refused a word of `-v`, as in `Invalid parameter "nsec" to -v`."""
    return "nvalid" in complaint and "-v" in complaint


def posix_zone(offset_s: int) -> str:
    """A value of TZ for so many seconds east of UTC, as "<+0800>-8:00" (POSIX counts to the west)."""
    minutes = abs(offset_s) // 60
    sign, opposite = ("-", "+") if offset_s < 0 else ("+", "-")
    hours, rest = divmod(minutes, 60)
    return f"<{sign}{hours:02}{rest:02}>{opposite}{hours}:{rest:02}"


def clear(device: Device, buffers: Sequence[str]) -> None:
    """Empty buffers of the phone's log.

    Raises:
        DeviceError: the phone refuses.
    """
    words = ["logcat"]
    for name in buffers:
        words += ["-b", name]
    done = device.shell([*words, "-c"])
    # Android 6 to 8 exit with 0 and say it on either stream.
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    if done.exit_code != 0 or said:
        raise DeviceError(
            f"the phone {device.serial} does not clear its log",
            where=PHONE,
            evidence=said or f"exit code {done.exit_code}",
            hints=["name the buffers that the shell may clear: -b main -b system -b crash"],
        )
