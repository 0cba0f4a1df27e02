"""The wizard's work: what is there, what is missing, and bringing it. Asks nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import config as configuration
from devkit import engine, output, paths
from devkit.config import PROJECT_FILE
from devkit.errors import ConfigError, DevkitError, FileError, ToolMissing, UsageError
from devkit.ndk import environment, ndk_for, qnn_install
from devkit.ndk.exports import find_exports
from devkit.ndk.locate import open_ndk
from devkit.ndk.qnn_sdk import open_qnn_sdk, qnn_sdk_for, read_version
from devkit.ndk.store import apply_install, plan_install, use
from devkit.ndk.user_config import choose_folder

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
    the engine in the current folder; `mirror` where NDK archives are looked for first.
    """

    ndk: str | None = None
    qnn_sdk: str | None = None
    shell_rc: bool | None = None
    project: bool | None = None
    mirror: str | None = None


@dataclass(frozen=True)
class Step:
    """One thing the wizard has done or found: `state` is "there", "done", "to do", "left out" or "failed"."""

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
    wanted_ndk: str = RECOMMENDED_NDK
    wanted_qnn_sdk: str = NONE

    def as_text(self) -> str:
        """What there is, for a person who is about to be asked for the rest."""
        ndk, sdk = self.ndk, self.qnn_sdk
        rows: list[tuple[str, ...]] = [
            ("Android NDK", f"{ndk.release} in {ndk.path} ({ndk.origin})" if ndk else "none"),
            ("QNN SDK", f"{sdk.version} in {sdk.path} ({sdk.origin})" if sdk else "none"),
            ("engine", str(self.engine_root or "none in this folder")),
            ("devkit.yaml", "there" if self.has_project_file else "none"),
            ("shell", f"{self.shell} ({self.rc_file})"),
        ]
        if self.ndk_problem is not None:
            rows.insert(1, ("", self.ndk_problem.what))
        return output.table(rows)


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
        # What the project asks for comes before what devkit would recommend. A setting that says
        # "27.3" without a letter is as good as a release.
        wanted_ndk=config.ndk.version or RECOMMENDED_NDK,
        wanted_qnn_sdk=config.qnn.version or NONE,
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
    defaults: dict[str, Any] = {
        "ndk": found.wanted_ndk,
        "qnn_sdk": found.wanted_qnn_sdk,
        "project": True,
        "shell_rc": True,
    }
    return replace(choices, **{name: defaults[name] for name in missing_answers(found, choices)})


def check_choices(choices: Choices) -> None:
    """What can be refused before a long download begins.

    Raises:
        UsageError: a folder is no SDK, or only part of one.
    """
    checks = (("--ndk", choices.ndk, _check_ndk), ("--qnn-sdk", choices.qnn_sdk, _check_sdk))
    for flag, wanted, check in checks:
        if wanted is not None and _looks_like_a_path(wanted):
            try:
                check(_folder(wanted), f"{flag} {wanted}")
            except ToolMissing as error:
                raise UsageError(error.what, evidence=error.evidence, hints=error.hints) from None


def set_up(
    config: Config, found: Found, choices: Choices, environ: dict[str, str], *, dry_run: bool = False
) -> list[Step]:
    """Bring what is missing. Done twice, the second time changes nothing.

    Args:
        dry_run: only say what would be done.

    Raises:
        UsageError: a folder among the choices is no SDK, or `choices.ndk` no release.
        ToolFailed, FileError, …: a download or a file failed; what was done before stays done.
    """
    check_choices(choices)
    mirror = choices.mirror or config.ndk.mirror
    steps = [
        _ndk(found, choices, mirror, dry_run),
        _qnn_sdk(found, choices, dry_run),
        _project(found, choices, dry_run),
    ]
    # Read again: the NDK may be there only now.
    fresh = configuration.load(config.root, environ=environ)
    steps.append(_shell_rc(fresh, found, choices, environ, dry_run))
    return steps


def _ndk(found: Found, choices: Choices, mirror: str | None, dry_run: bool) -> Step:
    wanted = choices.ndk
    if wanted == NONE:
        return Step("ndk", "left out", "no Android NDK was asked for")
    if wanted is None:
        assert found.ndk is not None
        return Step("ndk", "there", f"{found.ndk.release} in {found.ndk.path} ({found.ndk.origin})")
    settings = configuration.load().ndk
    chosen = settings.path if settings.version is None else None
    if _looks_like_a_path(wanted):
        return _use_folder("ndk", _folder(wanted), chosen, dry_run)
    plan = plan_install(wanted, mirror=mirror)
    if dry_run and not plan.installed:
        return Step("ndk", "to do", f"install NDK {plan.release} in {plan.target} and use it")
    ndk = apply_install(plan)
    if plan.installed and chosen is not None and chosen.resolve() == ndk.path.resolve():
        return Step("ndk", "there", f"{ndk.release} in {ndk.path}")
    if dry_run:
        return Step("ndk", "to do", f"use {ndk.release} in {ndk.path}")
    use(ndk)
    return Step("ndk", "done", f"{ndk.release} is installed in {ndk.path} and used from now on")


