"""From the user's configuration to profiles and plans."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.engine.detect import detect_engine
from devkit.engine.plan import BuildPlan, plan_build
from devkit.engine.profiles import Profile, get_profile, load_profiles
from devkit.engine.toolchain import DeviceFacts, Toolchain, resolve_toolchain
from devkit.errors import ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QNN_VARIABLES, find_qnn_sdk, warn_about_conflicts

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
    chosen = get_profile(profiles_for(config), profile)
    toolchain = resolve_toolchain(
        chosen,
        device=device,
        ndk_path=config.ndk.path,
        ndk_version=config.ndk.version,
        always_ndk=config.build.toolchain == "ndk",
        api_level=config.build.api_level,
    )
    options = dict(extra_options or {})
    together = {**chosen.options, **options}
    if _wants_qnn(together):
        toolchain, options["QNN_SDK_ROOT"] = _with_qnn(config, toolchain, together.get("QNN_SDK_ROOT"))
    configured = config.origins.get("build.type", "built-in") != "built-in"
    build_type = config.build.type if configured or chosen.type is None else chosen.type
    return plan_build(config.source, chosen, toolchain, build_type, extra_options=options, targets=targets)


def _wants_qnn(options: Mapping[str, str]) -> bool:
    return options.get("MNN_QNN", "OFF").upper() in ("ON", "1", "TRUE", "YES", "Y")


def _with_qnn(config: Config, toolchain: Toolchain, given: str | None) -> tuple[Toolchain, str]:
    """The toolchain with the SDK's variables, and the SDK's root.

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
    warn_about_conflicts(sdk)
    root = str(sdk.path)
    return replace(toolchain, env={**toolchain.env, **dict.fromkeys(QNN_VARIABLES, root)}), root
