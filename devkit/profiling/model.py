"""A recorded profile as columns: a million samples are a few arrays, not a million objects.

Stacks are a tree: each is its parent (the caller) and one frame, so that what stacks share is there once.
`ProfileBuilder` makes profiles; `store` keeps them in files.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# The parent of a stack that has no caller, the module of a frame in none, an unknown line or address.
NONE = -1

# What the columns of samples and stacks are made of.
INDEX, NUMBER, REAL = "i", "q", "d"


class Module(NamedTuple):
    """A file with code. `build_id` is hex, "" where none is known."""

    path: str
    build_id: str = ""

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2] or self.path


class Frame(NamedTuple):
    """A place in code. Equal frames are one frame of the profile.

    Attributes:
        function: demangled; "" where no symbol is known.
        module: index in `Profile.modules`, or NONE.
        file: the source file as the debug information has it; "" where there is none.
        line: from 1; 0 where there is none.
        inlined: the function was inlined into the frame that is its caller here.
        address: virtual, of the module's file; NONE where the recorder did not tell.
    """

    function: str
    module: int = NONE
    file: str = ""
    line: int = 0
    inlined: bool = False
    address: int = NONE


class Thread(NamedTuple):
    """A thread of a recorded process; its name is the last one that was seen."""

    pid: int
    tid: int
    name: str = ""


class Event(NamedTuple):
    """What was counted.

    Attributes:
        name: as the recorder has it: "cpu-cycles:u", "cpu-clock", "sched:sched_switch" …
        unit: of the samples' weights: "cycles", "ns", "count" …
        off_cpu: the weights are time in which the thread did not run.
    """

    name: str
    unit: str
    off_cpu: bool = False


@dataclass(frozen=True)
class Series:
    """Something measured again and again while the profile was recorded.

    Attributes:
        kind: "memory", "frequency", "temperature", "load": series of one kind share an axis.
        name: "VmRSS", "cpu7", "cpu-1-2-usr" …
        unit: "kB", "kHz", "°C", "%".
        times_ns: on the clock of the samples, rising.
        values: one for each time.
    """

    kind: str
    name: str
    unit: str
    times_ns: array[int]
    values: array[float]


class Span(NamedTuple):
    """Something with a name that lasted: a phase of the program, a run of an accelerator.

    Attributes:
        track: what it belongs to: "phase", "GPU", "NPU" …
        start_ns: on the clock of the samples.
    """

    track: str
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Meta:
    """Where a profile comes from.

    Attributes:
        machine: the phone's or host's name for people.
        command: the program and its arguments.
        recorder: "simpleperf", "perf" …, with its version where known.
        recorded_at: seconds since 1970; 0 when unknown.
        arch: "arm64", "x86_64" …
        clock: of sample times: "monotonic", "perf" …
        lost: samples the recorder says it lost.
        notes: what a reader of the report has to know ("no hardware counters: cpu-clock").
        extra: anything else that JSON can hold, by name.
    """

    machine: str = ""
    command: tuple[str, ...] = ()
    recorder: str = ""
    recorded_at: float = 0.0
    arch: str = ""
    clock: str = "monotonic"
    lost: int = 0
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """One recording. The columns of stacks, and those of samples, are equally long.

    Attributes:
        stack_parent: index of the caller's stack, always smaller than the own; NONE for an outermost frame.
        stack_frame: index in `frames`.
        sample_stack: index of a stack; NONE for a sample whose stack is unknown.
        sample_thread: index in `threads`.
        sample_event: index in `events`.
        sample_weight: in the event's unit; never negative.
        sample_time_ns: on the clock that `meta.clock` names; 0 when unknown.
    """

    meta: Meta
    modules: Sequence[Module]
    frames: Sequence[Frame]
    threads: Sequence[Thread]
    events: Sequence[Event]
    stack_parent: array[int]
    stack_frame: array[int]
    sample_stack: array[int]
    sample_thread: array[int]
    sample_event: array[int]
    sample_weight: array[int]
    sample_time_ns: array[int]
    series: Sequence[Series] = ()
    spans: Sequence[Span] = ()

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.sample_stack)

    def frames_of(self, stack: int) -> list[int]:
        """The frames of a stack, outermost first."""
        found: list[int] = []
        while stack >= 0:
            found.append(self.stack_frame[stack])
            stack = self.stack_parent[stack]
        found.reverse()
        return found

    def total(self, event: int = 0) -> int:
        """The sum of the weights of one event's samples."""
        weights = zip(self.sample_event, self.sample_weight, strict=True)
        return sum(weight for kind, weight in weights if kind == event)
