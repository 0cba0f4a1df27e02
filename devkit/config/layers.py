"""The layers, last wins: built-in < user < project < environment < flag."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.config.model import (
    AdbConfig,
    AppConfig,
    BuildConfig,
    Config,
    DeployConfig,
    DeviceConfig,
    LldbConfig,
    NdkConfig,
    QnnConfig,
    TunnelConfig,
    VscodeConfig,
)
from devkit.config.options import NAMED_SECTIONS, OPTIONS
from devkit.config.values import from_text, nearest
from devkit.config.yaml_reader import read_file
from devkit.errors import ConfigError

if TYPE_CHECKING:
    from devkit.results import CustomParser, KnownFinding

PROJECT_FILE = "devkit.yaml"
_LAYERS = ("built-in", "user", "project", "environment", "flag")
_OWN_VARIABLES = ("DEVKIT_DEBUG", "DEVKIT_SIM_CONFINEMENT")


def find_project_file(start: Path) -> Path | None:
    """The devkit.yaml of `start` or of the nearest folder above it."""
    for folder in (start, *start.parents):
        candidate = folder / PROJECT_FILE
        # A folder above may be closed to this user.
        with contextlib.suppress(OSError):
            if candidate.is_file():
                return candidate
    return None


def load(
    start: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
) -> Config:
    """Read all layers.

    Args:
        start: where the search for devkit.yaml begins (default: the working directory).
        environ: variables (default: the process's).
        flags: key → (flag as the user typed it, value); None values are ignored.

    Raises:
        ConfigError: a file cannot be parsed, or a key or value is wrong; says file and line.
    """
    start = (start or Path.cwd()).absolute()
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in OPTIONS:
        if option.default is not None:
            values[option.key] = option.default
            origins[option.key] = "built-in"

    project_file = find_project_file(start)
    root = project_file.parent if project_file else start
    user_file = paths.config_dir() / "config.yaml"
    for layer, file in (("user", user_file), ("project", project_file)):
        if file is not None and file.is_file():
            for key, (value, line) in read_file(file).items():
                values[key] = value
                origins[key] = f"{layer} ({file}:{line})"

    for option in OPTIONS:
        text = environ.get(option.variable)
        if text:
            values[option.key] = from_text(option, text, option.variable, root)
            origins[option.key] = f"environment ({option.variable})"
    _warn_about_variables(environ)

    for key, (flag, value) in (flags or {}).items():
        if value is not None:
            option = next(o for o in OPTIONS if o.key == key)
            values[key] = from_text(option, str(value), flag, Path.cwd())
            origins[key] = f"flag ({flag})"
    return _freeze(root, project_file, values, origins)


def _freeze(root: Path, project_file: Path | None, values: dict[str, Any], origins: dict[str, str]) -> Config:
    source = Path(values["source"])
    named: dict[str, dict[str, dict[str, Any]]] = {section: {} for section in NAMED_SECTIONS}
    for key, value in values.items():
        section, _, rest = key.partition(".")
        if section in NAMED_SECTIONS:
            name, _, leaf = rest.rpartition(".")
            bucket = named[section].setdefault(name, {})
            if leaf:
                bucket[leaf] = value
    ndk_path, ndk_version = _path_or_version("ndk", values, origins)
    qnn_path, qnn_version = _path_or_version("qnn", values, origins)
    return Config(
        root=root,
        project_file=project_file,
        engine=values.get("engine"),
        source=source if source.is_absolute() else root / source,
        device=DeviceConfig(values["device.dir"], values.get("device.serial"), values.get("device.soc")),
        adb=AdbConfig(values.get("adb.server"), values.get("adb.path")),
        build=BuildConfig(
            values["build.type"],
            values.get("build.jobs"),
            values["build.api_level"],
            values["build.toolchain"],
        ),
        ndk=NdkConfig(ndk_path, ndk_version, values.get("ndk.mirror")),
        lldb=LldbConfig(values.get("lldb.path"), values.get("lldb.server"), values["lldb.input"]),
        profiles=named["profiles"],
        apps={name: AppConfig(name=name, **entry) for name, entry in named["apps"].items()},
        values=values,
        origins=origins,
        bench=named["bench"],
        qnn=QnnConfig(qnn_path, qnn_version),
        deploy=DeployConfig(values["deploy.strip"]),
        tunnel=TunnelConfig(values.get("tunnel.host")),
        socs=named["socs"],
        parsers=_parsers(named, origins),
        findings=_findings(named["findings"], origins),
        vscode=VscodeConfig(values["vscode.debugger"]),
        presets=named["presets"],
    )


def _parsers(
    named: Mapping[str, Mapping[str, Mapping[str, Any]]], origins: Mapping[str, str]
) -> tuple[CustomParser, ...]:
    """The user's parsers; those that apps name are looked up, so that a wrong name is told now."""
    wanted = {name: entry["results"] for name, entry in named["apps"].items() if entry.get("results")}
    if not named["results"] and not wanted:
        return ()
    from devkit.results import NO_PARSER, CustomParser, parser_names

    if NO_PARSER in named["results"]:
        place = origins[f"results.{NO_PARSER}."].partition("(")[2].rstrip(")")
        raise ConfigError(
            f"{place}: results: {NO_PARSER!r} cannot be a parser's name: it stands for no parser"
        )
    own = tuple(CustomParser(name=name, **entry) for name, entry in named["results"].items())
    known = [NO_PARSER, *named["results"], *parser_names()]
    for app, parser in wanted.items():
        if parser not in known:
            guess = nearest(parser, known)
            place = origins[f"apps.{app}.results"].partition("(")[2].rstrip(")")
            raise ConfigError(
                f"{place}: apps.{app}.results: there is no parser named {parser!r}",
                hints=[*([f"did you mean `{guess}`?"] if guess else []), "known: " + ", ".join(known)],
            )
    return own


def _findings(
    entries: Mapping[str, Mapping[str, Any]], origins: Mapping[str, str]
) -> tuple[KnownFinding, ...]:
    """The user's known findings."""
    if not entries:
        return ()
    from devkit.results import own_finding

    for name, entry in entries.items():
        for key in ("pattern", "meaning"):
            if not entry.get(key):
                place = origins[f"findings.{name}."].partition("(")[2].rstrip(")")
                raise ConfigError(f"{place}: findings.{name} needs `{key}:`")
    return tuple(own_finding(name, **entry) for name, entry in entries.items())


def _path_or_version(
    section: str, values: Mapping[str, Any], origins: Mapping[str, str]
) -> tuple[Path | None, str | None]:
    """An SDK's path and version. The later layer's word stands alone: a flag `--ndk r29` is not
    held against the path in a file, and a project's version not against the user's path."""
    path, version = f"{section}.path", f"{section}.version"
    if values.get(path) and values.get(version):
        ranks = [_LAYERS.index(origins[key].partition(" ")[0]) for key in (path, version)]
        if ranks[0] != ranks[1]:
            return (values[path], None) if ranks[0] > ranks[1] else (None, values[version])
    return values.get(path), values.get(version)


def _warn_about_variables(environ: Mapping[str, str]) -> None:
    known = [o.variable for o in OPTIONS]
    for name in environ:
        if name.startswith("DEVKIT_") and name not in known and name not in _OWN_VARIABLES:
            guess = nearest(name, known)
            suffix = f"; did you mean {guess}?" if guess else ""
            output.current().warn(f"the variable {name} is not one devkit reads{suffix}")
