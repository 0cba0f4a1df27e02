"""Sanitized programs in `devkit debug`: they run until their report."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from devkit import output

if TYPE_CHECKING:
    from devkit.crashes import Crash
    from devkit.lldb import DebugRequest, DebugResult

# Linux' number.
_SIGABRT = 6


def with_sanitizer(request: DebugRequest, env: Mapping[str, str]) -> DebugRequest:
    """The request, made to stop at a sanitizer's report if its program has one; says so.

    Args:
        env: the variables that the user gives the app.
    """
    from devkit.lldb.sanitized import sanitizer_of

    sanitizer = sanitizer_of((request.program, *request.libraries))
    if sanitizer is None:
        return request
    points = sanitizer.breakpoints(env if request.launch is not None else None)
    new = tuple(point for point in points if point not in request.breakpoints)
    where = f"at {new[0]}, before each report" if new else "at the abort after a report"
    output.current().note(f"built with {sanitizer.kind}: it stops {where}")
    request = dataclasses.replace(request, breakpoints=(*request.breakpoints, *new))
    if request.launch is None:
        return request
    variables = {**request.launch.env, sanitizer.variable: sanitizer.options(env)}
    launch = dataclasses.replace(request.launch, env=variables)
    return dataclasses.replace(request, launch=launch, sanitizer=sanitizer)


def at_its_report(request: DebugRequest, result: DebugResult, reports: Sequence[Crash]) -> DebugResult:
    """The result of a session; one that stands at a report would have ended there without a debugger."""
    if reports and result.exit_code is None and result.stops:
        return dataclasses.replace(result, exit_code=128 + _SIGABRT)
    if (
        request.batch is not None
        and request.sanitizer is not None
        and not reports
        and result.exit_code is not None
    ):
        output.current().note(f"{request.sanitizer.kind} reported nothing")
    return result
