"""What is wrong with a value, by a JSON schema."""

from __future__ import annotations

from typing import Any

from jsonschema.validators import validator_for


def faults(value: Any, schema: dict[str, Any]) -> list[str]:
    """A line for each fault, with the place of it."""
    validator = validator_for(schema)
    validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(value)]
