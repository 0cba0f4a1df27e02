"""devkit.yaml, the user's config, DEVKIT_* variables and flags, merged into one frozen Config.

Layers, last wins: built-in < user < project < environment < flag. The table OPTIONS is the one
source of keys, types, variables, help and documentation.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import ConfigError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

PROJECT_FILE = "devkit.yaml"
_LAYERS = ("built-in", "user", "project", "environment", "flag")
BUILD_TYPES = ("debug", "release")
BACKENDS = ("none", "cpu", "gpu", "htp")


@dataclass(frozen=True)
class Option:
    """One configuration key. `kind`: text, path, integer, choice, list, map, variables or files."""

    key: str
    kind: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "DEVKIT_" + self.key.upper().replace(".", "_")


OPTIONS = (
    Option("engine", "choice", "what is built: mnn, or cmake for any CMake project (default: detected)",
           choices=("mnn", "cmake")),
    Option("source", "path", "the engine's source folder", default="."),
    Option("device.dir", "text", "folder on the phone that devkit uses", default="/data/local/tmp/devkit"),
    Option("device.serial", "text", "serial of the phone to use, or sim:NAME"),
    Option("adb.server", "text", "address of the adb server, HOST:PORT"),
    Option("adb.path", "path", "the adb program"),
    Option("build.type", "choice", "build type", default="debug", choices=BUILD_TYPES),
    Option("build.jobs", "integer", "parallel compile jobs (default: the cores)"),
    Option("build.api_level", "integer", "Android API level to build for", default=24),
    Option("build.toolchain", "choice", "auto: the NDK for phones, this machine's compiler for virtual ones; "
           "ndk: the NDK for both", default="auto", choices=("auto", "ndk")),
    Option("ndk.path", "path", "the Android NDK"),
    Option("ndk.version", "text", "the NDK release to use (r27d, 27.3 or 27), wherever it is installed"),
    Option("ndk.mirror", "text", "URL of a folder with NDK archives, tried before Google's"),
    Option("qnn.path", "path", "the QNN (QAIRT) SDK"),
    Option("qnn.version", "text", "the QNN SDK version to use (2.42 or 2.42.0.251225)"),
    Option("lldb.path", "path", "the lldb program on this machine"),
    Option("lldb.server", "path", "the lldb-server file that is pushed to the phone"),
)  # fmt: skip

PROFILE_OPTIONS = (
    Option("extends", "text", "the profile it starts from"),
    Option("about", "text", "what it is for"),
    Option("options", "map", "CMake options, NAME: VALUE"),
    Option("type", "choice", "build type", choices=BUILD_TYPES),
    Option("target", "choice", "where its programs run", choices=("device", "host")),
    Option("targets", "list", "CMake targets to build (default: all)"),
)

APP_OPTIONS = (
    Option("profile", "text", "build profile", default="cpu"),
    Option("target", "text", "the executable: CMake target, file name or path (default: the app's name)"),
    Option("files", "files", "files and folders that travel along: {local: PATH, remote: PATH}"),
    Option("args", "list", "arguments when none are given after --"),
    Option("env", "variables", "environment variables on the phone"),
    Option("backend", "choice", "which QNN libraries travel along", default="none", choices=BACKENDS),
)

_NAMED = {"profiles": PROFILE_OPTIONS, "apps": APP_OPTIONS}


@dataclass(frozen=True)
class FileMapping:
    """A local file or folder and its path on the phone, relative to the app's folder there."""

    local: Path
    remote: str


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


@dataclass(frozen=True)
class DeviceConfig:
    dir: str
    serial: str | None


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
class LldbConfig:
    path: Path | None
    server: Path | None


