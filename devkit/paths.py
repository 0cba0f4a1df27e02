"""Where devkit keeps things: XDG folders, and files that appear whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from devkit.errors import FileError


def _base(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification tells programs to ignore relative values.
    if value and os.path.isabs(value):
        return Path(value)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    try:
        return Path.home() / fallback
    except RuntimeError:
        raise FileError(
            "there is no home folder to keep anything in",
            evidence="HOME is not set, and this user has none",
            hints=["set HOME, or XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_STATE_HOME and XDG_DATA_HOME"],
        ) from None


def expand_user(path: str | Path) -> Path:
    """A path with its leading ~ or ~USER replaced; that of a user who does not exist stays as it is.

    (`Path.expanduser` raises a RuntimeError.)
    """
    return Path(os.path.expanduser(path))


def config_dir() -> Path:
    """The user's settings (`config.yaml`)."""
    return _base("XDG_CONFIG_HOME", ".config") / "devkit"


def cache_dir() -> Path:
    """What can be made again: phone images, mini sysroots, stripped copies."""
    return _base("XDG_CACHE_HOME", ".cache") / "devkit"


def state_dir() -> Path:
    """What describes running things and user choices: virtual phones, tunnels, selected phone."""
    return _base("XDG_STATE_HOME", ".local/state") / "devkit"


def data_dir() -> Path:
    """What was installed on the user's behalf (NDKs, SDKs)."""
    return _base("XDG_DATA_HOME", ".local/share") / "devkit"


def adb_server_registry() -> Path:
    """Folder of `*.json` files, one for each adb server that devkit itself brought here.

    Virtual phones and tunnels write them, `devkit.device` reads them. Keys: `host`, `port`,
    `origin` ("sim" or "tunnel"), `label`, `pid` (of the process that keeps it alive),
    `serials` (those behind it that are known).
    """
    return state_dir() / "adb-servers"


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part.

    Raises:
        OSError: the folder cannot be made or written, or the disk is full; it names the file, and
            nothing is left behind.
    """
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    # A path need not be UTF-8; what it holds is written as it is.
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
