"""The program of the self-test: compiled with the toolchain that builds for the phone, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import engine, paths, process
from devkit.engine.cmake_tools import find_build_tools
from devkit.engine.toolchain import resolve_toolchain

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.engine.toolchain import Toolchain

PROGRAM, SOURCE = "devkit-self-test", "self_test.c"
MARKER = "devkit self-test: breakpoint"
_COMPILE_TIMEOUT_S = 180


def find_toolchain(config: Config, device: Device) -> Toolchain:
    """The toolchain that builds the engine for this phone.

    Raises:
        ToolMissing: none.
    """
    facts = engine.DeviceFacts(abi=device.abi, api_level=device.api_level, libc=device.libc)
    return resolve_toolchain(
        engine.profiles_for(config)["cpu"],
        device=facts,
        ndk_path=config.ndk.path,
        ndk_version=config.ndk.version,
        always_ndk=config.build.toolchain == "ndk",
        api_level=config.build.api_level,
    )


def compile_program(toolchain: Toolchain) -> Path:
    """The program for the toolchain's ABI; compiled once for each compiler.

    Raises:
        ToolMissing: no cmake.
        ToolFailed, OperationTimeout: it does not compile; the evidence is what the compiler said.
    """
    files = {
        name: resources.files(__name__).joinpath(name).read_bytes() for name in ("CMakeLists.txt", SOURCE)
    }
    identity = b"\0".join([toolchain.tag.encode(), toolchain.fingerprint.encode(), *files.values()])
    folder = paths.cache_dir() / "self-test" / hashlib.sha256(identity).hexdigest()[:16]
    program = folder / PROGRAM
    if program.is_file():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        paths.write_atomically(folder / name, data)
    tools = find_build_tools()
    build = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
    try:
        process.run(
            [
                tools.cmake, "-S", folder, "-B", build, "-G", tools.generator,
                f"-DCMAKE_MAKE_PROGRAM={tools.make_program}",
                *(f"-D{key}={value}" for key, value in toolchain.cmake_args.items()),
            ],
            env=toolchain.env, timeout_s=_COMPILE_TIMEOUT_S,
        )  # fmt: skip
        process.run([tools.cmake, "--build", build], env=toolchain.env, timeout_s=_COMPILE_TIMEOUT_S)
        os.replace(build / PROGRAM, program)
    finally:
        shutil.rmtree(build, ignore_errors=True)
    return program


def breakpoint_line() -> int:
    """The line of the source that the marker comment announces."""
    text = resources.files(__name__).joinpath(SOURCE).read_text("utf-8")
    return next(number for number, line in enumerate(text.splitlines(), start=1) if MARKER in line)
