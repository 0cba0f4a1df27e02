"""The static table of commands: names and one-line helps, so that --help imports nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: the module of devkit.cli that holds it, its one-line help, whether it has --json."""

    module: str
    help: str
    json: bool = True


COMMANDS: dict[str, Entry] = {
    "demo": Entry("demo", "The main job on a virtual phone: build, push, hit a breakpoint."),
    "setup": Entry("setup", "Find or install what is needed; ends with the doctor."),
    "doctor": Entry("doctor", "Check the whole chain, one line a link; names the first fault."),
    "init": Entry("init", "Write devkit.yaml for this engine checkout."),
    "build": Entry("build", "Build the engine for the phone or for this machine."),
    "deploy": Entry("deploy", "Push a program and all it needs; only what changed travels."),
    "run": Entry("run", "Build, deploy and run a program on the phone."),
    "watch": Entry("watch", "Run a program again after each save: build, deploy, rerun.", json=False),
    "results": Entry("results", "Numbers and known errors in a program's saved output."),
    "symbolize": Entry("symbolize", "Crashes of a log: what happened, where, with source lines."),
    "bench": Entry("bench", "Measure a program on the phone: a matrix of runs, their spread."),
    "profile": Entry("profile", "Where the time goes: flame graph, top functions, source lines."),
    "logcat": Entry("logcat", "The phone's log: filtered, saved, read on after broken links."),
    "debug": Entry("debug", "Build, deploy and stop at a breakpoint on the phone."),
    "model": Entry("model", "Check model folders before they travel; fetch them from a hub."),
    "vscode": Entry("vscode", "Write VS Code's settings, debugging and tasks; yours stay."),
    "env": Entry("env", "Print or install the toolchains' variables for your shell."),
    "device": Entry("device", "List, choose, connect and look at phones; a shell on one."),
    "tunnel": Entry("tunnel", "Make the phones of this laptop usable on the server."),
    "sim": Entry("sim", "Start and stop virtual phones."),
    "ndk": Entry("ndk", "Find, install, choose and remove Android NDKs."),
    "qnn": Entry("qnn", "Qualcomm's QNN (QAIRT) SDK: find, check, files for the phone."),
    "config": Entry("config", "Show the settings in force and where each came from."),
}
