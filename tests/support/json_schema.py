"""As much of JSON Schema as the schemas of tests/data/vscode use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {"$comment", "$defs", "type", "enum", "pattern", "items", "properties", "required", "anyOf"}
_KNOWN |= {"additionalProperties"}


def faults(value: Any, schema: dict[str, Any], path: str = "$") -> list[str]:
    """What is wrong with a value, a line each."""
    assert set(schema) <= _KNOWN, f"this checker does not know {set(schema) - _KNOWN}"
    return list(_faults(value, schema, path))


def _faults(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is(value, name) for name in types):
            yield f"{path} is no {' or '.join(types)}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is {value!r}, not one of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path} is {value!r}, not {schema['pattern']}"
    if "anyOf" in schema and all(faults(value, option, path) for option in schema["anyOf"]):
        yield f"{path} is none of what it may be"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path} has no {name!r}"
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from faults(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in schema.get("properties", ()):
                yield from faults(item, schema["properties"][name], f"{path}.{name}")
            elif others is False:
                yield f"{path} knows no {name!r}"
            elif isinstance(others, dict):
                yield from faults(item, others, f"{path}.{name}")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])
