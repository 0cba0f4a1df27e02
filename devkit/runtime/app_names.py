"""Which app or program a name on the command line means. Light: it is needed before the phone is asked."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from devkit import config as configuration
from devkit import paths, process
from devkit.config import AppConfig, Config
from devkit.errors import DevkitError, FileError, UsageError


def find_app(config: Config, name: str) -> tuple[AppConfig, Path | None]:
    """An app by its name in devkit.yaml, by an executable's path, or by its CMake target.

    Returns:
        The app, and the executable's path if the name, or the app's target, is one.

    Raises:
        UsageError: a path that does not exist or is no program.
    """
    if name in config.apps:
        app = config.apps[name]
        ready_made = app.target is not None and "/" in app.target
        return app, _program_file(
            config.root / paths.expand_user(app.target or ""), config
        ) if ready_made else None
    path = paths.expand_user(name)
    if "/" in name or "\\" in name:
        return AppConfig(name=path.name), _program_file(path, config)
    return AppConfig(name=name), None


def refuse_unknown(config: Config, name: str) -> None:
    """Refuse an app that no build so far makes and no CMake file names.

    Asks no phone and builds nothing.

    Raises:
        UsageError: it is unknown, or a path that does not exist or is no program.
    """
    app, path = find_app(config, name)
    if path is not None:
        return
    from devkit import engine
    from devkit.engine.cmake_text import cmake_files
    from devkit.engine.editor_view import find_builds
    from devkit.engine.fileapi import read_artifacts

    if not config.source.is_dir():
        return  # the build says what is wrong
    if engine.detect_engine(config.source) is None:
        if name in config.apps:
            return
        raise unknown_app(config, name, ())
    made = []
    for build in find_builds(config.source):
        with contextlib.suppress(DevkitError):  # a folder that CMake has not described yet
            made += [a for a in read_artifacts(build.folder) if a.kind == "executable"]
    target = app.target or app.name
    if any(target in (a.path.name, a.target) for a in made):
        return
    # Another profile, or a newer source, may make it.
    word = re.compile(rf"(?<![\w.-]){re.escape(target)}(?![\w-])")
    if not any(word.search(file.read_text("utf-8", "replace")) for file in cmake_files(config.source)):
        raise unknown_app(config, target, tuple(dict.fromkeys(a.path.name for a in made)))


def unknown_app(config: Config, name: str, executables: Sequence[str]) -> UsageError:
    """The error for a name that is no app; `executables` are what the build makes."""
    known = list(dict.fromkeys([*config.apps, *executables]))
    guess = configuration.nearest(name, known)
    hints = [f"did you mean {guess}?"] if guess else []
    return UsageError(
        f"there is no app or program named {name or repr(name)}",
        evidence=f"the build makes: {', '.join(executables)}" if executables else None,
        hints=[*hints, *_app_hints(config)],
    )


def _program_file(path: Path, config: Config) -> Path:
    path = path.absolute()
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {found}", hints=_app_hints(config))
    if not os.access(path, os.R_OK):
        raise FileError(f"{path} cannot be read", hints=[f"ls -l {process.show([path])}"])
    from devkit.symbols import is_elf

    if not is_elf(path):
        found = "is empty" if path.stat().st_size == 0 else "is not a program for a phone (no ELF file)"
        raise UsageError(f"{path} {found}", hints=_app_hints(config))
    return path


def _app_hints(config: Config) -> list[str]:
    if config.apps:
        return ["apps in devkit.yaml: " + ", ".join(config.apps)]
    return ["devkit init writes a devkit.yaml where apps are named", "or give the path of an executable"]
