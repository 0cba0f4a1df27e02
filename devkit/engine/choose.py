"""From the user's configuration to profiles and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from devkit.engine.detect import detect_engine
from devkit.engine.plan import BuildPlan, plan_build
from devkit.engine.profiles import Profile, get_profile, load_profiles
from devkit.engine.toolchain import DeviceFacts, resolve_toolchain
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config


def profiles_for(config: Config) -> dict[str, Profile]:
    """The profiles of the configured engine, else of the one in the source folder."""
    engine = config.engine or detect_engine(config.source) or "cmake"
    return load_profiles(engine, config.profiles)


def plan_for(
    config: Config,
    profile: str,
    *,
    device: DeviceFacts | None = None,
    extra_options: Mapping[str, str] | None = None,
    targets: Sequence[str] = (),
) -> BuildPlan:
    """Plan a build of the configured engine.

    A build type that anybody set (file, variable, flag) wins over the profile's own.

    Raises:
        UsageError: no such profile, or no engine in the source folder.
        ConfigError: a profile in devkit.yaml is wrong.
        ToolMissing: a compiler, an NDK or cmake is missing.
    """
    if not (config.source / "CMakeLists.txt").is_file():
        raise UsageError(
            f"there is no engine to build in {config.source}",
            evidence="it holds no CMakeLists.txt",
            hints=[
                "cd into the engine's source folder (devkit init writes its devkit.yaml)",
                "or name it: source: in devkit.yaml",
            ],
        )
    chosen = get_profile(profiles_for(config), profile)
    toolchain = resolve_toolchain(
        chosen,
        device=device,
        ndk_path=config.ndk.path,
        ndk_version=config.ndk.version,
        always_ndk=config.build.toolchain == "ndk",
        api_level=config.build.api_level,
    )
    configured = config.origins.get("build.type", "built-in") != "built-in"
    build_type = config.build.type if configured or chosen.type is None else chosen.type
    return plan_build(
        config.source, chosen, toolchain, build_type, extra_options=extra_options, targets=targets
    )
