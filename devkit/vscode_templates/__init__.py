"""Settings for VS Code: templates, and a merge that leaves every byte of the user's alone."""

from __future__ import annotations

from devkit.vscode_templates.facts import Facts, collect_facts, find_clangd, query_drivers
from devkit.vscode_templates.jsonc import JsoncError
from devkit.vscode_templates.merge import MARK, Change, Slot
from devkit.vscode_templates.render import render_slots
from devkit.vscode_templates.setup import FilePlan, Setup, apply_setup, plan_removal, plan_setup
from devkit.vscode_templates.starting import Started, start_in_vscode

__all__ = [
    "MARK",
    "Change",
    "Facts",
    "FilePlan",
    "JsoncError",
    "Setup",
    "Slot",
    "Started",
    "apply_setup",
    "collect_facts",
    "find_clangd",
    "plan_removal",
    "plan_setup",
    "query_drivers",
    "render_slots",
    "start_in_vscode",
]
