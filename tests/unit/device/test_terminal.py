"""The keys that hang up; joining a real terminal is tested end to end."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import devkit.device
from devkit.device.terminal import HangUpKeys


@pytest.mark.parametrize(
    ("typed", "hangs_up"),
    [
        ([b"~."], True),
        ([b"~", b"."], True),
        ([b"ls\r~."], True),
        ([b"ls\n", b"~", b"."], True),
        ([b"ls ~."], False),
        ([b"~x."], False),
        ([b"~~."], False),
        ([b"x~.\r"], False),
        ([b"~\r~."], True),
    ],
)
def test_hang_up_keys(typed: list[bytes], hangs_up: bool) -> None:
    keys = HangUpKeys()
    assert any([keys.seen(part) for part in typed]) is hangs_up


def test_every_module_can_be_imported_where_unix_modules_are_missing() -> None:
    """On Windows there is no fcntl, termios, tty, pty, pwd or grp."""
    names = [module.name for module in pkgutil.iter_modules(devkit.device.__path__)]
    assert "phone" in names
    script = (
        "import sys\n"
        "for name in ('fcntl', 'termios', 'tty', 'pty', 'pwd', 'grp'): sys.modules[name] = None\n"
        f"import importlib\nfor name in {names!r}: importlib.import_module('devkit.device.' + name)\n"
        "import devkit.cli.device\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_public_face_is_complete_and_lazy() -> None:
    for name in devkit.device.__all__:
        assert getattr(devkit.device, name) is not None
    with pytest.raises(AttributeError):
        _ = devkit.device.nonsense
    script = (
        "import sys, devkit.device, devkit.device.phone, devkit.device.select\n"
        "assert not {'adbutils', 'requests', 'PIL', 'yaml', 'rich'} & set(sys.modules), sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    importlib.reload(devkit.device)
