"""Tunnels and their links in words."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from devkit.device import AdbServer
from devkit.errors import UsageError
from devkit.output import Output, human_bytes
from devkit.tunnels.state import DOWN, UP, TunnelRecord
from devkit.tunnels.step import BROKEN, OK, WARNING, Step

_STYLES = {OK: "green", WARNING: "yellow", BROKEN: "red", UP: "green", DOWN: "red"}
_SHELLS = ("sh", "fish", "powershell", "bash", "zsh", "pwsh", "dash", "ksh")
_MARKS = {BROKEN: "BROKEN", WARNING: "warn", "not checked": "?"}


def describe_record(record: TunnelRecord, sink: Output) -> str:
    """A tunnel: one line for it, one for each link."""
    spec = record.spec
    whole = record.state if record.alive else "dead"
    style = "green" if whole == UP else "red"
    head = f"{record.name}  {sink.style(whole, style)}  {spec['mode']}, to {spec['host']}"
    if record.port:
        head += f", port {record.port} on the server"
    head += f", pid {record.pid}, since {_when(record.started)}"
    if record.reconnects:
        head += f", came back {_times(record.reconnects)}"
    if not record.alive:
        return head + f"\n  its process has ended; the log: {record.log}\n"
    rows = [_link_row(link) for link in record.links]
    widths = [max(len(row[i]) for row in rows) for i in range(3)] if rows else []
    lines = [head]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        cells[0] = sink.style(cells[0], _STYLES.get(row[0], "dim"))
        lines.append("  " + "  ".join([*cells, *row[3:]]).rstrip())
    if record.state != UP and record.last_error:
        lines += ["  | " + line for line in record.last_error.splitlines()]
    return "\n".join(lines) + "\n"


def describe_arrivals(servers: Sequence[AdbServer]) -> str:
    """The tunnels that end at this machine."""
    return "".join(
        f"{server.label}  arrives here at {server.address}"
        f" ({', '.join(server.serials) or 'no phone now'}); -s tunnel:{server.label}\n"
        for server in servers
    )


def describe_step(step: Step, sink: Output) -> str:
    """One line of `devkit tunnel check`, hints below it."""
    mark = sink.style(f"{_MARKS.get(step.state, step.state):>6}", _STYLES.get(step.state, "dim"))
    first, *more = step.evidence.splitlines() or [""]
    lines = [f"{mark}  {step.machine:8} {step.title:24} {first}".rstrip()]
    lines += [f"{'':41} {line}" for line in more[:8]]
    if step.state in (BROKEN, WARNING):
        lines += [f"{'':41} try: {hint}" for hint in step.hints]
    return "\n".join(lines)


def render_exports(variables: Mapping[str, str], shell: str | None) -> str:
    """Lines that set variables in a shell: sh (bash, zsh), fish or powershell.

    Raises:
        UsageError: a shell was named that is none of these.
    """
    if shell is not None and shell not in _SHELLS:
        raise UsageError(f"--shell {shell} is not known", hints=[f"--shell {name}" for name in _SHELLS[:3]])
    kind = shell or os.path.basename(os.environ.get("SHELL", "sh"))
    lines = []
    for name, value in variables.items():
        if kind == "fish":
            lines.append(f"set -gx {name} {shlex.quote(value)}")
        elif kind in ("powershell", "pwsh"):
            lines.append(f"$env:{name} = '{value}'")
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(lines)


def _link_row(link: Mapping[str, Any]) -> tuple[str, ...]:
    parts = [f"since {_when(link['since'])}"]
    if link["latency_ms"] is not None:
        parts.append(f"{link['latency_ms']:.0f} ms")
    if link["bytes_in"] or link["bytes_out"]:
        parts.append(f"{human_bytes(link['bytes_in'])} in, {human_bytes(link['bytes_out'])} out")
    if link["reconnects"]:
        parts.append(f"came back {_times(link['reconnects'])}")
    if link["evidence"]:
        parts.append(link["evidence"])
    return link["state"], link["machine"], link["title"], ", ".join(parts)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _when(seconds: float) -> str:
    ago = max(0, int(time.time() - seconds))
    if ago < 60:
        return f"{ago} s"
    if ago < 3600:
        return f"{ago // 60} min"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
