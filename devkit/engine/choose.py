"""From the user's configuration to profiles and plans."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from devkit import paths
from devkit.engine.build_types import get_build_type
from devkit.engine.cmake_tools import BuildTools, find_build_tools
from devkit.engine.detect import detect_engine
from devkit.engine.jobs import jobs_for
from devkit.engine.plan import BuildPlan, plan_build
from devkit.engine.profiles import Profile, get_profile, is_on, load_profiles
from devkit.engine.requirements import check_version, needed
from devkit.engine.toolchain import DEFAULT_ABI, DeviceFacts, Toolchain, host_abi, resolve_toolchain
from devkit.errors import DevkitError, ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QNN_VARIABLES, find_qnn_sdk, warn_about_conflicts

if TYPE_CHECKING:
    from devkit.config import Config

T = TypeVar("T")
# Options that name a folder which CMake silently does without.
_PATH_OPTIONS = ("KLEIDIAI_SRC_DIR",)
_UNKNOWN_TOOLS = BuildTools(Path("cmake"), "", "Ninja", Path("ninja"))


def profiles_for(config: Config) -> dict[str, Profile]:
    """The profiles of the configured engine, else of the one in the source folder."""
    engine = config.engine or detect_engine(config.source) or "cmake"
    return load_profiles(engine, config.profiles)


def build_type_for(config: Config, profile: Profile) -> str:
    """The build type of a profile: a flag's or variable's, else its own, else a file's."""
    layer = config.origins.get("build.type", "built-in").partition(" ")[0]
    return config.build.type if profile.type is None or layer in ("flag", "environment") else profile.type


def plan_for(
    config: Config,
    profile: str,
    *,
    device: DeviceFacts | None = None,
    extra_options: Mapping[str, str] | None = None,
    targets: Sequence[str] = (),
    missing: list[DevkitError] | None = None,
) -> BuildPlan:
    """Plan a build of the configured engine.

    A build type of a flag or variable wins over the profile's own, and that over one in a file.

    Args:
        missing: collects SDKs and tools that are not here, and the plan names variables in their
            place (`devkit build --explain`); None raises.

    Raises:
        UsageError: no such profile, or no engine in the source folder.
        ConfigError: a profile in devkit.yaml is wrong.
        ToolMissing: a compiler, an NDK, a QNN SDK or cmake is missing or too old.
    """
    _check_source(config)
    chosen = get_profile(profiles_for(config), profile)
    toolchain = _or_placeholder(
        lambda: _toolchain(config, chosen, device), _unknown_toolchain(config, chosen), missing
    )
    options, reasons = dict(extra_options or {}), {}
    together = {**chosen.options, **options}
    for name in _PATH_OPTIONS:
        if together.get(name):
            options[name] = _folder(name, together[name])
            if name not in (extra_options or {}):
                reasons[name] = chosen.why.get(name) or "devkit.yaml"
    if _wants_qnn(together):
        given = together.get("QNN_SDK_ROOT")
        fallback = "$QNN_SDK_ROOT", "the QNN SDK, which was not found"
        root, reason = _or_placeholder(lambda: _qnn_root(config, chosen, given), fallback, missing)
        options["QNN_SDK_ROOT"], reasons["QNN_SDK_ROOT"] = root, reason
        toolchain = replace(toolchain, env={**toolchain.env, **dict.fromkeys(QNN_VARIABLES, root)})
    elif needed(chosen.needs, "qnn"):
        # A project of one's own: how it takes the SDK's folder is its affair, the variable is the usual way.
        fallback = "$QNN_SDK_ROOT", "the QNN SDK, which was not found"
        root, _ = _or_placeholder(lambda: _qnn_root(config, chosen, None), fallback, missing)
        toolchain = replace(
            toolchain,
            env={**toolchain.env, **dict.fromkeys(QNN_VARIABLES, root)},
            # CMake remembers what it has read of the environment.
            fingerprint=hashlib.sha256(f"{toolchain.fingerprint}\n{root}".encode()).hexdigest()[:16],
        )
    build_type = build_type_for(config, chosen)
    jobs = jobs_for(get_build_type(build_type))
    plan = plan_build(
        config.source,
        chosen,
        toolchain,
        build_type,
        extra_options=options,
        targets=targets,
        tools=_or_placeholder(find_build_tools, _UNKNOWN_TOOLS, missing),
        reasons=reasons,
        jobs=config.build.jobs or jobs.count,
    )
    return plan if config.build.jobs else replace(plan, jobs_why=jobs.why)


