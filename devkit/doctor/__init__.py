"""Walks the chain from source to debugger link by link and names the first broken one."""

from devkit.doctor.chain import examine
from devkit.doctor.report import Link, Report

__all__ = ["Link", "Report", "examine"]
