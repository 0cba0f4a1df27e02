"""What a Windows or macOS laptop needs imports without modules that only POSIX or Linux has."""

from __future__ import annotations

import subprocess
import sys

import pytest

POSIX_ONLY = ("fcntl", "termios", "pwd", "grp", "pty", "tty", "resource", "syslog")
LAPTOP = (
    "devkit.__main__",
    "devkit.cli.main",
    "devkit.cli.config",
    "devkit.cli.device",
    "devkit.cli.doctor",
    "devkit.cli.env",
    "devkit.cli.init",
    "devkit.cli.logcat",
    "devkit.cli.tunnel",
    "devkit.cli.device_network",
    "devkit.device.network",
    "devkit.device.phone",
    "devkit.device.reconnect",
    "devkit.device.select",
    "devkit.device.terminal",
    "devkit.doctor",
    "devkit.lldb",
    "devkit.logcat.session",
    "devkit.logcat.source",
    "devkit.ndk",
    "devkit.ndk.environment",
    "devkit.runtime",
    "devkit.tunnels",
    "devkit.tunnels.hops",
    "devkit.tunnels.keys",
    "devkit.tunnels.transport",
    "devkit.tunnels.script",
)


@pytest.mark.parametrize("module", LAPTOP)
def test_it_imports_without_posix(module: str) -> None:
    code = (
        f"import sys, importlib\nfor name in {POSIX_ONLY}: sys.modules[name] = None\n"
        f"importlib.import_module({module!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-800:]
