"""NDKs that devkit installed, and installing one: plan, download, check, unpack, rename."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import FileError, ToolMissing, UsageError
from devkit.ndk.candidates import quoted
from devkit.ndk.layout import Ndk, missing_parts, read_revision
from devkit.ndk.locate import store_dir
from devkit.ndk.lock import exclusive
from devkit.ndk.releases import (
    DOWNLOADS_PAGE,
    archive_name,
    archive_urls,
    check_sha1,
    load_releases,
    local_archive_release,
    release_name,
    revision_matches,
)

if TYPE_CHECKING:
    from devkit.config import Config

# An NDK unpacks to about three times its archive; only for a warning before the download.
_UNPACKED_FACTOR = 3
ORIGIN = "installed by devkit"


@dataclass(frozen=True)
class InstallPlan:
    """What `install` will do.

    Attributes:
        urls: where the archive is looked for, in this order; empty with a local file.
        archive: where it is (kept until it is unpacked), or the user's local file.
        sha1, size: what is checked; None when nobody knows.
        installed: it is there already, whole: nothing will be done.
    """

    release: str
    target: Path
    archive: Path
    urls: tuple[str, ...]
    sha1: str | None
    size: int | None
    local: bool
    installed: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan_install(
    release: str | None,
    *,
    mirror: str | None = None,
    sha1: str | None = None,
    from_file: Path | None = None,
) -> InstallPlan:
    """Plan an installation. Touches nothing.

    Args:
        release: "r27d", "27.3.…"; None takes it from a local archive's name.
        mirror: tried before the known ones.
        sha1: what the archive must have; needed for releases that devkit's table does not list.
        from_file: a local archive instead of a download.

    Raises:
        UsageError: an unknown release without a SHA-1, or a wrong argument.
        ToolMissing: there are no NDKs for this machine.
        FileError: the local archive does not exist.
    """
    if from_file is not None:
        from devkit.ndk.unpack import local_archive

        from_file = local_archive(from_file, "an NDK's")
        release = release or local_archive_release(from_file)
        if release is None:
            raise UsageError(
                f"the name {from_file.name} does not say which release it is",
                hints=[f"devkit ndk install RELEASE --from {quoted(from_file)}"],
            )
    if release is None:
        raise UsageError("which release?", hints=["devkit ndk install r27d", "devkit ndk list"])
    name = release_name(release)
    table = load_releases()
    known = table.get(name)
    size = None
    if sha1 is not None:
        sha1 = check_sha1(sha1)
    elif known is not None and platform.system() == "Linux":
        sha1, size = known.sha1, known.size
    if sha1 is None and from_file is None:
        raise UsageError(
            f"the SHA-1 of {archive_name(name)} is not in devkit's table",
            hints=[
                f"copy it from {DOWNLOADS_PAGE}: devkit ndk install {name} --sha1 HEX",
                "devkit ndk list   shows the releases in the table",
            ],
        )
    here = (platform.system(), platform.machine())
    if from_file is None and here[0] == "Linux" and here[1] not in ("x86_64", "AMD64"):
        raise ToolMissing(
            f"Google publishes no NDK for {here[0]} {here[1]}",
            evidence="its Linux archives hold programs for x86_64 only",
            hints=["build on an x86_64 machine", "devkit ndk install --from FILE   takes an NDK of your own"],
        )
    target = store_dir() / name
    return InstallPlan(
        release=name,
        target=target,
        archive=from_file or paths.cache_dir() / "downloads" / archive_name(name),
        urls=() if from_file else archive_urls(name, [*([mirror] if mirror else []), *table.mirrors]),
        sha1=sha1,
        size=size,
        local=from_file is not None,
        installed=_is_whole(target, name),
    )


def apply_install(plan: InstallPlan) -> Ndk:
    """Do what the plan says. Two at once are one: the second waits and finds it installed.

    Raises:
        FileError: download, check or unpacking failed; nothing looks installed then, and what was
            downloaded stays for the next try.
    """
    what = f"NDK {plan.release}"
    with exclusive(plan.target.parent / f".{plan.release}.lock", f"installing {what}"):
        if not _is_whole(plan.target, plan.release):
            _warn_about_space(plan)
            archive = plan.archive if plan.local else _download(plan)
            if plan.local:
                _check_local(plan)
            _unpack(plan, archive, what)
            if not plan.local:
                archive.unlink(missing_ok=True)
    revision = read_revision(plan.target)
    assert revision is not None
    return Ndk(plan.target, revision, ORIGIN)


def installed() -> list[Ndk]:
    """The NDKs that devkit installed, newest first."""
    from devkit.ndk.layout import numbers

    folder = store_dir()
    found = []
    for child in folder.iterdir() if folder.is_dir() else ():
        revision = None if child.name.startswith(".") else read_revision(child)
        if revision is not None:
            found.append(Ndk(child, revision, ORIGIN))
    return sorted(found, key=lambda ndk: numbers(ndk.revision), reverse=True)


def find_installed(text: str, config: Config) -> Ndk:
    """An NDK on this machine by release, revision or path, wherever it lies.

    Raises:
        UsageError: there is no such one; lists those that are there.
    """
    from devkit.ndk.locate import known_ndks, open_ndk

    if not text.strip():
        raise UsageError("which NDK?", hints=["devkit ndk list"])
    if "/" in text or os.sep in text or text.startswith((".", "~")):
        path = paths.expand_user(text).absolute()
        try:
            return open_ndk(path, quoted(path), hint="devkit ndk list")
        except ToolMissing as error:
            raise UsageError(error.what, evidence=error.evidence, hints=error.hints) from None
    there = known_ndks(config.ndk.path)
    for whole in (True, False):
        for candidate in there:
            if revision_matches(candidate.revision, text) and bool(missing_parts(candidate.path)) != whole:
                return Ndk(candidate.path.absolute(), candidate.revision, candidate.origin)
    raise UsageError(
        f"there is no NDK {text} on this machine",
        evidence="\n".join(f"{c.revision}  {quoted(c.path)}" for c in there) or "there is none at all",
        hints=[*([f"devkit ndk install {text}"] if text[-1:].isalnum() else []), "devkit ndk list"],
    )


def use(ndk: Ndk, *, dry_run: bool = False) -> str | None:
    """Remember an NDK as the user's choice: `ndk.path` in the user's config file.

    Args:
        dry_run: only look whether that can be done.

    Returns:
        The `ndk.version` of that file that meant another NDK, and went.

    Raises:
        ConfigError: the file is not one that can be changed safely; says what to write.
    """
    from devkit.ndk.user_config import choose_folder

    def is_version(text: str) -> bool:
        return revision_matches(ndk.revision, text)

    return choose_folder("ndk", ndk.path, is_version=is_version, dry_run=dry_run)


def remove(ndk: Ndk, *, dry_run: bool = False) -> bool:
    """Remove an NDK that devkit installed. If it was the user's choice, forget that.

    Args:
        dry_run: only look.

    Returns:
        Whether it was the choice.

    Raises:
        UsageError: devkit did not install it.
    """
    from devkit.ndk.unpack import remove_tree
    from devkit.ndk.user_config import get_user_value, set_user_value

    if ndk.path.parent != store_dir():
        raise UsageError(
            f"{quoted(ndk.path)} was not installed by devkit, so devkit does not remove it",
            evidence=f"found by: {ndk.origin}",
            hints=["remove it with the tool that brought it"],
        )
    chosen = get_user_value("ndk.path")
    was_chosen = chosen is not None and os.path.realpath(chosen) == os.path.realpath(ndk.path)
    if dry_run:
        return was_chosen
    with exclusive(store_dir() / f".{ndk.path.name}.lock", f"changing NDK {ndk.path.name}"):
        # Renamed first: half an NDK must not look like one.
        doomed = store_dir() / f".{ndk.path.name}.removed-{os.getpid()}"
        ndk.path.replace(doomed)
        remove_tree(doomed)
    if not was_chosen:
        return False
    set_user_value("ndk.path", None)
    return True


def _is_whole(target: Path, release: str) -> bool:
    revision = read_revision(target)
    return revision is not None and not missing_parts(target) and _is_release(revision, release)


def _is_release(revision: str, release: str) -> bool:
    """A beta has its release's number: r29-beta1 is 29.0.…"""
    return revision_matches(revision, release.partition("-")[0])


