"""Runs inside LLDB: drives its API in the order in which CodeLLDB does, as F5_PLAN says, into F5_REPORT.

initCommands, target, breakpoints, preRunCommands, process, postRunCommands; at the end preTerminateCommands,
detach or kill, exitCommands. A restart is preTerminateCommands, detach, preRunCommands, process. Asynchronous
mode, events from the debugger's listener. After CodeLLDB's debug_session/launch.rs; as F5_PLAN says, versions
1.9.1 to 1.11.4 let the process go on after processCreateCommands, others leave it as it is.
"""

import json
import os
import subprocess
import time

import lldb

_TIMEOUT_S = 30
_GOES_ON_S = 10
_STOPS = (lldb.eStopReasonBreakpoint, lldb.eStopReasonSignal, lldb.eStopReasonInstrumentation)
_ENDED = (lldb.eStateExited, lldb.eStateCrashed, lldb.eStateDetached)


class Failed(Exception):
    pass


def _run(debugger, commands, report):
    for command in commands:
        result = lldb.SBCommandReturnObject()
        debugger.GetCommandInterpreter().HandleCommand(command, result)
        text = (result.GetOutput() or "") + (result.GetError() or "")
        report["console"] += text
        if not result.Succeeded():
            raise Failed(f"{command}: {text.strip()}")


def _wait(listener, process, wanted, report, timeout_s=_TIMEOUT_S):
    """The next of the wanted states, told by an event as to any adapter."""
    event = lldb.SBEvent()
    until = time.time() + timeout_s
    while time.time() < until:
        _take_output(process, report)
        if not listener.WaitForEvent(1, event):
            continue
        if not lldb.SBProcess.EventIsProcessEvent(event):
            continue
        if event.GetType() != lldb.SBProcess.eBroadcastBitStateChanged:
            continue
        state = lldb.SBProcess.GetStateFromEvent(event)
        if lldb.SBProcess.GetRestartedFromEvent(event) or state not in wanted:
            continue
        _take_output(process, report)
        return state
    raise Failed(f"no stop within {timeout_s} s; state {process.GetState()}")


def _take_output(process, report):
    while text := process.GetSTDOUT(4096):
        report["program"] += text


def _describe(process):
    for thread in process:
        if thread.GetStopReason() in _STOPS:
            frames = []
            for frame in thread:
                entry = frame.GetLineEntry()
                file = entry.GetFileSpec()
                frames.append(
                    [
                        frame.GetFunctionName(),
                        str(file) if file.IsValid() else None,
                        entry.GetLine() if file.IsValid() else None,
                    ]
                )
            variables = thread.GetFrameAtIndex(0).GetVariables(True, True, False, True)
            return {
                "breakpoint": thread.GetStopReason() == lldb.eStopReasonBreakpoint,
                "frames": frames,
                "values": {v.GetName(): v.GetValue() for v in variables},
                "pid": process.GetProcessID(),
            }
    return {"breakpoint": False, "frames": [], "values": {}, "pid": process.GetProcessID()}


def _session(plan, report):
    debugger = lldb.SBDebugger.Create(False)
    debugger.SetAsync(True)
    listener = debugger.GetListener()
    config = plan["config"]
    _run(debugger, config.get("initCommands", []), report)
    if "targetCreateCommands" in config:
        _run(debugger, config["targetCreateCommands"], report)
        target = debugger.GetSelectedTarget()
    else:
        target = debugger.CreateTarget(config["program"])
    if not target.IsValid():
        raise Failed("there is no target")
    for file, line in plan["breakpoints"]:
        target.BreakpointCreateByLocation(file, line)
    process = _attach(debugger, target, plan, report)
    for _ in range(plan["restarts"]):
        _reach_stops(target, process, listener, plan["stops"], report)
        if plan["before_restart"]:
            # VS Code runs postDebugTask first; the background task is there, so it is not started again.
            task = plan["before_restart"]
            subprocess.run([task["command"], *task["args"]], cwd=task["options"]["cwd"], check=True)
        _leave(debugger, process, plan, report)
        process = _attach(debugger, target, plan, report)
    _reach_stops(target, process, listener, plan["stops"], report)
    if plan["then"] == "wait":
        _wait(listener, process, _ENDED, report)
    elif plan["then"] == "continue" and process.GetState() == lldb.eStateStopped:
        for point in target.breakpoint_iter():
            point.SetEnabled(False)
        process.Continue()
        _wait(listener, process, _ENDED, report)
    if process.GetState() == lldb.eStateExited:
        report["exit"] = process.GetExitStatus()
    else:
        _leave(debugger, process, plan, report)
    _run(debugger, config.get("exitCommands", []), report)
    lldb.SBDebugger.Destroy(debugger)


def _attach(debugger, target, plan, report):
    config = plan["config"]
    _run(debugger, config.get("preRunCommands", []), report)
    if "processCreateCommands" in config:
        _run(debugger, config["processCreateCommands"], report)
    else:
        _launch(debugger, target, config)
    process = target.GetProcess()
    if plan["goes_on"]:
        if process.GetState() != lldb.eStateStopped:
            # CodeLLDB does not wait: what is not stopped now cannot be told to go on.
            raise Failed(f"the process is not stopped: state {process.GetState()}")
        error = process.Continue()
        if error.Fail():
            raise Failed(f"resume: {error.GetCString()}")
    elif process.GetState() not in (lldb.eStateStopped, lldb.eStateRunning):
        raise Failed(f"Process is not valid: state {process.GetState()}")
    _run(debugger, config.get("postRunCommands", []), report)
    return process


def _launch(debugger, target, config):
    info = lldb.SBLaunchInfo(config.get("args", []))
    info.SetEnvironmentEntries(
        [f"{k}={v}" for k, v in {**os.environ, **config.get("env", {})}.items()], False
    )
    info.SetWorkingDirectory(config["cwd"])
    info.SetLaunchFlags(0)  # not every place lets address randomization be switched off
    info.SetListener(debugger.GetListener())
    error = lldb.SBError()
    target.Launch(info, error)
    if error.Fail():
        raise Failed(f"launch: {error.GetCString()}")


def _reach_stops(target, process, listener, count, report):
    for number in range(count):
        # The stop at the entry may still be in the queue: VS Code shows what comes after it.
        try:
            _wait(listener, process, (lldb.eStateRunning,), report, _GOES_ON_S if not number else _TIMEOUT_S)
        except Failed:
            raise Failed(f"nobody lets the process go on: {_describe(process)}") from None
        if _wait(listener, process, (lldb.eStateStopped, *_ENDED), report) != lldb.eStateStopped:
            return
        report["stops"].append(_describe(process))
        if number < count - 1:
            process.Continue()


def _leave(debugger, process, plan, report):
    config = plan["config"]
    _run(debugger, config.get("preTerminateCommands", []), report)
    # Of an attach it does not end the process.
    error = process.Detach() if config["request"] == "attach" else process.Kill()
    if error.Fail():
        raise Failed(f"{config['request']} is left: {error.GetCString()}")


def __lldb_init_module(debugger, internal_dict):
    with open(os.environ["F5_PLAN"], encoding="utf-8") as file:
        plan = json.load(file)
    report = {"stops": [], "exit": None, "console": "", "program": "", "error": None}
    try:
        _session(plan, report)
    except Failed as error:
        report["error"] = str(error)
    with open(os.environ["F5_REPORT"], "w", encoding="utf-8") as file:
        json.dump(report, file)
