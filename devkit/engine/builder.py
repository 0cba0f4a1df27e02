"""Configure and compile what a plan says, and report what came out."""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import output, process
from devkit.engine import buildlog, checkout, editor_view, fileapi, products
from devkit.engine.build_stats import (
    STATS_LOG,
    CcacheStats,
    NinjaTimes,
    Step,
    ccache_environment,
    read_ccache,
)
from devkit.engine.buildfolder import (
    LOG_FILE,
    BuildLog,
    check_ours,
    empty_folder,
    fixed_differences,
    is_configured,
    locked,
    read_state,
    write_state,
)
from devkit.engine.diagnostics import Diagnostic, find_diagnostics, summarize
from devkit.engine.fileapi import Artifact
from devkit.engine.path_characters import check_folders, suspects
from devkit.engine.plan import BuildPlan
from devkit.engine.products import Product
from devkit.engine.sanitizer import check_sanitizer
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
        products: the same files looked at; empty for a build of earlier (`last_build`).
        warnings: what will surprise: options, downloads, products.
        diagnostics: what compilers, linkers and CMake warned of in this build.
        configure_s: seconds that cmake took, of elapsed_s.
        slowest: the slowest steps of this build, the slowest first.
        ccache: what ccache did in this build, or None.
    """

    build_dir: Path
    artifacts: tuple[Artifact, ...]
    compile_commands: Path | None
    elapsed_s: float
    configured: bool
    fresh: bool
    steps: int
    log: Path
    products: tuple[Product, ...] = ()
    warnings: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    configure_s: float = 0.0
    slowest: tuple[Step, ...] = ()
    ccache: CcacheStats | None = None

    def as_dict(self) -> dict[str, object]:
        """The result as `devkit build --json` prints it."""
        return {
            "build_dir": str(self.build_dir),
            "artifacts": [p.as_dict() for p in self.products],
            "compile_commands": str(self.compile_commands) if self.compile_commands else None,
            "elapsed_s": round(self.elapsed_s, 3),
            "configure_s": round(self.configure_s, 3),
            "configured": self.configured,
            "fresh": self.fresh,
            "steps": self.steps,
            "slowest": [{"output": s.output, "seconds": s.seconds} for s in self.slowest],
            "ccache": {"hits": self.ccache.hits, "misses": self.ccache.misses} if self.ccache else None,
            "warnings": list(self.warnings),
            "diagnostics": [d.as_dict() for d in self.diagnostics],
            "log": str(self.log),
        }


def build(
    plan: BuildPlan, *, targets: Sequence[str] = (), jobs: int | None = None, clean: bool = False
) -> BuildResult:
    """Configure if needed and compile; then look at what came out.

    Ctrl-C ends cmake and everything below it, and so does the death of this process; the next build
    waits for that end and goes on where it stopped.

    Args:
        targets: CMake targets instead of the plan's.
        jobs: parallel compile jobs (default: the plan's).
        clean: start with an empty folder.

    Raises:
        BuildError: no CMakeLists.txt, a folder that cannot be built in, configuring or compiling
            failed, a target's file is missing or for another machine, or the folder is not devkit's.
        ToolMissing: the compiler has no AddressSanitizer, and the profile wants it.
        UsageError: a target that the project does not have.
    """
    started = time.monotonic()
    if not (plan.source / "CMakeLists.txt").is_file():
        raise BuildError(
            f"{plan.source} holds no CMakeLists.txt",
            evidence=None if plan.source.is_dir() else "the folder does not exist",
            hints=["cd into the engine's source folder", "or set source in devkit.yaml"],
        )
    check_plan(plan)
    wanted = tuple(targets) or plan.targets
    with locked(plan.build_dir) as lock:
        fresh = _prepare_folder(plan, clean=clean)
        log = BuildLog(plan.build_dir / LOG_FILE)
        times = NinjaTimes(plan.build_dir)
        warnings: tuple[str, ...] = ()
        configured = not is_configured(plan)
        try:
            if configured:
                warnings = _configure(plan, log, lock)
            configure_s = time.monotonic() - started
            _check_targets(plan, wanted)
            steps = _compile(plan, wanted, jobs, log, lock)
        except KeyboardInterrupt:
            output.current().note(f"stopped; the next `devkit build {plan.profile.name}` goes on from here")
            raise
        finally:
            log.close()
        described = fileapi.read_targets(plan.build_dir)
        made = products.look_at(plan, described)
    found = products.check(plan, described, made, wanted, log.path)
    for warning in found:
        output.current().warn(warning)
    _refresh_editor(plan)
    database = plan.build_dir / "compile_commands.json"
    busy = configured or steps > 0
    return BuildResult(
        build_dir=plan.build_dir,
        artifacts=tuple(sorted((p.artifact for p in made), key=lambda artifact: artifact.target)),
        compile_commands=database if database.is_file() else None,
        elapsed_s=time.monotonic() - started,
        configured=configured,
        fresh=fresh,
        steps=steps,
        log=log.path,
        products=made,
        warnings=(*warnings, *found),
        diagnostics=find_diagnostics(log.text(), plan.build_dir) if busy else (),
        configure_s=configure_s if configured else 0.0,
        slowest=times.slowest() if steps else (),
        ccache=read_ccache(plan.build_dir) if plan.tools.launcher else None,
    )


def check_plan(plan: BuildPlan) -> None:
    """Refuse a plan that the tools cannot carry out, wherever it is shown or done.

    Raises:
        BuildError: a folder that cannot be built in.
    """
    check_folders(
        plan.tools.generator,
        {"the engine's source folder": plan.source, "the build folder": plan.build_dir},
        has_runpath=plan.toolchain.kind == "host",
    )


def last_build(plan: BuildPlan) -> BuildResult:
    """What the last build of this plan's folder left, without building.

    Raises:
        BuildError: it was never built.
    """
    state = read_state(plan.build_dir)
    if state is None or not state.configured:
        raise BuildError(
            f"{plan.profile.name} was never built for {plan.toolchain.tag} ({plan.build_type.name})",
            evidence=f"{plan.build_dir} is no finished build folder",
            hints=[f"devkit build {plan.profile.name}"],
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


def _configure(plan: BuildPlan, log: BuildLog, lock: int) -> tuple[str, ...]:
    """Run cmake; what it made of the options, as warnings that have been said."""
    sink = output.current()
    state = read_state(plan.build_dir)
    # An option that is no longer given would live on in the cache.
    dropped = [f"-U{name}" for name in (state.options if state else {}) if name not in plan.options]
    # Until it has succeeded the folder counts as not configured, whatever happens.
    write_state(plan, configured=False)
    check_sanitizer(plan)
    log.keep()
    sink.note(f"configuring {plan.name} with {plan.toolchain.description}")
    checkout.announce_downloads(plan)
    done = _run(plan, (*plan.configure, *dropped), log, lambda line: None, lock)
    _check_cache(plan, done.text, log)
    if done.exit_code != 0:
        raise _failed(plan, f"cmake could not configure {plan.source}", done.text, log)
    checkout.check_configured(plan, done.text)
    warnings = checkout.check_checkout(plan, done.text)
    for warning in warnings:
        sink.warn(warning)
    write_state(plan, configured=True)
    return warnings


def _compile(plan: BuildPlan, targets: Sequence[str], jobs: int | None, log: BuildLog, lock: int) -> int:
    sink = output.current()
    steps = 0
    with contextlib.suppress(FileNotFoundError):
        (plan.build_dir / STATS_LOG).unlink()
    with sink.progress(f"building {plan.profile.name}", None) as bar:

        def follow(line: str) -> None:
            nonlocal steps
            step = buildlog.parse_step(line)
            if step is None:
                return
            if steps == 0 and plan.jobs_why and jobs is None:
                sink.note(f"compiling with {plan.jobs_why} (-j sets it)")
            log.keep()
            done, total, what = step
            if buildlog.is_build_step(what):
                steps += 1
            bar.total(total)
            bar.advance(done - bar.done)

        finished = _run(plan, plan.build_argv(jobs, targets), log, follow, lock)
    # CMake runs again by itself when a CMakeLists.txt or the toolchain file has changed.
    _check_cache(plan, finished.text, log)
    if finished.exit_code != 0:
        raise _failed(plan, f"building {plan.name} failed", finished.text, log)
    return steps


def _check_cache(plan: BuildPlan, text: str, log: BuildLog) -> None:
    changed = buildlog.dropped_cache(text)
    if changed is None:
        return
    write_state(plan, configured=False, spoiled="what CMake made of the folder after dropping its cache")
    log.keep()
    raise BuildError(
        "CMake dropped its cache, and every option with it",
        evidence=f"it says that these have changed:\n{changed}",
        hints=[
            f"devkit build {plan.profile.name}   (starts with an empty folder)",
            f"the whole log: {log.path}",
        ],
    )


def _run(
    plan: BuildPlan, argv: Sequence[str], log: BuildLog, on_line: Callable[[str], None], lock: int
) -> process.Completed:
    sink = output.current()
    log.write("$ " + process.show(argv))

    def take(line: str) -> None:
        on_line(line)
        log.write(line)
        sink.detail(line)

    environment = {**_ENVIRONMENT, **ccache_environment(plan.build_dir), **plan.toolchain.env}
    return process.stream(argv, take, env=environment, hold=[lock])


def _failed(plan: BuildPlan, what: str, text: str, log: BuildLog) -> BuildError:
    log.keep()
    shown = buildlog.first_errors(text) or process.tail(text)
    diagnostics = find_diagnostics(text, plan.build_dir)
    # The first ones as the tools print them, of the others file and line.
    others = [d for d in diagnostics if d.severity == "error" and d.message not in shown]
    lines = [shown, *summarize(others, plan.source, "error", more=True)]
    lines += summarize(diagnostics, plan.source, "warning", shown=0)
    # The log holds what configuring said, too.
    cause = buildlog.known_cause(log.text())
    hints = ["set QNN_SDK_ROOT, or: devkit qnn sdk install"] if cause is not None else []
    evidence = "\n".join([*([cause] if cause else []), *lines])
    odd = suspects(plan.build_dir)
    if odd:
        hints.append(f"many projects cannot be built below a folder with {', '.join(odd)} in its name")
    return BuildError(what, evidence=evidence, hints=[*hints, f"the whole log: {log.path}"])


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
