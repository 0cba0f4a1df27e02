"""The matrix product of the articles as files: an ONNX model, its input, and what it should give."""

from __future__ import annotations

import random
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.errors import FileError

INNER, COLUMNS = 128, 64
_FLOAT = 1


@dataclass(frozen=True)
class Example:
    """Where the files are."""

    model: Path
    input: Path
    reference: Path


def write_example(folder: Path) -> Example:
    """Y = A·B + bias with A of 1×128: the same numbers every time. No ONNX or numpy is needed.

    Raises:
        FileError: the folder cannot be written, or holds other files of these names.
    """
    rng = random.Random(0)
    a, b, bias = (
        array("f", (rng.gauss(0, 1) for _ in range(count))) for count in (INNER, INNER * COLUMNS, COLUMNS)
    )
    y = array(
        "f",
        (sum(a[k] * b[k * COLUMNS + j] for k in range(INNER)) + bias[j] for j in range(COLUMNS)),
    )
    files = {
        "matmul.onnx": _model(b, bias),
        "input.raw": a.tobytes(),
        "reference.npy": _npy(y, (1, COLUMNS)),
    }
    try:
        for name, content in files.items():
            file = folder / name
            if file.is_file() and file.read_bytes() != content:
                raise FileError(f"{file} is there and is something else", hints=["name another folder"])
            paths.write_atomically(file, content)
    except OSError as error:
        raise FileError(f"{error.filename} cannot be written", evidence=error.strerror) from None
    return Example(*(folder / name for name in files))


def _model(b: array[float], bias: array[float]) -> bytes:
    """ModelProto of onnx.proto: ir_version 7, opset 13."""
    graph = (
        _node("MatMul", ("A", "B"), "product")
        + _node("Add", ("product", "bias"), "Y")
        + _text(2, "matmul")
        + _bytes(5, _tensor("B", (INNER, COLUMNS), b))
        + _bytes(5, _tensor("bias", (COLUMNS,), bias))
        + _bytes(11, _value("A", (1, INNER)))
        + _bytes(12, _value("Y", (1, COLUMNS)))
    )
    return _number(1, 7) + _text(2, "devkit") + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _node(op: str, inputs: tuple[str, ...], output: str) -> bytes:
    return _bytes(1, b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, op))


def _tensor(name: str, dimensions: tuple[int, ...], values: array[float]) -> bytes:
    return (
        b"".join(_number(1, size) for size in dimensions)
        + _number(2, _FLOAT)
        + _text(8, name)
        + _bytes(9, values.tobytes())
    )


def _value(name: str, dimensions: tuple[int, ...]) -> bytes:
    shape = b"".join(_bytes(1, _number(1, size)) for size in dimensions)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, _FLOAT) + _bytes(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _npy(values: array[float], shape: tuple[int, ...]) -> bytes:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes()
