"""From an app's name to a program that stands on the phone: resolve, build, plan, push."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import config as configuration
from devkit import output, paths, process
from devkit.config import AppConfig, Config
from devkit.errors import DevkitError, FileError, UsageError
from devkit.ndk.qnn_sets import vendor_libraries
from devkit.runtime.app_folder import AppFolder, survey
from devkit.runtime.closure import TOOLCHAIN, Closure, OpenedFile, SearchDir, needed_closure
from devkit.runtime.deploy import DeployPlan, apply_plan, plan_deployment
from devkit.runtime.elf_checks import check_files, page_size_matters, refuse
from devkit.runtime.own_files import own_files
from devkit.runtime.qnn import ORIGIN, QnnPlan, plan_qnn
from devkit.runtime.run import Launch, launch_for
from devkit.runtime.sanitizers import with_sanitizer_options
from devkit.runtime.warmup import WarmUp
from devkit.symbols import Stripper, is_elf, read_elf

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.engine import BuildResult, Toolchain
    from devkit.symbols import ElfInfo


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
        """Those of `libraries` that are not built here: the toolchain's and the QNN SDK's."""
        own = {f.elf.path for f in self.closure.files if f.origin not in (TOOLCHAIN, ORIGIN)}
        return tuple(file for file in self.libraries if file not in own)

    def launch(self, args: Sequence[str], env: Mapping[str, str] | None = None) -> Launch:
        """How to start it; `args` replace the app's own when there are any, `env` is on top of its own."""
        app = self.local.app
        folder = self.plan.folder
        env = {**app.env, **(env or {})}
        if self.qnn:
            env = self.qnn.environment(env, folder)
        env = with_sanitizer_options(env, (f.name for f in self.closure.files))
        return launch_for(folder, self.plan.program, args or app.args, env, cwd=app.cwd)


def find_app(config: Config, name: str) -> tuple[AppConfig, Path | None]:
    """An app by its name in devkit.yaml, by an executable's path, or by its CMake target.

    Returns:
        The app, and the executable's path if the name, or the app's target, is one.

    Raises:
        UsageError: a path that does not exist or is no program.
    """
    if name in config.apps:
        app = config.apps[name]
        ready_made = app.target is not None and "/" in app.target
        return app, _program_file(
            config.root / paths.expand_user(app.target or ""), config
        ) if ready_made else None
    path = paths.expand_user(name)
    if "/" in name or "\\" in name:
        return AppConfig(name=path.name), _program_file(path, config)
    return AppConfig(name=name), None


def refuse_unknown(config: Config, name: str) -> None:
    """Refuse an app that no build so far makes; without any, one that no CMake file names.

    Asks no phone and builds nothing.

    Raises:
        UsageError: it is unknown, or a path that does not exist or is no program.
    """
    app, path = find_app(config, name)
    if path is not None:
        return
    from devkit import engine
    from devkit.engine.cmake_text import cmake_files
    from devkit.engine.editor_view import find_builds
    from devkit.engine.fileapi import read_artifacts

    if config.source.is_dir() and engine.detect_engine(config.source) is None:
        if name in config.apps:
            return  # which engine it is, the build says
        raise _unknown(config, name, ())
    made = []
    for build in find_builds(config.source):
        with contextlib.suppress(DevkitError):  # a folder that CMake has not described yet
            made += [a for a in read_artifacts(build.folder) if a.kind == "executable"]
    target = app.target or app.name
    if made:
        known = any(target in (a.path.name, a.target) for a in made)
    else:
        word = re.compile(rf"(?<![\w.-]){re.escape(target)}(?![\w-])")
        texts = (file.read_text("utf-8", "replace") for file in cmake_files(config.source))
        known = any(word.search(text) for text in texts)
    if not known:
        raise _unknown(config, target, tuple(dict.fromkeys(a.path.name for a in made)))