@dataclass(frozen=True)
class Config:
    """Everything devkit was told, and by whom.

    `root` is the folder of devkit.yaml (else the working directory), `values` every key that has
    a value, `origins` the layer each of them came from.
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
    qnn: QnnConfig = field(default_factory=QnnConfig)


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
            for key, (value, line) in _read_file(file).items():
                values[key] = value
                origins[key] = f"{layer} ({file}:{line})"

    for option in OPTIONS:
        text = environ.get(option.variable)
        if text:
            values[option.key] = _from_text(option, text, option.variable, root)
            origins[option.key] = f"environment ({option.variable})"
    _warn_about_variables(environ)

    for key, (flag, value) in (flags or {}).items():
        if value is not None:
            option = next(o for o in OPTIONS if o.key == key)
            values[key] = _from_text(option, str(value), flag, Path.cwd())
            origins[key] = f"flag ({flag})"
    return _freeze(root, project_file, values, origins)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word a user most likely meant, or None when nothing is close."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return found[0] if found else None


def _freeze(root: Path, project_file: Path | None, values: dict[str, Any], origins: dict[str, str]) -> Config:
    source = Path(values["source"])
    profiles: dict[str, dict[str, Any]] = {}
    apps: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, rest = key.partition(".")
        if section in _NAMED:
            name, _, leaf = rest.rpartition(".")
            bucket = (profiles if section == "profiles" else apps).setdefault(name, {})
            if leaf:
                bucket[leaf] = value
    ndk_path, ndk_version = _path_or_version("ndk", values, origins)
    qnn_path, qnn_version = _path_or_version("qnn", values, origins)
    return Config(
        root=root,
        project_file=project_file,
        engine=values.get("engine"),
        source=source if source.is_absolute() else root / source,
        device=DeviceConfig(values["device.dir"], values.get("device.serial")),
        adb=AdbConfig(values.get("adb.server"), values.get("adb.path")),
        build=BuildConfig(
            values["build.type"],
            values.get("build.jobs"),
            values["build.api_level"],
            values["build.toolchain"],
        ),
        ndk=NdkConfig(ndk_path, ndk_version, values.get("ndk.mirror")),
        lldb=LldbConfig(values.get("lldb.path"), values.get("lldb.server")),
        profiles=profiles,
        apps={name: AppConfig(name=name, **entry) for name, entry in apps.items()},
        values=values,
        origins=origins,
        qnn=QnnConfig(qnn_path, qnn_version),
    )


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


def _read_file(file: Path) -> dict[str, tuple[Any, int]]:
    """All keys of one YAML file as dotted key → (value, line)."""
    import yaml

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read", evidence=str(error)) from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(
            f"{place} is not valid YAML",
            evidence=str(error).replace("<unicode string>", file.name),
            hints=[f"mend line {mark.line + 1} of {file}"] if mark else (),
        ) from None
    if root is None:
        return {}
    reader = _Reader(file)
    reader.section(root, "", OPTIONS)
    return reader.found


class _Reader:
    """Walks YAML nodes against the option tables, keeping line numbers."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.found: dict[str, tuple[Any, int]] = {}

    def section(self, node: Node, prefix: str, options: Sequence[Option]) -> None:
        """A mapping whose keys are options, or groups of options ('device' in 'device.dir')."""
        groups: dict[str, list[Option]] = {}
        leaves: dict[str, Option] = {}
        for option in options:
            head, _, rest = option.key.partition(".")
            if rest:
                groups.setdefault(head, []).append(option)
            else:
                leaves[head] = option
        named = _NAMED if not prefix else {}
        known = [*leaves, *groups, *named]
        for key, key_node, value in self._pairs(node, prefix or "the file"):
            full = prefix + key
            if key in leaves:
                self.found[full] = (self._value(leaves[key], value, full), _line(key_node))
            elif _is_null(value) and key in known:
                continue
            elif key in groups:
                inner = [
                    Option(o.key.partition(".")[2], o.kind, o.help, o.default, o.choices) for o in groups[key]
                ]
                self.section(value, full + ".", inner)
            elif key in named:
                self._named(value, key, named[key])
            else:
                raise self._unknown(full, key, known, key_node)

    def _named(self, node: Node, section: str, options: Sequence[Option]) -> None:
        for name, key_node, value in self._pairs(node, section):
            full = f"{section}.{name}"
            if not name or "." in name or "/" in name:
                raise self._error(
                    key_node,
                    f"{section}: {name!r} cannot be a name: it is empty, or holds a dot or a slash",
                    hints=["name the program itself with `target:`"] if section == "apps" else (),
                )
            self.found[full + "."] = (None, _line(key_node))
            if not _is_null(value):
                self.section(value, full + ".", options)

    def _value(self, option: Option, node: Node, full: str) -> Any:
        if _is_null(node):
            return _EMPTY.get(option.kind, option.default)
        if option.kind in ("text", "path", "choice", "integer"):
            text = self._scalar(node, full, "a single value")
            try:
                return _from_text(option, text, full, self._file.parent)
            except ConfigError as error:
                raise self._error(node, error.what, hints=error.hints) from None
        if option.kind == "list":
            return tuple(self._scalar(item, full, "a list of values") for item in self._items(node, full))
        if option.kind == "map":
            pairs = self._pairs(node, full)
            return {key: _cmake_text(value, self._scalar(value, f"{full}.{key}", "a value"))
                    for key, _, value in pairs}  # fmt: skip
        if option.kind == "variables":
            variables = self._pairs(node, full)
            for key, key_node, _ in variables:
                if not key or "=" in key or "\0" in key:
                    raise self._error(key_node, f"{full}: {key!r} cannot be the name of a variable")
            return {key: self._scalar(value, f"{full}.{key}", "a value") for key, _, value in variables}
        assert option.kind == "files"
        return tuple(self._file_mapping(item, full) for item in self._items(node, full))

    def _file_mapping(self, node: Node, full: str) -> FileMapping:
        from yaml.nodes import ScalarNode

        if isinstance(node, ScalarNode):
            local, remote = node.value, None
        else:
            entry: dict[str, str] = {}
            for key, key_node, value in self._pairs(node, full):
                if key not in ("local", "remote"):
                    raise self._unknown(f"{full}: {key}", key, ["local", "remote"], key_node)
                entry[key] = self._scalar(value, f"{full}: {key}", "a path")
            if "local" not in entry:
                raise self._error(node, f"{full}: an entry needs `local:`, the file on this machine")
            local, remote = entry["local"], entry.get("remote")
        path = _absolute(local, self._file.parent)
        return FileMapping(path, remote if remote is not None else path.name)

    def _pairs(self, node: Node, full: str) -> list[tuple[str, Node, Node]]:
        from yaml.nodes import MappingNode, ScalarNode

        if not isinstance(node, MappingNode):
            raise self._error(node, f"{full} must be a mapping (`key: value` lines)")
        mapping: MappingNode = node
        pairs: list[tuple[str, Node, Node]] = []
        seen: dict[str, int] = {}
        for key_node, value in mapping.value:
            if not isinstance(key_node, ScalarNode):
                raise self._error(key_node, f"{full}: a key must be plain text")
            if key_node.value in seen:
                first = seen[key_node.value]
                raise self._error(key_node, f"{key_node.value} is given twice (first on line {first})")
            seen[key_node.value] = _line(key_node)
            pairs.append((key_node.value, key_node, value))
        return pairs

    def _items(self, node: Node, full: str) -> list[Node]:
        from yaml.nodes import SequenceNode

        if not isinstance(node, SequenceNode):
            raise self._error(node, f"{full} must be a list (`- item` lines or [a, b])")
        return list(node.value)

    def _scalar(self, node: Node, full: str, wanted: str) -> str:
        from yaml.nodes import ScalarNode

        if not isinstance(node, ScalarNode):
            raise self._error(node, f"{full} must be {wanted}")
        # The text as written: a serial like 0123 must not turn into the number 83.
        return str(node.value)

    def _unknown(self, full: str, key: str, known: Sequence[str], node: Node) -> ConfigError:
        guess = nearest(key, known)
        hints = [f"did you mean `{guess}`?"] if guess else []
        return self._error(node, f"unknown key `{full}`", hints=[*hints, "known here: " + ", ".join(known)])

    def _error(self, node: Node, what: str, *, hints: Sequence[str] = ()) -> ConfigError:
        line = _line(node)
        return ConfigError(f"{self._file}:{line}: {what}", evidence=self._excerpt(line), hints=hints)

    def _excerpt(self, line: int) -> str:
        lines = self._file.read_text(encoding="utf-8-sig").splitlines()
        return lines[line - 1] if line <= len(lines) else ""


