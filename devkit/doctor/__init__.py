"""Walks the chain from source to debugger link by link and names the first broken one."""

from devkit.doctor.chain import examine
from devkit.doctor.repair import Fix, apply_fixes, plan_fixes
from devkit.doctor.report import Link, Repair, Report, Wishes

__all__ = ["Fix", "Link", "Repair", "Report", "Wishes", "apply_fixes", "examine", "plan_fixes"]
