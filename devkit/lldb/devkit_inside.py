"""Runs inside LLDB's own Python: records every stop and the end of the program as JSON.

Self-contained on purpose (LLDB's Python has neither devkit nor its packages) and plain enough for
the Python 3.8 that old NDKs carry.
"""

import json
import os
import re
import time

import lldb

_CONNECT_TIMEOUT_S = 10
_MAX_FRAMES = 64
_MAX_VALUE_CHARS = 400
# How LLDB describes a breakpoint: "file = 'a.cpp', line = 12, exact_match = 0", "name = 'inner'".
_PLACE = re.compile(r"file = '(?P<file>[^']+)', line = (?P<line>\d+)|name = '(?P<name>[^']+)'")
_NOTE = "this stop: {}"
_REPORT = {  # type: ignore[var-annotated]
    "stops": [], "breakpoints": [], "exit_code": None, "state": "none", "killed": False, "lost": False,
}  # fmt: skip


class StopRecorder:
    """A stop hook: LLDB makes one for the target and calls handle_stop at each stop."""

    def __init__(self, target, extra_args, internal_dict):
        pass

    def handle_stop(self, exe_ctx, stream):
        thread = exe_ctx.GetThread()
        if thread.IsValid():
            stop = _describe_stop(thread)
            _REPORT["stops"].append(stop)
            _write()
            if stop["note"]:
                stream.Print(_NOTE.format(stop["note"]) + "\n")
        return True


def devkit_stopped(debugger, command, exe_ctx, result, internal_dict):
    """Runs a command that makes a process, and returns when that stands still, for editors' adapters.

    They run LLDB asynchronously, where the bare command returns at once: told to go on right after it,
    as CodeLLDB does, a process that LLDB does not yet know to be stopped stays at its first instruction.
    """
    shown = lldb.SBCommandReturnObject()
    with _Synchronous(debugger):
        debugger.GetCommandInterpreter().HandleCommand(command.strip(), shown)
    if not shown.Succeeded():
        result.SetError((shown.GetError() or "no reason given").strip())
    elif debugger.GetSelectedTarget().GetProcess().GetState() != lldb.eStateStopped:
        result.SetError("the phone's lldb-server was reached, but the process is not there")


def devkit_client(debugger, command, exe_ctx, result, internal_dict):
    """Compare this LLDB, which may be an editor's own, with the phone's lldb-server.

    The argument is the server's major version.
    """
    words = lldb.SBDebugger.GetVersionString().split()
    own = words[words.index("version") + 1].split(".")[0] if "version" in words[:-1] else ""
    server = command.strip()
    if own.isdigit() and own != server:
        result.AppendWarning(
            "this LLDB is version "
            + own
            + ", the phone's lldb-server is "
            + server
            + ": they may not understand "
            "each other. lldb.server in devkit.yaml names a server of version " + own
        )


def devkit_launch(debugger, command, exe_ctx, result, internal_dict):
    """Launch the target's program through a server that was started without one.

    The argument is the path of a JSON file: url, program (its path on the phone), args, env, folder,
    stdin, stdout, stderr, refused (a file for the reason when it is not launched). Without a flag for it
    the server leaves address randomization on, which phones and containers may refuse to switch off. It
    stops at the program's first instruction.
    """
    try:
        plan = _read_when_there(command.strip())
    except OSError as problem:
        result.SetError(f"there is no session to launch the program in: {problem}")
        return
    target = debugger.GetSelectedTarget()
    error = lldb.SBError()
    process = target.ConnectRemote(debugger.GetListener(), plan["url"], "gdb-remote", error)
    if error.Success():
        _wait_until_connected(process, debugger.GetListener())
        info = lldb.SBLaunchInfo(plan["args"])
        info.SetExecutableFile(lldb.SBFileSpec(plan["program"], False), True)
        info.SetEnvironmentEntries(plan["env"], False)
        info.SetWorkingDirectory(plan["folder"])
        info.AddOpenFileAction(0, plan["stdin"], True, False)
        info.AddOpenFileAction(1, plan["stdout"], False, True)
        info.AddOpenFileAction(2, plan["stderr"], False, True)
        info.SetLaunchFlags(lldb.eLaunchFlagStopAtEntry)
        # SBProcess.RemoteLaunch would leave the stop at the entry to the debugger's own listener,
        # which may come to it when the program runs again, and takes the next stop for handled.
        with _Synchronous(debugger):
            target.Launch(info, error)
    if error.Fail():
        reason = error.GetCString() or "no reason given"
        with open(plan["refused"], "w", encoding="utf-8") as file:
            file.write(reason)
        result.SetError("the program was not launched: " + reason)
        if "DEVKIT_LLDB_REPORT" in os.environ:
            # devkit has another way, and starts LLDB anew for it.
            debugger.HandleCommand("quit")


