"""From an app's name to a program that stands on the phone: resolve, build, plan, push."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.config import AppConfig, Config
from devkit.ndk.qnn_sets import vendor_libraries
from devkit.runtime.app_folder import AppFolder
from devkit.runtime.app_names import find_app, unknown_app
from devkit.runtime.closure import (
    TOOLCHAIN,
    Closure,
    OpenedFile,
    SearchDir,
    load_tables,
    needed_closure,
)
from devkit.runtime.deploy import DeployPlan, apply_plan, plan_deployment
from devkit.runtime.elf_checks import check_files, page_size_matters, refuse
from devkit.runtime.head_start import HeadStart
from devkit.runtime.own_files import own_files
from devkit.runtime.qnn import ORIGIN, QnnPlan, plan_qnn
from devkit.runtime.run import Launch, launch_for
from devkit.runtime.sanitizers import is_toolchain_runtime, with_sanitizer_options
from devkit.runtime.warmup import WarmUp, libc_of, stripper_for
from devkit.symbols import is_elf, read_elf

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.engine import BuildResult, Toolchain


@dataclass(frozen=True)
class LocalApp:
    """An app as it stands on this machine: its program and where its libraries are.

    `build_lines` are the command lines that build it, for people; `options` its CMake options; `opened`
    libraries of the build that it opens at run time; `seen` is what the phone holds of it; `warm_up` already
    hashes and strips.
    """

    app: AppConfig
    program: Path
    artifacts: tuple[Path, ...] = ()
    search: tuple[SearchDir, ...] = ()
    build: BuildResult | None = field(default=None, compare=False)
    build_lines: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    opened: tuple[OpenedFile, ...] = ()
    seen: AppFolder | None = field(default=None, compare=False)
    warm_up: WarmUp | None = field(default=None, compare=False)


@dataclass(frozen=True)
class PreparedApp:
    """An app and its place on the phone; `plan` says what still has to travel."""

    local: LocalApp
    closure: Closure
    plan: DeployPlan
    device_dir: str
    qnn: QnnPlan | None = None
    warnings: tuple[str, ...] = ()

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The deployed libraries' files on this machine, without the program and what a DSP runs."""
        return tuple(
            f.local for f in self.plan.files[1:] if is_elf(f.local) and read_elf(f.local).machine != "hexagon"
        )

    @property
    def symbol_folders(self) -> tuple[Path, ...]:
        """Folders of what was built for the phone. A compiler's own may hold this machine's libc."""
        own = [f.elf.path.parent for f in self.closure.files if f.origin not in (TOOLCHAIN, ORIGIN)]
        return tuple(dict.fromkeys(own))

    @property
    def foreign_libraries(self) -> tuple[Path, ...]:
        """Those of `libraries` that are not built here: the toolchain's, also copies, and the QNN SDK's."""
        own = {f.elf.path for f in self.closure.files if f.origin not in (TOOLCHAIN, ORIGIN)}
        return tuple(file for file in self.libraries if file not in own or is_toolchain_runtime(file.name))

    def launch(self, args: Sequence[str], env: Mapping[str, str] | None = None) -> Launch:
        """How to start it; `args` replace the app's own when there are any, `env` is on top of its own."""
        app = self.local.app
        folder = self.plan.folder
        env = {**app.env, **(env or {})}
        if self.qnn:
            env = self.qnn.environment(env, folder)
        env = with_sanitizer_options(env, (f.name for f in self.closure.files))
        return launch_for(folder, self.plan.program, args or app.args, env, cwd=app.cwd)


