"""Where the phone's own things are: in the usual places of a phone, or in folders of this machine (reduced).

Read by the phone's processes; variables say so, which its programs inherit.
"""

from __future__ import annotations

import os
from pathlib import Path

SOCKETS_VARIABLE = "DEVKIT_SOCKETS"
CONTROL_VARIABLE = "DEVKIT_CONTROL"
TOMBSTONES_VARIABLE = "DEVKIT_TOMBSTONES"
VARIABLES = (SOCKETS_VARIABLE, CONTROL_VARIABLE, TOMBSTONES_VARIABLE)


def is_reduced() -> bool:
    """Whether this phone is a plain folder."""
    return SOCKETS_VARIABLE in os.environ


def socket_path(name: str) -> str:
    """A service's socket."""
    return os.path.join(os.environ.get(SOCKETS_VARIABLE, "/dev/socket"), name)


def control_folder() -> Path:
    """Where the supervisor says what is wrong with the phone."""
    return Path(os.environ.get(CONTROL_VARIABLE, "/dev/.devkit"))


def tombstones() -> Path:
    """Where reports of crashes go."""
    return Path(os.environ.get(TOMBSTONES_VARIABLE, "/data/tombstones"))