_EMPTY: dict[str, Any] = {"list": (), "files": (), "map": {}, "variables": {}}


def _from_text(option: Option, text: str, place: str, base: Path) -> Any:
    if option.kind == "integer":
        try:
            number = int(text)
        except ValueError:
            raise ConfigError(f"{place} must be a whole number, not {text!r}") from None
        if number < 1:
            raise ConfigError(f"{place} must be at least 1, not {number}")
        return number
    if option.kind == "choice" and text not in option.choices:
        guess = nearest(text, option.choices)
        raise ConfigError(
            f"{place} cannot be {text!r}",
            hints=[*([f"did you mean `{guess}`?"] if guess else []), "one of: " + ", ".join(option.choices)],
        )
    if option.kind == "path":
        return _absolute(text, base)
    return text


def _absolute(text: str, base: Path) -> Path:
    path = Path(os.path.expandvars(text)).expanduser()
    return path if path.is_absolute() else base / path


def _cmake_text(node: Node, text: str) -> str:
    # YAML 1.1 reads ON, yes and true as booleans; CMake understands ON and OFF.
    if node.tag == "tag:yaml.org,2002:bool":
        return "ON" if text.lower() in ("on", "yes", "true", "y") else "OFF"
    return text


def _is_null(node: Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


_OWN_VARIABLES = ("DEVKIT_DEBUG", "DEVKIT_SIM_CONFINEMENT")


def _warn_about_variables(environ: Mapping[str, str]) -> None:
    known = [o.variable for o in OPTIONS]
    for name in environ:
        if name.startswith("DEVKIT_") and name not in known and name not in _OWN_VARIABLES:
            guess = nearest(name, known)
            suffix = f"; did you mean {guess}?" if guess else ""
            output.current().warn(f"the variable {name} is not one devkit reads{suffix}")
