"""What to build and how: profiles, toolchains, configure and build, artifacts."""

from __future__ import annotations

from devkit.config import BUILD_TYPES
from devkit.engine.build import BuildResult, build, check_plan, last_build, list_apps
from devkit.engine.choose import build_type_for, plan_for, profiles_for
from devkit.engine.cmake_tools import BuildTools, find_build_tools
from devkit.engine.detect import detect_engine
from devkit.engine.fileapi import Artifact
from devkit.engine.plan import BuildPlan, plan_build
from devkit.engine.profiles import Profile, get_profile, load_profiles
from devkit.engine.toolchain import (
    DEFAULT_ABI,
    DEFAULT_API_LEVEL,
    DeviceFacts,
    Toolchain,
    host_toolchain,
    ndk_toolchain,
    resolve_toolchain,
)

__all__ = [
    "BUILD_TYPES",
    "DEFAULT_ABI",
    "DEFAULT_API_LEVEL",
    "Artifact",
    "BuildPlan",
    "BuildResult",
    "BuildTools",
    "DeviceFacts",
    "Profile",
    "Toolchain",
    "build",
    "build_type_for",
    "check_plan",
    "detect_engine",
    "find_build_tools",
    "get_profile",
    "host_toolchain",
    "last_build",
    "list_apps",
    "load_profiles",
    "ndk_toolchain",
    "plan_build",
    "plan_for",
    "profiles_for",
    "resolve_toolchain",
]
