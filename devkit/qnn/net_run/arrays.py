"""Numbers in .raw and .npy files, read and compared without numpy."""

from __future__ import annotations

import ast
import math
import re
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit.errors import FileError

_MAGIC = b"\x93NUMPY"
# numpy's name → array's type code, bytes. float16 has none: it is unpacked.
_CODES = {
    "f4": "f", "f8": "d",
    "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip
TYPES = (*_CODES, "f2")
_DTYPE = re.compile(r"[<|=]?(?P<name>[fiu]\d)")


@dataclass(frozen=True)
class Tolerance:
    """|output - reference| may be `absolute` + `relative` * |reference|."""

    absolute: float
    relative: float


# float32 on the CPU adds in another order than a reference does; GPUs and HTP compute in float16.
# Largest deviations of the articles' 128-term product: 4.8e-6, 5.7e-6 and 9.5e-3.
TOLERANCES = {
    "cpu": Tolerance(1e-5, 1e-5),
    "gpu": Tolerance(1e-3, 1e-2),
    "htp": Tolerance(2e-2, 1e-2),
}


@dataclass(frozen=True)
class Comparison:
    """An output against its reference.

    Attributes:
        worst: index of the value that is furthest beyond what the tolerance allows.
        problem: why nothing could be compared, or what is wrong besides numbers.
    """

    output: str
    count: int
    within: bool
    max_abs: float | None = None
    mean_abs: float | None = None
    worst: int | None = None
    tolerance: Tolerance | None = None
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_numbers(file: Path, dtype: str = "f4") -> array[float]:
    """The values of a .npy, or of a .raw with values of `dtype` (numpy's name: f4, f2, i4, …).

    Raises:
        FileError: it cannot be read, is cut off, or holds no plain numbers.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=error.strerror) from None
    if data.startswith(_MAGIC):
        dtype, data = _split(file, data)
    if dtype == "f2":
        if len(data) % 2:
            raise FileError(f"{file} is cut off", evidence=f"{len(data)} bytes are no float16 values")
        import struct

        return array("f", (value for (value,) in struct.iter_unpack("<e", data)))
    values: array[float] = array(_CODES[dtype])
    if len(data) % values.itemsize:
        raise FileError(
            f"{file} is cut off, or of another type",
            evidence=f"{len(data)} bytes are no multiple of the {values.itemsize} of {dtype}",
        )
    values.frombytes(data)
    return values


def raw_bytes(file: Path) -> bytes:
    """What qnn-net-run reads as a .raw file: of a .npy the values without its head.

    Raises:
        FileError: it cannot be read, or its values are not in C order.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=error.strerror) from None
    return _split(file, data)[1] if data.startswith(_MAGIC) else data


def compare(output: Path, reference: Path, tolerance: Tolerance, *, dtype: str = "f4") -> Comparison:
    """Hold an output of qnn-net-run (float32 unless native outputs were asked for) against a reference."""
    got, wanted = read_numbers(output, dtype), read_numbers(reference)
    name = output.name
    if len(got) != len(wanted):
        return Comparison(
            name, len(got), False, tolerance=tolerance,
            problem=f"{len(got)} values, the reference {reference.name} has {len(wanted)}",
        )  # fmt: skip
    if not len(got):
        return Comparison(name, 0, False, tolerance=tolerance, problem="it is empty")
    largest, total, worst, beyond = 0.0, 0.0, 0, -math.inf
    for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if math.isfinite(other) and not math.isfinite(one):
            return Comparison(
                name, len(got), False, worst=index, tolerance=tolerance,
                problem=f"value {index} is {one}, the reference has {other:g}",
            )  # fmt: skip
        error = 0.0 if one == other or (one != one and other != other) else abs(one - other)
        largest, total = max(largest, error), total + error
        over = error - tolerance.absolute - tolerance.relative * abs(other)
        if not over <= beyond:
            worst, beyond = index, over
    return Comparison(name, len(got), beyond <= 0, largest, total / len(got), worst, tolerance)


def _split(file: Path, data: bytes) -> tuple[str, bytes]:
    """dtype and values of a .npy (format 1 to 3)."""
    try:
        wide = data[6] >= 2
        start = 12 if wide else 10
        length = int.from_bytes(data[8:start], "little")
        head = ast.literal_eval(data[start : start + length].decode("utf-8").strip())
        kind = _DTYPE.fullmatch(str(head["descr"]))
        name = kind["name"] if kind else ""
        if name not in _CODES and name != "f2":
            raise FileError(f"{file} holds no plain numbers", evidence=f"its dtype is {head['descr']!r}")
        if head["fortran_order"] and len(head["shape"]) > 1:
            raise FileError(f"{file} is in Fortran order", hints=["save numpy.ascontiguousarray(x)"])
    except (ValueError, SyntaxError, KeyError, IndexError, TypeError) as error:
        raise FileError(f"{file} is no .npy file that can be read", evidence=str(error)) from None
    return name, data[start + length :]
