"""The table of options: the one source of keys, types, variables, help and documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUILD_TYPES = ("debug", "release", "profile", "relwithdebinfo")
BACKENDS = ("none", "cpu", "gpu", "htp", "htp-online", "htp-offline")


@dataclass(frozen=True)
class Option:
    """One configuration key.

    `kind`: text, path, integer (from 1), count (from 0), choice, list, map, variables, files, regex, regexes,
    patterns (a list of {pattern: REGEX, units: {GROUP: UNIT}}) or places (a list of `PLACE` or `PLACE: why`).
    """

    key: str
    kind: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "DEVKIT_" + self.key.upper().replace(".", "_")


OPTIONS = (
    Option("engine", "choice", "what is built: mnn, or cmake for any CMake project (default: detected)",
           choices=("mnn", "cmake")),
    Option("source", "path", "the engine's source folder", default="."),
    Option("device.dir", "text", "folder on the phone that devkit uses", default="/data/local/tmp/devkit"),
    Option("device.serial", "text", "serial of the phone to use, or sim:NAME"),
    Option("device.soc", "text", "the phone's chip (SM8650), where it does not say or says it wrong"),
    Option("adb.server", "text", "address of the adb server, HOST:PORT"),
    Option("tunnel.host", "text", "the server that `devkit tunnel up` logs in to (as ssh takes it)"),
    Option("adb.path", "path", "the adb program"),
    Option("deploy.strip", "choice", "auto: programs and libraries travel without debug information and "
           "symbols, which stay here; debug: with symbols, for the names in crash reports of the phone; "
           "never: as they are", default="auto", choices=("auto", "debug", "never")),
    Option("build.type", "choice", "build type", default="debug", choices=BUILD_TYPES),
    Option("build.jobs", "integer", "parallel compile jobs (default: what cores and memory allow)"),
    Option("build.api_level", "integer", "Android API level to build for", default=24),
    Option("build.toolchain", "choice", "auto: the NDK for phones, this machine's compiler for virtual ones; "
           "ndk: the NDK for both", default="auto", choices=("auto", "ndk")),
    Option("ndk.path", "path", "the Android NDK"),
    Option("ndk.version", "text", "the NDK release to use (r27d, 27.3 or 27), wherever it is installed"),
    Option("ndk.mirror", "text", "URL of a folder with NDK archives, tried before Google's"),
    Option("qnn.path", "path", "the QNN (QAIRT) SDK"),
    Option("qnn.version", "text", "the QNN SDK version to use (2.42 or 2.42.0.251225)"),
    Option("lldb.path", "path", "the lldb program on this machine"),
    Option("lldb.server", "path", "the lldb-server file that is pushed to the phone"),
    Option("lldb.input", "choice", "how a debugged program gets its terminal on the phone: launched onto one "
           "by LLDB, or preloaded with a library that waits for LLDB; auto: preload where launch is refused",
           default="auto", choices=("auto", "launch", "preload")),
    Option("vscode.debugger", "choice", "the VS Code extension that debugs on the phone: configurations are "
           "written for it", default="codelldb", choices=("codelldb", "lldb-dap", "both")),
)  # fmt: skip

PROFILE_OPTIONS = (
    Option("extends", "text", "the profile it starts from"),
    Option("about", "text", "what it is for"),
    Option("options", "map", "CMake options, NAME: VALUE"),
    Option("type", "choice", "build type", choices=BUILD_TYPES),
    Option("target", "choice", "where its programs run", choices=("device", "host")),
    Option("targets", "list", "CMake targets to build (default: all)"),
    Option("needs", "list", "SDKs it cannot do without: ndk, ndk>=25, qnn>=2.38, asan"),
    Option("opens", "list", "CMake targets of libraries that its programs open at run time (dlopen)"),
    Option("products", "list", "CMake targets that must be there after a build"),
)

APP_OPTIONS = (
    Option("profile", "text", "build profile", default="cpu"),
    Option("target", "text", "the executable: CMake target, file name or path (default: the app's name)"),
    Option(
        "files",
        "files",
        "files, folders and patterns that travel along: {local: PATH, remote: PATH, exclude: []}",
    ),
    Option("args", "list", "arguments when none are given after --"),
    Option("env", "variables", "environment variables on the phone"),
    Option(
        "cwd", "text", "working directory on the phone, relative to the app's folder (default: that folder)"
    ),
    Option(
        "pull", "list", "outputs that come back after a run: globs (`out/*.bin`, `**/*.json`) relative to cwd"
    ),
    Option(
        "stdin_end",
        "text",
        "line to send when standard input ends, for programs that do not notice the end "
        "(default for llm_demo: /exit)",
    ),
    Option(
        "backend",
        "choice",
        "which QNN libraries travel along, all from one SDK; htp: online or offline as the "
        "app's profile and files say",
        default="none",
        choices=BACKENDS,
    ),
    Option(
        "results",
        "text",
        "the parser that reads its output: llm_bench …, one of `results:`, or none "
        "(default: by the program's name and output)",
    ),
)

RESULT_OPTIONS = (
    Option("lines", "patterns", "lines with numbers: {pattern: REGEX, units: {GROUP: UNIT}}; the groups in "
           "`units` are values, the others labels"),
    Option("programs", "regexes", "names of programs whose output it reads without being asked"),
    Option("failed", "regexes", "lines that mean failure, whatever the exit code"),
    Option("ok", "regex", "a line that a good run prints; without one the run failed"),
)  # fmt: skip

FINDING_OPTIONS = (
    Option("pattern", "regex", "searched in each line of a program's output"),
    Option("severity", "choice", "failed: the run is worthless whatever its exit code; warning; note",
           default="failed", choices=("failed", "warning", "note")),
    Option("meaning", "text", "what such a line means; {NAME} is the text of the group NAME"),
    Option("cause", "text", "why that happens"),
    Option("next", "list", "commands to try; {app} is the app's name"),
)  # fmt: skip

# Rows for devkit/device/socs.yaml.
SOC_OPTIONS = (
    Option("soc_model", "integer", "QNN's number of the chip (not the kernel's soc_id)"),
    Option("dsp_arch", "text", "its Hexagon architecture, as v75"),
    Option("vtcm_mb", "integer", "megabytes of its VTCM"),
    Option("name", "text", "what it is sold as"),
    Option("note", "text", "what is to be said wherever it is used"),
)

BENCH_OPTIONS = (
    Option("profiles", "list", "build profiles to compare (default: the app's own)"),
    Option("backends", "list", "values of {backend} in the arguments"),
    Option("threads", "list", "values of {threads} in the arguments"),
    Option("prompts", "list", "values of {prompt} in the arguments"),
    Option("args", "list", "arguments instead of the app's own"),
    Option("repeat", "integer", "measured runs of each combination", default=5),
    Option("warmup", "count", "runs before them that do not count", default=1),
    Option("cooldown_s", "count", "seconds of pause before each run", default=2),
    Option("max_c", "integer", "wait until the hottest part is below this many degrees Celsius"),
    Option("timeout_s", "integer", "seconds after which a run is ended", default=600),
    Option("metrics", "list", "regular expressions for numbers of the output; named groups name them"),
    Option("taskset", "text", "processors it may run on: big, little, prime, all, a mask or a list"),
)

PRESET_OPTIONS = (
    Option("about", "text", "what the breakpoints show, for `devkit debug --list-presets`"),
    Option("breakpoints", "places", "where `devkit debug --preset NAME` stops: FILE:LINE or FUNC, "
           "each alone or as `PLACE: why`"),
)  # fmt: skip

# Sections whose keys are names that the user gives.
NAMED_SECTIONS = {
    "profiles": PROFILE_OPTIONS,
    "apps": APP_OPTIONS,
    "socs": SOC_OPTIONS,
    "results": RESULT_OPTIONS,
    "findings": FINDING_OPTIONS,
    "bench": BENCH_OPTIONS,
    "presets": PRESET_OPTIONS,
}
