"""A complete-looking NDK, and build programs that need not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.engine import BuildTools
from devkit.ndk import Ndk

LIBRARY = "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/{}/libc++_shared.so"


@pytest.fixture
def make_ndk(tmp_path: Path) -> Callable[[str], Ndk]:
    """Makes a tree with the files that a toolchain asks for; again for a revision: in its place."""

    def make(revision: str) -> Ndk:
        path = tmp_path / "Android NDK 安卓"
        for name in (
            "build/cmake/android.toolchain.cmake",
            LIBRARY.format("aarch64-linux-android"),
            LIBRARY.format("x86_64-linux-android"),
        ):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).touch()
        (path / "source.properties").write_text(f"Pkg.Revision = {revision}\n")
        return Ndk(path, revision, "test")

    return make


@pytest.fixture
def fake_ndk(make_ndk: Callable[[str], Ndk]) -> Ndk:
    return make_ndk("28.2.13676358")


@pytest.fixture
def tools() -> BuildTools:
    return BuildTools(Path("/opt/cmake/bin/cmake"), "3.28.1", "Ninja", Path("/opt/ninja"))