def build_app(
    config: Config,
    device: Device,
    name: str,
    *,
    profile: str | None = None,
    build: bool = True,
    head_start: HeadStart | None = None,
) -> LocalApp:
    """Build what an app needs for this phone, or find it when `name` is a program's path.

    Args:
        profile: overrides the app's build profile.
        build: False takes what the last build left.
        head_start: where the phone is being asked already.

    Raises:
        UsageError: no such app, profile or target.
        BuildError, ToolMissing: the build failed.
    """
    app, path = find_app(config, name)
    # Before anything else is asked of the phone: its answer holds all of it.
    head_start = head_start or HeadStart(config, device, app, path)
    # What follows takes as long as the phone's answer.
    from devkit import engine

    load_tables()
    beside: tuple[SearchDir, ...] | None = None
    if path is None:
        importlib.import_module("devkit.engine.builder")
    elif libc_of(read_elf(path)) == "glibc":
        beside = _runtime_dirs(engine.host_toolchain())
    seen = head_start.wait()
    if path is not None:
        search: tuple[SearchDir, ...] = (SearchDir(path.parent, "beside the program"),)
        if device.libc == "glibc":
            search += _runtime_dirs(engine.host_toolchain()) if beside is None else beside
        return LocalApp(app, path, search=search, seen=seen, warm_up=head_start.warm_up)
    facts = engine.DeviceFacts(abi=device.abi, api_level=device.api_level, libc=device.libc)
    if name not in config.apps and config.source.is_dir() and engine.detect_engine(config.source) is None:
        raise unknown_app(config, name, ())
    plan = engine.plan_for(config, profile or app.profile, device=facts)
    result = engine.build(plan) if build else engine.last_build(plan)
    target = app.target or app.name
    executables = {a.path.name: a for a in result.artifacts if a.kind == "executable"}
    by_target = {a.target: a for a in result.artifacts if a.kind == "executable"}
    artifact = executables.get(target) or by_target.get(target)
    if artifact is None:
        raise unknown_app(config, target, tuple(executables))
    libraries = tuple(a.path for a in result.artifacts if a.kind in ("shared", "module"))
    opened = tuple(
        OpenedFile(a.path, f"opened at run time (profile {plan.profile.name})", "build")
        for a in result.artifacts
        if a.kind in ("shared", "module") and {a.target, a.name} & set(plan.profile.opens)
    )
    return LocalApp(
        app,
        artifact.path,
        libraries,
        _runtime_dirs(plan.toolchain),
        result,
        tuple(plan.command_lines()),
        plan.options,
        opened,
        seen,
        WarmUp(
            artifact.path, libraries, (o.path for o in opened), lambda _: stripper_for(config, facts.libc)
        ),
    )


def prepare_app(
    config: Config, device: Device, local: LocalApp, *, device_dir: str | None = None, prune: bool = False
) -> PreparedApp:
    """Plan a deployment. Nothing on the phone changes, except that the folder is made.

    Raises:
        DeployError: a needed library or file is missing or of another ABI, or QNN files do not belong
            together.
        ToolMissing, DeviceError: the app wants QNN libraries, and no SDK has them, or the phone's chip is
            not known.
    """
    qnn = plan_qnn(config, device, local.app, local.program, local.options)
    closure = needed_closure(
        local.program,
        abi=device.abi,
        api_level=device.api_level,
        libc=device.libc,
        artifacts=local.artifacts,
        search=local.search,
        opened=(*local.opened, *(qnn.opened() if qnn else ())),
        vendor=vendor_libraries() if qnn else (),
    )
    folder = device.writable_dir(device_dir or config.device.dir)
    warnings = _checked(device, closure, local, folder)
    for warning in warnings:
        output.current().warn(warning)
    plan = plan_deployment(
        device,
        local.app.name,
        closure,
        local.app.files,
        device_dir=folder,
        stripper=stripper_for(config, device.libc),
        extra=qnn.manifest() if qnn else (),
        seen=local.seen,
        warm_up=local.warm_up,
        prune=prune,
    )
    return PreparedApp(local, closure, plan, folder, qnn, warnings)


def deploy_app(device: Device, prepared: PreparedApp) -> None:
    """Push what the plan says; of an app with QNN libraries, compare what is on the phone then.

    Raises:
        DeployError: the phone refused a file, or QNN libraries there do not belong together.
    """
    apply_plan(device, prepared.plan)
    if prepared.qnn is not None:
        prepared.qnn.check_on_phone(device, prepared.plan)


def _checked(device: Device, closure: Closure, local: LocalApp, folder: str) -> tuple[str, ...]:
    """Refuse files that the phone's linker will not take; what is doubtful, as sentences."""
    page_bytes = None
    if page_size_matters(closure.files, device.api_level):
        page_bytes = device.facts(folder).page_bytes
    findings = check_files(
        closure.files,
        own_files(local.app.files),
        abi=device.abi,
        abilist=device.abilist,
        libc=device.libc,
        api_level=device.api_level,
        page_bytes=page_bytes,
    )
    refuse(findings)
    return (
        *(finding.text for finding in findings),
        *(
            f"{user} needs {name}, which neither its SDK has nor a phone is known to have"
            for name, user in closure.unresolved
        ),
    )


def _runtime_dirs(toolchain: Toolchain) -> tuple[SearchDir, ...]:
    return tuple(SearchDir(folder, TOOLCHAIN) for folder in toolchain.runtime_dirs)
