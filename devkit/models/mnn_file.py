"""Reads from a .mnn file what decides whether the files beside it fit: external weights, NPU graphs.

A .mnn file is a FlatBuffer of schema/default/MNN.fbs (alibaba/MNN). Only the few fields that are needed are
walked, in place: a model's graph may have hundreds of megabytes.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import FileError

# Offsets in a FlatBuffer table's vtable: 4 + 2 × the field's number in the schema.
_NET_OPS, _NET_SUBGRAPHS, _SUBGRAPH_NODES = 10, 24, 12
_OP_KIND, _OP_PARAMETER, _OP_NAME = 6, 8, 10
_PLUGIN_ATTRIBUTES = 6
_ATTRIBUTE_TEXT, _ATTRIBUTE_KEY, _ATTRIBUTE_LIST = 4, 10, 18
_LIST_TEXTS, _LIST_INTEGERS = 4, 6
_CONVOLUTION_COMMON, _COMMON_OUTPUTS = 4, 24
# Members of the union OpParameter, and where each keeps `external: [offset, size, size, …]`.
_BLOB, _CONVOLUTION, _PLUGIN, _SCALE, _LAYER_NORM, _FUSED_LINEAR = 7, 9, 30, 58, 88, 103
_EXTERNAL = {_BLOB: 22, _CONVOLUTION: 16, _SCALE: 10, _LAYER_NORM: 14}
_FUSED_CONVOLUTIONS, _FUSED_NORM = 4, 8


@dataclass(frozen=True)
class NpuGraph:
    """A plugin op: a graph that was compiled for an NPU.

    Attributes:
        path: its file, below npu_model_dir; None when the op names none.
        graphs: names of the graphs in that file, one for each shape it was exported with.
        shapes: for each of them the dimensions of all inputs, one after the other.
    """

    name: str
    path: str | None
    graphs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """What differs between its shapes: the numbers of tokens it takes. Empty when it has one shape."""
        if len(self.shapes) < 2:
            return ()
        columns = [column for column in zip(*self.shapes, strict=True) if len(set(column)) > 1]
        # The mask's columns are tokens too, but may have the history on top: the usual one is right.
        return tuple(Counter(columns).most_common(1)[0][0]) if columns else ()


@dataclass(frozen=True)
class MnnFile:
    """What one .mnn file says.

    Attributes:
        weight_end: bytes that its weight file must have; 0 when the weights are inside.
        logits: outputs of the last layer that is a matrix product (the vocabulary of an LLM), or None.
    """

    path: Path
    ops: int
    weight_end: int
    logits: int | None
    npu: tuple[NpuGraph, ...]


def read_mnn(path: Path) -> MnnFile:
    """Read one .mnn file.

    Raises:
        FileError: it cannot be read, or is no (whole) MNN model.
    """
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(path, data)
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=str(error)) from None
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError, ValueError) as error:
        raise FileError(
            f"{path} is no MNN model, or not all of it",
            evidence=_evidence(path, error),
            hints=["copy or export it again"],
        ) from None


def _evidence(path: Path, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "where a name should be there is no text"
    if type(error) is ValueError:
        return str(error)  # our own words
    with path.open("rb") as file:
        begin = file.read(8).hex(" ")
    return f"it points beyond its end ({path.stat().st_size} bytes); its first bytes are {begin}"


def _parse(path: Path, data: mmap.mmap) -> MnnFile:
    buffer = _Buffer(data)
    net = buffer.follow(0)
    end, logits, npu, count = 0, None, [], 0
    for op in _all_ops(buffer, net):
        count += 1
        kind = buffer.byte(op, _OP_KIND)
        parameter = buffer.table(op, _OP_PARAMETER)
        if parameter is None:
            continue
        if kind == _PLUGIN:
            npu.append(_npu_graph(buffer, op, parameter))
            continue
        for part, its_kind in _parts(buffer, kind, parameter):
            external = buffer.numbers(part, _EXTERNAL[its_kind], "q")
            if len(external) > 1:
                end = max(end, external[0] + sum(external[1:]))
            if its_kind == _CONVOLUTION:
                common = buffer.table(part, _CONVOLUTION_COMMON)
                logits = buffer.integer(common, _COMMON_OUTPUTS) if common is not None else logits
    if not count:
        raise ValueError("there is no operation in it")
    return MnnFile(path, count, end, logits, tuple(npu))


def _all_ops(buffer: _Buffer, net: int) -> Iterator[int]:
    for graph in buffer.tables(net, _NET_SUBGRAPHS):
        yield from buffer.tables(graph, _SUBGRAPH_NODES)
    yield from buffer.tables(net, _NET_OPS)


def _parts(buffer: _Buffer, kind: int, parameter: int) -> Iterator[tuple[int, int]]:
    """The tables of an operation that may have external weights, each with its kind."""
    if kind in _EXTERNAL:
        yield parameter, kind
    elif kind == _FUSED_LINEAR:
        for convolution in buffer.tables(parameter, _FUSED_CONVOLUTIONS):
            yield convolution, _CONVOLUTION
        norm = buffer.table(parameter, _FUSED_NORM)
        if norm is not None:
            yield norm, _LAYER_NORM


def _npu_graph(buffer: _Buffer, op: int, plugin: int) -> NpuGraph:
    path: str | None = None
    graphs: tuple[str, ...] = ()
    flat: Sequence[int] = ()
    for attribute in buffer.tables(plugin, _PLUGIN_ATTRIBUTES):
        key = buffer.text(attribute, _ATTRIBUTE_KEY)
        values = buffer.table(attribute, _ATTRIBUTE_LIST)
        if key == "path":
            path = buffer.text(attribute, _ATTRIBUTE_TEXT)
        elif key == "allGraphName" and values is not None:
            graphs = tuple(buffer.texts(values, _LIST_TEXTS))
        elif key == "allInputShape" and values is not None:
            flat = buffer.numbers(values, _LIST_INTEGERS, "i")
    size = len(flat) // len(graphs) if graphs else 0
    shapes = tuple(tuple(flat[i * size : (i + 1) * size]) for i in range(len(graphs))) if size else ()
    return NpuGraph(buffer.text(op, _OP_NAME) or "", path, graphs, shapes)


class _Buffer:
    """Just enough of FlatBuffers: tables, vectors and texts, each found by a field of a table."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data

    def follow(self, at: int) -> int:
        return at + self._number("<I", at)

    def byte(self, table: int, field: int) -> int:
        at = self._field(table, field)
        return self._data[at] if at is not None else 0

    def integer(self, table: int, field: int) -> int | None:
        at = self._field(table, field)
        return self._number("<i", at) if at is not None else None

    def table(self, table: int, field: int) -> int | None:
        at = self._field(table, field)
        return self.follow(at) if at is not None else None

    def tables(self, table: int, field: int) -> Iterator[int]:
        begin, count = self._vector(table, field, 4)
        return (self.follow(begin + 4 * index) for index in range(count))

    def numbers(self, table: int, field: int, kind: str) -> tuple[int, ...]:
        begin, count = self._vector(table, field, struct.calcsize(kind))
        return struct.unpack_from(f"<{count}{kind}", self._data, begin) if count else ()

    def text(self, table: int, field: int) -> str | None:
        at = self._field(table, field)
        return self._text(self.follow(at)) if at is not None else None

    def texts(self, table: int, field: int) -> Iterator[str]:
        begin, count = self._vector(table, field, 4)
        return (self._text(self.follow(begin + 4 * index)) for index in range(count))

    def _text(self, at: int) -> str:
        size = self._number("<I", at)
        return self._data[at + 4 : at + 4 + size].decode()

    def _vector(self, table: int, field: int, width: int) -> tuple[int, int]:
        at = self._field(table, field)
        if at is None:
            return 0, 0
        begin = self.follow(at)
        count = self._number("<I", begin)
        if begin + 4 + count * width > len(self._data):
            raise ValueError(f"it ends at byte {len(self._data)}, in the middle of a list")
        return begin + 4, count

    def _field(self, table: int, field: int) -> int | None:
        vtable = table - self._number("<i", table)
        if vtable < 0 or field >= self._number("<H", vtable):
            return None
        offset = self._number("<H", vtable + field)
        return table + offset if offset else None

    def _number(self, kind: str, at: int) -> int:
        if at < 0:
            raise ValueError("it points before its beginning")
        return int(struct.unpack_from(kind, self._data, at)[0])
