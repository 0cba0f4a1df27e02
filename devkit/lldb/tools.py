"""Finds an lldb for this machine and the lldb-server that belongs to it for the phone."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import ToolMissing

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

_SIM_HINT = 'pip install "mnn-devkit[sim]" brings both'
_NEWEST_LLDB, _OLDEST_LLDB = 30, 14


@dataclass(frozen=True)
class LldbTools:
    """`lldb` runs here, `server` is the file that is pushed, `origin` says where both come from.

    `is_pair`: both are of one installation. Else their versions may differ.
    """

    lldb: Path
    server: Path
    origin: str
    is_pair: bool = True


def find_tools(config: Config, device: Device) -> LldbTools:
    """A pair that fits the phone: configured, else of the NDK, else (virtual phone) of this machine.

    Raises:
        ToolMissing: no pair; says what was looked for.
    """
    lldb, server = config.lldb.path, config.lldb.server
    for name, path in (("lldb.path", lldb), ("lldb.server", server)):
        if path is not None and not path.is_file():
            raise ToolMissing(f"{name} names a file that does not exist", evidence=str(path),
                              hints=["devkit config show --origin"])  # fmt: skip
    if lldb is not None and server is not None:
        return LldbTools(lldb, server, "configured", is_pair=False)
    if device.libc == "glibc" and config.build.toolchain != "ndk":
        found = next(_native_pairs(), None)
        if found is None:
            raise ToolMissing(
                "no lldb with an lldb-server was found",
                evidence="looked for the Python package lldb-for-pwndbg and for lldb-NN on PATH",
                hints=[_SIM_HINT, "or: sudo apt install lldb"],
            )
    else:
        from devkit.ndk import ndk_for

        ndk = ndk_for(config)
        script = ndk.find_tool("lldb.sh") or ndk.tool("lldb")
        found = LldbTools(script, ndk.lldb_server(device.abi), f"NDK {ndk.revision}")
    is_pair = lldb is None and server is None
    return LldbTools(lldb or found.lldb, server or found.server, found.origin, is_pair)


def _native_pairs() -> Iterator[LldbTools]:
    """Pairs for this machine's own ABI. The wheel first: it is known to have XML and Python."""
    spec = importlib.util.find_spec("lldb_for_pwndbg")
    if spec is not None and spec.origin is not None:
        server = Path(spec.origin).parent / "_vendor/bin/lldb-server"
        # The console script, not _vendor/bin/lldb: it finds the libpython that lldb needs.
        for folder in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
            script = folder / "lldb"
            if script.is_file() and server.is_file() and _libpython_exists():
                yield LldbTools(script, server, "lldb-for-pwndbg")
                break
    for suffix in ("", *(f"-{n}" for n in range(_NEWEST_LLDB, _OLDEST_LLDB - 1, -1))):
        lldb, found = shutil.which("lldb" + suffix), shutil.which("lldb-server" + suffix)
        if lldb and found and not _is_console_script(Path(found)):
            yield LldbTools(Path(lldb), Path(found).resolve(), f"lldb{suffix} on PATH")


def _libpython_exists() -> bool:
    """The wheel's lldb loads this Python's shared library; some builds of Python have none."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if not re.search(r"\.(so|dylib)", name):
        return False
    folders = [Path(sys.base_exec_prefix) / "lib", Path(sysconfig.get_config_var("LIBDIR") or "/")]
    return any((folder / name).exists() for folder in folders)


def _is_console_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"
