"""su in each of its notations, with real shells: programs of this machine stand for the phone's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devkit.errors import DeviceError
from devkit.runtime.root import RootWay, find_root

ID = '#!/bin/sh\necho "${FAKE_UID:-2000}"\n'
# Magisk and KernelSU: -c takes one command; userdebug builds: a user and then a program.
MAGISK = (
    '#!/bin/sh\n[ "$1" = -c ] || { echo "su: unknown user $1" >&2; exit 1; }\nFAKE_UID=0 exec sh -c "$2"\n'
)
AOSP = (
    '#!/bin/sh\n[ "$1" = 0 ] || { echo "su: invalid uid/gid $1" >&2; exit 1; }\nshift\nFAKE_UID=0 exec "$@"\n'
)
DENIES = '#!/bin/sh\necho "Permission denied" >&2\nexit 13\n'


class Phone:
    """`shell` runs here, with the programs of a folder first on the PATH."""

    serial = "stand-in"

    def __init__(self, folder: Path, su: str | None, uid: str = "2000") -> None:
        folder.mkdir(exist_ok=True)
        for name, text in (("id", ID), ("su", su)):
            if text is not None:
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
        # Nothing else that could be a su is on the PATH.
        for tool in ("sh", "env", "printf"):
            (folder / tool).symlink_to(
                f"/bin/{tool}" if os.path.exists(f"/bin/{tool}") else f"/usr/bin/{tool}"
            )
        self._env = {"PATH": str(folder), "FAKE_UID": uid}

    def shell(self, command: str, **_options: Any) -> SimpleNamespace:
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=self._env, capture_output=True, text=True, check=False
        )
        return SimpleNamespace(text=done.stdout, exit_code=done.returncode)


@pytest.mark.parametrize(
    ("su", "uid", "kind"), [(MAGISK, "2000", "su-c"), (AOSP, "2000", "su-0"), (None, "0", "adbd")]
)
def test_each_notation(tmp_path: Path, su: str | None, uid: str, kind: str) -> None:
    phone = Phone(tmp_path, su, uid)
    way = find_root(phone)  # type: ignore[arg-type]
    assert way == RootWay(kind)
    words = 'it\'s "$HOME" `id`\nline two'
    text = f"printf '%s|' {RootWay('adbd').wrap('x').split()[0]} \"$(id)\"; exit 7"
    done = phone.shell(way.wrap(text))
    assert (done.text, done.exit_code) == ("sh|0|", 7)
    from devkit.device import quote

    assert phone.shell(way.wrap("exec " + quote(["printf", "%s", words]))).text == words


def test_no_su_and_one_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="has no su"):
        find_root(Phone(tmp_path / "a", None))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="does not give root") as caught:
        find_root(Phone(tmp_path / "b", DENIES))  # type: ignore[arg-type]
    assert "Permission denied" in (caught.value.evidence or "") and caught.value.hints
