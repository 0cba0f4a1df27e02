"""The phone's processes, read from its /proc in one round trip: `ps` differs or is missing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from devkit.errors import PHONE, DeviceError

# Two programs however many processes there are: starting one for each takes seconds on a phone.
# `head` with several files names each one, in toybox, busybox and coreutils alike.
LIST_SCRIPT = """\
echo "self $$"
cat /proc/[0-9]*/status 2>/dev/null
echo "== cmdlines =="
head -c 4096 /proc/[0-9]*/cmdline /dev/null 2>/dev/null
true"""

_SPLIT = b"== cmdlines ==\n"
_CMDLINE = re.compile(rb"(?:^|\n)==> /proc/(\d+)/cmdline <==\n")
_TRAILER = b"\n==> /dev/null <==\n"

# android_filesystem_config.h
_USERS = {
    0: "root", 1000: "system", 1001: "radio", 1002: "bluetooth", 1010: "wifi", 1013: "media",
    1017: "keystore", 1036: "logd", 1041: "audioserver", 1047: "cameraserver", 1051: "nfc",
    1066: "statsd", 2000: "shell", 9999: "nobody",
}  # fmt: skip
_USER_OFFSET, _FIRST_APP, _LAST_APP, _FIRST_ISOLATED, _LAST_ISOLATED = 100_000, 10_000, 19_999, 90_000, 99_999


@dataclass(frozen=True)
class ProcessEntry:
    """A process of the phone.

    Attributes:
        user: Android's name for its user ("shell", "u0_a123"), else the number.
        name: the kernel's name for it, at most 15 characters.
        cmdline: its arguments; empty for kernel threads.
    """

    pid: int
    ppid: int
    user: str
    name: str
    cmdline: tuple[str, ...]

    @property
    def program(self) -> str:
        """The last part of the first argument, else the kernel's name."""
        return self.cmdline[0].rpartition("/")[2] if self.cmdline and self.cmdline[0] else self.name


def parse_processes(data: bytes) -> list[ProcessEntry]:
    """Parse the output of LIST_SCRIPT. The shell that ran it and its children are left out."""
    statuses, _, cmdlines = data.partition(_SPLIT)
    first, _, statuses = statuses.partition(b"\n")
    own = int(first.split()[1])
    arguments = _parse_cmdlines(cmdlines)
    entries = []
    for block in re.split(rb"(?:^|\n)(?=Name:\t)", statuses):
        fields: dict[bytes, bytes] = {}
        for line in block.splitlines():
            key, separator, value = line.partition(b":\t")
            if separator:
                fields.setdefault(key, value.strip())
        try:
            pid, ppid = int(fields[b"Pid"]), int(fields[b"PPid"])
            uid = int(fields[b"Uid"].split()[0])
        except (KeyError, ValueError, IndexError):
            continue
        if own in (pid, ppid):
            continue
        entries.append(
            ProcessEntry(pid, ppid, user_name(uid), _text(fields.get(b"Name", b"?")), arguments.get(pid, ()))
        )
    return sorted(entries, key=lambda entry: entry.pid)


def find_process(entries: Sequence[ProcessEntry], wanted: str | int) -> ProcessEntry:
    """The process with that pid, program name, first argument or (for apps) package name.

    Raises:
        DeviceError: there is none (names the nearest) or there are several (lists their pids).
    """
    if isinstance(wanted, int) or wanted.isdigit():
        found = [entry for entry in entries if entry.pid == int(wanted)]
    else:
        found = [
            entry
            for entry in entries
            if wanted in (entry.program, entry.name, entry.cmdline[0] if entry.cmdline else "")
        ]
    if len(found) == 1:
        return found[0]
    if found:
        raise DeviceError(
            f"{len(found)} processes on the phone are called {wanted}",
            where=PHONE,
            evidence="\n".join(f"{e.pid}  {e.user}  {' '.join(e.cmdline) or e.name}" for e in found),
            hints=[f"name one by its pid, for example {found[-1].pid}"],
        )
    names = {entry.program for entry in entries if entry.cmdline}
    near = difflib.get_close_matches(str(wanted), sorted(names), n=3, cutoff=0.5)
    raise DeviceError(
        f"no process on the phone is called {wanted}"
        if not str(wanted).isdigit()
        else f"the phone has no process {wanted}",
        where=PHONE,
        evidence=f"{len(entries)} processes looked at",
        hints=[f"did you mean {name}?" for name in near] or ["devkit device shell -- ps -A"],
    )


def user_name(uid: int) -> str:
    """Android's name for a user id, the number where it has none."""
    user, app = divmod(uid, _USER_OFFSET)
    if uid in _USERS:
        return _USERS[uid]
    if _FIRST_APP <= app <= _LAST_APP:
        return f"u{user}_a{app - _FIRST_APP}"
    if _FIRST_ISOLATED <= app <= _LAST_ISOLATED:
        return f"u{user}_i{app - _FIRST_ISOLATED}"
    return str(uid)


def _parse_cmdlines(data: bytes) -> dict[int, tuple[str, ...]]:
    body = data.rpartition(_TRAILER)[0] or data
    starts = list(_CMDLINE.finditer(body))
    found = {}
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(body)
        words = body[start.end() : end].rstrip(b"\n").rstrip(b"\0").split(b"\0")
        if words != [b""]:
            found[int(start.group(1))] = tuple(_text(word) for word in words)
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
