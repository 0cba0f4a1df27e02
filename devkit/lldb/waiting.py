"""Waits on the phone for a program that somebody else starts, and stops it as soon as it is there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DebugError, OperationTimeout
from devkit.runtime.guard import Guard

if TYPE_CHECKING:
    from devkit.device import Device

# Sees a program some 20 ms after its start. What runs already is not waited for.
_SCRIPT = """
known=" $(pidof {name}) "
echo waiting
while :; do
  for pid in $(pidof {name}); do
    case "$known" in *" $pid "*) ;; *) kill -STOP "$pid" && {{ echo "found $pid"; exit 0; }};; esac
  done
  sleep 0.02
done
"""


def wait_for_process(device: Device, name: str, folder: str, timeout_s: float | None = None) -> int:
    """The pid of the next process of that name; it has been stopped with SIGSTOP.

    Args:
        name: the file name of its program.
        folder: a folder on the phone that can be written to.
        timeout_s: how long to wait; None: for ever.

    Raises:
        DebugError: the phone cannot look (no pidof).
        DeviceError: the phone went away.
        OperationTimeout: nobody started it in that time.
    """
    from devkit.device import quote_word

    guard = Guard(device, folder)
    said = b""
    end = time.monotonic() + timeout_s if timeout_s is not None else None
    try:
        text = guard.prefix + _SCRIPT.format(name=quote_word(name))
        with device.open_shell(text, doing=f"waiting for {name}") as stream:
            while True:
                _, data = stream.read(max(0.0, end - time.monotonic()) if end is not None else None)
                if isinstance(data, int):
                    break
                if not said:
                    # Only now: what is started from here on is new to the phone's loop.
                    output.current().note(f"waiting for {name} to start on the phone")
                said += data
                last = said.strip().splitlines()[-1] if said.strip() else b""
                if said.endswith(b"\n") and last.startswith(b"found "):
                    return int(last.split()[1])
    except OperationTimeout:
        raise OperationTimeout(
            f"{name} was not started on the phone within {timeout_s:g} s",
            where=PHONE,
            hints=["start it meanwhile, or give it more time with --timeout"],
        ) from None
    finally:
        guard.kill()
    raise DebugError(
        f"the phone cannot wait for {name}",
        where=PHONE,
        evidence=said.decode("utf-8", "replace").strip() or None,
        hints=["devkit device ps", "start it first, then: devkit debug APP --attach PID"],
    )
