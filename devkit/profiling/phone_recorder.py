"""simpleperf on the phone: its own from Android 10 on, else the NDK's, pushed once."""

from __future__ import annotations

import contextlib
import posixpath
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import PushItem, quote
from devkit.errors import PHONE, DeviceError, DevkitError, ToolMissing
from devkit.profiling.phone_prepare import Probe
from devkit.runtime.hashes import HashCache

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.ndk import Ndk

FOLDER = ".devkit-perf"
_OWN_SINCE_API = 29
_NDK_PATH = "simpleperf/bin/android"
# The NDK's names for the folders of ABIs.
_ABIS = {"arm64-v8a": "arm64", "armeabi-v7a": "arm", "x86_64": "x86_64", "x86": "x86", "riscv64": "riscv64"}


@dataclass(frozen=True)
class Recorder:
    """simpleperf as the phone's shell starts it.

    Attributes:
        path: on the phone.
        origin: "phone", or the NDK's release.
    """

    path: str
    origin: str


def local_simpleperf(ndk: Ndk, abi: str) -> Path:
    """The NDK's simpleperf for phones of an ABI.

    Raises:
        ToolMissing: it has none.
    """
    file = ndk.path / _NDK_PATH / _ABIS.get(abi, abi) / "simpleperf"
    if not file.is_file():
        raise ToolMissing(
            f"NDK {ndk.release} has no simpleperf for {abi}",
            evidence=f"{file} does not exist",
            hints=["devkit ndk install  # r13 and later have it"],
        )
    return file


def find_recorder(
    config: Config, device: Device, found: Probe, device_dir: str, *, push: bool = True
) -> Recorder:
    """The phone's simpleperf, else the NDK's, which is pushed.

    Args:
        push: False only says where it would be.

    Raises:
        DeviceError: the phone has none, and the NDK's cannot be had; says both reasons.
    """
    if found.simpleperf and device.api_level >= _OWN_SINCE_API:
        return Recorder(found.simpleperf, "phone")
    from devkit.ndk import ndk_for

    try:
        ndk = ndk_for(config)
        local = local_simpleperf(ndk, device.abi)
    except DevkitError as error:
        if found.simpleperf:
            return Recorder(found.simpleperf, "phone")
        raise DeviceError(
            f"the phone {device.serial} has no simpleperf (Android 10 brings it), and no NDK gives one",
            where=PHONE,
            evidence=f"{error.what}\n{error.evidence or ''}",
            hints=["devkit ndk install", *error.hints],
        ) from None
    with HashCache() as hashes:
        digest = hashes.sha256(local)
    remote = posixpath.join(device_dir, FOLDER, f"simpleperf-{digest[:16]}")
    if push:
        _push(device, local, remote)
    return Recorder(remote, f"NDK {ndk.release}")


def _push(device: Device, local: Path, remote: str) -> None:
    """Nothing travels when it is there: its name holds the hash of its content."""
    size = local.stat().st_size
    look = device.shell(
        f"stat -c %s {quote([remote])} 2>/dev/null; mkdir -p {quote([posixpath.dirname(remote)])}"
    )
    if look.text.strip() == str(size):
        return
    staging = f"{remote}.{secrets.token_hex(4)}.tmp"
    item = PushItem(local=local, remote=staging, mode=0o755, mtime_s=int(local.stat().st_mtime))
    try:
        with output.current().progress("pushing simpleperf", size, unit="bytes") as bar:
            device.push([item], bar.advance)
        device.shell(quote(["mv", "-f", staging, remote]), check=True)
    except BaseException:
        with contextlib.suppress(Exception):
            device.shell(quote(["rm", "-f", staging]))
        raise
