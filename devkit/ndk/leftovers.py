"""What interrupted installations leave beside the SDKs, when nobody works on it any more."""

from __future__ import annotations

import re
from pathlib import Path

from devkit import paths
from devkit.ndk import locate, qnn_sdk
from devkit.ndk.lock import if_free

# As `store`, `qnn_install` and `unpack` name them: all below the lock `.NAME.lock`.
_UNFINISHED = re.compile(r"\.(?P<name>.+?)\.(?:unpack-.+|removed-\d+|qsc-cli)")


def unfinished() -> list[Path]:
    """Folders of installations and removals that were killed. Looking changes nothing."""
    found = []
    for folder in (locate.store_dir(), qnn_sdk.store_dir()):
        for child in sorted(folder.iterdir()) if folder.is_dir() else ():
            if child.is_dir() and (lock := _lock_of(child)) is not None:
                with if_free(lock) as free:
                    found += [child] if free else []
    return found


def remove_unfinished(folder: Path) -> bool:
    """Remove one of `unfinished`; False when another devkit is at work on it after all."""
    from devkit.ndk.unpack import remove_tree

    lock = _lock_of(folder)
    if lock is None:
        return False
    with if_free(lock) as free:
        if free:
            remove_tree(folder)
    return free and not folder.exists()


def partial_downloads() -> list[Path]:
    """Downloads that broke off. They are no rubbish: the next `install` goes on with them."""
    folder = paths.cache_dir() / "downloads"
    return sorted(folder.glob("*.part")) if folder.is_dir() else []


def _lock_of(folder: Path) -> Path | None:
    found = _UNFINISHED.fullmatch(folder.name)
    return folder.with_name(f".{found.group('name')}.lock") if found else None
