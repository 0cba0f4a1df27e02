"""What an app's folder on the phone holds: devkit's manifest, and the files that are really there."""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devkit.runtime.commit import FINISH

if TYPE_CHECKING:
    from devkit.device import Device

MANIFEST = ".devkit-manifest.json"
# What is known for longer is asked again before it is relied on: another devkit may have been there.
FRESH_S = 3.0

# `$dir` is the folder above. A deployment that was decided and then interrupted is finished first
# (see commit.py).
_SCRIPT = """\
df -k "$dir"; echo '{mark}'
cd "$dir"/{app} 2>/dev/null || exit 0
{finish}cat {manifest}; echo; echo '{mark}'
find . -type f -exec stat -c '%s %Y %n' {{}} +
echo '{end}'
"""
# Fixed: what is between them is JSON of devkit, or lines that begin with a digit.
_MARK, _END = "== devkit files ==", "== devkit end =="


@dataclass(frozen=True)
class AppFolder:
    """A look at the folder.

    Attributes:
        path: its absolute path.
        manifest: by file name below the folder, what devkit has put there.
        manifest_id: tells this state of the folder from those before; "" without a manifest.
        present: size and modification time of each file that is there.
        free_bytes: free space; None where the phone does not say.
        is_whole: False when the answer was cut short: nothing can be concluded from it.
    """

    path: str
    manifest: Mapping[str, Any]
    manifest_id: str
    present: Mapping[str, tuple[int, int]]
    free_bytes: int | None
    is_whole: bool = True
    seen_s: float = field(default_factory=time.monotonic, compare=False)

    @property
    def is_fresh(self) -> bool:
        """Whether nobody can have changed much since."""
        return time.monotonic() - self.seen_s < FRESH_S


def look_script(app: str) -> str:
    """Shell text that tells what is in the folder of an app below `$dir`."""
    from devkit.device import quote

    return _SCRIPT.format(app=quote([app]), manifest=MANIFEST, mark=_MARK, end=_END, finish=FINISH)


def parse_look(output: bytes, path: str) -> AppFolder:
    """What `look_script` printed."""
    text = output.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    space, _, rest = text.partition(f"{_MARK}\n")
    # One line behind the header, or two where the device's name is long.
    words = space.partition("\n")[2].split()
    free = int(words[3]) * 1024 if len(words) >= 6 and words[3].isdigit() else None
    head, _, tail = rest.partition(f"\n{_MARK}\n")
    manifest, manifest_id = _read_manifest(head)
    present: dict[str, tuple[int, int]] = {}
    for line in tail.split("\n"):
        size, _, after = line.partition(" ")
        mtime, _, name = after.partition(" ")
        if size.isdigit() and mtime.lstrip("-").isdigit():
            present[posixpath.normpath(name)] = (int(size), int(mtime))
    return AppFolder(path, manifest, manifest_id, present, free, not rest or tail.endswith(f"{_END}\n"))


def look(device: Device, folder: str) -> AppFolder:
    """Look at an app's folder. One round trip.

    Raises:
        DeviceError: the phone's answer cannot be read.
    """
    from devkit.device import quote_word

    above, app = posixpath.split(folder)
    return parse_look(device.report(f"dir={quote_word(above)}\n{look_script(app)}", timeout_s=60), folder)


def survey(device: Device, device_dir: str, app: str) -> AppFolder | None:
    """The same together with all else that is asked of a phone first. One round trip in all.

    Returns:
        None when the folder on the phone cannot be used: `Device.writable_dir` says why.
    """
    proof = posixpath.join(app, MANIFEST)
    answer = device.survey(device_dir, look_script(app), proof=proof) if device_dir.startswith("/") else b""
    if not answer:
        return None
    return parse_look(answer, posixpath.join(device.writable_dir(device_dir), app))


def _read_manifest(text: str) -> tuple[Mapping[str, Any], str]:
    try:
        loaded = json.loads(text) if text.strip() else {}
        files = {k: v for k, v in loaded.get("files", {}).items() if isinstance(v, dict)}
        return files, str(loaded.get("id", ""))
    except (ValueError, TypeError, AttributeError):
        # Half a manifest proves nothing: everything travels again.
        return {}, ""
