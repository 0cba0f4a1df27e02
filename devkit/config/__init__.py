"""devkit.yaml, the user's config, DEVKIT_* variables and flags, merged into one frozen Config."""

from __future__ import annotations

from devkit.config.layers import PROJECT_FILE, find_project_file, load
from devkit.config.model import (
    AdbConfig,
    AppConfig,
    BuildConfig,
    Config,
    DeployConfig,
    DeviceConfig,
    FileMapping,
    LldbConfig,
    NdkConfig,
    QnnConfig,
    TunnelConfig,
    VscodeConfig,
)
from devkit.config.options import (
    APP_OPTIONS,
    BACKENDS,
    BUILD_TYPES,
    NAMED_SECTIONS,
    OPTIONS,
    PROFILE_OPTIONS,
    Option,
)
from devkit.config.values import nearest

__all__ = [
    "APP_OPTIONS",
    "BACKENDS",
    "BUILD_TYPES",
    "NAMED_SECTIONS",
    "OPTIONS",
    "PROFILE_OPTIONS",
    "PROJECT_FILE",
    "AdbConfig",
    "AppConfig",
    "BuildConfig",
    "Config",
    "DeployConfig",
    "DeviceConfig",
    "FileMapping",
    "LldbConfig",
    "NdkConfig",
    "Option",
    "QnnConfig",
    "TunnelConfig",
    "VscodeConfig",
    "find_project_file",
    "load",
    "nearest",
]
