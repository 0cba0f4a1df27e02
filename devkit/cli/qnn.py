"""`devkit qnn`: Qualcomm's QNN (QAIRT) SDK."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import output, paths
from devkit.cli import (
    common,
    qnn_docs,
    qnn_explain,
    qnn_export,
    qnn_inspect,
    qnn_libs,
    qnn_net_run,
    qnn_op_package,
)
from devkit.errors import CheckFailed, ToolMissing, UsageError

if TYPE_CHECKING:
    from devkit.ndk.qnn_install import QnnInstallPlan
    from devkit.ndk.qnn_sdk import QnnSdk

app = typer.Typer(
    help="Qualcomm's QNN SDK: find, install, check; the files a phone needs; errors explained, docs.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit qnn sdk check",
)
sdk_app = typer.Typer(
    help="Find, install and check the SDK; make its converters' Python environment.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit qnn sdk install 2.42.0.251225; devkit qnn sdk check; devkit qnn sdk venv",
)
app.add_typer(sdk_app, name="sdk")
app.add_typer(qnn_op_package.app, name="op-package")
app.command("libs", epilog=qnn_libs.EXAMPLE)(qnn_libs.libs)
app.command("inspect", epilog=qnn_inspect.EXAMPLE)(qnn_inspect.inspect)
app.command("docs", epilog=qnn_docs.EXAMPLE)(qnn_docs.docs)
app.command("explain", epilog=qnn_explain.EXAMPLE)(qnn_explain.explain)
app.command("net-run", epilog=qnn_net_run.EXAMPLE)(qnn_net_run.net_run)
app.command("export", epilog=qnn_export.EXAMPLE)(qnn_export.export)


@app.callback()
def _group() -> None:
    pass


SdkRoot = Annotated[
    str | None,
    typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use instead of the configured one."),
]


@sdk_app.command("list")
def list_sdks() -> None:
    """The SDKs on this machine, and which one is used and why."""
    from devkit.ndk.candidates import Candidate
    from devkit.ndk.qnn_sdk import known_qnn_sdks

    config = common.load_config()
    try:
        chosen: QnnSdk | None = _find(None)
    except ToolMissing as error:
        chosen = None
        output.current().detail(str(error))
    known: list[Candidate] = known_qnn_sdks(config.qnn.path)
    rows: dict[str, dict[str, Any]] = {}
    for candidate in known:
        row = rows.setdefault(os.path.realpath(candidate.path), {**_row(candidate), "origins": []})
        row["origins"].append(candidate.origin)
    for real, row in rows.items():
        row["active"] = chosen is not None and real == os.path.realpath(chosen.path)
    table: list[tuple[str, ...]] = [
        ("*" if r["active"] else "", r["version"], ", ".join(r["origins"]), r["path"]) for r in rows.values()
    ]
    text = output.table(table, ("", "VERSION", "FOUND BY", "PATH")) if rows else "no QNN SDK is installed\n"
    active = (
        {"path": str(chosen.path), "version": chosen.version, "reason": chosen.origin} if chosen else None
    )
    if active is not None:
        text += f"\nused: {active['version']}, because of {active['reason']}\n"
    output.current().data({"installed": list(rows.values()), "active": active}, text)


@sdk_app.command("install")
def install(
    version: Annotated[
        str | None, typer.Argument(metavar="[VERSION]", help="All four numbers: 2.42.0.251225.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A local zip instead of a download.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="url|qsc-cli", help="How (default: qsc-cli when it is installed, else url)."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--mirror", metavar="URL", help="The zip, or a folder laid out as Qualcomm's."),
    ] = None,
    sha1: Annotated[
        str | None, typer.Option("--sha1", metavar="HEX", help="SHA-1 that the download must have.")
    ] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Install an SDK. By installing it you accept Qualcomm's licence, which lies in it."""
    from devkit.ndk.qnn_install import apply_install, plan_install

    if by not in (None, "url", "qsc-cli"):
        raise UsageError(f"--by cannot be {by!r}", hints=["--by url", "--by qsc-cli"])
    plan = plan_install(version, from_file=from_file, by=by, url=url, sha1=sha1)
    if dry_run:
        output.current().data(plan.as_dict(), _plan_text(plan))
        return
    sdk = apply_install(plan)
    already = "already " if plan.installed else ""
    output.current().data(
        {**_sdk_row(sdk), "installed": not plan.installed},
        f"QNN SDK {sdk.version} is {already}installed: {sdk.path}\n  devkit qnn sdk check",
    )


