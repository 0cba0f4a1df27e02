"""DWARF expressions, as far as call frame information has them."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable

from devkit.sim.crashes.memory import Memory
from devkit.sim.crashes.registers import Registers

_MASK = (1 << 64) - 1
_MAX_STEPS = 10_000
_CONSTANTS = {0x08: "B", 0x09: "b", 0x0A: "H", 0x0B: "h", 0x0C: "I", 0x0D: "i", 0x0E: "Q", 0x0F: "q"}
_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: operator.and_,
    0x1C: operator.sub,
    0x1D: operator.mod,
    0x1E: operator.mul,
    0x21: operator.or_,
    0x22: operator.add,
    0x24: operator.lshift,
    0x25: operator.rshift,
    0x26: lambda a, b: _signed(a) >> b,
    0x27: operator.xor,
    0x29: lambda a, b: a == b,
    0x2A: lambda a, b: _signed(a) >= _signed(b),
    0x2B: lambda a, b: _signed(a) > _signed(b),
    0x2C: lambda a, b: _signed(a) <= _signed(b),
    0x2D: lambda a, b: _signed(a) < _signed(b),
    0x2E: lambda a, b: a != b,
}


def evaluate(code: bytes, registers: Registers, memory: Memory, first: int | None = None) -> int:
    """The value of an expression.

    Args:
        first: what is on the stack at the beginning.

    Raises:
        ValueError: it holds what no call frame information holds.
        OSError: it reads where nothing is.
    """
    stack = [] if first is None else [first]
    at = 0
    try:
        for _ in range(_MAX_STEPS):
            if at >= len(code):
                return stack[-1] & _MASK
            at = _step(code, at, stack, registers, memory)
    except (IndexError, KeyError, struct.error, ZeroDivisionError) as error:
        raise ValueError(f"DWARF expression {code.hex()}: {error!r}") from None
    raise ValueError(f"DWARF expression {code.hex()} does not end")


def _step(code: bytes, at: int, stack: list[int], registers: Registers, memory: Memory) -> int:
    op = code[at]
    at += 1
    if 0x30 <= op <= 0x4F:
        stack.append(op - 0x30)
    elif 0x70 <= op <= 0x8F:
        offset, at = sleb(code, at)
        stack.append(registers[op - 0x70] + offset & _MASK)
    elif op == 0x92:
        number, at = uleb(code, at)
        offset, at = sleb(code, at)
        stack.append(registers[number] + offset & _MASK)
    elif op in _CONSTANTS:
        kind = struct.Struct("<" + _CONSTANTS[op])
        stack.append(kind.unpack_from(code, at)[0] & _MASK)
        at += kind.size
    elif op == 0x03:
        stack.append(struct.unpack_from("<Q", code, at)[0])
        at += 8
    elif op == 0x06:
        stack.append(memory.word(stack.pop()))
    elif op == 0x94:
        size = code[at]
        at += 1
        stack.append(int.from_bytes(memory.read(stack.pop(), size), "little"))
    elif op == 0x10:
        value, at = uleb(code, at)
        stack.append(value)
    elif op == 0x11:
        value, at = sleb(code, at)
        stack.append(value & _MASK)
    elif op == 0x12:
        stack.append(stack[-1])
    elif op == 0x13:
        stack.pop()
    elif op == 0x14:
        stack.append(stack[-2])
    elif op == 0x15:
        stack.append(stack[-1 - code[at]])
        at += 1
    elif op == 0x16:
        stack[-1], stack[-2] = stack[-2], stack[-1]
    elif op == 0x17:
        stack[-1], stack[-2], stack[-3] = stack[-2], stack[-3], stack[-1]
    elif op == 0x19:
        stack.append(abs(_signed(stack.pop())))
    elif op == 0x1F:
        stack.append(-stack.pop() & _MASK)
    elif op == 0x20:
        stack.append(~stack.pop() & _MASK)
    elif op == 0x23:
        value, at = uleb(code, at)
        stack.append(stack.pop() + value & _MASK)
    elif op in _BINARY:
        right, left = stack.pop(), stack.pop()
        stack.append(int(_BINARY[op](left, right)) & _MASK)
    elif op in (0x28, 0x2F):
        distance = struct.unpack_from("<h", code, at)[0]
        at += 2
        if op == 0x2F or stack.pop():
            at += distance
    elif op != 0x96:
        raise ValueError(f"DWARF operation {op:#x} is not known")
    return at


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def sleb(data: bytes, at: int) -> tuple[int, int]:
    """A signed LEB128 number and where it ends."""
    start = at
    value, at = uleb(data, at)
    if data[at - 1] & 0x40:
        value -= 1 << 7 * (at - start)
    return value, at


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
