"""Why lldb-server may not attach to a process: looked up on the phone after it has been refused."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devkit.device.processes import user_name
from devkit.errors import PHONE, DebugError, DevkitError

if TYPE_CHECKING:
    from devkit.device import Device

_TIMEOUT_S = 10.0
# /proc/PID belongs to root while its process may not be dumped (proc(5)): then nobody else may trace it.
_SCRIPT = """\
p=/proc/{pid}
say() {{ echo; echo "{mark} $1"; }}
say self; cat /proc/self/status
say status; cat $p/status
say owner; stat -c %u $p
t=$(sed -n 's/^TracerPid:[^0-9]*//p' $p/status)
say tracer; [ "${{t:-0}}" = 0 ] || tr '\\0' ' ' < /proc/$t/cmdline
say yama; cat /proc/sys/kernel/yama/ptrace_scope
say enforce; getenforce
say context; cat $p/attr/current
say own-context; cat /proc/self/attr/current
say debuggable; getprop ro.debuggable
say denied; logcat -d -t 2000 -b main,events | grep 'avc: .*ptrace' | tail -n 2
"""
_YAMA = {
    "1": "only a program's own children may be traced",
    "2": "only root may trace",
    "3": "nobody may trace until the phone is restarted",
}


@dataclass(frozen=True)
class Refusal:
    """Why, as far as the phone shows it: `reason` is one word a program can branch on."""

    reason: str
    what: str
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttachFacts:
    """What the phone says of a process, of lldb-server's user and of its own rules; "" where it does not."""

    pid: int
    own: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    tracer: str = ""
    yama: str = ""
    enforce: str = ""
    context: str = ""
    own_context: str = ""
    debuggable: str = ""
    denied: str = ""


def explain(device: Device, pid: int, app: str, said: str) -> DebugError:
    """The error for an attach that was refused. One round trip.

    Args:
        app: for the hints.
        said: what lldb-server printed.
    """
    try:
        refusal = judge(look(device, pid), app or "APP")
    except DevkitError as error:
        refusal = Refusal(
            "unknown", f"the phone did not let lldb-server attach to process {pid}", (error.what,)
        )
    evidence = "\n".join([*refusal.evidence, *([f"lldb-server: {said}"] if said else [])])
    return DebugError(refusal.what, where=PHONE, evidence=evidence, hints=refusal.hints)


def look(device: Device, pid: int) -> AttachFacts:
    """Read everything that can forbid an attach.

    Raises:
        DeviceError, OperationTimeout: the phone does not answer.
    """
    mark = f"== {secrets.token_hex(8)}"
    # What a phone does not have (Yama, SELinux, logcat) leaves its section empty.
    text = device.shell(f"( {_SCRIPT.format(pid=pid, mark=mark)} ) 2>/dev/null", timeout_s=_TIMEOUT_S).text
    parts: dict[str, str] = {}
    for piece in text.split(f"\n{mark} ")[1:]:
        name, _, body = piece.partition("\n")
        parts[name] = body.strip("\n\0 ")
    return AttachFacts(
        pid=pid,
        own=_fields(parts.get("self", "")),
        status=_fields(parts.get("status", "")),
        **{
            name.replace("-", "_"): parts.get(name, "")
            for name in (
                "owner",
                "tracer",
                "yama",
                "enforce",
                "context",
                "own-context",
                "debuggable",
                "denied",
            )
        },
    )


def judge(facts: AttachFacts, app: str) -> Refusal:
    """The reason that explains it best: what is certain comes before what is likely."""
    pid, status = facts.pid, facts.status
    restart = f"devkit debug {app} starts it under the debugger"
    if not status or status.get("State", "").startswith(("Z", "X")):
        seen = f"/proc/{pid}/status: State {status['State']}" if status else f"/proc/{pid} is not there"
        return Refusal("ended", f"process {pid} has ended", (seen,), ("devkit device ps", restart))
    tracer = status.get("TracerPid", "0")
    if tracer != "0":
        return Refusal(
            "traced",
            f"process {pid} is being traced already, and a process has one tracer",
            (f"TracerPid {tracer}: {facts.tracer or 'its name cannot be read'}",),
            (
                "end that debugger, profiler or strace",
                f"nobody uses it any more: devkit device shell -- kill {tracer}",
            ),
        )
    own_uid, uid = _uid(facts.own), _uid(status)
    if own_uid is not None and uid is not None and own_uid not in (0, uid):
        mine, theirs = user_name(own_uid), user_name(uid)
        root = ("adb root, then the same command (this is a userdebug build)",)
        return Refusal(
            "other-user",
            f"process {pid} belongs to {theirs}; lldb-server runs as {mine}, which may not trace it",
            (f"Uid {uid} ({theirs}), lldb-server {own_uid} ({mine})",),
            (*(root if facts.debuggable == "1" else ()), f"{restart}, as {mine}"),
        )
    if facts.yama in _YAMA and own_uid != 0:
        cure = "adb root; devkit device shell -- 'echo 0 > /proc/sys/kernel/yama/ptrace_scope'"
        return Refusal(
            "yama",
            f"the phone's kernel forbids attaching: {_YAMA[facts.yama]}",
            (f"/proc/sys/kernel/yama/ptrace_scope: {facts.yama}",),
            (*((restart,) if facts.yama == "1" else ()), *((cure,) if facts.yama != "3" else ())),
        )
    if facts.denied or (facts.enforce == "Enforcing" and facts.context != facts.own_context):
        return Refusal(
            "selinux",
            f"SELinux {'forbids' if facts.denied else 'probably forbids'} that process {pid} is traced",
            (
                f"{facts.enforce or 'SELinux'}: {facts.context or '?'}, the shell {facts.own_context or '?'}",
                *([facts.denied] if facts.denied else []),
            ),
            (restart, "adb root; adb shell setenforce 0   (userdebug builds, until the next restart)"),
        )
    if uid not in (None, 0) and facts.owner == "0":
        return Refusal(
            "undumpable",
            f"process {pid} has made itself untraceable (prctl PR_SET_DUMPABLE, or a program with set-uid)",
            (f"/proc/{pid} belongs to root, its process to {uid}",),
            (restart,),
        )
    filters = facts.own.get("Seccomp", "0")
    seen = f"same user ({uid}), no tracer, no Yama, SELinux {facts.enforce or 'not there'}"
    if filters == "2":
        return Refusal(
            "seccomp",
            "the phone does not let programs of its shell attach to others: a seccomp filter is set for them",
            (f"{seen}; Seccomp {filters} in /proc/self/status",),
            (restart, "devkit debug --self-test"),
        )
    return Refusal(
        "unknown",
        f"the phone did not let lldb-server attach to process {pid}, and shows no reason",
        (seen,),
        (restart, "devkit debug --self-test", "devkit device shell -- dmesg   (the kernel may say why)"),
    )


def _fields(status: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in status.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _uid(status: Mapping[str, str]) -> int | None:
    # Real, effective, saved, file system: the first two are the same but for set-uid programs.
    first = status.get("Uid", "").split()[:1]
    return int(first[0]) if first and first[0].isdigit() else None
