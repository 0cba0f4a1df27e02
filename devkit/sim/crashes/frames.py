"""Call frame information (.eh_frame): how to get from a place in a function to its caller.

The table .eh_frame_hdr leads to one function's entry; nothing else of the section is read, however large.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from devkit.sim.crashes.expressions import evaluate, sleb, uleb
from devkit.sim.crashes.memory import Memory
from devkit.sim.crashes.registers import Registers

_MASK = (1 << 64) - 1
_OMIT = 0xFF
_INDIRECT = 0x80
_FORMATS = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
# Such a rule as (kind, value).
Rule = tuple[str, int | bytes]


@dataclass
class _Cie:
    code_factor: int = 1
    data_factor: int = 1
    return_register: int = 0
    pointer_format: int = 0
    is_signal: bool = False
    has_augmentation: bool = False
    instructions: bytes = b""


@dataclass
class Row:
    """What holds at one place of a function.

    Args:
        cfa: register and offset, or an expression: the caller's stack pointer.
        rules: how each saved register is found again.
        return_register: which of them is the return address.
        is_signal: the function is the end of a signal handler; its caller was interrupted, not calling.
        signed_return: the return address carries a signature (aarch64).
    """

    cfa: tuple[int, int] | bytes = (0, 0)
    rules: dict[int, Rule] = field(default_factory=dict)
    return_register: int = 0
    is_signal: bool = False
    signed_return: bool = False

    def copy(self) -> Row:
        """A row that can be changed on its own."""
        return Row(self.cfa, dict(self.rules), self.return_register, self.is_signal, self.signed_return)


def find_row(memory: Memory, table: int, pc: int) -> Row | None:
    """The row for a place in the code, None when the table has no function there.

    Args:
        table: where .eh_frame_hdr lies.

    Raises:
        OSError, ValueError, struct.error, IndexError: the information is broken.
    """
    entry = _find_entry(memory, table, pc)
    return _row_at(memory, entry, pc) if entry is not None else None


def caller(row: Row, registers: Registers, memory: Memory, stack: int, pc: int) -> Registers | None:
    """The caller's registers; None when there is none (the row says so).

    Args:
        stack, pc: DWARF numbers of stack pointer and program counter.

    Raises:
        OSError, ValueError: the stack is not as the row says.
    """
    if isinstance(row.cfa, bytes):
        cfa = evaluate(row.cfa, registers, memory)
    else:
        cfa = registers.get(row.cfa[0], 0) + row.cfa[1] & _MASK
    result = dict(registers)
    result[stack] = cfa
    for number, (kind, value) in row.rules.items():
        if kind == "undefined":
            result.pop(number, None)
        elif kind == "offset" and isinstance(value, int):
            result[number] = memory.word(cfa + value & _MASK)
        elif kind == "value-offset" and isinstance(value, int):
            result[number] = cfa + value & _MASK
        elif kind == "register" and isinstance(value, int):
            result[number] = registers.get(value, 0)
        elif kind == "expression" and isinstance(value, bytes):
            result[number] = memory.word(evaluate(value, registers, memory, cfa))
        elif kind == "value-expression" and isinstance(value, bytes):
            result[number] = evaluate(value, registers, memory, cfa)
    address = result.get(row.return_register)
    if address is None:
        return None
    # Without this the upper bits of a signed address would point nowhere.
    result[pc] = address & (1 << 48) - 1 if row.signed_return else address
    return result


# ---- finding


def _find_entry(memory: Memory, table: int, pc: int) -> int | None:
    version, start_format, count_format, format_ = memory.read(table, 4)
    if version != 1 or _OMIT in (count_format, format_):
        return None
    at = table + 4
    _, at = _pointer(memory, at, start_format, table)
    count, at = _pointer(memory, at, count_format, table)
    size = struct.calcsize("<" + _FORMATS[format_ & 0x0F])
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        start, _ = _pointer(memory, at + middle * 2 * size, format_, table)
        if start <= pc:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    return _pointer(memory, at + (low - 1) * 2 * size + size, format_, table)[0]


def _pointer(memory: Memory, at: int, format_: int, table: int = 0) -> tuple[int, int]:
    """A pointer in one of the section's encodings, and where it ends."""
    kind = format_ & 0x0F
    if kind in (0x01, 0x09):
        data = memory.read(at, 10)
        value, used = (uleb if kind == 0x01 else sleb)(data, 0)
        end = at + used
    else:
        form = struct.Struct("<" + _FORMATS[kind])
        value = form.unpack(memory.read(at, form.size))[0]
        end = at + form.size
    base = format_ & 0x70
    if base == 0x10:
        value += at
    elif base == 0x30:
        value += table
    value &= _MASK
    if format_ & _INDIRECT:
        value = memory.word(value)
    return value, end


def _row_at(memory: Memory, entry: int, pc: int) -> Row | None:
    length, at = _length(memory, entry)
    end = at + length
    distance = struct.unpack("<I", memory.read(at, 4))[0]
    cie = _read_cie(memory, at - distance)
    start, at = _pointer(memory, at + 4, cie.pointer_format)
    size, at = _pointer(memory, at, cie.pointer_format & 0x0F)
    if not start <= pc < start + size:
        return None
    if cie.has_augmentation:
        skip, used = uleb(memory.read(at, 10), 0)
        at += used + skip
    row = Row(return_register=cie.return_register, is_signal=cie.is_signal)
    machine = _Machine(cie, memory)
    machine.run(cie.instructions, row, 0, _MASK)
    initial = row.copy()
    machine.run(memory.read(at, end - at), row, start, pc, initial)
    return row


def _length(memory: Memory, at: int) -> tuple[int, int]:
    length = struct.unpack("<I", memory.read(at, 4))[0]
    if length == 0xFFFFFFFF:
        return memory.word(at + 4), at + 12
    return length, at + 4


def _read_cie(memory: Memory, at: int) -> _Cie:
    length, at = _length(memory, at)
    data = memory.read(at, length)
    base = at
    version = data[4]
    end = data.index(0, 5)
    augmentation = data[5:end].decode("ascii")
    cie = _Cie()
    at = end + 1
    cie.code_factor, at = uleb(data, at)
    cie.data_factor, at = sleb(data, at)
    if version == 1:
        cie.return_register, at = data[at], at + 1
    else:
        cie.return_register, at = uleb(data, at)
    cie.is_signal = "S" in augmentation
    cie.has_augmentation = augmentation.startswith("z")
    if cie.has_augmentation:
        size, at = uleb(data, at)
        inner = at
        for letter in augmentation[1:]:
            if letter == "R":
                cie.pointer_format, inner = data[inner], inner + 1
            elif letter == "L":
                inner += 1
            elif letter == "P":
                _, stop = _pointer(memory, base + inner + 1, data[inner] & ~_INDIRECT)
                inner = stop - base
        at += size
    cie.instructions = data[at:]
    return cie


# ---- the instructions


class _Machine:
    def __init__(self, cie: _Cie, memory: Memory) -> None:
        self._cie = cie
        self._memory = memory
        self._saved: list[Row] = []

    def run(self, code: bytes, row: Row, start: int, pc: int, initial: Row | None = None) -> None:
        """Change a row by instructions until one goes beyond `pc`."""
        at, place = 0, start
        while at < len(code):
            op = code[at]
            at += 1
            high, low = op >> 6, op & 0x3F
            if high == 1:
                place += low * self._cie.code_factor
            elif high == 2:
                offset, at = uleb(code, at)
                row.rules[low] = ("offset", offset * self._cie.data_factor)
            elif high == 3:
                self._restore(row, low, initial)
            elif op in (0x02, 0x03, 0x04):
                form = struct.Struct("<" + {0x02: "B", 0x03: "H", 0x04: "I"}[op])
                place += form.unpack_from(code, at)[0] * self._cie.code_factor
                at += form.size
            elif op == 0x01:
                place = struct.unpack_from("<Q", code, at)[0]
                at += 8
            else:
                at = self._other(op, code, at, row, initial)
            if place > pc:
                return

    def _other(self, op: int, code: bytes, at: int, row: Row, initial: Row | None) -> int:
        factor = self._cie.data_factor
        if op in (0x00, 0x2E):
            return uleb(code, at)[1] if op == 0x2E else at
        if op == 0x0A:
            self._saved.append(row.copy())
            return at
        if op == 0x0B:
            saved = self._saved.pop()
            row.cfa, row.rules, row.signed_return = saved.cfa, saved.rules, saved.signed_return
            return at
        if op == 0x2D:
            row.signed_return = not row.signed_return
            return at
        if op == 0x0F:
            row.cfa, at = self._block(code, at)
            return at
        if op in (0x0E, 0x13):
            value, at = uleb(code, at) if op == 0x0E else sleb(code, at)
            row.cfa = (row.cfa[0] if isinstance(row.cfa, tuple) else 0, value * (factor if op == 0x13 else 1))
            return at
        number, at = uleb(code, at)
        if op in (0x0C, 0x12):
            value, at = uleb(code, at) if op == 0x0C else sleb(code, at)
            row.cfa = (number, value * (factor if op == 0x12 else 1))
        elif op == 0x0D:
            row.cfa = (number, row.cfa[1] if isinstance(row.cfa, tuple) else 0)
        elif op == 0x06:
            self._restore(row, number, initial)
        elif op == 0x07:
            row.rules[number] = ("undefined", 0)
        elif op == 0x08:
            row.rules.pop(number, None)
        elif op in (0x05, 0x14):
            value, at = uleb(code, at)
            row.rules[number] = ("offset" if op == 0x05 else "value-offset", value * factor)
        elif op in (0x11, 0x15):
            value, at = sleb(code, at)
            row.rules[number] = ("offset" if op == 0x11 else "value-offset", value * factor)
        elif op == 0x09:
            other, at = uleb(code, at)
            row.rules[number] = ("register", other)
        elif op in (0x10, 0x16):
            block, at = self._block(code, at)
            row.rules[number] = ("expression" if op == 0x10 else "value-expression", block)
        elif op == 0x2F:
            value, at = uleb(code, at)
            row.rules[number] = ("offset", -value * factor)
        else:
            raise ValueError(f"call frame instruction {op:#x} is not known")
        return at

    @staticmethod
    def _restore(row: Row, number: int, initial: Row | None) -> None:
        if initial is not None and number in initial.rules:
            row.rules[number] = initial.rules[number]
        else:
            row.rules.pop(number, None)

    @staticmethod
    def _block(code: bytes, at: int) -> tuple[bytes, int]:
        size, at = uleb(code, at)
        return code[at : at + size], at + size
