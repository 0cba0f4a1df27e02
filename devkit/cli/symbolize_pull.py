"""`devkit symbolize --pull`: what only the phone has is fetched into the cache, by build-id."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.errors import DevkitError, FileError

if TYPE_CHECKING:
    from devkit.crashes.phone_files import Missing
    from devkit.device import Device


def pull_missing(device: Device, missing: Sequence[Missing], folder: Path) -> list[Path]:
    """Fetch files of the phone; what cannot be had is a warning.

    Args:
        folder: for files that are good for this text only: APKs, and what has no build-id.

    Returns:
        the files here.
    """
    found: list[Path] = []
    sink = output.current()
    for file in missing:
        try:
            with sink.progress(f"fetching {file.remote}", None):
                local, note = _pull(device, file, folder)
        except DevkitError as error:
            sink.warn(f"{file.remote} was not fetched: {error.what}")
            continue
        if local is None:
            sink.warn(note)
        else:
            sink.note(note)
            found.append(local)
    return found


def _pull(device: Device, file: Missing, folder: Path) -> tuple[Path | None, str]:
    from devkit.crashes.phone_files import kept_place
    from devkit.symbols import is_elf, read_elf

    name = posixpath.basename(file.remote)
    try:
        place = Path(tempfile.mkdtemp(dir=folder)) / name
        device.pull(file.remote, place)
        if file.is_archive:
            return place, f"{file.remote} was fetched for this text"
        if not is_elf(place):
            return None, f"{file.remote} on the phone is no library or program"
        build_id = read_elf(place).build_id
        if file.build_id is not None and build_id != file.build_id:
            return None, (
                f"{file.remote} on the phone is another build by now ({build_id or 'without a build-id'}, "
                f"the crash had {file.build_id})"
            )
        if build_id is None:
            return place, f"{file.remote} was fetched for this text"
        kept = kept_place(build_id, name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.replace(place, kept)
        return kept, f"{file.remote} was fetched to {kept}"
    except OSError as error:
        raise FileError(f"{paths.cache_dir()} cannot be written", evidence=str(error)) from None