def _check_source(config: Config) -> None:
    if not config.source.is_dir():
        raise UsageError(
            f"the engine's source folder {config.source} does not exist",
            evidence=f"source: {config.origins.get('source', 'built-in')}",
            hints=["correct source: in devkit.yaml", "devkit config show --origin"],
        )
    if not (config.source / "CMakeLists.txt").is_file():
        raise UsageError(
            f"there is no engine to build in {config.source}",
            evidence="it holds no CMakeLists.txt",
            hints=[
                "cd into the engine's source folder (devkit init writes its devkit.yaml)",
                "or name it: source: in devkit.yaml",
            ],
        )


def _toolchain(config: Config, profile: Profile, device: DeviceFacts | None) -> Toolchain:
    found = resolve_toolchain(
        profile,
        device=device,
        ndk_path=config.ndk.path,
        ndk_version=config.ndk.version,
        always_ndk=config.build.toolchain == "ndk",
        api_level=config.build.api_level,
    )
    if found.kind == "ndk":
        check_version(
            profile.needs, "ndk", found.version, profile=profile.name, where=found.description,
            hint="devkit ndk install r27d",
        )  # fmt: skip
    return found


def _unknown_toolchain(config: Config, profile: Profile) -> Toolchain:
    """What stands in a plan for a toolchain that is not here."""
    if profile.target == "host":
        arguments = {"CMAKE_C_COMPILER": "$CC", "CMAKE_CXX_COMPILER": "$CXX"}
        return Toolchain("host", host_abi(), host_abi(), None, arguments, description="no compiler")
    arguments = {
        "CMAKE_TOOLCHAIN_FILE": "$ANDROID_NDK/build/cmake/android.toolchain.cmake",
        "ANDROID_ABI": DEFAULT_ABI,
        "ANDROID_PLATFORM": f"android-{config.build.api_level}",
        "ANDROID_STL": "c++_shared",
    }
    level = config.build.api_level
    return Toolchain("ndk", DEFAULT_ABI, DEFAULT_ABI, level, arguments, description="no NDK")


def _or_placeholder(find: Callable[[], T], placeholder: T, missing: list[DevkitError] | None) -> T:
    try:
        return find()
    except ToolMissing as error:
        if missing is None:
            raise
        missing.append(error)
        return placeholder


def _wants_qnn(options: Mapping[str, str]) -> bool:
    return is_on(options.get("MNN_QNN"))


def _folder(name: str, value: str) -> str:
    """A folder that an option names; CMake would not expand ~, and would go on without it.

    Raises:
        UsageError: it does not exist.
    """
    folder = paths.expand_user(value)
    if not folder.is_dir():
        raise UsageError(
            f"{name} names no folder",
            evidence=f"{folder} does not exist, and CMake would go on without it",
            hints=[f"-D {name}=DIR", "or take it out, in devkit.yaml or on the command line"],
        )
    return str(folder.absolute())


def _qnn_root(config: Config, profile: Profile, given: str | None) -> tuple[str, str]:
    """The SDK's root, and why it is that one.

    MNN configures without an SDK and fails minutes later on a missing header: it is found first.
    """
    explicit = Path(given) if given else config.qnn.path
    version = None if given else config.qnn.version
    try:
        sdk = find_qnn_sdk(explicit, version=version)
    except ToolMissing as error:
        if explicit or version or any(os.environ.get(name) for name in QNN_VARIABLES):
            raise
        what = f"QNN build wanted but {QNN_VARIABLES[0]} is not set"
        raise ToolMissing(what, evidence=error.evidence, hints=error.hints) from None
    check_version(
        profile.needs, "qnn", sdk.version, profile=profile.name, where=f"{sdk.path} ({sdk.origin})",
        hint="devkit qnn sdk install 2.42.0.251225",
    )  # fmt: skip
    warn_about_conflicts(sdk)
    return str(
        sdk.path
    ), f"QNN SDK {sdk.version}, named by {sdk.origin}; MNN configures without one and fails later"