def build_app(
    config: Config, device: Device, name: str, *, profile: str | None = None, build: bool = True
) -> LocalApp:
    """Build what an app needs for this phone, or find it when `name` is a program's path.

    Args:
        profile: overrides the app's build profile.
        build: False takes what the last build left.

    Raises:
        UsageError: no such app, profile or target.
        BuildError, ToolMissing: the build failed.
    """
    app, path = find_app(config, name)
    # Loading it takes a tenth of a second, the phone's answer as long.
    threading.Thread(target=importlib.import_module, args=("devkit.engine",), daemon=True).start()
    warm_up = None if path is None else WarmUp(path, (), (), lambda elf: _stripper(config, _libc_of(elf)))
    # Before anything else is asked of the phone: its answer holds all of it.
    seen = survey(device, config.device.dir, app.name)
    from devkit import engine

    facts = engine.DeviceFacts(abi=device.abi, api_level=device.api_level, libc=device.libc)
    if path is not None:
        search = [SearchDir(path.parent, "beside the program")]
        if facts.libc == "glibc":
            search += _runtime_dirs(engine.host_toolchain())
        return LocalApp(app, path, search=tuple(search), seen=seen, warm_up=warm_up)
    if name not in config.apps and config.source.is_dir() and engine.detect_engine(config.source) is None:
        raise _unknown(config, name, ())
    plan = engine.plan_for(config, profile or app.profile, device=facts)
    result = engine.build(plan) if build else engine.last_build(plan)
    target = app.target or app.name
    executables = {a.path.name: a for a in result.artifacts if a.kind == "executable"}
    by_target = {a.target: a for a in result.artifacts if a.kind == "executable"}
    artifact = executables.get(target) or by_target.get(target)
    if artifact is None:
        raise _unknown(config, target, tuple(executables))
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
        WarmUp(artifact.path, libraries, (o.path for o in opened), lambda _: _stripper(config, facts.libc)),
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
        stripper=_stripper(config, device.libc),
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


def _libc_of(program: ElfInfo) -> str:
    """By the linker it asks for: the phone has not said yet whether it is a virtual one."""
    return "glibc" if "ld-linux" in (program.interpreter or "") else "bionic"


def _stripper(config: Config, libc: str) -> Stripper | None:
    if config.deploy.strip == "never":
        return None
    tool = None
    if libc != "glibc":
        from devkit.ndk import ndk_for

        with contextlib.suppress(DevkitError):  # then one of this machine, if it has one
            tool = ndk_for(config).find_tool("llvm-strip")
    return Stripper(tool, keep_symbols=config.deploy.strip == "debug")


def _program_file(path: Path, config: Config) -> Path:
    path = path.absolute()
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {found}", hints=_app_hints(config))
    if not os.access(path, os.R_OK):
        raise FileError(f"{path} cannot be read", hints=[f"ls -l {process.show([path])}"])
    if not is_elf(path):
        found = "is empty" if path.stat().st_size == 0 else "is not a program for a phone (no ELF file)"
        raise UsageError(f"{path} {found}", hints=_app_hints(config))
    return path


def _runtime_dirs(toolchain: Toolchain) -> tuple[SearchDir, ...]:
    return tuple(SearchDir(folder, TOOLCHAIN) for folder in toolchain.runtime_dirs)


def _unknown(config: Config, name: str, executables: Sequence[str]) -> UsageError:
    known = list(dict.fromkeys([*config.apps, *executables]))
    guess = configuration.nearest(name, known)
    hints = [f"did you mean {guess}?"] if guess else []
    return UsageError(
        f"there is no app or program named {name or repr(name)}",
        evidence=f"the build makes: {', '.join(executables)}" if executables else None,
        hints=[*hints, *_app_hints(config)],
    )


def _app_hints(config: Config) -> list[str]:
    if config.apps:
        return ["apps in devkit.yaml: " + ", ".join(config.apps)]
    return ["devkit init writes a devkit.yaml where apps are named", "or give the path of an executable"]
