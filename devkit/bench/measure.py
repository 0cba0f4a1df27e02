"""One run of a program on the phone: its output, exit code, and the time it took there."""

from __future__ import annotations

import posixpath
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.device import quote
from devkit.errors import OperationTimeout
from devkit.runtime import Launch
from devkit.runtime.guard import Guard

if TYPE_CHECKING:
    from devkit.device import Device

MAX_OUTPUT_BYTES = 4 << 20
_MAX_DIFFERENCE_S = 0.1


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        wall_s: from the program's start to its end, by the phone's clock; None when it did not end.
        text: stdout and stderr as they came; only the last MAX_OUTPUT_BYTES.
        timed_out: it was ended after the time it had.
    """

    exit_code: int
    wall_s: float | None
    text: str
    timed_out: bool = False


def run_once(device: Device, launch: Launch, *, timeout_s: float) -> Outcome:
    """Run a deployed program to its end, without input. The time is measured on the phone: no link in it.

    Raises:
        DeviceError: the phone went away while the program ran.
    """
    mark = f"devkit-bench-{secrets.token_hex(8)}"
    guard = Guard(device, launch.folder)
    script = guard.prefix + _script(launch, mark)
    output: list[bytes] = []
    size = 0
    finished = False
    try:
        with device.open_shell(script, doing=f"running {posixpath.basename(launch.program)}") as stream:
            stream.close_stdin()
            from devkit.device.connection import Deadline

            deadline = Deadline(timeout_s)
            while True:
                _, data = stream.read(deadline.left_s())
                if isinstance(data, int):
                    break
                output.append(data)
                size += len(data)
                while size - len(output[0]) > MAX_OUTPUT_BYTES:
                    size -= len(output.pop(0))
                if deadline.passed():
                    raise OperationTimeout("")
        finished = True
    except OperationTimeout:
        text = b"".join(output).decode("utf-8", "replace")
        return Outcome(124, None, text, timed_out=True)
    finally:
        if finished:
            guard.release()
        else:
            guard.kill()
    return parse_outcome(b"".join(output).decode("utf-8", "replace"), mark, data)


def _script(launch: Launch, mark: str) -> str:
    """A line for the phone's sh. `date +%s%N` is fine-grained but can be set; /proc/uptime cannot."""
    command = quote(launch.words())
    look = "{ date +%s%N; cat /proc/uptime; } 2>/dev/null"
    return (
        f"{launch.enter()}; devkit_a=$({look}); {command} </dev/null; "
        f"devkit_c=$?; devkit_b=$({look}); "
        f'echo; echo "{mark}" $devkit_c $devkit_a / $devkit_b; exit $devkit_c'
    )


def parse_outcome(text: str, mark: str, exit_code: int) -> Outcome:
    """Split the program's output from the line that the script prints behind it."""
    before, found, after = text.rpartition(mark)
    if not found:
        return Outcome(exit_code, None, text)
    first, _, second = after.partition("/")
    code = re.match(r"\s*(\d+)", first)
    begin, end = _moment(first.partition(code[0])[2] if code else ""), _moment(second)
    return Outcome(int(code[1]) if code else exit_code, _elapsed(begin, end), before.removesuffix("\n"))


def _moment(text: str) -> tuple[float | None, float | None]:
    """(seconds of the clock, seconds of uptime)"""
    words = text.split()
    fine = float(words[0]) / 1e9 if words and re.fullmatch(r"\d{19,}", words[0]) else None
    uptime = [float(word) for word in words if re.fullmatch(r"\d+\.\d+", word)]
    return fine, uptime[0] if uptime else None


def _elapsed(
    begin: tuple[float | None, float | None], end: tuple[float | None, float | None]
) -> float | None:
    fine = end[0] - begin[0] if begin[0] is not None and end[0] is not None else None
    coarse = end[1] - begin[1] if begin[1] is not None and end[1] is not None else None
    if fine is None or (coarse is not None and abs(fine - coarse) > _MAX_DIFFERENCE_S):
        return coarse  # the clock was set meanwhile
    return fine
