"""Asks libQnnSystem.so what is in context binaries, through its documented interface; a process of its own.

A library of Qualcomm's that crashes on a file takes this process along, and no other. One JSON line for each
file, in their order. Offsets are those of QnnSystemInterface.h, QnnSystemContext.h and QnnTypes.h (64-bit).
Started by `system_library`: system_child.py LIBRARY FILE...
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Iterator
from typing import Any

# QnnSystemInterface_t: backendId, providerName, systemApiVersion, then the functions.
_FUNCTIONS, _CREATE, _GET_BINARY_INFO = 32, 0, 1
# Where the fields of QnnSystemContext_BinaryInfoV#_t are: V3 has no hardware blob.
_BINARY = {
    1: {"build_id": 8, "soc": 40, "blob": 88, "tensors": 96, "graphs": 112},
    2: {"build_id": 8, "soc": 40, "blob": 88, "tensors": 96, "graphs": 112},
    3: {"build_id": 8, "soc": 40, "blob": 64, "tensors": 72, "graphs": 88, "soc_model": 128},
}
# QnnSystemContext_GraphInfo_t has the size of the largest version that its SDK knew.
_GRAPH_STRIDES = (48, 64, 88)
# Qnn_Tensor_t, of SDKs with and without version 2 of it.
_TENSOR_STRIDES = (120, 144)
_MOST_GRAPHS, _MOST_TENSORS, _MOST_DIMENSIONS = 10_000, 100_000, 16
_UNDEFINED = 0x7FFFFFFF
_LEAST_ADDRESS = 0xFFFF


class Unknown(Exception):
    """The library answers in a layout that is not known here."""


def main(argv: list[str]) -> int:
    library, files = argv[0], argv[1:]
    handle, get = _open(library)
    for file in files:
        try:
            answer = _ask(handle, get, file)
        except (Unknown, OSError, ValueError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps({"file": file, **answer}) + "\n")
        sys.stdout.flush()
    return 0


def _open(library: str) -> tuple[ctypes.c_void_p, Any]:
    loaded = ctypes.CDLL(library)
    providers = ctypes.POINTER(ctypes.c_void_p)()
    count = ctypes.c_uint32()
    loaded.QnnSystemInterface_getProviders.restype = ctypes.c_uint64
    code = loaded.QnnSystemInterface_getProviders(ctypes.byref(providers), ctypes.byref(count))
    if code or not count.value:
        raise SystemExit(f"QnnSystemInterface_getProviders: {code}")
    table = int(providers[0] or 0) + _FUNCTIONS
    create = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(_pointer(table + 8 * _CREATE))
    get = ctypes.CFUNCTYPE(
        ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p
    )(_pointer(table + 8 * _GET_BINARY_INFO))
    handle = ctypes.c_void_p()
    if code := create(ctypes.addressof(handle)):
        raise SystemExit(f"QnnSystemContext_create: {code}")
    return handle, get


def _ask(handle: ctypes.c_void_p, get: Any, file: str) -> dict[str, Any]:
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) as content:
        buffer = (ctypes.c_char * len(content)).from_buffer(content)
        info, size = ctypes.c_void_p(), ctypes.c_uint64()
        try:
            code = get(
                handle, ctypes.addressof(buffer), len(content), ctypes.addressof(info), ctypes.addressof(size)
            )
            if code or not info.value:
                raise Unknown(f"QnnSystemContext_getBinaryInfo: error {code}")
            return _read_info(info.value)
        finally:
            del buffer


def _read_info(at: int) -> dict[str, Any]:
    version = _u32(at)
    fields = _BINARY.get(version)
    if fields is None:
        raise Unknown(f"binary info of version {version}, which devkit does not know")
    at += 8
    soc_model = _u32(at + fields["soc_model"]) if "soc_model" in fields else 0
    count = _u32(at + fields["graphs"])
    if count > _MOST_GRAPHS:
        raise Unknown(f"{count} graphs: another layout than devkit knows")
    return {
        "build_id": _text(_pointer(at + fields["build_id"])),
        "soc_version": _text(_pointer(at + fields["soc"])),
        "soc_model": soc_model or None,
        "blob_bytes": ctypes.c_uint64.from_address(at + fields["blob"]).value,
        "graphs": list(_graphs(_pointer(at + fields["graphs"] + 8), count)),
    }


def _graphs(at: int, count: int) -> Iterator[dict[str, Any]]:
    stride = _stride(at, count, _GRAPH_STRIDES, 8)
    for graph in range(at, at + count * stride, stride):
        body = graph + 8
        yield {
            "name": _text(_pointer(body)),
            "inputs": list(_tensors(_pointer(body + 16), _u32(body + 8))),
            "outputs": list(_tensors(_pointer(body + 32), _u32(body + 24))),
        }


def _tensors(at: int, count: int) -> Iterator[dict[str, Any]]:
    if count > _MOST_TENSORS:
        raise Unknown(f"{count} tensors: another layout than devkit knows")
    stride = _stride(at, count, _TENSOR_STRIDES, 16)
    for tensor in range(at, at + count * stride, stride):
        body = tensor + 8
        rank = _u32(body + 72)
        if rank > _MOST_DIMENSIONS:
            raise Unknown(f"a tensor of {rank} dimensions: another layout than devkit knows")
        dimensions = _pointer(body + 80)
        yield {
            "name": _text(_pointer(body + 8)),
            "data_type": _u32(body + 24),
            "quantized": _quantization(body + 32),
            "dimensions": [_u32(dimensions + 4 * i) for i in range(rank)] if dimensions else [],
        }


def _quantization(at: int) -> dict[str, Any] | None:
    """Scale and offset, where the tensor has one of each."""
    defined, encoding = _u32(at), _u32(at + 4)
    if defined == _UNDEFINED or encoding != 0:
        return None if encoding in (0, _UNDEFINED) else {"encoding": encoding}
    return {
        "scale": ctypes.c_float.from_address(at + 8).value,
        "offset": ctypes.c_int32.from_address(at + 12).value,
    }


def _stride(at: int, count: int, strides: tuple[int, ...], name_at: int) -> int:
    """The distance at which every element is of the first one's version and has a name.

    The smallest first: what lies between two elements of a larger layout is no version.
    """
    if count < 2:
        return strides[0]
    for stride in strides:
        if all(
            _u32(at + i * stride) == _u32(at) and _named(_pointer(at + i * stride + name_at))
            for i in range(count)
        ):
            return stride
    raise Unknown("lists in a layout that devkit does not know")


def _named(at: int) -> bool:
    text = _text(at) if at > _LEAST_ADDRESS else None
    return text is not None and text.isprintable()


def _u32(at: int) -> int:
    return ctypes.c_uint32.from_address(at).value


def _pointer(at: int) -> int:
    return ctypes.c_uint64.from_address(at).value


def _text(at: int) -> str | None:
    return ctypes.string_at(at).decode("utf-8", "replace") if at else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
