"""`devkit ndk`: find, install, choose and remove Android NDKs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.ndk import Ndk
    from devkit.ndk.store import InstallPlan

app = typer.Typer(
    help="Find, install, choose and remove Android NDKs.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit ndk list; devkit ndk install r27d; devkit ndk path lldb-server --abi arm64-v8a",
)


Release = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE",
        help="A release (r27d), a revision or a path.",
        autocompletion=common.complete_releases,
    ),
]


@app.command("list")
def list_ndks() -> None:
    """The NDKs on this machine, which one is used and why; and those that can be installed."""
    from devkit.ndk.releases import load_releases

    installed, active = _installed()
    there = {row["release"] for row in installed}
    installable = [
        {**_release_row(release), "installed": release.name in there} for release in load_releases().releases
    ]
    rows: list[tuple[str, ...]] = [
        (
            "*" if row["active"] else "",
            str(row["release"]),
            str(row["revision"]),
            str(row["llvm"] or "?"),
            ", ".join(row["origins"]),
            row["path"] + (f"   (broken: no {', '.join(row['missing'])})" if row["missing"] else ""),
        )
        for row in installed
    ]
    text = output.table(rows, ("", "RELEASE", "REVISION", "LLVM", "FOUND BY", "PATH")) if rows else ""
    text = text or "no NDK is installed\n"
    if active is not None:
        text += f"\nused: {active['release']}, because of {active['reason']}\n"
    text += "\ninstallable (devkit ndk install RELEASE):\n" + output.table(
        [
            (
                str(row["release"]),
                str(row["revision"]),
                str(row["llvm"]),
                output.human_bytes(row["size"]) if row["size"] else "?",
                str(row["sha1"]),
            )
            for row in installable
            if not row["installed"]
        ],
        ("RELEASE", "REVISION", "LLVM", "SIZE", "SHA-1"),
    )
    output.current().data({"installed": installed, "active": active, "installable": installable}, text)


@app.command("install")
def install(
    release: Annotated[
        str | None,
        typer.Argument(metavar="[RELEASE]", help="r27d, 27.3, …", autocompletion=common.complete_releases),
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Folder with NDK archives, tried first.")
    ] = None,
    sha1: Annotated[
        str | None, typer.Option("--sha1", metavar="HEX", help="SHA-1 of the archive, for unlisted releases.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A local archive instead of a download.")
    ] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Download, check and unpack an NDK. Interrupted, the next run goes on where it stopped."""
    from devkit import config
    from devkit.ndk.store import apply_install, plan_install

    plan = plan_install(release, mirror=mirror or config.load().ndk.mirror, sha1=sha1, from_file=from_file)
    if dry_run:
        output.current().data(plan.as_dict(), _plan_text(plan))
        return
    ndk = apply_install(plan)
    text = f"NDK {ndk.release} ({ndk.revision}) is " + ("already " if plan.installed else "")
    text += f"installed: {ndk.path}"
    _, active = _installed()
    if active is None or os.path.realpath(active["path"]) != os.path.realpath(ndk.path):
        text += f"\n  devkit ndk use {plan.release}    # to build with it from now on"
    data = {**_ndk_row(ndk), "installed": not plan.installed}
    output.current().data(data, text)


@app.command("use")
def use(release: Release, dry_run: common.DryRun = False) -> None:
    """Build with this NDK from now on: ndk.path in your config file (a project's setting wins)."""
    from devkit import config, ndk
    from devkit.ndk.store import find_installed
    from devkit.ndk.store import use as remember
    from devkit.ndk.user_config import user_file

    sink = output.current()
    chosen = find_installed(release, config.load())
    if chosen.missing:
        sink.warn(f"this NDK is not complete: it lacks {', '.join(chosen.missing)}")
    dropped = remember(chosen, dry_run=dry_run)
    settings = config.load()
    stronger = _stronger_setting(settings, chosen)
    if stronger is not None:
        sink.warn(
            f"{stronger} of {settings.origins[stronger]} names another NDK and comes first in this folder"
        )
    elif not dry_run:
        ndk.warn_about_conflicts(ndk.ndk_for(settings))
    name, file = f"NDK {chosen.release} ({chosen.revision})", user_file()
    if dry_run:
        lines = [f"{name} would be used from now on: {chosen.path}", f"  ndk.path would be written to {file}"]
        lines += [f"  ndk.version {dropped}, which means another one, would go from it"] if dropped else []
    else:
        lines = [f"{name} is used from now on: {chosen.path}"]
        lines += [f"  ndk.version {dropped}, which means another one, is gone from {file}"] if dropped else []
        lines += [f"  written to {file}; devkit ndk list shows what is used in a folder, and why"]
    data = {**_ndk_row(chosen), "config": str(file), "dropped_version": dropped, "dry_run": dry_run}
    sink.data(data, "\n".join(lines))


