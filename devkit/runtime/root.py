"""Root on phones that have a `su`: which notation it takes, and commands wrapped for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DeviceError, OperationTimeout

if TYPE_CHECKING:
    from devkit.device import Device

# A manager app may ask on the phone's screen, and waits about ten seconds for an answer.
ASK_TIMEOUT_S = 30.0

# Magisk, KernelSU and APatch take `su -c COMMAND`; the su of userdebug builds takes a user first and
# has no -c. adbd itself may be root (`adb root`).
_SCRIPT = """\
is_root() { [ "$1" = 0 ]; }
is_root "$(id -u)" && { echo adbd; exit 0; }
command -v su >/dev/null 2>&1 || { echo none; exit 0; }
said=$(su -c 'id -u' 2>&1 </dev/null); is_root "$said" && { echo su-c; exit 0; }
other=$(su 0 id -u 2>&1 </dev/null); is_root "$other" && { echo su-0; exit 0; }
echo refused
echo "su -c 'id -u': $said"
echo "su 0 id -u: $other"
"""


@dataclass(frozen=True)
class RootWay:
    """How shell text becomes root's: "adbd" (it is root already), "su-c" or "su-0"."""

    kind: str

    def wrap(self, text: str) -> str:
        """A command that runs the text as root, with the same stdin, stdout and stderr."""
        from devkit.device import quote

        if self.kind == "su-c":
            return quote(["su", "-c", text])
        words = ["sh", "-c", text]
        return quote(["su", "0", *words] if self.kind == "su-0" else words)


def find_root(device: Device) -> RootWay:
    """How to become root on a phone. One round trip.

    Raises:
        DeviceError: the phone has no su, or it refuses; carries its words.
    """
    try:
        lines = device.shell(_SCRIPT, timeout_s=ASK_TIMEOUT_S).text.splitlines() or ["refused"]
    except OperationTimeout:
        lines = ["refused", f"su did not answer in {ASK_TIMEOUT_S:g} s"]
    if lines[0] in ("adbd", "su-c", "su-0"):
        return RootWay(lines[0])
    if lines[0] == "none":
        raise DeviceError(
            f"the phone {device.serial} has no su: programs cannot run as root there",
            where=PHONE,
            hints=["run it without --root", "userdebug and eng builds: adb root, then --root again"],
        )
    raise DeviceError(
        f"su on the phone {device.serial} does not give root to the shell user",
        where=PHONE,
        evidence="\n".join(lines[1:]),
        hints=["allow `Shell` (com.android.shell) in Magisk's or KernelSU's app, and look at the screen"],
    )
