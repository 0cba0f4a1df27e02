"""What happens on the phone: deployment and running programs."""

from devkit.runtime.apps import LocalApp, PreparedApp, build_app, deploy_app, find_app, prepare_app
from devkit.runtime.deploy import DeployFile, DeployPlan, apply_plan, plan_deployment
from devkit.runtime.run import Launch, launch_for, run_program, signal_name

__all__ = [
    "DeployFile",
    "DeployPlan",
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
