"""Options of sanitizers: devkit's first, the user's behind, none for programs without one."""

from __future__ import annotations

import pytest

from devkit.runtime.sanitizers import is_toolchain_runtime, with_sanitizer_options

ASAN, UBSAN = "abort_on_error=0:verify_asan_link_order=0", "print_stacktrace=1"


@pytest.mark.parametrize(
    ("library", "variables"),
    [
        ("libclang_rt.asan-aarch64-android.so", {"ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": UBSAN}),
        ("libasan.so.8", {"ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": UBSAN}),
        (
            "libclang_rt.hwasan-aarch64-android.so",
            {"HWASAN_OPTIONS": "abort_on_error=0", "UBSAN_OPTIONS": UBSAN},
        ),
        ("libclang_rt.ubsan_standalone-aarch64-android.so", {"UBSAN_OPTIONS": UBSAN}),
        ("libsandwich.so", {}),
        ("libasanitary.so", {}),
    ],
)
def test_each_runtime(library: str, variables: dict[str, str]) -> None:
    assert with_sanitizer_options({"A": "1"}, ["libc.so", library]) == {"A": "1", **variables}


def test_the_users_options_come_behind() -> None:
    env = with_sanitizer_options({"ASAN_OPTIONS": "exitcode=7"}, ["libasan.so.8"])
    assert env["ASAN_OPTIONS"] == f"{ASAN}:exitcode=7"


@pytest.mark.parametrize(
    ("library", "is_runtime"),
    [
        ("libasan.so.8", True), ("libclang_rt.hwasan-aarch64-android.so", True), ("libc++_shared.so", True),
        ("libstdc++.so.6.0.30", True), ("libomp.so", True), ("libMNN.so", False), ("libasanitary.so", False),
        ("libompute.so", False), ("libc++_shared.so.txt", False),
    ],
)  # fmt: skip
def test_runtimes_of_toolchains_are_known_by_name(library: str, is_runtime: bool) -> None:
    assert is_toolchain_runtime(library) is is_runtime
