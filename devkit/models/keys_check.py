"""Config keys: unknown ones, values the engine reads as something else, settings that contradict."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from devkit.config import nearest
from devkit.models.findings import ERROR, NOTE, WARNING, Finding
from devkit.models.folder import ModelConfig
from devkit.models.keys import Key, Table, load_table

# What the engine gets from a value of another type (json_getter of ujson.hpp).
_EMPTY = {
    "text": '""',
    "file": '""',
    "integer": "0",
    "number": "0",
    "boolean": "false",
    "list": "an empty list",
}
_HUGGING_FACE = ("architectures", "transformers_version", "torch_dtype")
_JINJA = ("chat_template", "bos", "eos", "context")
_SAMPLERS = ("penalty", "topK", "topP", "minP", "min_p", "tfs", "typical", "temperature", "greedy")


def check_keys(config: ModelConfig) -> list[Finding]:
    """All findings about keys and values of one config and its llm_config.json."""
    table = load_table()
    if any(key in config.own for key in _HUGGING_FACE) and "llm_model" not in config.own:
        return [
            Finding(
                ERROR, config.name, None,
                "this is the config of the original (Hugging Face) model, not of one exported for MNN",
                "export it: transformers/llm/export/llmexport.py --path DIR --export mnn",
            )
        ]  # fmt: skip
    found: list[Finding] = []
    for name, content in ((config.name, config.own), (config.model_name, config.model)):
        found += _check_object(content, name, table, "")
        inner = content.get("mllm")
        if isinstance(inner, dict):
            found += _check_object(inner, name, table, "mllm.")
        jinja = content.get("jinja")
        if isinstance(jinja, dict):
            found += [_unknown(name, f"jinja.{key}", key, list(_JINJA)) for key in jinja if key not in _JINJA]
    found += _overridden(config)
    found += _threads(config)
    found += _samplers(config)
    return found


def _check_object(content: Mapping[str, Any], name: str, table: Table, prefix: str) -> list[Finding]:
    known = {key: fact for key, fact in table.keys.items() if fact.mllm} if prefix else table.keys
    found: list[Finding] = []
    for key, value in content.items():
        fact = known.get(key)
        if fact is not None:
            found += _check_value(fact, prefix + key, value, name)
        elif prefix and key in table.keys:
            found.append(
                Finding(
                    WARNING, name, prefix + key, f"{key} is not read below mllm",
                    f"move it out of mllm; read there: {', '.join(known)}",
                )
            )  # fmt: skip
        elif key not in table.others:
            found.append(_unknown(name, prefix + key, key, list(known)))
    return found


def _unknown(name: str, full: str, key: str, known: list[str]) -> Finding:
    guess = _guess(key, known)
    if guess is not None and _close(key, guess):
        return Finding(WARNING, name, full, f"MNN reads no key {key}", f"did you mean {guess}?")
    return Finding(NOTE, name, full, f"MNN reads no key {key}; it has no effect in the engine")


def _guess(word: str, known: Sequence[str]) -> str | None:
    """The known word that was meant; case, `_` and `-` count for nothing (top_k and topK are both there)."""
    plain = {_plain(name): name for name in reversed(known)}
    return plain.get(_plain(word)) or nearest(word, known)


def _close(key: str, guess: str) -> bool:
    """Whether it is a slip of the pen, a letter or two, and not another word."""
    return difflib.SequenceMatcher(None, _plain(key), _plain(guess)).ratio() >= 0.8


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _check_value(fact: Key, key: str, value: Any, name: str) -> list[Finding]:
    if fact.type == "any":
        return []
    shown = json.dumps(value, ensure_ascii=False)
    if not _fits(fact.type, value):
        takes = _EMPTY.get(fact.type)
        # Where "false" becomes false and "" becomes "", the engine does by accident what was meant.
        harmless = value is None or (fact.type == "boolean" and str(value).lower() in ("false", "0"))
        then = f"; the engine takes {takes}, not the default" if takes else ""
        return [
            Finding(
                WARNING if harmless else ERROR, name, key,
                f"{key} is {_kind(value)} ({shown}), but {_named(fact.type)} is read{then}",
                _instead(fact, value),
            )
        ]  # fmt: skip
    found: list[Finding] = []
    if fact.replaced_by:
        found.append(Finding(NOTE, name, key, f"{key} is deprecated", f"use {fact.replaced_by}"))
    if fact.choices and value not in fact.choices:
        guess = _guess(value, fact.choices)
        known = ", ".join(choice for choice in fact.choices if choice)
        found.append(
            Finding(
                ERROR if fact.name in ("backend_type", "speculative_type") else WARNING, name, key,
                f"{key} cannot be {shown}{_effect(fact)}",
                (f"did you mean {guess}? " if guess else "") + f"one of: {known}",
            )
        )  # fmt: skip
    return found


def _effect(fact: Key) -> str:
    if fact.name == "backend_type":
        return "; the engine then takes any backend that is not the CPU, or the CPU"
    return ""


def _fits(kind: str, value: Any) -> bool:
    if kind in ("text", "file"):
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "list":
        return isinstance(value, list)
    return isinstance(value, dict)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def _named(kind: str) -> str:
    return {
        "text": "a text", "file": "a file name", "boolean": "true or false", "integer": "a whole number",
        "number": "a number", "list": "a list", "map": "an object",
    }[kind]  # fmt: skip


def _instead(fact: Key, value: Any) -> str:
    """What was most likely meant, as it must be written."""
    text = str(value).strip().lower()
    if fact.type == "boolean" and text in ("true", "false", "0", "1", "on", "off"):
        return f'write "{fact.name}": {"true" if text in ("true", "1", "on") else "false"}'
    if fact.type in ("integer", "number"):
        try:
            number = float(text)
        except ValueError:
            return ""
        if number == number and abs(number) != float("inf"):
            return f'write "{fact.name}": {int(number) if number.is_integer() else number}'
    return ""


def _overridden(config: ModelConfig) -> list[Finding]:
    """llm_config.json is merged over config.json: who edits config.json for such a key sees no effect."""
    return [
        Finding(
            WARNING, config.name, key,
            f"{config.model_name} says {_brief(config.model[key])} for {key}, and wins over {_brief(value)}",
            f"set it in {config.model_name}, or take it out there",
        )
        for key, value in config.own.items()
        if key in config.model and config.model[key] != value and not isinstance(value, dict)
    ]  # fmt: skip


def _brief(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _threads(config: ModelConfig) -> list[Finding]:
    found = []
    places = [("thread_num", config.merged)]
    if isinstance(config.merged.get("mllm"), dict):
        places.append(("mllm.thread_num", config.merged["mllm"]))
    for key, content in places:
        value = content.get("thread_num")
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            found.append(
                Finding(
                    ERROR, config.place("thread_num"), key, f"thread_num is {value}",
                    "1 up to the number of strong cores",
                )
            )  # fmt: skip
    return found


def _samplers(config: ModelConfig) -> list[Finding]:
    listed = config.value("mixed_samplers")
    return [
        Finding(
            WARNING, config.place("mixed_samplers"), "mixed_samplers",
            f"there is no sampler {sampler!r}; it is skipped",
            f"one of: {', '.join(_SAMPLERS)}",
        )
        for sampler in (listed or [])
        if sampler not in _SAMPLERS
    ]  # fmt: skip
