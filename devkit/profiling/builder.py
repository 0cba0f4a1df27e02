"""Profiles made sample by sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from devkit.profiling.model import (
    INDEX,
    NONE,
    NUMBER,
    REAL,
    Event,
    Frame,
    Meta,
    Module,
    Profile,
    Series,
    Span,
    Thread,
)


class ProfileBuilder:
    """Takes parts in any order and hands out their indexes; equal parts get the same one.

    A reader with many samples keeps its own cache from a whole call chain to the index `stack` gave for it:
    then a repeated chain costs one look-up.
    """

    def __init__(self) -> None:
        self._modules: dict[Module, int] = {}
        self._frames: dict[Frame, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self._thread_names: list[Thread] = []
        self._events: dict[Event, int] = {}
        self._stacks: dict[int, int] = {}
        self._parent, self._frame = array(INDEX), array(INDEX)
        self._sample_stack, self._sample_thread, self._sample_event = array(INDEX), array(INDEX), array(INDEX)
        self._weight, self._time = array(NUMBER), array(NUMBER)
        self._series: list[Series] = []
        self._spans: list[Span] = []

    def module(self, path: str, build_id: str = "") -> int:
        """The index of a module."""
        return self._modules.setdefault(Module(path, build_id), len(self._modules))

    def event(self, name: str, unit: str, *, off_cpu: bool = False) -> int:
        """The index of an event."""
        return self._events.setdefault(Event(name, unit, off_cpu), len(self._events))

    def thread(self, pid: int, tid: int, name: str = "") -> int:
        """The index of a thread; a name replaces the one it had."""
        index = self._threads.setdefault((pid, tid), len(self._threads))
        if index == len(self._thread_names):
            self._thread_names.append(Thread(pid, tid, name))
        elif name:
            self._thread_names[index] = Thread(pid, tid, name)
        return index

    def frame(
        self,
        function: str,
        module: int = NONE,
        *,
        file: str = "",
        line: int = 0,
        inlined: bool = False,
        address: int = NONE,
    ) -> int:
        """The index of a frame."""
        return self.add_frame(Frame(function, module, file, line, inlined, address))

    def add_frame(self, frame: Frame) -> int:
        """The index of a frame that is made already."""
        return self._frames.setdefault(frame, len(self._frames))

    def child(self, parent: int, frame: int) -> int:
        """The index of the stack that is `parent` (NONE: nothing) and, called by it, `frame`."""
        # One number is a smaller and faster key than a pair. The parent has to be its low half: a dict is
        # slow where many keys share their low bits.
        key = frame << 32 | parent + 1
        index = self._stacks.get(key)
        if index is None:
            index = self._stacks[key] = len(self._parent)
            self._parent.append(parent)
            self._frame.append(frame)
        return index

    def stack(self, frames: Iterable[int], parent: int = NONE) -> int:
        """The index of a stack, its frames outermost first; NONE for one without frames."""
        # As `child`, for each: half of the time to read a large recording is spent here.
        stacks, parents, column = self._stacks, self._parent, self._frame
        for frame in frames:
            key = frame << 32 | parent + 1
            index = stacks.get(key)
            if index is None:
                index = stacks[key] = len(parents)
                parents.append(parent)
                column.append(frame)
            parent = index
        return parent

    def sample(self, stack: int, thread: int, weight: int, time_ns: int = 0, event: int = 0) -> None:
        """One sample; `stack` is NONE where it is unknown."""
        self._sample_stack.append(stack)
        self._sample_thread.append(thread)
        self._sample_event.append(event)
        self._weight.append(weight)
        self._time.append(time_ns)

    @property
    def columns(self) -> tuple[array[int], array[int], array[int], array[int], array[int]]:
        """Stack, thread, weight, time and event of the samples, for a reader that appends to them itself."""
        return self._sample_stack, self._sample_thread, self._weight, self._time, self._sample_event

    def series(self, kind: str, name: str, unit: str, points: Iterable[tuple[int, float]]) -> None:
        """Something measured over time: (time in ns, value) in any order."""
        kept = sorted(points)
        times, values = array(NUMBER, (at for at, _ in kept)), array(REAL, (value for _, value in kept))
        self._series.append(Series(kind, name, unit, times, values))

    def span(self, track: str, name: str, start_ns: int, end_ns: int) -> None:
        """Something that lasted."""
        self._spans.append(Span(track, name, start_ns, end_ns))

    def finish(self, meta: Meta) -> Profile:
        """The profile of all that was added."""
        return Profile(
            meta,
            list(self._modules),
            list(self._frames),
            self._thread_names,
            list(self._events),
            self._parent,
            self._frame,
            self._sample_stack,
            self._sample_thread,
            self._sample_event,
            self._weight,
            self._time,
            self._series,
            self._spans,
        )


def with_frames(profile: Profile, frames: Mapping[int, Sequence[Frame]]) -> Profile:
    """The profile with frames replaced, as a symbolizer does it.

    Args:
        frames: index of a frame → what stands for it, outermost first: several where functions were
            inlined, none to take it out of all stacks. Frames that are not named stay.
    """
    builder = ProfileBuilder()
    expanded = [
        [builder.add_frame(new) for new in frames.get(index, (old,))]
        for index, old in enumerate(profile.frames)
    ]
    moved = array(INDEX)
    for parent, frame in zip(profile.stack_parent, profile.stack_frame, strict=True):
        # A parent comes before its children.
        moved.append(builder.stack(expanded[frame], moved[parent] if parent >= 0 else NONE))
    made = builder.finish(profile.meta)
    return replace(
        profile,
        frames=made.frames,
        stack_parent=made.stack_parent,
        stack_frame=made.stack_frame,
        sample_stack=array(INDEX, (moved[s] if s >= 0 else NONE for s in profile.sample_stack)),
    )
