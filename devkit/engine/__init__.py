"""What to build and how: profiles, toolchains, configure and build, artifacts.

The public face is loaded on first use, so that a command pays only for what it touches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.config import BUILD_TYPES
    from devkit.engine.builder import BuildResult, build, check_plan, last_build, list_apps
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

_HOME = {
    "Artifact": "devkit.engine.fileapi",
    "BUILD_TYPES": "devkit.config",
    "BuildPlan": "devkit.engine.plan",
    "BuildResult": "devkit.engine.builder",
    "BuildTools": "devkit.engine.cmake_tools",
    "DEFAULT_ABI": "devkit.engine.toolchain",
    "DEFAULT_API_LEVEL": "devkit.engine.toolchain",
    "DeviceFacts": "devkit.engine.toolchain",
    "Profile": "devkit.engine.profiles",
    "Toolchain": "devkit.engine.toolchain",
    "build": "devkit.engine.builder",
    "build_type_for": "devkit.engine.choose",
    "check_plan": "devkit.engine.builder",
    "detect_engine": "devkit.engine.detect",
    "find_build_tools": "devkit.engine.cmake_tools",
    "get_profile": "devkit.engine.profiles",
    "host_toolchain": "devkit.engine.toolchain",
    "last_build": "devkit.engine.builder",
    "list_apps": "devkit.engine.builder",
    "load_profiles": "devkit.engine.profiles",
    "ndk_toolchain": "devkit.engine.toolchain",
    "plan_build": "devkit.engine.plan",
    "plan_for": "devkit.engine.choose",
    "profiles_for": "devkit.engine.choose",
    "resolve_toolchain": "devkit.engine.toolchain",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
