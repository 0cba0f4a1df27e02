"""`devkit config`: the settings in force."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import typer

from devkit import config, output

app = typer.Typer(
    help="Show the settings in force and where each came from.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit config show --origin",
)


@app.callback()
def _group() -> None:
    pass


@app.command("show")
def show(
    origin: bool = typer.Option(False, "--origin", help="Say which layer each value came from."),
) -> None:
    """Print every setting that has a value."""
    settings = config.load()
    rows: list[tuple[str, ...]] = []
    data: dict[str, Any] = {}
    for key, value in settings.values.items():
        if key.endswith("."):
            continue
        text = _text(value)
        rows.append((key, "=", text, settings.origins[key]) if origin else (key, "=", text))
        plain = _plain(value)
        data[key] = {"value": plain, "origin": settings.origins[key]} if origin else plain
    output.current().data(data, output.table(rows))


@app.command("keys")
def keys() -> None:
    """List every key devkit knows, with its variable, its default and what it is for."""
    rows: list[tuple[str, ...]] = [
        (o.key, o.variable, "" if o.default is None else str(o.default), o.help) for o in config.OPTIONS
    ]
    for section, options in config.NAMED_SECTIONS.items():
        rows += [
            (f"{section}.NAME.{o.key}", "", "" if o.default is None else str(o.default), o.help)
            for o in options
        ]
    data = [
        {"key": key, "variable": variable or None, "default": default or None, "help": meaning}
        for key, variable, default, meaning in rows
    ]
    output.current().data(data, output.table(rows, ("KEY", "VARIABLE", "DEFAULT", "MEANING")))


def _plain(value: Any) -> Any:
    if isinstance(value, config.FileMapping):
        return {"local": str(value.local), "remote": value.remote, "exclude": list(value.exclude)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, config.FileMapping):
        without = f" without {', '.join(value.exclude)}" if value.exclude else ""
        return f"{value.local} -> {value.remote}{without}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    return str(value)
