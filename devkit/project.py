"""The devkit.yaml of an engine checkout: written once, never overwritten."""

from __future__ import annotations

from pathlib import Path

from devkit import config, engine, paths
from devkit.errors import UsageError

_TEXT = """\
# devkit's settings for this checkout. Every key is optional; `devkit config keys` lists them all.
engine: {engine}

# device: {{dir: /data/local/tmp/devkit, serial: null}}

# profiles:               # extend or override built-in ones (devkit build --list)
#   cpu: {{options: {{{option}: ON}}}}

{apps}"""

_MNN_APPS = """\
apps:
  llm_demo:
    profile: cpu
    # files:              # what travels along, relative to this file
    #   - {local: model, remote: model}
    # args: [model/config.json, prompt.txt]
"""

# No app is named that may not exist: every program of the build can be run by its name.
_CMAKE_APPS = """\
# apps:
#   my_program:           # a CMake target; name others with target:
#     files:              # what travels along, relative to this file
#       - {local: data, remote: data}
#     args: [data/input.txt]
"""


def write_project_file(
    folder: Path, engine_name: str | None = None, *, dry_run: bool = False
) -> tuple[Path, str]:
    """Write devkit.yaml for the engine in `folder`.

    Args:
        engine_name: "mnn" or "cmake"; None detects it.
        dry_run: only look.

    Returns:
        The file, and the engine.

    Raises:
        UsageError: there is one already, or no engine was found.
    """
    target = folder / config.PROJECT_FILE
    if target.exists():
        raise UsageError(f"{target} exists already and stays as it is", hints=["devkit config show --origin"])
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hints=["devkit init FOLDER   of the engine's source"])
    found = engine_name or engine.detect_engine(folder)
    if found is None:
        raise UsageError(
            f"{folder} holds no engine that devkit knows",
            evidence="no CMakeLists.txt",
            hints=["cd into the engine's source folder", "devkit init --engine cmake writes one anyway"],
        )
    if dry_run:
        return target, found
    mnn = found == "mnn"
    paths.write_atomically(
        target,
        _TEXT.format(
            engine=found,
            option="MNN_OPENCL" if mnn else "MY_OPTION",
            apps=_MNN_APPS if mnn else _CMAKE_APPS,
        ),
    )
    return target, found
