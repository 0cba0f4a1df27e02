"""Recordings come back compressed, and go on where a broken link left off."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import quote_word
from devkit.errors import PHONE, DeviceError, FileError

if TYPE_CHECKING:
    from devkit.device import Device

# A phone that was plugged in again, or an adb server that connects again, needs some seconds.
_PATIENCE_S = 60.0
_PAUSE_S = 1.0
_PACK_TIMEOUT_S = 300.0
_GZIP_WINDOW = 31


def fetch_recording(device: Device, remote: str, local: Path, *, patience_s: float = _PATIENCE_S) -> int:
    """Bring a file of the phone here; how many bytes travelled.

    It is packed on the phone first, where there is gzip and the shell is one that keeps bytes as they are.

    Args:
        patience_s: how long a phone that is gone is waited for.

    Raises:
        DeviceError: the phone is gone and does not come back; or it cannot read the file.
        FileError: the local file cannot be written.
    """
    place = quote_word(remote)
    packed = quote_word(f"{remote}.gz")
    script = f"gzip -1 -c {place} > {packed} 2>/dev/null && stat -c %s {packed}"
    said = device.shell(script, timeout_s=_PACK_TIMEOUT_S).text.strip()
    if not said.isdigit() or "shell_v2" not in device.features:
        return device.pull(remote, local)
    size = int(said)
    data = bytearray()
    with output.current().progress("fetching the recording", size, unit="bytes") as bar:
        until = time.monotonic() + patience_s
        while True:
            before, lost = len(data), None
            try:
                _read_on(device, packed, data, bar.advance)
            except DeviceError as error:
                lost = error
            if len(data) >= size:
                break
            if len(data) > before:
                until = time.monotonic() + patience_s
            elif lost is None:
                break  # the phone has no more
            elif time.monotonic() > until:
                raise lost
            output.current().detail(f"{len(data)} of {size} bytes have arrived; going on from there")
            time.sleep(_PAUSE_S)
    if len(data) != size:
        raise DeviceError(
            "the recording did not arrive whole",
            where=PHONE,
            evidence=f"{len(data)} of {size} bytes of {remote}.gz",
            hints=[f"adb pull {remote}"],
        )
    try:
        content = zlib.decompress(bytes(data), _GZIP_WINDOW)
        local.write_bytes(content)
    except zlib.error as error:
        raise DeviceError(
            "the recording arrived otherwise than it is on the phone", where=PHONE, evidence=str(error)
        ) from None
    except OSError as error:
        raise FileError(f"{local} cannot be written", evidence=error.strerror) from None
    return size


def _read_on(device: Device, packed: str, data: bytearray, advance: Callable[[float], None]) -> None:
    """Append what is missing."""
    with device.open_shell(f"tail -c +{len(data) + 1} {packed}", doing="fetching the recording") as stream:
        stream.close_stdin()
        for name, piece in stream:
            if name == "stdout" and isinstance(piece, bytes):
                data += piece
                advance(len(piece))
