"""Programs built with a sanitizer: the options that its runtime gets on the phone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# libasan.so.8, libclang_rt.hwasan-aarch64-android.so, libclang_rt.ubsan_standalone-…
_RUNTIME = re.compile(r"^lib(?:clang_rt\.)?(?P<kind>hwa|a|ub)san(?:_standalone|_minimal)?\b")
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