def _qnn_sdk(found: Found, choices: Choices, dry_run: bool) -> Step:
    wanted = choices.qnn_sdk
    if wanted is None:
        assert found.qnn_sdk is not None
        return Step("qnn-sdk", "there", f"{found.qnn_sdk.version} in {found.qnn_sdk.path}")
    if wanted == NONE:
        return Step("qnn-sdk", "left out", "no QNN SDK was asked for")
    if _looks_like_a_path(wanted):
        settings = configuration.load().qnn
        chosen = settings.path if settings.version is None else None
        return _use_folder("qnn", _folder(wanted), chosen, dry_run)
    plan = qnn_install.plan_install(wanted)
    if dry_run and not plan.installed:
        return Step("qnn-sdk", "to do", f"install QNN SDK {plan.version} in {plan.target}")
    sdk = qnn_install.apply_install(plan)
    return Step("qnn-sdk", "there" if plan.installed else "done", f"{sdk.version} in {sdk.path}")


def _use_folder(section: str, folder: Path, chosen: Path | None, dry_run: bool) -> Step:
    """Make a folder the choice of the user's settings: `ndk.path` or `qnn.path`."""
    name = {"ndk": "ndk", "qnn": "qnn-sdk"}[section]
    if chosen is not None and chosen.resolve() == folder.resolve():
        return Step(name, "there", f"{folder} is the chosen one already")
    if dry_run:
        return Step(name, "to do", f"use {folder}")
    if section == "ndk":
        dropped = use(open_ndk(folder, str(folder), hint=""))
    else:
        version = read_version(folder)

        def is_version(text: str) -> bool:
            return f"{version}.".startswith(text.removeprefix("v").rstrip(".") + ".")

        dropped = choose_folder(section, folder, is_version=is_version)
    also = f"; {section}.version {dropped} meant another one and is gone" if dropped else ""
    return Step(name, "done", f"{folder} is used from now on{also}")


def _check_ndk(folder: Path, origin: str) -> None:
    hint = f"--ndk {RECOMMENDED_NDK} installs one"
    ndk = open_ndk(folder, origin, hint=hint)
    if ndk.missing:
        raise ToolMissing(
            f"{origin}: this NDK is not complete",
            evidence="missing: " + ", ".join(ndk.missing),
            hints=[hint],
        )


def _check_sdk(folder: Path, origin: str) -> None:
    open_qnn_sdk(folder, origin)


def _project(found: Found, choices: Choices, dry_run: bool) -> Step:
    from devkit.project import write_project_file

    if found.has_project_file:
        return Step("project", "there", "devkit.yaml")
    if found.engine_root is None:
        return Step("project", "left out", "no engine in this folder")
    if not choices.project:
        return Step("project", "left out", "no devkit.yaml was asked for")
    if dry_run:
        return Step("project", "to do", f"write {found.engine_root / PROJECT_FILE}")
    file, name = write_project_file(found.engine_root)
    return Step("project", "done", f"wrote {file} (engine: {name})")


def _shell_rc(config: Config, found: Found, choices: Choices, environ: dict[str, str], dry_run: bool) -> Step:
    if not choices.shell_rc:
        return Step("shell", "left out", "devkit env --install writes the variables later")
    exports = find_exports(config, environ)
    if not exports.variables:
        return Step("shell", "left out", "there is nothing to export")
    text = environment.render(exports, found.shell)
    try:
        changed = environment.install_block(found.rc_file, text, dry_run=dry_run)
    except FileError as error:
        # The last step, and the only one that touches a file of the user's: the others are done.
        return Step("shell", "failed", "\n".join([error.what, error.evidence or "", *error.hints]))
    if dry_run and changed:
        return Step("shell", "to do", f"write the variables into {found.rc_file}")
    state = "done" if changed else "there"
    return Step("shell", state, f"the variables are in {found.rc_file} (takes effect in a new {found.shell})")


def _folder(text: str) -> Path:
    return paths.expand_user(text).absolute()


def _looks_like_a_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith(("~", "."))


def summary(steps: list[Step]) -> str:
    """The steps as a table."""
    rows: list[tuple[str, ...]] = []
    for step in steps:
        first, *more = step.detail.splitlines()
        rows += [(step.state, step.name, first), *(("", "", line) for line in more if line)]
    return output.table(rows)
