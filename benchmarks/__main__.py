"""Runs one benchmark and prints its measures with goal and verdict; exit 1 when a goal is missed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module

from benchmarks.report import Measure, table
from devkit import paths

NAMES = (
    "startup", "build", "deploy", "symbolize", "debug_loop", "first_breakpoint", "logcat", "tunnel",
    "tunnel_modes", "tunnel_recovery", "profile_report", "profile_read", "qnn",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a rough answer")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # devkit is compiled once, as pip leaves an installed one, also where this shell says otherwise.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(paths.cache_dir() / "benchmarks/bytecode")
    measures: list[Measure] = import_module(f"benchmarks.{options.name}").run(quick=options.quick)
    if options.json:
        print(json.dumps([m.as_dict() for m in measures], indent=2))
    else:
        print(table(measures))
    return 0 if all(m.met for m in measures) else 1


if __name__ == "__main__":
    sys.exit(main())
