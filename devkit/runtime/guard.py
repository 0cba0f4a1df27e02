"""Nothing of ours outlives devkit on the phone: a guard there ends it when our connection ends.

When a shell stream is closed adbd sends SIGHUP to that one process and no more: what ignores it, or
is a child (a program under lldb-server), lives on. The guard is a second shell whose stdin is a
stream we hold open: end of file on it, also after `kill -9` of devkit or a cut link, makes it kill
every process of the guarded session.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import quote
from devkit.errors import PHONE, DeviceError, DevkitError, OperationTimeout

if TYPE_CHECKING:
    from devkit.device import Device, ShellStream
    from devkit.runtime.root import RootWay

# Field 5 of /proc/PID/stat is the process group, field 6 the session; the command name in field 2 may
# hold blanks and parentheses, so fields are counted behind the last ')'.
_GUARD = """
trap '' HUP PIPE
f={file}
while read -r word; do
  [ "$word" = done ] && {{ rm -f "$f"; exit 0; }}
done
i=0
while [ ! -s "$f" ] && [ $i -lt 10 ]; do sleep 0.1; i=$((i+1)); done
sid=
[ -s "$f" ] && read -r sid < "$f"
rm -f "$f"
[ -n "$sid" ] || exit 0
signal_members() {{
  found=
  for stat in /proc/[0-9]*/stat; do
    line=
    {{ read -r line < "$stat"; }} 2>/dev/null || continue
    pid=${{line%% *}}
    set -- ${{line##*) }}
    [ "$4" = "$sid" ] || [ "$3" = "$sid" ] || continue
    [ "$1" != Z ] && kill -"$signal" "$pid" 2>/dev/null && found=1
  done
}}
for signal in TERM KILL KILL; do
  signal_members
  [ -n "$found" ] || exit 0
  i=0
  while [ $i -lt {grace_steps} ] && kill -0 "$sid" 2>/dev/null; do sleep 0.1; i=$((i+1)); done
done
"""

GRACE_S = 1.0
END_TIMEOUT_S = 5.0
READY_TIMEOUT_S = 30.0


class Guard:
    """Watches over one session of processes on the phone; ended by `release` or `kill`.

    It is started beside the program, not before it: that saves a round trip. `prefix` is shell text to
    put before the guarded command: it makes the command's session known to the guard. The command itself
    must be `exec`ed or run in that same shell.

    Args:
        root: the guarded command runs as root in this way; only a guard that is root can end it.
    """

    def __init__(self, device: Device, folder: str, *, root: RootWay | None = None) -> None:
        self._device = device
        self._root = root
        self._file = f"{folder}/.devkit-guard-{secrets.token_hex(8)}"
        script = _GUARD.format(file=quote([self._file]), grace_steps=int(GRACE_S * 10))
        self._stream: ShellStream | None = None
        self._opening: threading.Thread | None = None
        if root is None:
            self._opening = threading.Thread(target=self._open, args=(script,), daemon=True)
            self._opening.start()
            return
        # su takes its time: until the guard has its traps, the end of the link would end it as well.
        ready = root.wrap(script.replace("trap '' HUP PIPE\n", "trap '' HUP PIPE\necho ready\n", 1))
        self._stream = device.open_shell(f"exec {ready}", doing="starting a guard as root")
        try:
            _await_ready(self._stream)
        except BaseException:
            self._stream.close()
            raise

    @property
    def prefix(self) -> str:
        """Shell text that tells the guard the session of the shell it runs in.

        adbd gives each command a session of its own; where one does not, nothing is written:
        the session would be adbd's. What su starts may share its session with su's daemon, and has a
        process group of its own then.
        """
        file = quote([self._file])
        own = '[ "$3" = "$$" ]' if self._root is not None else '[ "$4" = "$$" ]'
        return (
            "devkit_stat=; read -r devkit_stat < /proc/$$/stat; set -- ${devkit_stat##*) }; "
            f'{own} && echo "$$" > {file}; set --; '
        )

    def _open(self, script: str) -> None:
        try:
            self._stream = self._device.open_shell(script, doing="starting a guard")
        except DevkitError as error:
            # Where the phone is gone, starting the program says so.
            output.current().detail(f"no guard watches over the program: {error.what}")

    def release(self) -> None:
        """The guarded command has ended by itself: nothing to kill."""
        self._end(b"done\n")

    def kill(self) -> None:
        """End the guarded session now: SIGTERM, after GRACE_S SIGKILL. Returns when it is done."""
        self._end(b"")

    def _end(self, last_word: bytes) -> None:
        """Never raises for a lost phone: the guard there acts on the lost connection by itself."""
        if self._opening is not None:
            self._opening.join()
        stream = self._stream
        if stream is None:
            return
        try:
            if last_word:
                stream.write_stdin(last_word)
            stream.close_stdin()
            # Before Android 7 only closing the connection is seen by the guard: nothing to wait for.
            if "shell_v2" in self._device.features:
                deadline = time.monotonic() + END_TIMEOUT_S
                while stream.read(timeout_s=max(0.0, deadline - time.monotonic()))[0] != "exit":
                    pass
        except (DeviceError, OperationTimeout):
            pass
        finally:
            stream.close()


def _await_ready(stream: ShellStream) -> None:
    said = b""
    while b"ready\n" not in said:
        _, data = stream.read(READY_TIMEOUT_S)
        if isinstance(data, int):
            raise DeviceError(
                "su on the phone ended the guard, so that nothing is started as root",
                where=PHONE,
                evidence=said.decode("utf-8", "replace"),
                hints=["devkit device shell -- su -c id"],
            )
        said += data
