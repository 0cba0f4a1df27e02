"""One value in the user's config.yaml, changed so that every other byte of it stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import paths
from devkit.errors import ConfigError
from devkit.ndk.lock import changing

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

# What YAML wants escaped, or takes for the end of a line, and JSON does not escape.
_UNPRINTABLE = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def user_file() -> Path:
    """The user's config file."""
    return paths.config_dir() / "config.yaml"


def get_user_value(key: str) -> str | None:
    """The value of `section.key` in the user's file, None when it is not there or unreadable."""
    import yaml

    section, _, leaf = key.partition(".")
    try:
        loaded = yaml.safe_load(user_file().read_text("utf-8-sig"))
        value = loaded[section][leaf]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return None
    return None if value is None else str(value)


def choose_folder(
    section: str, folder: Path, *, is_version: Callable[[str], bool], dry_run: bool = False
) -> str | None:
    """Make the folder of an SDK the user's choice: `section.path`.

    A `section.version` beside it would go on choosing another one, so it goes if it does not mean
    this folder.

    Args:
        is_version: whether a version, as people write it, is that of the folder.
        dry_run: only look whether the file can be changed.

    Returns:
        The version that went.

    Raises:
        ConfigError: as `set_user_value`.
    """
    set_user_value(f"{section}.path", str(folder), dry_run=dry_run)
    version = get_user_value(f"{section}.version")
    if version is None or is_version(version):
        return None
    set_user_value(f"{section}.version", None, dry_run=dry_run)
    return version


def set_user_value(key: str, value: str | None, *, dry_run: bool = False) -> Path:
    """Write `section.key` into the user's file; None removes it. Comments and order stay,
    and so does what other devkits write at the same time.

    Args:
        dry_run: only look whether the file can be changed.

    Raises:
        ConfigError: the file is no YAML, or written in a way that cannot be edited safely; it is
            left alone, and the hint says what to write.
    """
    file = user_file()
    if dry_run:
        _set_value(file, key, value, dry_run=True)
    else:
        with changing(file):
            _set_value(file, key, value)
    return file


def _set_value(file: Path, key: str, value: str | None, *, dry_run: bool = False) -> None:
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            text = stream.read()
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(file, key, value, str(error)) from None
    section, _, leaf = key.partition(".")
    try:
        new = _edited(text, section, leaf, value)
        expected = _parsed(text)
        inner = dict(expected.get(section) or {})
        inner.pop(leaf, None)
        if value is not None:
            inner[leaf] = value
        before = {k: v for k, v in expected.items() if k != section}
        after = _parsed(new)
        # The proof: parsed, nothing but this value has changed.
        if {k: v for k, v in after.items() if k != section} != before or (after.get(section) or {}) != inner:
            raise ValueError("the file is written in a way that devkit does not edit")
    except ValueError as error:
        raise _refused(file, key, value, str(error)) from None
    if new != text and not dry_run:
        # A symlinked file (dotfiles) stays a symlink, and private files stay private.
        real = file.resolve()
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        paths.write_atomically(real, new.encode("utf-8"), mode=mode)


def _edited(text: str, section: str, leaf: str, value: str | None) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"{leaf}: {_scalar(value)}" if value is not None else None
    root = _compose(text)
    if root is None or section not in (names := {key.value: (key, node) for key, node in root.value}):
        if line is None:
            return text
        separator = newline if text and not text.endswith("\n") else ""
        return f"{text}{separator}{section}:{newline}  {line}{newline}"
    if root.flow_style:
        raise ValueError("the file is one { } mapping")
    key, node = names[section]
    if _is_empty(node):
        if line is None:
            return text
        end = _line_end(text, key.end_mark.index)
        return f"{text[:end]}{newline}{' ' * (key.start_mark.column + 2)}{line}{text[end:]}"
    if not hasattr(node, "flow_style") or node.flow_style or not isinstance(node.value, list):
        raise ValueError(f"{section} is not written as a block of lines")
    for inner_key, inner in node.value:
        if inner_key.value == leaf:
            return _replaced(text, inner_key, inner, value)
    if line is None:
        return text
    first = node.value[0][0].start_mark
    at = first.index
    return f"{text[:at]}{line}{newline}{' ' * first.column}{text[at:]}"


def _replaced(text: str, key: Node, node: Node, value: str | None) -> str:
    if not isinstance(node.value, str) or key.start_mark.line != node.end_mark.line:
        raise ValueError(f"{key.value} is no value on one line")
    if value is not None:
        return text[: node.start_mark.index] + _scalar(value) + text[node.end_mark.index :]
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    end = _line_end(text, node.end_mark.index)
    end += len("\r\n") if text.startswith("\r\n", end) else 1
    # A section left empty is fine, and keeps the comments around it.
    return text[:begin] + text[end:]


def _scalar(value: str) -> str:
    # JSON's quoting is YAML's too. Plain where YAML reads it back as it is: that is how people write paths.
    if re.fullmatch(r"/[/\w.+-]*", value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)


def _is_empty(node: Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    if end < 0:
        return len(text)
    return end - 1 if end and text[end - 1] == "\r" else end


def _compose(text: str) -> MappingNode | None:
    import yaml
    from yaml.nodes import MappingNode

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if root is not None and not isinstance(root, MappingNode):
        raise ValueError("the file is no mapping")
    return root


def _parsed(text: str) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError("the file is no mapping")
    return loaded


def _refused(file: Path, key: str, value: str | None, why: str) -> ConfigError:
    section, _, leaf = key.partition(".")
    wish = f"write into it: {section}: {{{leaf}: {_scalar(value)}}}" if value else f"remove {key} from it"
    return ConfigError(f"{file} was not changed", evidence=why, hints=[wish])
