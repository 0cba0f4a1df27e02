"""A build as data: folder, CMake's command lines, and what forces an empty folder."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit import process
from devkit.engine.build_types import BuildType, get_build_type
from devkit.engine.cmake_tools import BuildTools, find_build_tools
from devkit.engine.profiles import Profile
from devkit.engine.toolchain import Toolchain
from devkit.errors import UsageError

BUILD_ROOT = Path("build", "devkit")  # below the source folder

# Cache entries that CMake cannot change in a folder that is configured already.
_FIXED_OPTION = re.compile(
    r"ANDROID_(ABI|PLATFORM|STL|NDK)|CMAKE_(TOOLCHAIN_FILE|GENERATOR\w*|SYSTEM_\w+|SYSROOT|(C|CXX|ASM)_COMPILER)"
)
_NAME = re.compile(r"[A-Za-z_][\w.+-]*")


@dataclass(frozen=True)
class BuildPlan:
    """What `build` will do.

    Attributes:
        options: CMake cache entries of profile and command line, without the toolchain's.
        user_options: those that the user wrote, whose typos deserve a warning.
        targets: CMake targets; none means all.
        entries: every CMake cache entry of `configure`, in its order.
        why: the reason of those entries that profile, build type or caller gave.
        configure: cmake's command line.
        fixed: what CMake cannot change in place; a difference needs an empty folder.
        jobs: parallel compile jobs; None leaves it to the build program.
        jobs_why: why they are fewer than the cores; empty when they are not.
    """

    source: Path
    build_dir: Path
    profile: Profile
    build_type: BuildType
    toolchain: Toolchain
    tools: BuildTools
    options: Mapping[str, str]
    user_options: frozenset[str]
    targets: tuple[str, ...]
    configure: tuple[str, ...]
    entries: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    jobs: int | None = None
    jobs_why: str = ""

    @property
    def name(self) -> str:
        """'cpu (debug)', for messages."""
        return f"{self.profile.name} ({self.build_type.name})"

    @property
    def fingerprint(self) -> str:
        """Equal when a configured folder can be used without configuring again."""
        content = json.dumps([self.fixed, self.configure], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def build_argv(self, jobs: int | None = None, targets: Sequence[str] = ()) -> tuple[str, ...]:
        """The command line that compiles. ninja uses all cores by itself, make must be told."""
        words = [str(self.tools.cmake), "--build", str(self.build_dir)]
        jobs = jobs or self.jobs
        if jobs is not None:
            words += ["--parallel", str(jobs)]
        elif self.tools.generator != "Ninja":
            words += ["--parallel"]
        wanted = tuple(targets) or self.targets
        return (*words, *(["--target", *wanted] if wanted else []))

    def command_lines(self) -> tuple[str, ...]:
        """The lines behind it, for copying into a shell."""
        prefix = "".join(f"{name}={shlex.quote(value)} " for name, value in self.toolchain.env.items())
        return prefix + process.show(self.configure), prefix + process.show(self.build_argv())

    def as_dict(self) -> dict[str, object]:
        """The plan as `--dry-run --json` prints it."""
        return {
            "profile": self.profile.name,
            "type": self.build_type.name,
            "source": str(self.source),
            "build_dir": str(self.build_dir),
            "toolchain": self.toolchain.description,
            "abi": self.toolchain.abi,
            "api_level": self.toolchain.api_level,
            "options": dict(self.options),
            "targets": list(self.targets),
            "configure": list(self.configure),
            "build": list(self.build_argv()),
            "environment": dict(self.toolchain.env),
            "fingerprint": self.fingerprint,
        }


def plan_build(
    source: Path,
    profile: Profile,
    toolchain: Toolchain,
    build_type: str,
    *,
    extra_options: Mapping[str, str] | None = None,
    targets: Sequence[str] = (),
    build_root: Path | None = None,
    tools: BuildTools | None = None,
    reasons: Mapping[str, str] | None = None,
    jobs: int | None = None,
) -> BuildPlan:
    """Plan a build. Touches nothing.

    Args:
        build_type: a name of build_types.yaml: debug, release, profile, relwithdebinfo.
        extra_options: cache entries of the command line; they win over the profile's.
        targets: CMake targets instead of the profile's.
        build_root: where build folders lie (default: `build/devkit` of the source folder).
        tools: cmake and ninja (default: found now).
        reasons: why `extra_options` are there, for those that the user did not write.
        jobs: parallel compile jobs.

    Raises:
        UsageError: an unknown build type, or an option's name is none.
        ToolMissing: no cmake, or neither ninja nor make.
    """
    kind = get_build_type(build_type)
    tools = tools or find_build_tools()
    source = source.absolute()
    extra = dict(extra_options or {})
    options = {**profile.options, **extra}
    for name in options:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a CMake option", hints=["-D NAME=VALUE"])
    build_dir = (build_root or source / BUILD_ROOT) / f"{profile.name}-{toolchain.tag}-{build_type}"
    typed = kind.entries()
    entries = {
        "CMAKE_MAKE_PROGRAM": str(tools.make_program),
        **{name: value for name, (value, _) in typed.items()},
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        **toolchain.cmake_args,
        **_launchers(tools),
        **options,
    }
    why = {name: reason for name, (_, reason) in typed.items()}
    why |= {name: profile.why.get(name) or "devkit.yaml" for name in profile.options}
    why |= {name: (reasons or {}).get(name, "given with -D") for name in extra}
    fixed = {
        "source folder": str(source),
        "build folder": str(build_dir),
        "generator": tools.generator,
        "toolchain": toolchain.description,
        "toolchain's files": toolchain.fingerprint,
        "ABI": toolchain.abi,
        "API level": str(toolchain.api_level or ""),
        **{name: value for name, value in entries.items() if _FIXED_OPTION.fullmatch(name)},
    }
    return BuildPlan(
        source=source,
        build_dir=build_dir,
        profile=profile,
        build_type=kind,
        toolchain=toolchain,
        tools=tools,
        options=options,
        user_options=profile.user_options | (frozenset(extra) - frozenset(reasons or ())),
        targets=tuple(targets) or profile.targets,
        configure=(
            str(tools.cmake),
            *("-S", str(source), "-B", str(build_dir), "-G", tools.generator),
            *(f"-D{name}={value}" for name, value in entries.items()),
        ),
        entries=entries,
        why=why,
        fixed=fixed,
        jobs=jobs,
    )


def _launchers(tools: BuildTools) -> dict[str, str]:
    if tools.launcher is None:
        return {}
    return {f"CMAKE_{language}_COMPILER_LAUNCHER": str(tools.launcher) for language in ("C", "CXX")}
