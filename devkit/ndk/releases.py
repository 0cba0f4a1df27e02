"""NDK releases as data: names, revisions, archive names and URLs, checksums."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.errors import ConfigError, UsageError

USER_FILE = "ndk-releases.yaml"  # in paths.config_dir(), merged over the table of the package
DOWNLOADS_PAGE = "https://developer.android.com/ndk/downloads"
# Archives up to this release carry the host's architecture in their name (case A3).
_LAST_WITH_ARCHITECTURE = 22
_RELEASE = re.compile(r"r(?P<major>\d{1,3})(?P<letter>[a-z]?)(?P<rest>-(?:beta|rc)\d+)?")
_REVISION = re.compile(r"(?P<major>\d{1,3})(?:\.(?P<minor>\d+)(?:\.(?P<build>\d+)(?:-\w+)?)?)?")
_HOSTS = {"Linux": "linux", "Darwin": "darwin", "Windows": "windows"}
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Release:
    """One release. Size (bytes) and SHA-1 are those of the Linux archive, None where unknown."""

    name: str
    revision: str | None = None
    llvm: str | None = None
    sha1: str | None = None
    size: int | None = None
    source: str | None = None


@dataclass(frozen=True)
class ReleaseTable:
    """The known releases, newest first, and the mirrors in the order they are tried."""

    releases: tuple[Release, ...]
    mirrors: tuple[str, ...]

    def get(self, name: str) -> Release | None:
        return next((release for release in self.releases if release.name == name), None)


def release_name(text: str) -> str:
    """The release a user means: "r27c", "27.2.12479018", "27.2" and "27c" are all r27c.

    Raises:
        UsageError: it is none.
    """
    lowered = text.strip().lower().removeprefix("android-ndk-")
    for candidate in (lowered, f"r{lowered}"):
        if _RELEASE.fullmatch(candidate):
            return candidate
    found = _REVISION.fullmatch(lowered)
    if not found:
        raise UsageError(
            f"{text!r} is no NDK release", hints=["a release is r27d or 27.3.13750724", "devkit ndk list"]
        )
    minor = int(found.group("minor") or 0)
    if minor > 25:
        raise UsageError(f"{text!r} is no NDK release: there is no letter for {minor}")
    return f"r{found.group('major')}" + letter_of(minor)


def letter_of(minor: int) -> str:
    """The release letter of a revision's minor number: 0 none, 1 b, 2 c (case A3)."""
    return chr(ord("a") + minor) if 0 < minor < 26 else ""


def revision_matches(revision: str, wanted: str) -> bool:
    """Whether an NDK of this revision is what "r27d", "27.3" or "27" asks for."""
    wanted = wanted.strip().lower()
    found = re.match(r"(\d+)\.(\d+)", revision)
    if not found:
        return False
    if re.fullmatch(r"[\d.]+", wanted):
        return revision == wanted or revision.startswith(wanted.rstrip(".") + ".")
    return f"r{found.group(1)}{letter_of(int(found.group(2)))}" == (
        wanted if wanted.startswith("r") else f"r{wanted}"
    )


def archive_name(release: str, system: str | None = None) -> str:
    """The archive's file name for a host ("Linux", "Darwin", "Windows"; default: this one).

    Raises:
        UsageError: no release, or Google makes no NDK for this system.
    """
    name = release_name(release)
    system = system or platform.system()
    host = _HOSTS.get(system.capitalize())
    if host is None:
        raise UsageError(f"Google publishes no NDK for {system}")
    found = _RELEASE.fullmatch(name)
    assert found is not None
    suffix = "-x86_64" if int(found.group("major")) <= _LAST_WITH_ARCHITECTURE else ""
    return f"android-ndk-{name}-{host}{suffix}.zip"


def archive_urls(release: str, mirrors: Sequence[str], system: str | None = None) -> tuple[str, ...]:
    """Where the archive may be, in the order of the mirrors. A mirror that names a .zip is taken whole.

    Raises:
        UsageError: a mirror is no http or https URL.
    """
    name = archive_name(release, system)
    urls = []
    for mirror in mirrors:
        if not re.match(r"https?://[^/]", mirror):
            raise UsageError(
                f"the mirror {mirror!r} is no http or https URL",
                hints=["--mirror https://HOST/android/repository", "--from FILE takes a local archive"],
            )
        urls.append(mirror if mirror.endswith(".zip") else f"{mirror.rstrip('/')}/{name}")
    return tuple(dict.fromkeys(urls))


def load_releases() -> ReleaseTable:
    """devkit's table with the user's own over it.

    Raises:
        ConfigError: the user's file cannot be used.
    """
    import yaml

    text = resources.files("devkit.ndk").joinpath("releases.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    own = paths.config_dir() / USER_FILE
    if own.is_file():
        try:
            loaded = yaml.safe_load(own.read_text("utf-8")) or {}
            table["releases"].update(loaded.get("releases") or {})
            table["mirrors"] = loaded.get("mirrors") or table["mirrors"]
            return _table(table)
        except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError) as error:
            raise ConfigError(
                f"{own} cannot be used", evidence=str(error), hints=[f"mend or remove {own}"]
            ) from None
    return _table(table)


def check_sha1(text: str) -> str:
    """A SHA-1 as it is compared: 40 lower-case hexadecimal digits.

    Raises:
        UsageError: it is none.
    """
    lowered = text.strip().lower()
    if not _SHA1.fullmatch(lowered):
        raise UsageError(
            f"{text!r} is no SHA-1",
            evidence=f"it has {len(lowered)} characters, a SHA-1 has 40 hexadecimal digits",
            hints=[f"SHA-1s of all NDKs: {DOWNLOADS_PAGE}"],
        )
    return lowered


def local_archive_release(file: Path) -> str | None:
    """The release that an archive's name says: android-ndk-r27d-linux.zip, else None."""
    found = re.search(r"android-ndk-(r\d+[a-z]?(?:-(?:beta|rc)\d+)?)", file.name)
    return found.group(1) if found else None


def _table(raw: dict[str, Any]) -> ReleaseTable:
    releases = []
    for name, row in raw["releases"].items():
        if not _RELEASE.fullmatch(name):
            raise ValueError(f"{name} is no release name (r27d)")
        sha1 = row.get("sha1")
        if sha1 is not None and not _SHA1.fullmatch(str(sha1)):
            raise ValueError(f"{name}: sha1 must be 40 lower-case hexadecimal digits")
        releases.append(
            Release(
                name,
                _text(row.get("revision")),
                _text(row.get("llvm")),
                _text(sha1),
                None if row.get("size") is None else int(row["size"]),
                _text(row.get("source")),
            )
        )
    releases.sort(key=lambda r: _sort_key(r.name), reverse=True)
    return ReleaseTable(tuple(releases), tuple(str(mirror) for mirror in raw["mirrors"]))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _sort_key(name: str) -> tuple[int, str, int, str]:
    found = _RELEASE.fullmatch(name)
    assert found is not None
    # A beta comes before its release.
    rest = found.group("rest") or ""
    return int(found.group("major")), found.group("letter"), int(not rest), rest