def _download(plan: InstallPlan) -> Path:
    from devkit.ndk.download import fetch

    return fetch(plan.urls, plan.archive, sha1=plan.sha1, size=plan.size, label=f"NDK {plan.release}").path


def _check_local(plan: InstallPlan) -> None:
    from devkit.ndk.download import sha1_of

    if plan.sha1 is None:
        output.current().warn(f"the SHA-1 of {plan.archive.name} is not known, so it is not compared")
        return
    output.current().note(f"checking {plan.archive}")
    found = sha1_of(plan.archive)
    if found != plan.sha1:
        raise FileError(
            f"{plan.archive.name} is not the archive of NDK {plan.release}",
            evidence=f"{plan.archive}\nits SHA-1 is {found}\nexpected is   {plan.sha1}",
            hints=["download it again: it may be incomplete", f"SHA-1s of all NDKs: {DOWNLOADS_PAGE}"],
        )


def _unpack(plan: InstallPlan, archive: Path, what: str) -> None:
    from devkit.ndk.unpack import install_zip

    def find_root(folder: Path) -> Path | None:
        roots = [folder, *(child for child in folder.iterdir() if child.is_dir())]
        return next((root for root in roots if _usable(root, plan.release)), None)

    install_zip(archive, plan.target, find_root=find_root, what=what)


def _usable(root: Path, release: str) -> bool:
    revision = read_revision(root)
    if revision is None:
        return False
    if not _is_release(revision, release):
        raise FileError(
            f"the archive holds NDK {revision}, not {release}",
            hints=[f"devkit ndk install {Ndk(root, revision, '').release} --from FILE"],
        )
    missing = missing_parts(root)
    if missing:
        raise FileError(
            f"the archive holds no complete NDK {release} for this machine",
            evidence="missing: " + ", ".join(missing),
            hints=["take the archive for this operating system", "devkit ndk list"],
        )
    return True


def _warn_about_space(plan: InstallPlan) -> None:
    """A long download for nothing is annoying; the exact check comes with the archive."""
    size = plan.archive.stat().st_size if plan.local else plan.size
    parent = next(folder for folder in (plan.target, *plan.target.parents) if folder.is_dir())
    if size and shutil.disk_usage(parent).free < size * _UNPACKED_FACTOR:
        output.current().warn(
            f"there may be too little space in {parent}: NDKs unpack to about {_UNPACKED_FACTOR} times "
            f"{output.human_bytes(size)}"
        )
