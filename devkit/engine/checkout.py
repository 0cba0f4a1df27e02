"""A profile's options against the checkout: what it no longer has, what it overrules, what it downloads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from devkit import output
from devkit.engine import buildlog, fileapi
from devkit.engine.detect import detect_engine
from devkit.engine.plan import BuildPlan
from devkit.engine.profiles import is_on
from devkit.errors import BuildError

_DECLARED = "BOOL"  # what option() makes of an entry; a mere -D stays UNINITIALIZED


def announce_downloads(plan: BuildPlan) -> None:
    """Say what CMake will fetch while it configures, and how to do without."""
    sink = output.current()
    for name, row in _downloads(plan).items():
        local = plan.entries.get(row["local"])
        if local:
            sink.note(f"{name} is taken from {local}")
            continue
        sink.note(
            f"configuring downloads {name} ({row['about']}); to do without: "
            f"-D {row['local']}=DIR takes a local copy, -D {row['off']}=OFF builds without it"
        )


def check_checkout(plan: BuildPlan, text: str) -> tuple[str, ...]:
    """What the engine made of the options.

    Args:
        text: CMake's output.

    Returns:
        Warnings: options that the checkout does not have and when that matters, values that it
        overruled, downloads that failed.

    Raises:
        BuildError: CMake has not described the build.
    """
    cache = fileapi.read_cache(plan.build_dir)
    unused = [name for name in buildlog.unused_variables(text) if name in plan.options]
    said = []
    for name in unused:
        if is_on(plan.options[name]) or name in plan.user_options:
            said.append(_unknown(plan, name, cache))
        else:
            # Switched off is what a missing option is.
            output.current().detail(f"this checkout has no option {name}, which is to be off")
    for name, wanted in plan.options.items():
        kind, value = cache.get(name, ("", wanted))
        if kind == _DECLARED and is_on(value) != is_on(wanted):
            said.append(f"the engine's CMakeLists.txt has set {name} to {value}, not to {wanted}")
    for name, row in _downloads(plan).items():
        if re.search(row["failed"], text):
            said.append(
                f"{name} could not be downloaded, the build goes on without it: "
                f"-D {row['local']}=DIR takes a local copy"
            )
    return tuple(said)


def check_configured(plan: BuildPlan, text: str) -> None:
    """Refuse a configure that "succeeded" into a build which can only fail.

    Raises:
        BuildError: CMake has no QNN SDK though the build wants one.
    """
    if is_on(plan.options.get("MNN_QNN")) and buildlog.has_empty_qnn_root(text):
        raise BuildError(
            "CMake configured a QNN build without a QNN SDK",
            evidence="it says: 'QNN Root:' (empty); the compiler would stop minutes later at QnnInterface.h",
            hints=[f"export QNN_SDK_ROOT={plan.options.get('QNN_SDK_ROOT') or '…/qairt/<version>'}",
                   "a checkout that does not read -D QNN_SDK_ROOT needs the variable"],
        )  # fmt: skip


def _unknown(plan: BuildPlan, name: str, cache: Mapping[str, tuple[str, str]]) -> str:
    row = _table()["options"].get(name)
    who = f"profile {plan.profile.name}" if name not in plan.user_options else "-D or devkit.yaml"
    text = f"this checkout has no option {name} ({who})"
    if row is not None:
        return (
            f"{text}: that matters {row['matters']}"
            if row["matters"].startswith("only")
            else (f"{text}: {row['matters']}")
        )
    declared = [known for known, (kind, _) in cache.items() if kind == _DECLARED]
    near = difflib.get_close_matches(name, declared, n=1, cutoff=0.6)
    return text + (f"; did you mean {near[0]}?" if near else "; CMake ignores it")


def _downloads(plan: BuildPlan) -> dict[str, Mapping[str, Any]]:
    """The downloads that this plan's options let happen. Not switched off is on, as in MNN."""
    if detect_engine(plan.source) != "mnn":
        return {}
    found = {}
    for name, row in _table()["downloads"].items():
        on = all(is_on(plan.entries.get(option, "ON")) for option in row["when"])
        if on and plan.toolchain.abi == row["processor"]:
            found[name] = row
    return found


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Any]:
    import yaml

    text = resources.files("devkit.engine").joinpath("mnn_options.yaml").read_text("utf-8")
    loaded: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded
