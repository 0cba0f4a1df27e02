"""Major versions of lldb and lldb-server: two that differ may not understand each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths, process
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.tools import LldbTools

_VERSION = re.compile(r"lldb(?:-server)? version (\d+)")
_TIMEOUT_S = 30
PIN_HINT = "lldb.path and lldb.server in devkit.yaml pin a pair; without both, one installation's are taken"


def local_major(tools: LldbTools) -> int | None:
    """The major version of this machine's lldb, as it says itself; None when it does not say.

    Raises:
        ToolMissing, ToolFailed, OperationTimeout: it does not run.
    """
    return _major(process.run([tools.lldb, "--version"], timeout_s=_TIMEOUT_S).text)


def remote_major(device: Device, server: str) -> int | None:
    """The major version of an lldb-server on the phone; None when it does not run there."""
    done = device.shell([server, "version"], timeout_s=_TIMEOUT_S)
    return _major(done.text + done.stderr.decode("utf-8", "replace"))


def version_clash(device: Device, tools: LldbTools, server: str) -> str | None:
    """One sentence when LLDB and lldb-server are of different major versions; None when they are not.

    Asked for once for each pair of files; what is of one installation is not asked at all.

    Args:
        server: lldb-server's path on the phone.
    """
    if tools.is_pair:
        return None
    file = paths.cache_dir() / "lldb-versions.json"
    key = " ".join(_identity(path) for path in (tools.lldb, tools.server))
    known = _read(file)
    pair = known.get(key)
    if pair is None:
        try:
            pair = [local_major(tools), remote_major(device, server)]
        except DevkitError as error:
            output.current().detail(f"the versions of LLDB and lldb-server are not known: {error.what}")
            return None
        if None in pair:
            return None
        paths.write_atomically(file, json.dumps({**known, key: pair}))
    ours, theirs = pair
    if ours == theirs:
        return None
    return f"LLDB is version {ours}, lldb-server is {theirs}: they may not understand each other"


def server_major(device: Device, tools: LldbTools, server: str) -> int | None:
    """The major version of the lldb-server that was pushed; asked once for each file, None when unknown.

    Args:
        server: its path on the phone.
    """
    file = paths.cache_dir() / "lldb-versions.json"
    key = _identity(tools.server)
    known = _read(file)
    if key not in known:
        try:
            major = remote_major(device, server)
        except DevkitError:
            return None
        known = {**known, key: [major]}
        if major is not None:
            paths.write_atomically(file, json.dumps(known))
    return known[key][0]


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path}:{status.st_size}:{status.st_mtime_ns}"


def _read(file: Path) -> dict[str, list[int | None]]:
    try:
        loaded = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _major(text: str) -> int | None:
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None
