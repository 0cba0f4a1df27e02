"""Install a QNN SDK: from a local zip, by URL, or by Qualcomm's qsc-cli."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import FileError, ToolFailed, ToolMissing, UsageError
from devkit.ndk.candidates import quoted
from devkit.ndk.lock import changing, exclusive
from devkit.ndk.qnn_sdk import HEADER, QnnSdk, find_roots, is_sdk, read_version, store_dir

if TYPE_CHECKING:
    from devkit.ndk.download import Fetched

# Qualcomm's server for the community edition; the path repeats the version.
BASE_URL = "https://softwarecenter.qualcomm.com/api/download/software/sdks/Qualcomm_AI_Runtime_Community/All"
QSC = "qsc-cli"
QSC_PRODUCT = "Qualcomm_AI_Runtime_SDK"
SEEN_FILE = "seen.json"
ORIGIN = "installed by devkit"
_VERSION = re.compile(r"\d+\.\d+\.\d+\.\d+")


@dataclass(frozen=True)
class QnnInstallPlan:
    """What `apply_install` will do.

    Attributes:
        by: "file", "url" or "qsc-cli".
        archive: the local zip, or where the download is kept until it is unpacked.
        command: the command line of qsc-cli.
        sha1: of the archive, as it was seen at an earlier download; Qualcomm publishes none.
        installed: it is there already: nothing will be done.
    """

    version: str
    target: Path
    by: str
    archive: Path | None
    url: str | None
    command: tuple[str, ...]
    sha1: str | None
    installed: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan_install(
    version: str | None,
    *,
    from_file: Path | None = None,
    by: str | None = None,
    url: str | None = None,
    sha1: str | None = None,
) -> QnnInstallPlan:
    """Plan an installation. Touches nothing.

    Args:
        version: 2.42.0.251225; None takes it from the local zip's name.
        from_file: a local zip.
        by: "url" or "qsc-cli" (default: qsc-cli when it is installed, else by URL).
        url: the zip's address, or that of a folder laid out as Qualcomm's.
        sha1: what the download must have.

    Raises:
        UsageError: no version, or a wrong argument.
        FileError: the local zip does not exist.
    """
    if from_file is not None:
        from devkit.ndk.unpack import local_archive

        from_file = local_archive(from_file, "an SDK's")
        named = _VERSION.search(from_file.name)
        version = version or (named.group() if named else None)
    if version is None:
        raise UsageError(
            "which version?",
            hints=["devkit qnn sdk install 2.42.0.251225", "devkit qnn sdk install VERSION --from FILE"],
        )
    version = version.strip().removeprefix("v")
    if not _VERSION.fullmatch(version):
        raise UsageError(
            f"{version!r} is no full version of the QNN SDK",
            evidence="the server wants all four numbers, for example 2.42.0.251225",
            hints=["versions are listed at https://softwarecenter.qualcomm.com (Qualcomm AI Runtime SDK)"],
        )
    if sha1 is not None:
        from devkit.ndk.releases import check_sha1

        sha1 = check_sha1(sha1)
    by = "file" if from_file else by or ("url" if url or shutil.which(QSC) is None else QSC)
    target = store_dir() / version
    address = _address(version, url) if by == "url" else None
    archive = from_file
    if by == "url":
        archive = paths.cache_dir() / "downloads" / f"qairt-v{version}.zip"
    seen = _seen().get(version, {})
    return QnnInstallPlan(
        version=version,
        target=target,
        by=by,
        archive=archive,
        url=address,
        command=_qsc_command(version, _staging(target)) if by == QSC else (),
        sha1=sha1 or (str(seen["sha1"]) if by == "url" and "sha1" in seen else None),
        installed=is_sdk(target),
    )


def apply_install(plan: QnnInstallPlan) -> QnnSdk:
    """Do what the plan says; two at once are one.

    Raises:
        FileError: download or unpacking failed, or it holds no SDK; nothing looks installed then.
        ToolFailed: qsc-cli failed.
    """
    what = f"QNN SDK {plan.version}"
    with exclusive(plan.target.parent / f".{plan.version}.lock", f"installing {what}"):
        if not is_sdk(plan.target):
            if plan.by == QSC:
                _by_qsc(plan, what)
            else:
                _by_archive(plan, what)
    return QnnSdk(plan.target, read_version(plan.target), ORIGIN)


def _by_archive(plan: QnnInstallPlan, what: str) -> None:
    from devkit.ndk.download import fetch
    from devkit.ndk.unpack import install_zip

    archive = plan.archive
    assert archive is not None
    fetched = None
    if plan.url is not None:
        try:
            fetched = fetch([plan.url], archive, sha1=plan.sha1, label=what)
        except FileError as error:
            if plan.sha1 != _seen().get(plan.version, {}).get("sha1"):
                raise
            hint = f"the SHA-1 is that of your first download; --sha1 HEX expects another ({SEEN_FILE})"
            raise FileError(error.what, evidence=error.evidence, hints=[*error.hints, hint]) from None

    def find_root(folder: Path) -> Path | None:
        roots = find_roots(folder)
        if roots and read_version(roots[0]) not in (plan.version, "unknown"):
            found = read_version(roots[0])
            if not plan.version.startswith(found + "."):
                raise FileError(
                    f"the archive holds QNN SDK {found}, not {plan.version}",
                    evidence=str(archive),
                    hints=[f"devkit qnn sdk install {found} --from FILE"],
                )
        return roots[0] if roots else None

    install_zip(archive, plan.target, find_root=find_root, what=f"a QNN SDK ({HEADER})")
    if fetched is not None:
        # Only now: what holds no SDK is nothing to hold a later download against.
        _remember(plan.version, fetched)
        archive.unlink(missing_ok=True)


def _by_qsc(plan: QnnInstallPlan, what: str) -> None:
    """qsc-cli installs into a folder beside the target, which is renamed when the SDK is in it."""
    from devkit.ndk.unpack import remove_tree

    if shutil.which(QSC) is None:
        raise ToolMissing(
            f"{QSC} is not installed",
            evidence="not on PATH",
            hints=[f"devkit qnn sdk install {plan.version} --by url",
                   "Qualcomm's Software Center brings it: https://softwarecenter.qualcomm.com"],
        )  # fmt: skip
    staging = _staging(plan.target)
    remove_tree(staging)
    try:
        output.current().note(f"{QSC} installs {what}: {process.show(plan.command)}")
        done = process.stream(plan.command, output.current().note)
        if done.exit_code:
            raise ToolFailed(
                f"{QSC} could not install {what} (exit code {done.exit_code})",
                evidence=process.tail(done.stdout),
                hints=[f"{QSC} login", f"devkit qnn sdk install {plan.version} --by url"],
            )
        roots = find_roots(staging)
        if not roots:
            raise FileError(f"{QSC} ended well, but there is no SDK in {quoted(staging)}",
                            evidence=process.tail(done.stdout),
                            hints=[f"devkit qnn sdk install {plan.version} --by url"])  # fmt: skip
        os.replace(roots[0], plan.target)
    finally:
        remove_tree(staging)


def _qsc_command(version: str, folder: Path) -> tuple[str, ...]:
    return (QSC, "sdk", "install", "-n", QSC_PRODUCT, "--path", str(folder), "-rv", version)


def _staging(target: Path) -> Path:
    return target.parent / f".{target.name}.{QSC}"


def _address(version: str, url: str | None) -> str:
    base = (url or BASE_URL).rstrip("/")
    if not re.match(r"https?://[^/]", base):
        raise UsageError(f"{url!r} is no http or https URL", hints=["--from FILE takes a local zip"])
    return base if base.endswith(".zip") else f"{base}/{version}/v{version}.zip"


def _seen() -> dict[str, Any]:
    try:
        loaded = json.loads((store_dir() / SEEN_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _remember(version: str, fetched: Fetched) -> None:
    """Keep what was seen: a later download of the same version must be the same file."""
    entry = {"url": fetched.url, "size": fetched.size, "sha1": fetched.sha1}
    if fetched.sha256:
        entry["sha256"] = fetched.sha256
    file = store_dir() / SEEN_FILE
    with changing(file):
        seen = _seen()
        seen[version] = {**seen.get(version, {}), **entry}
        paths.write_atomically(file, json.dumps(seen, indent=1) + "\n")