@sdk_app.command("check")
def check(
    sdk: SdkRoot = None,
    no_scripts: Annotated[
        bool, typer.Option("--no-scripts", help="Do not run the SDK's own checks.")
    ] = False,
) -> None:
    """What the SDK has and what this machine lacks for it. Exit code 1 when it cannot be built with."""
    from devkit.ndk.qnn_check import check_sdk, first_broken
    from devkit.ndk.qnn_sdk import warn_about_conflicts

    found = _find(sdk)
    warn_about_conflicts(found)
    checks = check_sdk(found, scripts=not no_scripts)
    lines = [f"QNN SDK {found.version} at {found.path} (from {found.origin})"]
    for one in checks:
        lines.append(f"{one.state:<10} {one.name}: {one.text}")
        if one.evidence and one.state not in ("ok", "not needed"):
            lines += [f"           | {line}" for line in one.evidence.splitlines()]
        if one.hint and one.state != "ok":
            lines.append(f"           try: {one.hint}")
    broken = first_broken(checks)
    data = {
        **_sdk_row(found),
        "checks": [one.as_dict() for one in checks],
        "first_broken": broken.name if broken else None,
    }
    output.current().data(data, "\n".join(lines))
    if broken is not None:
        raise typer.Exit(CheckFailed.exit_code)


@sdk_app.command("path")
def path(
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="A file of the SDK: qnn-net-run, libQnnHtp.so, …")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="aarch64-android, x86_64-linux-clang, hexagon-v75, …")
    ] = None,
    sdk: SdkRoot = None,
) -> None:
    """Print the path of the SDK in use, or of a file in it. Nothing else goes to stdout."""
    from devkit.ndk.qnn_sdk import warn_about_conflicts

    if tool is None and target is not None:
        raise UsageError(
            "--target needs a TOOL", hints=["devkit qnn sdk path libQnnHtp.so --target aarch64-android"]
        )
    found = _find(sdk)
    warn_about_conflicts(found)
    where = found.path if tool is None else found.find_file(tool, target)
    output.current().data({"path": str(where), "sdk": str(found.path), "version": found.version}, str(where))


@sdk_app.command("venv")
def venv(
    purpose: Annotated[
        str,
        typer.Option(
            "--for", metavar="converters|export", help="The SDK's converters, or the engine's export script."
        ),
    ] = "converters",
    folder: Annotated[Path | None, typer.Option("--path", metavar="DIR", help="Where to make it.")] = None,
    python: Annotated[
        str | None, typer.Option(metavar="VERSION|PATH", help="Python (default: what the converters want).")
    ] = None,
    requirements: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pinned packages instead of the SDK's or engine's own."),
    ] = None,
    index_url: Annotated[
        str | None, typer.Option("--index-url", metavar="URL", help="A package index (mirror) for pip.")
    ] = None,
    sdk: SdkRoot = None,
    dry_run: common.DryRun = False,
) -> None:
    """Make the Python environment of the converters, or of the engine's export script."""
    from devkit import process
    from devkit.ndk.converters import apply_venv, plan_converters, plan_export

    if purpose not in ("converters", "export"):
        raise UsageError(f"--for cannot be {purpose!r}", hints=["--for converters", "--for export"])
    found = _find(sdk) if purpose == "converters" else None
    if found is not None:
        plan = plan_converters(
            found, path=folder, python=python, requirements=requirements, index_url=index_url
        )
    else:
        source = common.load_config().source
        plan = plan_export(source, path=folder, python=python, requirements=requirements, index_url=index_url)
    if dry_run:
        lines = [process.show(line) for line in plan.command_lines()]
        text = f"{plan.path} is up to date" if plan.ready else "\n".join(lines)
        output.current().data({**plan.as_dict(), "commands": lines}, text)
        return
    made = apply_venv(plan, found)
    text = f"the environment for {plan.purpose} is {'ready' if made else 'up to date'}: {plan.path}"
    text += f"\n  . {plan.path}/bin/activate"
    output.current().data({**plan.as_dict(), "ready": True, "made": made}, text)


def _find(choice: str | None) -> QnnSdk:
    import re

    from devkit.ndk.qnn_sdk import find_qnn_sdk, open_qnn_sdk, qnn_sdk_for

    if choice is None:
        return qnn_sdk_for(common.load_config())
    if re.fullmatch(r"v?\d[\d.]*", choice):
        return find_qnn_sdk(version=choice)
    return open_qnn_sdk(paths.expand_user(choice).absolute(), f"--sdk {choice!r}")


def _row(candidate: Any) -> dict[str, Any]:
    return {"version": candidate.revision, "path": str(candidate.path)}


def _sdk_row(sdk: QnnSdk) -> dict[str, Any]:
    return {
        "version": sdk.version,
        "path": str(sdk.path),
        "origin": sdk.origin,
        "targets": list(sdk.target_folders()),
    }


def _plan_text(plan: QnnInstallPlan) -> str:
    from devkit import process

    if plan.installed:
        return f"QNN SDK {plan.version} is installed already: {plan.target}"
    if plan.by == "qsc-cli":
        return f"{process.show(plan.command)}\nmove the SDK to {plan.target}"
    first = f"download {plan.url}" if plan.url else f"take {plan.archive}"
    seen = f"check SHA-1 {plan.sha1}" if plan.sha1 else "no checksum is published; what comes is remembered"
    middle = [seen] if plan.url else []
    return "\n".join([first, *middle, f"unpack to {plan.target}"])