def _stronger_setting(settings: Config, chosen: Ndk) -> str | None:
    """The setting above the user's own file that names another NDK than the one chosen there."""
    from devkit.ndk.releases import revision_matches

    for key in ("ndk.version", "ndk.path"):
        if settings.origins.get(key, "user").partition(" ")[0] in ("user", "built-in"):
            continue
        if key == "ndk.version" and settings.ndk.version is not None:
            return None if revision_matches(chosen.revision, settings.ndk.version) else key
        if key == "ndk.path" and settings.ndk.path is not None:
            return None if os.path.realpath(settings.ndk.path) == os.path.realpath(chosen.path) else key
    return None


@app.command("path")
def path(
    tool: Annotated[
        str | None,
        typer.Argument(metavar="[TOOL]", help="A file of the NDK: clang, lldb-server, ndk-build, asan, …"),
    ] = None,
    abi: Annotated[
        str | None, typer.Option(metavar="ABI", help="For files of phones: arm64-v8a, armeabi-v7a, …")
    ] = None,
    ndk: common.NdkChoice = None,
) -> None:
    """Print the path of the NDK in use, or of a file in it. Nothing else goes to stdout."""
    from devkit.ndk import ndk_for, warn_about_conflicts
    from devkit.ndk.files import find_file

    if tool is None and abi is not None:
        raise UsageError("--abi needs a TOOL", hints=["devkit ndk path lldb-server --abi arm64-v8a"])
    found = ndk_for(common.load_config(ndk=ndk))
    warn_about_conflicts(found)
    where = found.path if tool is None else find_file(found, tool, abi)
    output.current().data(
        {"path": str(where), "ndk": str(found.path), "revision": found.revision}, str(where)
    )


@app.command("remove")
def remove(release: Release, dry_run: common.DryRun = False) -> None:
    """Remove an NDK that devkit installed. Others are left to the tool that brought them."""
    from devkit.ndk.releases import revision_matches
    from devkit.ndk.store import find_installed, installed
    from devkit.ndk.store import remove as remove_ndk

    # Its own first: the same release may be elsewhere too.
    own = [ndk for ndk in installed() if revision_matches(ndk.revision, release)]
    if own:
        ndk = own[0]
    else:
        from devkit import config

        ndk = find_installed(release, config.load())
    was_chosen = remove_ndk(ndk, dry_run=dry_run)
    text = f"NDK {ndk.release} ({ndk.path}) {'would be' if dry_run else 'is'} removed"
    text += "; your config no longer names it" if was_chosen and not dry_run else ""
    output.current().data({**_ndk_row(ndk), "was_chosen": was_chosen, "dry_run": dry_run}, text)


def _installed() -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Every NDK of this machine once, with everything that names it; and the one that is used."""
    from devkit import config
    from devkit.errors import ToolMissing
    from devkit.ndk import Ndk, known_ndks, ndk_for

    settings = config.load()
    try:
        chosen: Ndk | None = ndk_for(settings)
    except ToolMissing as error:
        chosen = None
        output.current().detail(str(error))
    found: dict[str, dict[str, Any]] = {}
    for candidate in known_ndks(settings.ndk.path):
        real = os.path.realpath(candidate.path)
        if real in found:
            found[real]["origins"].append(candidate.origin)
            continue
        ndk = Ndk(candidate.path.absolute(), candidate.revision, candidate.origin)
        found[real] = {**_ndk_row(ndk), "origins": [candidate.origin], "active": False}
    if chosen is None:
        return list(found.values()), None
    row = found.setdefault(
        os.path.realpath(chosen.path), {**_ndk_row(chosen), "origins": [chosen.origin], "active": True}
    )
    row["active"] = True
    reason = chosen.origin
    if settings.ndk.version:
        reason = f"ndk.version {settings.ndk.version} ({settings.origins['ndk.version']})"
    elif settings.ndk.path is not None:
        reason = f"ndk.path ({settings.origins['ndk.path']})"
    return list(found.values()), {**row, "reason": reason}


def _ndk_row(ndk: Ndk) -> dict[str, Any]:
    return {
        "release": ndk.release,
        "revision": ndk.revision,
        "llvm": ndk.llvm,
        "path": str(ndk.path),
        "missing": list(ndk.missing),
    }


def _release_row(release: Any) -> dict[str, Any]:
    return {
        "release": release.name,
        "revision": release.revision,
        "llvm": release.llvm,
        "size": release.size,
        "sha1": release.sha1,
        "source": release.source,
    }


def _plan_text(plan: InstallPlan) -> str:
    if plan.installed:
        return f"NDK {plan.release} is installed already: {plan.target}"
    size = f" ({output.human_bytes(plan.size)})" if plan.size else ""
    lines = [f"take {plan.archive}"] if plan.local else [f"download{size}:", *(f"  {u}" for u in plan.urls)]
    lines.append(f"check SHA-1 {plan.sha1}" if plan.sha1 else "check nothing: its SHA-1 is not known")
    lines.append(f"unpack to {plan.target}")
    return "\n".join(lines)
