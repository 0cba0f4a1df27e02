"""The recordings of one project, kept in devkit's state folder."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

from devkit import paths
from devkit.errors import UsageError
from devkit.profiling.model import Profile
from devkit.profiling.store import ENDING, load_profile, save_profile

LAST, PREVIOUS = "last", "previous"


class History:
    """Recordings by their names, which begin with the time of their recording.

    Args:
        project: the engine's root.
    """

    def __init__(self, project: Path) -> None:
        root = project.resolve()
        key = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self.folder = paths.state_dir() / "profiles" / f"{root.name or 'root'}-{key}"

    def save(self, profile: Profile, app: str) -> str:
        """Keep a profile; returns its name.

        Raises:
            FileError: it cannot be written.
        """
        moment = time.localtime(profile.meta.recorded_at or time.time())
        plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in re.split(r"[/\\]", app)[-1])
        stamp = time.strftime("%Y%m%d-%H%M%S", moment)
        wanted, number = f"{stamp}-{plain}", 1
        while os.path.lexists(self.path(wanted)):
            number += 1
            wanted = f"{stamp}-{plain}-{number}"
        save_profile(profile, self.path(wanted))
        return wanted

    def path(self, name: str) -> Path:
        """The file of a recording."""
        return self.folder / f"{name}{ENDING}"

    def names(self) -> list[str]:
        """All recordings, the oldest first."""
        return sorted(path.name.removesuffix(ENDING) for path in self.folder.glob(f"*{ENDING}"))

    def find(self, wanted: str) -> Path:
        """The file of a recording: by its name, the beginning of it, `last`, `previous`, or a path.

        Raises:
            UsageError: there is none, or several begin like that.
        """
        path = Path(wanted).expanduser()
        if path.is_file():
            return path
        names = self.names()
        for word, back in ((LAST, 1), (PREVIOUS, 2)):
            if wanted == word and len(names) >= back:
                return self.path(names[-back])
        fitting = [name for name in names if name == wanted] or [n for n in names if n.startswith(wanted)]
        if len(fitting) == 1:
            return self.path(fitting[0])
        raise UsageError(
            f"several recordings begin with {wanted}" if fitting else f"there is no recording {wanted}",
            evidence="\n".join(fitting or names[-5:]) or None,
            hints=["devkit profile --list shows all of this project"],
        )

    def load(self, wanted: str) -> Profile:
        """A recording of devkit's own format.

        Raises:
            UsageError: as `find`.
            FileError: it cannot be read.
        """
        return load_profile(self.find(wanted))
