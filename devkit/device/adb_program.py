"""Finding the adb program, and comparing its version with a server's. Never kills a server."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit import process
from devkit.device.servers import AdbServer
from devkit.errors import DevkitError, ToolMissing

VERSION_TIMEOUT_S = 10.0

_PROGRAM = "adb.exe" if os.name == "nt" else "adb"
_PROTOCOL = re.compile(r"Android Debug Bridge version 1\.0\.(\d+)")
_RELEASE = re.compile(r"^Version (\S+?)(?:-\S+)?\s*$", re.MULTILINE)
_CLASH = re.compile(r"adb server version \((\d+)\) doesn't match this client \((\d+)\)")


@dataclass(frozen=True)
class AdbProgram:
    """An adb program that runs.

    Attributes:
        version_string: the platform-tools release, "36.0.0"; "1.0.41" for those that name none.
        protocol: what a server of this program answers to `host:version`.
        origin: where it was found: "adb.path", "PATH", "ANDROID_HOME", … or "adbutils".
    """

    path: Path
    version_string: str
    protocol: int
    origin: str


@dataclass(frozen=True)
class VersionClash:
    """An adb server and an adb client that speak different versions of the protocol."""

    server: int
    client: int

    def explain(self, program: AdbProgram | None = None, server: AdbServer | None = None) -> str:
        """One sentence that names both versions and the adb program, and what ends the clash."""
        at = f" at {server.address}" if server else ""
        what = f"{program.path} (platform-tools {program.version_string})" if program else "the adb client"
        return (
            f"the adb server{at} speaks version {self.server}, {what} speaks version {self.client}: "
            "that client would kill the server. devkit does not; install the same platform-tools "
            "on both ends"
        )


def find_adb(configured: Path | None = None, environ: Mapping[str, str] | None = None) -> AdbProgram:
    """The adb program: configured, else from PATH, ANDROID_HOME, or the one inside adbutils.

    Candidates that are found but do not run are passed over, except a configured one.

    Raises:
        ToolMissing: the configured program does not run, or none was found.
    """
    environ = os.environ if environ is None else environ
    if configured is not None:
        program, problem = _try(configured, "adb.path")
        if program is None:
            raise ToolMissing(
                f"the configured adb does not run: {configured}",
                evidence=problem,
                hints=["correct adb.path in your settings, or remove it"],
            )
        return program
    seen = []
    for path, origin in _candidates(environ):
        program, problem = _try(path, origin)
        if program is not None:
            return program
        seen.append(f"{path} ({origin}): {problem}")
    raise ToolMissing(
        "no adb program was found",
        evidence="\n".join(seen) or "not in PATH, ANDROID_HOME or the adbutils package",
        hints=[
            'pip install --force-reinstall "adbutils>=2.12"   (brings one)',
            "sudo apt install adb, or put Android's platform-tools on the PATH",
            "set adb.path to the program",
        ],
    )


def find_private_adb(configured: Path | None = None) -> AdbProgram:
    """The adb for a server of devkit's own (a virtual phone's): configured, else adbutils', else any.

    The machine's own may be years older (Debian's is 29) and lack features that the phone offers.

    Raises:
        ToolMissing: as `find_adb`.
    """
    if configured is None:
        for path, origin in _candidates({"PATH": ""}):
            program, _problem = _try(path, origin)
            if program is not None:
                return program
    return find_adb(configured)


def parse_version(text: str) -> tuple[str, int] | None:
    """("36.0.0", 41) from what `adb version` prints; None when it is no adb."""
    protocol = _PROTOCOL.search(text)
    if protocol is None:
        return None
    release = _RELEASE.search(text)
    return (release.group(1) if release else f"1.0.{protocol.group(1)}"), int(protocol.group(1))


def parse_version_clash(text: str) -> VersionClash | None:
    """The two versions in an adb client's complaint, None when it does not complain."""
    match = _CLASH.search(text)
    return VersionClash(server=int(match.group(1)), client=int(match.group(2))) if match else None


def find_version_clash(server_protocol: int, program: AdbProgram) -> VersionClash | None:
    """Whether running `program` against that server would end in a kill."""
    if server_protocol == program.protocol:
        return None
    return VersionClash(server=server_protocol, client=program.protocol)


def _candidates(environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    on_path = shutil.which("adb", path=environ.get("PATH", os.defpath))
    if on_path:
        found.append((Path(on_path), "PATH"))
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        folder = environ.get(variable)
        if folder and (Path(folder) / "platform-tools" / _PROGRAM).is_file():
            found.append((Path(folder) / "platform-tools" / _PROGRAM, variable))
    spec = importlib.util.find_spec("adbutils")
    for place in (spec.submodule_search_locations or []) if spec else []:
        bundled = Path(place) / "binaries" / _PROGRAM
        if bundled.is_file():
            found.append((bundled, "adbutils"))
    return found


def _try(path: Path, origin: str) -> tuple[AdbProgram | None, str]:
    try:
        done = process.run([path, "version"], timeout_s=VERSION_TIMEOUT_S, check=False)
    except DevkitError as error:
        return None, error.evidence or error.what
    parsed = parse_version(done.text)
    if parsed is None:
        return None, "`adb version` printed: " + (process.tail(done.stdout + done.stderr, 3) or "nothing")
    return AdbProgram(path, *parsed, origin), ""
