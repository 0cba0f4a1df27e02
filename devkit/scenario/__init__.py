"""Scenarios: what happens to virtual phones and what must come of it, as a YAML file of steps."""

from devkit.scenario.language import Scenario, parse_scenario
from devkit.scenario.runner import ScenarioResult, run_scenario, run_scenario_file

__all__ = ["Scenario", "ScenarioResult", "parse_scenario", "run_scenario", "run_scenario_file"]
