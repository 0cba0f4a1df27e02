"""Whether the compiler at hand has AddressSanitizer's runtime: asked before minutes of compiling."""

from __future__ import annotations

import tempfile
from pathlib import Path

from devkit import process
from devkit.engine.plan import BuildPlan
from devkit.engine.requirements import needed
from devkit.errors import ToolMissing

PROBE_TIMEOUT_S = 60


def check_sanitizer(plan: BuildPlan) -> None:
    """Refuse a profile that needs `asan` when the compiler cannot link it.

    Raises:
        ToolMissing: it cannot, or the NDK has no runtime for the phone.
    """
    if needed(plan.profile.needs, "asan") is None:
        return
    if plan.toolchain.kind == "ndk":
        _check_ndk(plan)
    else:
        _check_host(plan)


def _check_ndk(plan: BuildPlan) -> None:
    runtimes = [
        f for folder in plan.toolchain.runtime_dirs for f in folder.glob("libclang_rt.asan-*-android.so")
    ]
    architecture = _ARCHITECTURES.get(plan.toolchain.abi, plan.toolchain.abi)
    if not any(f"-{architecture}-" in runtime.name for runtime in runtimes):
        raise ToolMissing(
            f"this NDK has no AddressSanitizer runtime for {plan.toolchain.abi}",
            evidence=plan.toolchain.description + "".join(f"\nit has {runtime.name}" for runtime in runtimes),
            hints=["devkit ndk list", "devkit ndk install r27d", "profile host-asan needs no NDK"],
        )


def _check_host(plan: BuildPlan) -> None:
    compiler = plan.entries.get("CMAKE_CXX_COMPILER", "").split(";")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text("int main() { return 0; }\n")
        argv = [*compiler, "-fsanitize=address", str(source), "-o", str(Path(folder, "probe"))]
        done = process.run(argv, check=False, timeout_s=PROBE_TIMEOUT_S)
    if done.exit_code != 0:
        raise ToolMissing(
            "this machine's compiler cannot link AddressSanitizer",
            evidence=f"{plan.toolchain.description}\n{process.tail(done.stderr, 3)}",
            hints=["sudo apt install g++   (brings libasan)", "or: CXX=clang++ with libclang-rt-dev"],
        )


_ARCHITECTURES = {"arm64-v8a": "aarch64", "armeabi-v7a": "arm", "x86": "i686"}
