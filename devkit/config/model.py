"""What the settings are once they are read: frozen, typed, with their origins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.results import CustomParser, KnownFinding


@dataclass(frozen=True)
class FileMapping:
    """A local file or folder and its path on the phone, relative to the app's folder there.

    Attributes:
        local: may hold wildcards (*, ?, [, **) where nothing of that very name exists; `remote` is the folder
            for what they match then.
        exclude: what stays here: names, or paths relative to the folder, with wildcards.
    """

    local: Path
    remote: str
    exclude: tuple[str, ...] = ()

    @property
    def is_pattern(self) -> bool:
        """Whether `local` stands for all that match it."""
        return any(mark in str(self.local) for mark in "*?[") and not os.path.lexists(self.local)


@dataclass(frozen=True)
class AppConfig:
    """One entry of `apps:`."""

    name: str
    profile: str = "cpu"
    target: str | None = None
    files: tuple[FileMapping, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    backend: str = "none"
    cwd: str | None = None
    pull: tuple[str, ...] = ()
    stdin_end: str | None = None
    results: str | None = None


@dataclass(frozen=True)
class DeviceConfig:
    dir: str
    serial: str | None
    soc: str | None = None


@dataclass(frozen=True)
class AdbConfig:
    server: str | None
    path: Path | None


@dataclass(frozen=True)
class BuildConfig:
    type: str
    jobs: int | None
    api_level: int
    toolchain: str = "auto"


@dataclass(frozen=True)
class NdkConfig:
    path: Path | None
    version: str | None = None
    mirror: str | None = None


@dataclass(frozen=True)
class QnnConfig:
    path: Path | None = None
    version: str | None = None


@dataclass(frozen=True)
class DeployConfig:
    strip: str = "auto"


@dataclass(frozen=True)
class TunnelConfig:
    host: str | None = None


@dataclass(frozen=True)
class LldbConfig:
    path: Path | None
    server: Path | None
    input: str = "auto"


@dataclass(frozen=True)
class VscodeConfig:
    debugger: str = "codelldb"


@dataclass(frozen=True)
class Config:
    """Everything devkit was told, and by whom.

    `root` is the folder of devkit.yaml (else the working directory), `values` every key that has
    a value, `origins` the layer each of them came from, `parsers` the entries of `results:`, `findings`
    those of `findings:`, `bench` those of `bench:` by app.
    """

    root: Path
    project_file: Path | None
    engine: str | None
    source: Path
    device: DeviceConfig
    adb: AdbConfig
    build: BuildConfig
    ndk: NdkConfig
    lldb: LldbConfig
    profiles: Mapping[str, Mapping[str, Any]]
    apps: Mapping[str, AppConfig]
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    # The entries of `bench:`, by app.
    bench: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qnn: QnnConfig = field(default_factory=QnnConfig)
    deploy: DeployConfig = field(default_factory=DeployConfig)
    tunnel: TunnelConfig = field(default_factory=TunnelConfig)
    socs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parsers: tuple[CustomParser, ...] = ()
    findings: tuple[KnownFinding, ...] = ()
    vscode: VscodeConfig = field(default_factory=VscodeConfig)
    # The entries of `presets:`: about, and breakpoints as (place, why).
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
