"""What happens on the phone: deployment and running programs.

The public face is loaded on first use, so that the phone can be asked before all of it is there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.runtime.app_names import find_app
    from devkit.runtime.apps import LocalApp, PreparedApp, build_app, deploy_app, prepare_app
    from devkit.runtime.deploy import DeployFile, DeployPlan, apply_plan, plan_deployment
    from devkit.runtime.head_start import HeadStart
    from devkit.runtime.run import Launch, launch_for, run_program, signal_name

_HOME = {
    "DeployFile": "deploy",
    "DeployPlan": "deploy",
    "HeadStart": "head_start",
    "Launch": "run",
    "LocalApp": "apps",
    "PreparedApp": "apps",
    "apply_plan": "deploy",
    "build_app": "apps",
    "deploy_app": "apps",
    "find_app": "app_names",
    "launch_for": "run",
    "plan_deployment": "deploy",
    "prepare_app": "apps",
    "run_program": "run",
    "signal_name": "run",
}

__all__ = [
    "DeployFile",
    "DeployPlan",
    "HeadStart",
    "Launch",
    "LocalApp",
    "PreparedApp",
    "apply_plan",
    "build_app",
    "deploy_app",
    "find_app",
    "launch_for",
    "plan_deployment",
    "prepare_app",
    "run_program",
    "signal_name",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
