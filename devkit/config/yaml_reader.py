"""Reads one devkit.yaml against the option tables, and names file and line of what is wrong in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.config.model import FileMapping
from devkit.config.options import NAMED_SECTIONS, OPTIONS, Option
from devkit.config.values import absolute, from_text, nearest
from devkit.errors import ConfigError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

    from devkit.results.custom import LinePattern

_EMPTY: dict[str, Any] = {"list": (), "files": (), "map": {}, "variables": {}, "regexes": (), "patterns": (),
                          "places": ()}  # fmt: skip


def read_file(file: Path) -> dict[str, tuple[Any, int]]:
    """All keys of one YAML file as dotted key → (value, line).

    Raises:
        ConfigError: it cannot be read or parsed, or a key or value is wrong.
    """
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
        named = NAMED_SECTIONS if not prefix else {}
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
        if option.kind in ("text", "path", "choice", "integer", "count"):
            text = self._scalar(node, full, "a single value")
            try:
                return from_text(option, text, full, self._file.parent)
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
        if option.kind == "regex":
            return self._regex(node, full)
        if option.kind == "regexes":
            return tuple(self._regex(item, full) for item in self._items(node, full))
        if option.kind == "patterns":
            return tuple(self._pattern(item, full) for item in self._items(node, full))
        if option.kind == "places":
            return tuple(self._place(item, full) for item in self._items(node, full))
        assert option.kind == "files"
        return tuple(self._file_mapping(item, full) for item in self._items(node, full))

    def _regex(self, node: Node, full: str) -> str:
        from devkit.results.custom import check_pattern

        text = self._scalar(node, full, "a regular expression")
        if problem := check_pattern(text):
            raise self._error(
                node, f"{full}: this is no regular expression: {problem}",
                hints=["in YAML single quotes keep every backslash as it is: '(?P<time>[\\d.]+) ms'"],
            )  # fmt: skip
        return text

    def _pattern(self, node: Node, full: str) -> LinePattern:
        from devkit.results.custom import LinePattern, check_line

        pattern, units, units_node = "", {}, node
        for key, key_node, value in self._pairs(node, full):
            if key == "pattern":
                pattern = self._regex(value, f"{full}: pattern")
            elif key == "units":
                pairs = self._pairs(value, f"{full}: units")
                units = {
                    name: "" if _is_null(unit) else self._scalar(unit, f"{full}: units: {name}", "a unit")
                    for name, _, unit in pairs
                }
                units_node = value
            else:
                raise self._unknown(f"{full}: {key}", key, ["pattern", "units"], key_node)
        if not pattern:
            raise self._error(node, f"{full}: an entry needs `pattern:`, a regular expression")
        if problem := check_line(pattern, units):
            raise self._error(units_node, f"{full}: {problem}")
        return LinePattern(pattern, units)

    def _place(self, node: Node, full: str) -> tuple[str, str]:
        """A place and why to stop there: `PLACE`, or `PLACE: why`."""
        from yaml.nodes import MappingNode

        if not isinstance(node, MappingNode):
            return self._scalar(node, full, "a list of places"), ""
        pairs = self._pairs(node, full)
        if len(pairs) != 1:
            raise self._error(node, f"{full}: an entry is one place, `- PLACE` or `- PLACE: why`")
        [(place, _, why)] = pairs
        return place, "" if _is_null(why) else self._scalar(why, f"{full}: {place}", "a text")

    def _file_mapping(self, node: Node, full: str) -> FileMapping:
        from yaml.nodes import ScalarNode

        exclude: tuple[str, ...] = ()
        if isinstance(node, ScalarNode):
            local, remote = node.value, None
        else:
            entry: dict[str, str] = {}
            for key, key_node, value in self._pairs(node, full):
                if key == "exclude":
                    items = [value] if isinstance(value, ScalarNode) else self._items(value, f"{full}: {key}")
                    exclude = tuple(
                        self._scalar(item, f"{full}: {key}", "a list of patterns") for item in items
                    )
                    continue
                if key not in ("local", "remote"):
                    raise self._unknown(f"{full}: {key}", key, ["local", "remote", "exclude"], key_node)
                entry[key] = self._scalar(value, f"{full}: {key}", "a path")
            if "local" not in entry:
                raise self._error(node, f"{full}: an entry needs `local:`, the file on this machine")
            local, remote = entry["local"], entry.get("remote")
        path = absolute(local, self._file.parent)
        mapping = FileMapping(path, "." if remote is None else remote, exclude)
        # What a pattern matches goes into the app's folder, a file or folder there under its own name.
        return mapping if remote is not None or mapping.is_pattern else replace(mapping, remote=path.name)

    def _pairs(self, node: Node, full: str) -> list[tuple[str, Node, Node]]:
        from yaml.nodes import MappingNode, ScalarNode

        if not isinstance(node, MappingNode):
            raise self._error(node, f"{full.rstrip('.')} must be a mapping (`key: value` lines)")
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


def _cmake_text(node: Node, text: str) -> str:
    # YAML 1.1 reads ON, yes and true as booleans; CMake understands ON and OFF.
    if node.tag == "tag:yaml.org,2002:bool":
        return "ON" if text.lower() in ("on", "yes", "true", "y") else "OFF"
    return text


def _is_null(node: Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
