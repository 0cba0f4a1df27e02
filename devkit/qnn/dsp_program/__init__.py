"""The phone's own FastRPC library asked what its compute DSP can do, by a small program on the phone."""

from __future__ import annotations

import posixpath
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devkit.engine.small_programs import compile_small, toolchain_for
from devkit.errors import DevkitError
from devkit.process import tail
from devkit.runtime.run import launch_for

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

PROGRAM, SOURCE = "devkit-ask-dsp", "ask_dsp.c"
# A DSP that hangs does not answer at all.
ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class DspAnswer:
    """What the library said.

    Attributes:
        values: attributes of remote.h (UNSIGNED_PD_SUPPORT, …) and their values.
        errors: attributes that it refused to tell, and its codes.
        problem: why it could not be asked; None when it was.
        library: whether that is for the library (the linker's words, an old one), not for devkit.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    library: bool = False

    @property
    def arch(self) -> str | None:
        """The Hexagon architecture: ARCH_VER has it in its lowest byte, 0x75 for v75."""
        version = self.values.get("ARCH_VER", 0) & 0xFF
        return f"v{version:x}" if version else None


def ask_dsp(config: Config, device: Device, folder: str) -> DspAnswer:
    """Run the program in an app's folder, with the libraries that the app would find; it is removed again.

    Never raises: an answer that is not to be had is one more fact.
    """
    from devkit.device import PushItem

    try:
        program = compile_small(toolchain_for(config, device), __name__, PROGRAM, SOURCE)
        name = f".{PROGRAM}-{secrets.token_hex(4)}"
        remote = posixpath.join(folder, name)
        device.push([PushItem(program, remote, mode=0o755, mtime_s=int(time.time()))])
        try:
            launch = launch_for(folder, name, (), {}).shell_text()
            done = device.shell(launch, timeout_s=ANSWER_TIMEOUT_S)
        finally:
            device.shell(["rm", "-f", remote])
    except DevkitError as error:
        return DspAnswer(problem=error.what)
    if done.exit_code != 0:
        said = tail(done.text + done.stderr.decode("utf-8", "replace")).strip()
        return DspAnswer(problem=f"devkit's program ended with exit code {done.exit_code}: {said}")
    return read_answer(done.text)


def read_answer(text: str) -> DspAnswer:
    """What the program printed."""
    values: dict[str, int] = {}
    errors: dict[str, int] = {}
    problem = None
    for line in text.splitlines():
        kind, _, rest = line.partition("|")
        if kind == "closed":
            problem = problem or rest
        elif kind == "old":
            problem = f"libcdsprpc.so has no {rest}: it is older than such questions"
        elif kind == "answer":
            name, error, value = rest.split("|")
            if int(error):
                errors[name] = int(error)
            else:
                values[name] = int(value)
    if values or errors:
        return DspAnswer(values, errors)
    return DspAnswer(problem=problem or "devkit's program printed nothing", library=problem is not None)
