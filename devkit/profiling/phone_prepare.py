"""What a phone allows profilers, and opening it for the time of a recording.

Phones keep perf events closed (security.perf_harden = 1) until the shell user opens them with setprop, for
which no root is needed. What was set is put back by a shell on the phone that waits for the end of our
stream: also after Ctrl-C, a broken link or the end of devkit.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from devkit.device import quote
from devkit.errors import PHONE, DeviceError

if TYPE_CHECKING:
    from devkit.device import Device, ShellStream
    from devkit.runtime.root import RootWay

HARDEN = "security.perf_harden"
OPEN, CLOSED, UNKNOWN = "open", "closed", "unknown"
# init writes it into perf_event_mlock_kb when perf events are opened: room for one buffer of 4 MiB a core.
_MLOCK_PROPERTY, _MLOCK_KB = "debug.perf_event_mlock_kb", 8 * 4100
_READY_S = 30.0
# The most that anybody without root needs: own processes, with the kernel's part of their time.
_PARANOID_OPEN = 1

_PROBE = """\
echo "type $(getprop ro.build.type)"
echo "harden $(getprop security.perf_harden)"
echo "mlock $(getprop debug.perf_event_mlock_kb)"
echo "paranoid $(cat /proc/sys/kernel/perf_event_paranoid 2>&1)"
echo "simpleperf $(command -v simpleperf)"
"""

# `echo` says how far it is; then it waits for the end of its input and puts everything back.
_OPEN = """\
trap '' HUP PIPE
{root}
setprop {mlock_name} {mlock} 2>/dev/null
setprop {harden} 0 2>&1; echo "rc $?"
echo "now $(getprop {harden})"
echo ready
while read -r word; do :; done
setprop {harden} {old_harden}
setprop {mlock_name} {old_mlock} 2>/dev/null
{restore}
"""
_ROOT_OPEN = "old=$(cat /proc/sys/kernel/perf_event_paranoid); echo -1 > /proc/sys/kernel/perf_event_paranoid"
_ROOT_BACK = '[ -n "$old" ] && echo "$old" > /proc/sys/kernel/perf_event_paranoid'


@dataclass(frozen=True)
class Probe:
    """What a phone says of itself.

    Attributes:
        harden: the property's value, "" when it has none.
        paranoid: None when it may not be read, which says nothing about recording.
        simpleperf: where the phone's own is, "" when it has none.
    """

    build_type: str = ""
    harden: str = ""
    paranoid: int | None = None
    mlock: str = ""
    simpleperf: str = ""

    @property
    def state(self) -> str:
        """OPEN: nothing is to be done; CLOSED: the property closes it; UNKNOWN: only a try can tell."""
        if self.harden not in ("", "0"):
            return CLOSED
        if self.paranoid is None or (self.harden == "" and self.paranoid > _PARANOID_OPEN):
            return UNKNOWN
        return OPEN

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "build_type": self.build_type,
            HARDEN: self.harden or None,
            "perf_event_paranoid": self.paranoid,
            "simpleperf": self.simpleperf or None,
            "state": self.state,
        }


def probe(device: Device) -> Probe:
    """Ask the phone. One round trip."""
    return parse_probe(device.shell(_PROBE).text)


def parse_probe(text: str) -> Probe:
    """The script's lines."""
    rows = dict(line.partition(" ")[::2] for line in text.splitlines() if " " in line or line)
    paranoid = rows.get("paranoid", "").strip()
    return Probe(
        rows.get("type", "").strip(),
        rows.get("harden", "").strip(),
        int(paranoid) if re.fullmatch(r"-?\d+", paranoid) else None,
        rows.get("mlock", "").strip(),
        rows.get("simpleperf", "").strip(),
    )


class Opened:
    """The phone lets us record until the context is left.

    Args:
        root: also as root, where the property alone does not help.

    Raises:
        DeviceError: the phone does not let us; says what else there is.
    """

    def __init__(self, device: Device, found: Probe, *, root: RootWay | None = None) -> None:
        self._device, self._found, self._root = device, found, root
        self._stream: ShellStream | None = None
        self.said = ""

    def __enter__(self) -> Opened:
        values = {
            "harden": HARDEN, "mlock_name": _MLOCK_PROPERTY, "mlock": str(_MLOCK_KB),
            "old_harden": quote([self._found.harden or "1"]), "old_mlock": quote([self._found.mlock]),
            "root": _ROOT_OPEN if self._root else ":", "restore": _ROOT_BACK if self._root else ":",
        }  # fmt: skip
        script = _OPEN.format(**values)
        line = f"exec {self._root.wrap(script)}" if self._root else script
        self._stream = self._device.open_shell(line, doing="opening the phone for profilers")
        try:
            self.said = self._read_until_ready(self._stream)
        except BaseException:
            self._close()
            raise
        if "\nnow 0\n" not in f"\n{self.said}":
            self._close()
            raise refused(self._device.serial, self._found, self.said)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        """Let the shell there put everything back; wait for it if the link is still there."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        watchdog = threading.Timer(_READY_S, stream.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            stream.close_stdin()
            if "shell_v2" in self._device.features:
                for _ in stream:
                    pass
        except DeviceError:
            pass  # it sees the end of the link by itself
        finally:
            watchdog.cancel()
            stream.close()

    @staticmethod
    def _read_until_ready(stream: ShellStream) -> str:
        said = b""
        while b"\nready\n" not in b"\n" + said:
            _, data = stream.read(_READY_S)
            if isinstance(data, int):
                break
            said += data
        return said.decode("utf-8", "replace").replace("\r", "")


def refused(serial: str, found: Probe, said: str) -> DeviceError:
    """The error for a phone that keeps perf events closed."""
    return DeviceError(
        f"the phone {serial} does not let the shell user profile: setprop {HARDEN} 0 was refused",
        where=PHONE,
        evidence=f"{said.strip()}\nro.build.type {found.build_type or 'unknown'}",
        hints=[
            "a userdebug build, or a rooted phone: devkit profile APP --root",
            'profile an app instead that is debuggable or has <profileable android:shell="true">',
        ],
    )


# What simpleperf says → what it means and what to do.
_MEANINGS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        r"isn't debuggable or profileable",
        'the app must be debuggable or <profileable android:shell="true">',
        ("a program that devkit runs below /data/local/tmp has no such limit: devkit profile APP",),
    ),
    (
        r"System wide profiling needs root",
        "recording all processes needs root",
        ("name the program or process: devkit profile APP, or --attach PID",),
    ),
    (
        r"adbd cannot run as root in production builds",
        "this build has no root; devkit goes on without root",
        ("devkit profile APP without --root",),
    ),
    (
        r"perf_event_paranoid is|perf_event_file .*(Permission denied|Operation not permitted)|perf_harden",
        "the phone's kernel does not let the shell user read perf events",
        (f"adb shell setprop {HARDEN} 0", "devkit profile APP --root on a phone with su"),
    ),
    (
        r"not supported on the device|isn't supported|No such file or directory.*event|ENOENT",
        "the phone does not have this event",
        ("devkit profile APP --counter cpu-clock",),
    ),
    (
        r"Unknown event_type",
        "simpleperf does not know this event",
        ("devkit device shell -- simpleperf list",),
    ),
)


def meaning_of(text: str) -> tuple[str, tuple[str, ...]]:
    """What simpleperf's words mean, and what to try."""
    for pattern, meaning, hints in _MEANINGS:
        if re.search(pattern, text):
            return meaning, hints
    return "simpleperf failed", ("devkit device shell -- simpleperf record --help",)
