"""From templates and facts to the entries that devkit wants in each file."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from devkit.vscode_templates.facts import Facts
from devkit.vscode_templates.jsonc import parse
from devkit.vscode_templates.merge import MARK, Slot

if TYPE_CHECKING:
    from jinja2 import Environment

JSON_FILES = ("settings.json", "launch.json", "tasks.json", "extensions.json")
# Where the elements of a list are entries of their own, and what tells them apart.
_LISTS = {
    "clangd.arguments": "flag",
    "cmake.configureArgs": "flag",
    "cmake.buildArgs": "flag",
    "configurations": "name",
    "tasks": "label",
    "inputs": "id",
    "recommendations": "text",
}
_OBJECTS = ("cmake.debugConfig",)
_OPTIONAL = ("version",)
# clangd takes this one any number of times; every other flag only once.
_BESIDE = ("--query-driver",)


def render_slots(name: str, facts: Facts) -> tuple[Slot, ...]:
    """The entries for one of JSON_FILES, in the template's order."""
    root = parse(render_text(name, facts)).root
    assert root is not None, name
    slots: list[Slot] = []
    for item in root.items:
        key = str(item.key)
        if key in _LISTS:
            slots += [_element(key, element.node.value) for element in item.node.items]
        elif key in _OBJECTS:
            slots += [Slot((key,), str(inner.key), inner.node.value) for inner in item.node.items]
        else:
            slots.append(Slot((), key, item.node.value, optional=key in _OPTIONAL))
    return tuple(slots)


def render_text(name: str, facts: Facts) -> str:
    """A template as text, with the facts in it."""
    return _environment().get_template(name + ".j2").render(facts.context(), mark=MARK)


def _element(key: str, value: Any) -> Slot:
    from devkit.vscode_templates.merge import flag_name

    kind = _LISTS[key]
    if kind == "flag":
        name = flag_name(value)
        return Slot((key,), name, value, "flag", beside=name in _BESIDE)
    return Slot((key,), value if kind == "text" else value[kind], value, kind)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("devkit.vscode_templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # JSON, not HTML: the json filter quotes
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment
