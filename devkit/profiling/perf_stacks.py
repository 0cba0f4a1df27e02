"""Call chains of a perf.data as stacks of a profile. A chain that was seen before costs one look-up."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import Module
from devkit.profiling.perf_maps import Space
from devkit.profiling.perf_symbols import FileSymbols

KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"
# Of a record's misc.
MISC_CPU, MISC_KERNEL = 7, 1
# Addresses from here on are no addresses but say what those behind them belong to.
_CONTEXT = (1 << 64) - 4095
_CONTEXT_KERNEL, _CONTEXT_USER = (1 << 64) - 128, (1 << 64) - 512

# The virtual address of a place in a file that is known here; None where it is not.
Locate = Callable[[Module, int], "int | None"]
# A chain's bytes; the place that ran, b"" where it is not recorded; the processor's mode.
Chain = tuple[bytes, "int | bytes", int]


class Stacks:
    """Makes stacks of call chains.

    Args:
        symbols: what the recorder wrote down of files, by path.
        caller_distance: what makes a call's address of the one it returns to.
    """

    def __init__(
        self,
        builder: ProfileBuilder,
        symbols: Mapping[str, FileSymbols],
        locate: Locate | None,
        *,
        caller_distance: int,
        kernel_build_id: str = "",
    ) -> None:
        self._builder = builder
        self._symbols = symbols
        self._locate = locate
        self._distance = caller_distance
        self._kernel = builder.module(KERNEL, kernel_build_id)
        self._kernel_frames = _Known(self._kernel_frame)
        self._chains: dict[int, dict[Chain, int]] = {}

    def of(self, space: Space) -> dict[Chain, int]:
        """The stack of each call chain of a process; what is not there yet is made when it is asked for."""
        found = self._chains.get(id(space))
        if found is None:
            frames = _Known(lambda address: self._place(space, address))
            found = self._chains[id(space)] = _Chains(lambda chain: self._stack(frames, chain))
        return found

    def _stack(self, user: dict[int, int], chain: Chain) -> int:
        data, first, mode = chain
        frames = self._kernel_frames if mode == MISC_KERNEL else user
        addresses = struct.unpack(f"<{len(data) // 8}Q", data)
        found: list[int] = []
        if isinstance(first, int) and first < _CONTEXT:
            found.append(frames[first])
        marks = [at for at, address in enumerate(addresses) if address >= _CONTEXT]
        begun = False
        begin = 0
        for mark in (*marks, len(addresses)):
            run = addresses[begin:mark]
            begin = mark + 1
            if run and not begun:
                begun = True
                if run[0] == first:
                    run = run[1:]
                elif not found:
                    found.append(frames[run[0]])
                    run = run[1:]
            if self._distance:
                run = tuple(a - self._distance if a > self._distance else a for a in run)
            found.extend(map(frames.__getitem__, run))
            if mark < len(addresses):
                context = addresses[mark]
                frames = {_CONTEXT_USER: user, _CONTEXT_KERNEL: self._kernel_frames}.get(context, frames)
        found.reverse()
        return self._builder.stack(found)

    def _kernel_frame(self, address: int) -> int:
        symbols = self._symbols.get(KERNEL)
        name = symbols.name_at(address) if symbols else ""
        return self._builder.frame(name, self._kernel, address=address)

    def _place(self, space: Space, address: int) -> int:
        mapping = space.find(address)
        if mapping is None:
            return self._builder.frame("", self._builder.module(UNKNOWN), address=address)
        module = Module(mapping.path, mapping.build_id)
        index = self._builder.module(*module)
        place = address - mapping.start + mapping.offset
        symbols = self._symbols.get(mapping.path)
        virtual = self._locate(module, place) if self._locate is not None else None
        if virtual is None and symbols is not None and symbols.offset_of_min_vaddr is not None:
            virtual = place - symbols.offset_of_min_vaddr + symbols.min_vaddr
        if virtual is None:
            virtual = place
        name = symbols.name_at(virtual) if symbols is not None else ""
        return self._builder.frame(name, index, address=virtual)


class _Known(dict[int, int]):
    """Frames by address, made when they are missing."""

    def __init__(self, make: Callable[[int], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, address: int) -> int:
        frame = self[address] = self._make(address)
        return frame


class _Chains(dict[Chain, int]):
    """Stacks by call chain, made when they are missing."""

    def __init__(self, make: Callable[[Chain], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, chain: Chain) -> int:
        stack = self[chain] = self._make(chain)
        return stack
