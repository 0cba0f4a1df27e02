"""The wizard's work: what is there, what is missing, and bringing it. Asks nothing itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import config as configuration
from devkit import engine, output
from devkit.errors import ConfigError, DevkitError, ToolMissing, UsageError
from devkit.ndk import environment, ndk_for, qnn_install
from devkit.ndk.qnn_sdk import QNN_VARIABLES, is_sdk, qnn_environment, qnn_sdk_for, tool_environment
from devkit.ndk.store import apply_install, plan_install, use
from devkit.ndk.user_config import set_user_value

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.ndk import Ndk
    from devkit.ndk.qnn_sdk import QnnSdk

RECOMMENDED_NDK = "r29"
NONE = "none"


@dataclass(frozen=True)
class Choices:
    """The answers. None means: nobody has said, so ask (or take the default with --yes).

    `ndk` is a release ("r29"), an NDK's folder or "none"; `qnn_sdk` a version, an SDK's root or
    "none"; `shell_rc` whether to write the rc block; `project` whether to write a devkit.yaml for
    the engine in the current folder.
    """

    ndk: str | None = None
    qnn_sdk: str | None = None
    shell_rc: bool | None = None
    project: bool | None = None


@dataclass(frozen=True)
class Step:
    """One thing the wizard has done or found: `state` is "there", "done" or "left out"."""

    name: str
    state: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Found:
    """What is on this machine before the wizard does anything."""

    ndk: Ndk | None
    ndk_problem: DevkitError | None
    qnn_sdk: QnnSdk | None
    engine_root: Path | None
    has_project_file: bool
    shell: str
    rc_file: Path


def look_around(config: Config, environ: dict[str, str], ancestors: list[str]) -> Found:
    """Find everything the wizard would otherwise have to ask for. Changes nothing."""
    ndk: Ndk | None = None
    problem: DevkitError | None = None
    try:
        ndk = ndk_for(config, environ)
        if ndk.missing:
            problem = ToolMissing(
                f"the NDK in {ndk.path} is not complete", evidence="missing: " + ", ".join(ndk.missing)
            )
    except (ToolMissing, ConfigError) as error:
        problem = error
    try:
        qnn_sdk: QnnSdk | None = qnn_sdk_for(config, environ)
    except (ToolMissing, ConfigError):
        qnn_sdk = None
    shell = environment.detect_shell(environ, ancestors)
    root = config.source if engine.detect_engine(config.source) is not None else None
    return Found(
        ndk=ndk,
        ndk_problem=problem,
        qnn_sdk=qnn_sdk,
        engine_root=root,
        has_project_file=config.project_file is not None,
        shell=shell,
        rc_file=environment.rc_file(shell, environ),
    )


def missing_answers(found: Found, choices: Choices) -> tuple[str, ...]:
    """Names of the fields of Choices that the wizard cannot know and nobody has said."""
    asked = []
    if choices.ndk is None and (found.ndk is None or found.ndk_problem is not None):
        asked.append("ndk")
    if choices.qnn_sdk is None and found.qnn_sdk is None:
        asked.append("qnn_sdk")
    if choices.project is None and found.engine_root is not None and not found.has_project_file:
        asked.append("project")
    if choices.shell_rc is None:
        asked.append("shell_rc")
    return tuple(asked)


def with_defaults(found: Found, choices: Choices) -> Choices:
    """The answers that `--yes` stands for."""
    # Not every engine needs the QNN SDK, and its licence is the user's to accept.
    defaults: dict[str, Any] = {"ndk": RECOMMENDED_NDK, "qnn_sdk": NONE, "project": True, "shell_rc": True}
    return replace(choices, **{name: defaults[name] for name in missing_answers(found, choices)})


def set_up(config: Config, found: Found, choices: Choices, environ: dict[str, str]) -> list[Step]:
    """Bring what is missing. Done twice, the second time changes nothing.

    Raises:
        UsageError: `choices.ndk` is neither a release nor a folder.
        ToolFailed, FileError, …: a download or a file failed; what was done before stays done.
    """
    steps = [_ndk(found, choices), _qnn_sdk(found, choices), _project(found, choices)]
    # Read again: the NDK may be there only now.
    fresh = configuration.load(config.root, environ=environ)
    steps.append(_shell_rc(fresh, found, choices, environ))
    return steps


def find_exports(config: Config, environ: Mapping[str, str] | None = None) -> environment.Exports:
    """What there is to export, and notes for what is not there.

    The QNN SDK's LD_LIBRARY_PATH is left out: in a shell it would change what every other program
    loads (`qnn_tool_libraries` is for its own tools).
    """
    notes: list[str] = []
    variables: dict[str, str] = {}
    additions: list[tuple[str, str]] = []
    try:
        ndk = ndk_for(config, environ)
        variables |= ndk.environment
        additions.append(("PATH", str(ndk.prebuilt / "bin")))
    except ToolMissing as missing:
        notes.append(f"no Android NDK: {missing.what}")
    try:
        values = qnn_environment(qnn_sdk_for(config, environ))
        variables |= {name: values[name] for name in QNN_VARIABLES}
        for name in ("PATH", "PYTHONPATH"):
            additions += [(name, folder) for folder in values.get(name, "").split(os.pathsep) if folder]
    except ToolMissing as missing:
        notes.append(f"no QNN SDK: {missing.what}")
    return environment.Exports(tuple(variables.items()), tuple(additions), tuple(notes))


def qnn_tool_libraries(config: Config, program: Path) -> dict[str, str]:
    """LD_LIBRARY_PATH for a program of the QNN SDK; nothing for any other program."""
    try:
        sdk = qnn_sdk_for(config)
    except ToolMissing:
        return {}
    if not program.resolve().is_relative_to(sdk.path.resolve()):
        return {}
    return {name: v for name, v in tool_environment(sdk).items() if name == "LD_LIBRARY_PATH"}


def _ndk(found: Found, choices: Choices) -> Step:
    wanted = choices.ndk
    if wanted == NONE:
        return Step("ndk", "left out", "no Android NDK was asked for")
    if wanted is None:
        assert found.ndk is not None
        return Step("ndk", "there", f"{found.ndk.release} in {found.ndk.path} ({found.ndk.origin})")
    if _looks_like_a_path(wanted):
        folder = Path(wanted).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"--ndk {wanted}: there is no such folder", hints=["--ndk r29 installs one"])
        before = configuration.load().ndk.path
        if before is not None and before.resolve() == folder.resolve():
            return Step("ndk", "there", f"{folder} is the chosen one already")
        set_user_value("ndk.path", str(folder))
        return Step("ndk", "done", f"{folder} is used from now on")
    plan = plan_install(wanted)
    ndk = apply_install(plan)
    chosen = configuration.load().ndk.path
    if plan.installed and chosen is not None and chosen.resolve() == ndk.path.resolve():
        return Step("ndk", "there", f"{ndk.release} in {ndk.path}")
    use(ndk)
    return Step("ndk", "done", f"{ndk.release} is installed in {ndk.path} and used from now on")


def _qnn_sdk(found: Found, choices: Choices) -> Step:
    wanted = choices.qnn_sdk
    if wanted is None:
        assert found.qnn_sdk is not None
        return Step("qnn-sdk", "there", f"{found.qnn_sdk.version} in {found.qnn_sdk.path}")
    if wanted == NONE:
        return Step("qnn-sdk", "left out", "no QNN SDK was asked for")
    if _looks_like_a_path(wanted):
        root = Path(wanted).expanduser().absolute()
        if not is_sdk(root):
            raise UsageError(
                f"--qnn-sdk {wanted}: this is no QNN SDK's root", hints=[f"devkit qnn sdk check {wanted}"]
            )
        before = configuration.load().qnn.path
        if before is not None and before.resolve() == root.resolve():
            return Step("qnn-sdk", "there", f"{root} is the chosen one already")
        set_user_value("qnn.path", str(root))
        return Step("qnn-sdk", "done", f"{root} is used from now on")
    plan = qnn_install.plan_install(wanted)
    sdk = qnn_install.apply_install(plan)
    return Step("qnn-sdk", "there" if plan.installed else "done", f"{sdk.version} in {sdk.path}")


def _project(found: Found, choices: Choices) -> Step:
    from devkit.project import write_project_file

    if found.has_project_file:
        return Step("project", "there", "devkit.yaml")
    if found.engine_root is None:
        return Step("project", "left out", "no engine in this folder")
    if not choices.project:
        return Step("project", "left out", "no devkit.yaml was asked for")
    file, name = write_project_file(found.engine_root)
    return Step("project", "done", f"wrote {file} (engine: {name})")


def _shell_rc(config: Config, found: Found, choices: Choices, environ: dict[str, str]) -> Step:
    if not choices.shell_rc:
        return Step("shell", "left out", "devkit env --install writes the variables later")
    exports = find_exports(config, environ)
    if not exports.variables:
        return Step("shell", "left out", "there is nothing to export")
    changed = environment.install_block(found.rc_file, environment.render(exports, found.shell))
    state = "done" if changed else "there"
    return Step("shell", state, f"the variables are in {found.rc_file} (takes effect in a new {found.shell})")


def _looks_like_a_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith(("~", "."))


def summary(steps: list[Step]) -> str:
    """The steps as a table."""
    return output.table([(step.state, step.name, step.detail) for step in steps])
