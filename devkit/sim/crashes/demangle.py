"""C++ names for humans, by this machine's libstdc++ (or libc++abi), loaded before the phone starts."""

from __future__ import annotations

import ctypes
from typing import Any

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")


def _load() -> Any:
    for name in _LIBRARIES:
        try:
            function: Any = ctypes.CDLL(name).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    return None


_function = _load()
_free: Any = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]


def demangle(name: str) -> str:
    """The name as it is in the source; as it is when it is no C++ name, or no library knows how."""
    if _function is None or not name.startswith("_Z"):
        return name
    found = _function(name.encode(), None, None, None)
    if not found:
        return name
    text = ctypes.string_at(found).decode("utf-8", "replace")
    _free(found)
    return text
