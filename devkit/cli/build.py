"""`devkit build [PROFILE]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths
from devkit.cli import common
from devkit.errors import BuildError, DeviceError, DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.engine import BuildPlan, BuildResult, DeviceFacts

SLOW_STEP_S = 5.0

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Examples: devkit build cpu --type release -D MNN_OPENCL=ON; devkit build --list; "
    "devkit build --explain qnn"
)
def build(
    profile: Annotated[
        str,
        typer.Argument(metavar="[PROFILE]", help="What to build.", autocompletion=common.complete_profiles),
    ] = "cpu",
    serial: common.Serial = None,
    build_type: common.BuildType = None,
    ndk: common.NdkChoice = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A CMake option; repeatable.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="NAME", help="Only this target; repeatable.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, help="Parallel compile jobs.")] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Start from an empty build folder.")] = False,
    list_profiles: Annotated[bool, typer.Option("--list", help="List the profiles.")] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the cmake command of PROFILE, and why each option is there."),
    ] = False,
    why: Annotated[
        Path | None,
        typer.Option("--why", metavar="FILE", help="Is FILE compiled in the last build, and how?"),
    ] = None,
    dry_run: common.DryRun = False,
    print_commands: common.PrintCommands = False,
) -> None:
    """Configure and build the engine for the phone (or for this machine: profile host)."""
    from devkit import engine

    config = common.load_config(serial=serial, build_type=build_type, ndk=ndk)
    if list_profiles:
        from devkit.engine.build_types import all_build_types

        found = engine.profiles_for(config)
        rows: list[tuple[str, ...]] = [
            (p.name, p.target, ", ".join(p.needs) or "-", p.about) for p in found.values()
        ]
        types = output.table([(f"--type {kind.name}", kind.about) for kind in all_build_types()])
        text = output.table(rows, ("PROFILE", "FOR", "NEEDS", "WHAT FOR")) + "\n" + types
        output.current().data([p.as_dict() for p in found.values()], text)
        return
    if why is not None:
        _explain_file(config, profile, build_type, why)
        return
    facts = _facts(config, profile, serial)
    if explain:
        from devkit.engine.explain import explain as explain_plan

        missing: list[DevkitError] = []
        plan = engine.plan_for(
            config, profile, device=facts, extra_options=_options(define or ()), targets=target or (),
            missing=missing,
        )  # fmt: skip
        explained = explain_plan(plan, missing)
        output.current().data(explained.as_dict(), "\n".join(explained.lines()))
        return
    plan = engine.plan_for(
        config, profile, device=facts, extra_options=_options(define or ()), targets=target or ()
    )
    if dry_run or print_commands:
        engine.check_plan(plan)
        output.current().data(plan.as_dict(), "\n".join(plan.command_lines()))
        return
    result = engine.build(plan, jobs=jobs, clean=clean)
    output.current().data(result.as_dict(), "\n".join(_report(plan, result)))


def _report(plan: BuildPlan, result: BuildResult) -> list[str]:
    """What people want to know of a build that succeeded."""
    from devkit.engine.diagnostics import summarize

    programs = [a.path.name for a in result.artifacts if a.kind == "executable"]
    libraries = [a.path.name for a in result.artifacts if a.kind in ("shared", "module")]
    took = f"{result.elapsed_s:.1f} s"
    if result.configured:
        took += f" ({result.configure_s:.1f} s of it configuring)"
    did = f"{result.steps} steps" if result.steps else "nothing to do"
    lines = [
        f"built {plan.profile.name} in {took}, {did}: {result.build_dir}",
        f"  programs:  {', '.join(programs) or 'none'}",
        f"  libraries: {', '.join(libraries) or 'none'}",
    ]
    if result.ccache:
        lines.append(f"  ccache:    {result.ccache.text}")
    if result.slowest and result.slowest[0].seconds >= SLOW_STEP_S:
        lines.append("  slowest:   " + ", ".join(f"{s.output} {s.seconds:.1f} s" for s in result.slowest[:3]))
    warned = summarize(result.diagnostics, plan.source, "warning")
    if warned:
        lines += [f"  {line}" for line in [*warned, f"the whole log: {result.log}"]]
    return lines


def _explain_file(config: Config, profile: str, build_type: str | None, file: Path) -> None:
    """Answer --why from what the last build left: no phone, no compiler, nothing is built."""
    from devkit import engine
    from devkit.engine import editor_view, why

    engine.get_profile(engine.profiles_for(config), profile)
    builds = editor_view.pick_builds(config.source, profile, build_type)
    if not builds:
        raise BuildError(f"{profile} was never built", hints=[f"devkit build {profile}"])
    candidates = [paths.expand_user(file).absolute(), config.source / file]
    there = next((path for path in candidates if path.exists()), None)
    answer = why.explain_file(there or candidates[1], config.source, builds[0])
    if there is None and not answer.compiled and not answer.mentions:
        raise UsageError(f"{file} does not exist, and no build or CMakeLists.txt knows it")
    lines = answer.lines()
    if answer.options:
        lines[-1] = f"  try: devkit build {profile} " + lines[-1].removeprefix("  try: ")
    output.current().data(answer.as_dict(), "\n".join(lines))


def _facts(config: Config, profile: str, serial: str | None) -> DeviceFacts | None:
    """The phone decides the ABI when there is one; else arm64-v8a, as on nearly every phone."""
    from devkit import engine
    from devkit.device import NoPhone, ServerUnreachable, select_device

    wanted = engine.profiles_for(config).get(profile)
    if wanted is None or wanted.target == "host":
        return None
    try:
        device = select_device(serial, config=config, may_start=serial is not None)
    except DeviceError as error:
        if serial is not None:
            raise
        if not isinstance(error, (NoPhone, ServerUnreachable)):
            # There is one, and its ABI may be another.
            output.current().note(f"for {engine.DEFAULT_ABI}: {error.what} (-s SERIAL)")
        return None
    return engine.DeviceFacts(abi=device.abi, api_level=device.api_level, libc=device.libc)


def _options(definitions: list[str] | tuple[()]) -> dict[str, str]:
    options: dict[str, str] = {}
    for definition in definitions:
        name, equals, value = definition.partition("=")
        if not equals or not name:
            raise UsageError(f"-D {definition} is not NAME=VALUE", hints=[f"-D {name or 'NAME'}=ON"])
        options[name.partition(":")[0]] = value
    return options
