"""Small programs of devkit's own for a phone, compiled by the toolchain that builds the engine, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import paths, process
from devkit.engine.choose import profiles_for
from devkit.engine.cmake_tools import find_build_tools
from devkit.engine.toolchain import DeviceFacts, Toolchain, resolve_toolchain

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

_COMPILE_TIMEOUT_S = 180


def toolchain_for(config: Config, device: Device) -> Toolchain:
    """The toolchain that builds the engine for this phone.

    Raises:
        ToolMissing: none.
    """
    return resolve_toolchain(
        profiles_for(config)["cpu"],
        device=DeviceFacts(abi=device.abi, api_level=device.api_level, libc=device.libc),
        ndk_path=config.ndk.path,
        ndk_version=config.ndk.version,
        always_ndk=config.build.toolchain == "ndk",
        api_level=config.build.api_level,
    )


def compile_small(toolchain: Toolchain, package: str, name: str, source: str) -> Path:
    """A program for the toolchain's ABI; compiled once for each compiler.

    Args:
        package: the Python package with its CMakeLists.txt and source.
        name: of the program, which is the target's.

    Raises:
        ToolMissing: no cmake.
        ToolFailed, OperationTimeout: it does not compile; the evidence is what the compiler said.
    """
    files: Mapping[str, bytes] = {
        file: resources.files(package).joinpath(file).read_bytes() for file in ("CMakeLists.txt", source)
    }
    identity = b"\0".join([toolchain.tag.encode(), toolchain.fingerprint.encode(), *files.values()])
    folder = paths.cache_dir() / "small-programs" / name / hashlib.sha256(identity).hexdigest()[:16]
    program = folder / name
    if program.is_file():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        paths.write_atomically(folder / file, data)
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
        os.replace(build / name, program)
    finally:
        shutil.rmtree(build, ignore_errors=True)
    return program
