"""The user's finger on a phone that was started with `auth=True`: allowing and refusing adb hosts."""

from __future__ import annotations

import time
from pathlib import Path

from devkit.errors import SimError
from devkit.sim import state
from devkit.sim.adbd.auth import ALWAYS, ANSWERS_DIR, DENY, ONCE, PENDING_DIR, PublicKey, parse_public_key

DIALOG_TIMEOUT_S = 10.0
_LOOK_EVERY_S = 0.02


def pending_keys(name: str) -> list[PublicKey]:
    """The keys of hosts that wait for an answer.

    Raises:
        SimError: there is no such phone.
    """
    found = []
    for file in sorted(_folder(name, PENDING_DIR).iterdir()):
        try:
            key = parse_public_key(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue  # Taken back between the two looks.
        if key is not None:
            found.append(key)
    return found


def tap_allow(name: str, always: bool = True, *, timeout_s: float = DIALOG_TIMEOUT_S) -> PublicKey:
    """Allow the host that asks; returns once the phone knows.

    Args:
        always: the phone remembers the key for as long as it runs, reboots included.
        timeout_s: how long to wait for a host to ask.

    Returns:
        the key that was allowed.

    Raises:
        SimError: there is no such phone, or no host asks.
    """
    return _tap(name, ALWAYS if always else ONCE, timeout_s)


def tap_deny(name: str, *, timeout_s: float = DIALOG_TIMEOUT_S) -> PublicKey:
    """Refuse the host that asks. It stays unauthorized until it connects anew; then it asks again.

    Raises:
        SimError: as `tap_allow`.
    """
    return _tap(name, DENY, timeout_s)


def _tap(name: str, answer: str, timeout_s: float) -> PublicKey:
    deadline = time.monotonic() + timeout_s
    while not (keys := pending_keys(name)):
        if time.monotonic() >= deadline:
            raise SimError(
                f"no adb host asks the virtual phone {name} for permission",
                hints=["adb reconnect makes an unauthorized host ask again", "devkit sim start --auth"],
            )
        time.sleep(_LOOK_EVERY_S)
    key = keys[0]
    file = _folder(name, ANSWERS_DIR) / key.fingerprint
    file.write_text(answer + "\n", encoding="ascii")
    while file.exists():
        if time.monotonic() >= deadline + timeout_s:
            raise SimError(f"the virtual phone {name} does not take the answer")
        time.sleep(_LOOK_EVERY_S)
    return key


def _folder(name: str, part: str) -> Path:
    state.check_name(name)
    folder = state.phone_dir(name) / "adb" / part
    if not state.is_locked(name) or not folder.is_dir():
        raise SimError(
            f"there is no virtual phone named {name} that asks about adb hosts",
            hints=[f"devkit sim start {name} --auth"],
        )
    return folder