class _Synchronous:
    """Commands return when what they started has come to a stop."""

    def __init__(self, debugger):
        self._debugger = debugger
        self._before = debugger.GetAsync()

    def __enter__(self):
        self._debugger.SetAsync(False)

    def __exit__(self, *_error):
        self._debugger.SetAsync(self._before)


def _read_when_there(path):
    """A restarted session's plan takes a moment to be made."""
    deadline = time.time() + _CONNECT_TIMEOUT_S
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except OSError:
            if time.time() > deadline:
                raise
            time.sleep(0.05)


def devkit_arrive(debugger, command, exe_ctx, result, internal_dict):
    """Note the breakpoints; with the argument "show" say where the program stands.

    A prompt's first commands are sourced quietly, and their stop with them.
    """
    process = debugger.GetSelectedTarget().GetProcess()
    if not _REPORT["stops"] and process.IsValid() and process.GetState() == lldb.eStateStopped:
        # LLDB 19 runs no stop hook for the stop that an attach makes.
        _REPORT["stops"].append(_describe_stop(process.GetSelectedThread()))
    _note_breakpoints(debugger.GetSelectedTarget())
    _write()
    if command.strip() != "show":
        return
    for place in _REPORT["breakpoints"]:
        if place["locations"] == 0:
            why = ": " + place["why"] if place["why"] else ""
            _say("warning: no code is at the breakpoint " + place["place"] + why)
        elif place["resolved"] == 0:
            _say(
                "note: the breakpoint "
                + place["place"]
                + " is in "
                + place["module"]
                + ", which is not loaded "
                "yet: it takes effect when the program opens it"
            )
    shown = lldb.SBCommandReturnObject()
    debugger.GetCommandInterpreter().HandleCommand("process status", shown)
    _say((shown.GetOutput() or shown.GetError() or "").rstrip())
    note = _note_at(process.GetSelectedThread()) if process.IsValid() else None
    if note:
        _say(_NOTE.format(note))


def devkit_empty(debugger, command, exe_ctx, result, internal_dict):
    """Tell devkit, which is elsewhere, of an editor's breakpoints that have no code: it knows why.

    The argument is the path of the JSON file to write.
    """
    found = []
    for point in debugger.GetSelectedTarget().breakpoint_iter():
        text = lldb.SBStream()
        point.GetDescription(text, False)
        place = _PLACE.search(text.GetData() or "")
        if place and not point.GetNumLocations():
            found.append(place["name"] or place["file"] + ":" + place["line"])
    if found:
        _write_json(command.strip(), found)


def devkit_finish(debugger, command, exe_ctx, result, internal_dict):
    """The last command of a batch: note how the program ended, end it if it still lives.

    The argument is "kill" or "detach": what to do with a program that is still there.
    """
    target = debugger.GetSelectedTarget()
    _note_breakpoints(target)
    process = target.GetProcess()
    state = process.GetState() if process.IsValid() else lldb.eStateInvalid
    _note_end(process)
    if process.IsValid() and state not in (lldb.eStateExited, lldb.eStateDetached, lldb.eStateInvalid):
        if command.strip() == "detach":
            process.Detach()
        else:
            process.Kill()
            _REPORT["killed"] = True
    _write()


def _wait_until_connected(process, listener):
    """The state follows the connection by an event, which somebody has to take off the listener."""
    event = lldb.SBEvent()
    deadline = time.time() + _CONNECT_TIMEOUT_S
    while process.GetState() != lldb.eStateConnected and time.time() < deadline:
        if listener.PeekAtNextEventForBroadcaster(process.GetBroadcaster(), event):
            listener.GetNextEventForBroadcaster(process.GetBroadcaster(), event)
        else:
            time.sleep(0.01)


def _say(text):
    # LLDB sends this to its own output, past the quiet sourcing.
    print(text)  # noqa: T201


