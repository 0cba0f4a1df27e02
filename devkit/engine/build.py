"""Configure and compile what a plan says, and report what came out."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from devkit import output, process
from devkit.engine import buildlog, editor_view, fileapi
from devkit.engine.buildfolder import (
    LOG_FILE,
    check_ours,
    empty_folder,
    fixed_differences,
    is_configured,
    locked,
    read_state,
    write_state,
)
from devkit.engine.fileapi import Artifact
from devkit.engine.plan import BuildPlan
from devkit.errors import BuildError, FileError, UsageError

# Messages are parsed; gcc translates its own.
_ENVIRONMENT = {"NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class BuildResult:
    """A finished build.

    Attributes:
        artifacts: programs and libraries that exist now.
        configured: whether cmake had to run.
        fresh: whether the folder was empty before.
        steps: what was compiled, linked or generated; 0 when nothing had changed.
    """

    build_dir: Path
    artifacts: tuple[Artifact, ...]
    compile_commands: Path | None
    elapsed_s: float
    configured: bool
    fresh: bool
    steps: int
    log: Path

    def as_dict(self) -> dict[str, object]:
        """The result as `devkit build --json` prints it."""
        return {
            "build_dir": str(self.build_dir),
            "artifacts": [{"path": str(a.path), "kind": a.kind, "target": a.target} for a in self.artifacts],
            "compile_commands": str(self.compile_commands) if self.compile_commands else None,
            "elapsed_s": round(self.elapsed_s, 3),
            "configured": self.configured,
            "fresh": self.fresh,
            "steps": self.steps,
            "log": str(self.log),
        }


def build(
    plan: BuildPlan, *, targets: Sequence[str] = (), jobs: int | None = None, clean: bool = False
) -> BuildResult:
    """Configure if needed and compile.

    Ctrl-C ends cmake and everything below it; the next build goes on where it stopped.

    Args:
        targets: CMake targets instead of the plan's.
        jobs: parallel compile jobs (default: the build program's).
        clean: start with an empty folder.

    Raises:
        BuildError: no CMakeLists.txt, configuring or compiling failed, a target's file is missing,
            or the folder is not devkit's.
        UsageError: a target that the project does not have.
    """
    started = time.monotonic()
    if not (plan.source / "CMakeLists.txt").is_file():
        raise BuildError(
            f"{plan.source} holds no CMakeLists.txt",
            evidence=None if plan.source.is_dir() else "the folder does not exist",
            hints=["cd into the engine's source folder", "or set source in devkit.yaml"],
        )
    wanted = tuple(targets) or plan.targets
    with locked(plan.build_dir):
        fresh = _prepare_folder(plan, clean=clean)
        log_path = plan.build_dir / LOG_FILE
        with open(log_path, "w", encoding="utf-8") as log:
            configured = not is_configured(plan)
            if configured:
                _configure(plan, log)
            _check_targets(plan, wanted)
            steps = _compile(plan, wanted, jobs, log)
        artifacts = fileapi.read_artifacts(plan.build_dir)
    _check_products(artifacts, wanted, log_path)
    _refresh_editor(plan)
    database = plan.build_dir / "compile_commands.json"
    return BuildResult(
        build_dir=plan.build_dir,
        artifacts=tuple(a for a in artifacts if a.path.is_file()),
        compile_commands=database if database.is_file() else None,
        elapsed_s=time.monotonic() - started,
        configured=configured,
        fresh=fresh,
        steps=steps,
        log=log_path,
    )


def last_build(plan: BuildPlan) -> BuildResult:
    """What the last build of this plan's folder left, without building.

    Raises:
        BuildError: it was never built.
    """
    state = read_state(plan.build_dir)
    if state is None or not state.configured:
        raise BuildError(
            f"{plan.profile} was never built for {plan.toolchain.tag} ({plan.build_type})",
            evidence=f"{plan.build_dir} is no finished build folder",
            hints=[f"devkit build {plan.profile}"],
        )
    database = plan.build_dir / "compile_commands.json"
    return BuildResult(
        build_dir=plan.build_dir,
        artifacts=tuple(a for a in fileapi.read_artifacts(plan.build_dir) if a.path.is_file()),
        compile_commands=database if database.is_file() else None,
        elapsed_s=0.0,
        configured=False,
        fresh=False,
        steps=0,
        log=plan.build_dir / LOG_FILE,
    )


def list_apps(result: BuildResult) -> tuple[Artifact, ...]:
    """The programs that a build made."""
    return tuple(artifact for artifact in result.artifacts if artifact.kind == "executable")


def _refresh_editor(plan: BuildPlan) -> None:
    try:
        editor_view.refresh_view(plan.source)
    except FileError as error:
        # The build itself is good.
        output.current().warn(f"the editor's compile commands are out of date: {error.what}")


def _prepare_folder(plan: BuildPlan, *, clean: bool) -> bool:
    """Make the build folder fit the plan; whether it is empty now."""
    sink = output.current()
    check_ours(plan.build_dir)
    differences = fixed_differences(plan)
    if clean or differences:
        if plan.build_dir.is_dir() and differences and not clean:
            sink.note("starting with an empty build folder; CMake cannot change " + "; ".join(differences))
        empty_folder(plan.build_dir)
    fresh = not plan.build_dir.is_dir() or read_state(plan.build_dir) is None
    try:
        fileapi.write_query(plan.build_dir)
        if fresh:
            write_state(plan, configured=False)
    except OSError as error:
        raise BuildError(f"the build folder {plan.build_dir} cannot be made", evidence=str(error)) from None
    return fresh


def _configure(plan: BuildPlan, log: IO[str]) -> None:
    sink = output.current()
    state = read_state(plan.build_dir)
    # An option that is no longer given would live on in the cache.
    dropped = [f"-U{name}" for name in (state.options if state else {}) if name not in plan.options]
    # Until it has succeeded the folder counts as not configured, whatever happens.
    write_state(plan, configured=False)
    sink.note(f"configuring {plan.profile} ({plan.build_type}) with {plan.toolchain.description}")
    done = _run(plan, (*plan.configure, *dropped), log, lambda line: None)
    text = done.text
    if done.exit_code != 0 or buildlog.CACHE_DELETED in text:
        raise _failed(f"cmake could not configure {plan.source}", text, log)
    _warn_about_unused(plan, text)
    write_state(plan, configured=True)


def _compile(plan: BuildPlan, targets: Sequence[str], jobs: int | None, log: IO[str]) -> int:
    sink = output.current()
    steps = 0
    with sink.progress(f"building {plan.profile}", None) as bar:

        def follow(line: str) -> None:
            nonlocal steps
            step = buildlog.parse_step(line)
            if step is None:
                return
            done, total, what = step
            if buildlog.is_build_step(what):
                steps += 1
            bar.total(total)
            bar.advance(done - bar.done)

        finished = _run(plan, plan.build_argv(jobs, targets), log, follow)
    if finished.exit_code != 0:
        raise _failed(f"building {plan.profile} ({plan.build_type}) failed", finished.text, log)
    return steps


def _run(
    plan: BuildPlan, argv: Sequence[str], log: IO[str], on_line: Callable[[str], None]
) -> process.Completed:
    sink = output.current()
    log.write("$ " + process.show(argv) + "\n")

    def take(line: str) -> None:
        log.write(line + "\n")
        sink.detail(line)
        on_line(line)

    try:
        return process.stream(argv, take, env={**_ENVIRONMENT, **plan.toolchain.env})
    finally:
        log.flush()


def _failed(what: str, text: str, log: IO[str]) -> BuildError:
    evidence = buildlog.first_errors(text) or process.tail(text)
    # The log holds what configuring said, too.
    cause = buildlog.known_cause(Path(log.name).read_text("utf-8", "replace"))
    if cause is not None:
        evidence = f"{cause}\n{evidence}"
    hints = ["set QNN_SDK_ROOT, or: devkit qnn sdk install"] if cause is not None else []
    return BuildError(what, evidence=evidence, hints=[*hints, f"the whole log: {log.name}"])


def _check_targets(plan: BuildPlan, targets: Sequence[str]) -> None:
    if not targets:
        return
    known = (*fileapi.read_target_names(plan.build_dir), "all", "clean", "help", "install")
    for target in targets:
        if target not in known:
            near = difflib.get_close_matches(target, known, n=1, cutoff=0.5)
            raise UsageError(
                f"the project has no target {target!r} with these options",
                evidence="targets: " + ", ".join(known),
                hints=[f"did you mean {near[0]}?"] if near else (),
            )


def _check_products(artifacts: Sequence[Artifact], targets: Sequence[str], log: Path) -> None:
    missing = [a for a in artifacts if a.target in targets and not a.path.is_file()]
    if missing:
        raise BuildError(
            f"the build succeeded, but {missing[0].name} was not made",
            evidence="\n".join(f"{a.target}: {a.path} does not exist" for a in missing),
            hints=[f"the whole log: {log}", "devkit build --clean"],
        )


def _warn_about_unused(plan: BuildPlan, text: str) -> None:
    """A typo in -D is silent in CMake's noise; an option of a profile may just be newer or older."""
    for name in buildlog.unused_variables(text):
        if name not in plan.user_options:
            output.current().detail(f"this checkout has no option {name} (profile {plan.profile})")
            continue
        known = [n for n, (kind, _) in fileapi.read_cache(plan.build_dir).items() if kind == "BOOL"]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        output.current().warn(
            f"the project has no option {name}" + (f"; did you mean {near[0]}?" if near else "")
        )
