"""Files of a phone: one `sync:` connection for each piece of work. The protocol is in sync.py."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.device.sync import SyncSession
from devkit.errors import FileError

if TYPE_CHECKING:
    from devkit.device.phone import Device


def open_sync(device: Device, doing: str) -> SyncSession:
    """A connection to the phone's file service; use it as a context manager.

    Args:
        doing: what it is for, for messages.
    """
    features = device.features
    sock = device.dial("sync:", doing=doing)
    return SyncSession(sock, server=device.server, serial=device.serial, features=features, far=device.is_far)


def pull_file(device: Device, remote: str, local: Path, on_bytes: Callable[[int], None] | None = None) -> int:
    """Copy a file from the phone. Arguments, result and errors are those of `Device.pull`."""
    temporary = local.with_name(f".{local.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:

            def write(data: bytes) -> None:
                file.write(data)
                if on_bytes is not None:
                    on_bytes(len(data))

            with open_sync(device, f"pulling {remote}") as session:
                count = session.pull(remote, write)
        os.replace(temporary, local)
    except OSError as error:
        raise FileError(f"cannot write {local}", evidence=os.strerror(error.errno or 0)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return count
