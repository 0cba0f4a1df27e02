"""Runtime libraries of toolchains: known by their names, and a sanitizer's options on the phone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# libasan.so.8, libclang_rt.hwasan-aarch64-android.so, libclang_rt.ubsan_standalone-…
_RUNTIME = re.compile(r"^lib(?:clang_rt\.)?(?P<kind>hwa|a|ub)san(?:_standalone|_minimal)?\b")
# Runtimes of gcc and clang that programs are linked to; builds copy them beside their own libraries.
_OF_TOOLCHAINS = re.compile(
    r"^lib(?:clang_rt\..*|(?:hwa|a|ub|t|l)san|c\+\+_shared|c\+\+|c\+\+abi|stdc\+\+|gcc_s|unwind|omp|gomp|atomic)"
    r"\.so(?:\.\d+)*$"
)
OPTIONS = {
    # Android's default is to abort: the same error would be reported a second time, as a SIGABRT. A virtual
    # phone's own library may come before the runtime, which is taken for a mistake otherwise.
    "ASAN_OPTIONS": "abort_on_error=0:verify_asan_link_order=0",
    "HWASAN_OPTIONS": "abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
# ASan's runtime holds that of UBSan.
_VARIABLES = {
    "a": ("ASAN_OPTIONS", "UBSAN_OPTIONS"),
    "hwa": ("HWASAN_OPTIONS", "UBSAN_OPTIONS"),
    "ub": ("UBSAN_OPTIONS",),
}


def is_toolchain_runtime(library: str) -> bool:
    """Whether a library of this file name is one that compilers bring along, wherever it lies."""
    return _OF_TOOLCHAINS.match(library) is not None


def kinds_among(libraries: Iterable[str]) -> set[str]:
    """What the runtimes among the libraries are of: "a" (AddressSanitizer), "hwa", "ub".

    Args:
        libraries: file names.
    """
    return {match["kind"] for name in libraries if (match := _RUNTIME.match(name))}


def with_sanitizer_options(env: Mapping[str, str], libraries: Iterable[str]) -> dict[str, str]:
    """The environment with the options of the runtimes among the libraries.

    What `env` has for the same variable comes behind, where it wins.

    Args:
        libraries: file names.
    """
    found = dict(env)
    kinds = kinds_among(libraries)
    for variable in sorted({v for kind in kinds for v in _VARIABLES[kind]}):
        own = env.get(variable)
        found[variable] = f"{OPTIONS[variable]}:{own}" if own else OPTIONS[variable]
    return found
