"""From a thread's registers to its backtrace."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from devkit.sim.crashes.demangle import demangle
from devkit.sim.crashes.frames import Row, caller, find_row
from devkit.sim.crashes.memory import Mapping, Maps, Memory
from devkit.sim.crashes.modules import Module, Modules
from devkit.sim.crashes.registers import Processor, Registers

MAX_FRAMES = 256
_BROKEN = (OSError, ValueError, struct.error, IndexError, KeyError)
# The largest step from a frame to its caller that is believed when there is no call frame information.
_MAX_GUESSED_FRAME_BYTES = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A line of a backtrace.

    Args:
        pc: in the file; of a caller it lies in the call, not behind it.
        file: path, or what stands in its place.
        function: demangled, "" when it is not known.
        offset: of pc in the function.
        build_id: in hex, "" when there is none.
    """

    pc: int
    file: str
    function: str
    offset: int
    build_id: str


class Unwinder:
    """Unwinds the threads of one process that stands still."""

    def __init__(self, memory: Memory, maps: Maps, processor: Processor) -> None:
        self._memory = memory
        self._maps = maps
        self._processor = processor
        self.modules = Modules(memory, maps)

    def backtrace(self, registers: Registers) -> list[Frame]:
        """The frames from the innermost on."""
        frames: list[Frame] = []
        processor = self._processor
        exact = True
        while len(frames) < MAX_FRAMES:
            pc = registers.get(processor.pc, 0)
            # A return address is behind the call; what it belongs to is the call.
            place = pc if exact else pc - processor.call_bytes
            mapping = self._maps.find(place)
            frames.append(self._frame(place, mapping))
            following, exact = self._caller(registers, place, mapping, innermost=len(frames) == 1)
            if following is None or following.get(processor.pc, 0) == 0:
                break
            stands = following[processor.stack] == registers.get(processor.stack)
            if stands and following[processor.pc] == registers.get(processor.pc):
                break
            registers = following
        return frames

    def _frame(self, place: int, mapping: Mapping | None) -> Frame:
        if mapping is None:
            return Frame(place, "<unknown>", "", 0, "")
        module = self.modules.at(mapping)
        name = mapping.name or f"<anonymous:{mapping.start:x}>"
        if module is None:
            return Frame(place - mapping.start + mapping.offset, name, "", 0, "")
        address = place - module.bias
        symbol = module.symbol_at(address)
        if symbol is None:
            return Frame(address, name, "", 0, module.build_id)
        return Frame(address, name, demangle(symbol.name), address - symbol.start, module.build_id)

    def _caller(
        self, registers: Registers, place: int, mapping: Mapping | None, *, innermost: bool
    ) -> tuple[Registers | None, bool]:
        """The caller's registers, and whether it was interrupted exactly at its pc."""
        row = self._row(place, mapping)
        if row is not None:
            try:
                found = caller(row, registers, self._memory, self._processor.stack, self._processor.pc)
            except _BROKEN:
                return None, False
            return found, row.is_signal
        if mapping is None or not mapping.executable:
            # Called through a wild pointer: only the call itself has happened.
            return (self._after_call(registers) if innermost else None), False
        return self._by_frame_pointer(registers), False

    def _row(self, place: int, mapping: Mapping | None) -> Row | None:
        module: Module | None = self.modules.at(mapping) if mapping is not None else None
        if module is None or module.frame_table is None:
            return None
        try:
            return find_row(self._memory, module.frame_table, place)
        except _BROKEN:
            return None

    def _after_call(self, registers: Registers) -> Registers | None:
        processor = self._processor
        result = dict(registers)
        if processor.abi == "arm64":
            result[processor.pc] = registers.get(processor.names["lr"], 0)
            return result
        stack = registers.get(processor.stack, 0)
        try:
            result[processor.pc] = self._memory.word(stack)
        except _BROKEN:
            return None
        result[processor.stack] = stack + 8
        return result

    def _by_frame_pointer(self, registers: Registers) -> Registers | None:
        processor = self._processor
        frame = registers.get(processor.frame, 0)
        stack = registers.get(processor.stack, 0)
        if frame % 8 or not stack <= frame < stack + _MAX_GUESSED_FRAME_BYTES:
            return None
        try:
            saved, address = self._memory.word(frame), self._memory.word(frame + 8)
        except _BROKEN:
            return None
        target = self._maps.find(address)
        if target is None or not target.executable:
            return None
        result = dict(registers)
        result.update({processor.frame: saved, processor.pc: address, processor.stack: frame + 16})
        return result