def _note_end(process):
    if not process.IsValid():
        return
    state = process.GetState()
    _REPORT["state"] = lldb.SBDebugger.StateAsCString(state)
    if state == lldb.eStateExited:
        # No program can exit with it: LLDB's own number for a program that it lost.
        if process.GetExitStatus() == -1:
            _REPORT["lost"] = True
        else:
            _REPORT["exit_code"] = process.GetExitStatus()


def _note_breakpoints(target):
    """Those that are gone (one-shot, deleted by the user) keep what was noted of them before."""
    known = {place["id"]: place for place in _REPORT["breakpoints"]}
    why = _by_number("pending.json")
    for point in target.breakpoint_iter():
        text = lldb.SBStream()
        point.GetDescription(text, False)
        # SBBreakpoint: id = 1, file = 'a.cpp', line = 12, exact_match = 0[, locations = 1]
        place = (text.GetData() or "").partition(", ")[2].partition(", locations")[0]
        known[point.GetID()] = {
            "id": point.GetID(),
            "place": place.replace(", exact_match = 0", ""),
            "locations": point.GetNumLocations(),
            "resolved": point.GetNumResolvedLocations(),
            "module": _module_of(point),
            "hits": point.GetHitCount(),
            "why": why.get(point.GetID()),
        }
    _REPORT["breakpoints"] = list(known.values())


def _module_of(point):
    if not point.GetNumLocations():
        return None
    return point.GetLocationAtIndex(0).GetAddress().GetModule().GetFileSpec().GetFilename()


def _by_number(name):
    """What devkit has written of breakpoints before the session: texts by their numbers."""
    path = os.path.join(os.path.dirname(os.environ.get("DEVKIT_LLDB_REPORT", "")), name)
    try:
        with open(path, encoding="utf-8") as file:
            return dict(enumerate(json.load(file), start=1))
    except (OSError, ValueError):
        return {}


def _note_at(thread):
    """What a set of breakpoints says of the one at which a thread stands."""
    if thread.GetStopReason() != lldb.eStopReasonBreakpoint:
        return None
    notes = _by_number("notes.json")
    # The number of a breakpoint and of its location, for each breakpoint at this place.
    numbers = [thread.GetStopReasonDataAtIndex(n) for n in range(0, thread.GetStopReasonDataCount(), 2)]
    return " / ".join(notes[number] for number in numbers if notes.get(number)) or None


def _describe_stop(thread):
    frames = []
    for index in range(min(thread.GetNumFrames(), _MAX_FRAMES)):
        frames.append(_describe_frame(thread.GetFrameAtIndex(index)))
    reason = thread.GetStopReason()
    return {
        "reason": thread.GetStopDescription(256),
        "is_breakpoint": reason == lldb.eStopReasonBreakpoint,
        "note": _note_at(thread),
        "signal": thread.GetStopReasonDataAtIndex(0) if reason == lldb.eStopReasonSignal else None,
        "pid": thread.GetProcess().GetProcessID(),
        "tid": thread.GetThreadID(),
        "frames": frames,
        "locals": _describe_locals(thread.GetFrameAtIndex(0)),
    }


def _describe_frame(frame):
    entry = frame.GetLineEntry()
    spec = entry.GetFileSpec()
    module = frame.GetModule()
    file = None
    if spec.IsValid():
        file = os.path.join(spec.GetDirectory() or "", spec.GetFilename() or "")
    name = frame.GetDisplayFunctionName() or frame.GetFunctionName()
    return {
        # LLDB writes the global namespace out in some names and not in others.
        "function": name[2:] if name and name.startswith("::") else name,
        "file": file,
        "line": entry.GetLine() if spec.IsValid() else None,
        "module": module.GetFileSpec().GetFilename(),
        "build_id": (module.GetUUIDString() or "").replace("-", "").lower() or None,
        "pc": frame.GetPC(),
    }


def _describe_locals(frame):
    values = []
    for value in frame.GetVariables(True, True, False, True):
        text = value.GetSummary() or value.GetValue()
        values.append(
            {
                "name": value.GetName(),
                "type": value.GetTypeName(),
                "value": text[:_MAX_VALUE_CHARS] if text else None,
            }
        )
    return values


def _write():
    path = os.environ.get("DEVKIT_LLDB_REPORT")
    if path:
        _write_json(path, _REPORT)


def _write_json(path, value):
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(temporary, path)


def __lldb_init_module(debugger, internal_dict):
    for name in ("stopped", "client", "launch", "arrive", "empty", "finish"):
        debugger.HandleCommand(f"command script add -f devkit_inside.devkit_{name} devkit-{name}")
