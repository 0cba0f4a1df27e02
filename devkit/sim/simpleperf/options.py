"""The command line of `simpleperf record`."""

from __future__ import annotations

from dataclasses import dataclass, field

from devkit.sim.simpleperf.log import Refused

DEFAULT_FREQUENCY = 4000
# The real tool dumps up to 65528 bytes of each sample's stack; here Python has to keep up with it.
DEFAULT_STACK_BYTES = 8192
_MOST_STACK_BYTES = 65528
_FLAGS = {
    "-a", "--no-inherit", "--trace-offcpu", "--exit-with-parent", "--no-dump-kernel-symbols",
    "--no-dump-symbols", "--no-unwind", "--no-callchain-joiner", "--post-unwind", "--no-cut-samples",
    "--exclude-perf", "--keep-failed-unwinding-result", "--log-to-android-buffer", "--no-dump-build-id",
}  # fmt: skip
_WITH_VALUE = {
    "-p", "-t", "-e", "--group", "-f", "-c", "--call-graph", "--duration", "-o", "-m", "--app", "--cpu",
    "--clockid", "--log", "--symfs", "--start_profiling_fd", "--size-limit", "--user-buffer-size",
    "--cpu-percent", "--aux-buffer-size", "--callchain-joiner-min-matching-nodes", "--addr-filter",
    "--add-meta-info", "--stop-signal-fd", "--stdio-controls-profiling", "-z", "--delay",
}  # fmt: skip
_OPTIONAL_VALUE = {"--post-unwind"}


@dataclass
class Record:
    """What `record` is asked to do.

    Attributes:
        events: names with their modifiers; empty for the default.
        frequency: samples a second; 0: every `period` events one.
        call_graph: "", "fp" or "dwarf".
        fd: STARTED is written to it; -1: to none.
    """

    pids: list[int] = field(default_factory=list)
    tids: list[int] = field(default_factory=list)
    app: str = ""
    system_wide: bool = False
    events: list[str] = field(default_factory=list)
    frequency: int = DEFAULT_FREQUENCY
    period: int = 0
    call_graph: str = ""
    stack_bytes: int = DEFAULT_STACK_BYTES
    duration_s: float | None = None
    output: str = "perf.data"
    off_cpu: bool = False
    inherit: bool = True
    exit_with_parent: bool = False
    fd: int = -1
    command: list[str] = field(default_factory=list)


def parse_record(words: list[str]) -> Record:
    """Understand the words behind `record`.

    Raises:
        Refused: they are wrong.
    """
    made = Record()
    waiting = list(words)
    while waiting and waiting[0].startswith("-"):
        word = waiting.pop(0)
        if word == "--":
            break
        if word == "-g":
            made.call_graph = "dwarf"
        elif word in _FLAGS or word.partition("=")[0] in _OPTIONAL_VALUE:
            _flag(made, word)
        elif word in _WITH_VALUE:
            if not waiting:
                raise Refused(
                    "command.cpp:81", f"No argument following {word} option. Try `simpleperf help record`"
                )
            _value(made, word, waiting.pop(0))
        else:
            raise Refused("command.cpp:107", f"Unknown option: {word}. Try `simpleperf help record`")
    made.command = waiting
    if made.system_wide and (made.pids or made.tids):
        raise Refused(
            "cmd_record.cpp:1180",
            "Record system wide and existing processes/threads can't be used at the same time.",
        )
    return made


def _flag(made: Record, word: str) -> None:
    if word == "-a":
        made.system_wide = True
    elif word == "--no-inherit":
        made.inherit = False
    elif word == "--trace-offcpu":
        made.off_cpu = True
    elif word == "--exit-with-parent":
        made.exit_with_parent = True


def _value(made: Record, word: str, value: str) -> None:
    if word in ("-p", "-t"):
        numbers = value.split(",")
        if not all(number.isdigit() for number in numbers):
            raise Refused("utils.cpp:252", f"Invalid tid '{value}'")
        (made.pids if word == "-p" else made.tids).extend(map(int, numbers))
    elif word in ("-e", "--group"):
        made.events.extend(value.split(","))
    elif word in ("-f", "-c"):
        number = int(value) if value.isdigit() else 0
        if number < 1:
            raise Refused("command.cpp:57", f"invalid {word} option: {value}")
        made.frequency, made.period = (number, 0) if word == "-f" else (0, number)
    elif word == "--call-graph":
        kind, _, size = value.partition(",")
        if kind not in ("fp", "dwarf"):
            raise Refused("cmd_record.cpp:1091", f"unexpected argument for --call-graph: {value}")
        made.call_graph = kind
        if size:
            if not size.isdigit() or not 0 < int(size) <= _MOST_STACK_BYTES or int(size) % 8:
                raise Refused(
                    "cmd_record.cpp:1073", f"dump stack size {size} is not 8-byte aligned or too large"
                )
            made.stack_bytes = int(size)
    elif word == "--duration":
        try:
            made.duration_s = float(value)
        except ValueError:
            made.duration_s = 0.0
        if not made.duration_s > 0:
            raise Refused("command.cpp:72", f"Invalid duration time: {value}")
    elif word == "-o":
        made.output = value
    elif word == "--app":
        made.app = value
    elif word == "--start_profiling_fd":
        made.fd = int(value) if value.isdigit() else -1
