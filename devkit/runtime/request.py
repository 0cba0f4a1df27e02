"""How a user wants a program to be run, beside its arguments; and what the phone makes of it."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DeviceError, FileError
from devkit.runtime.pull_plan import check_patterns
from devkit.runtime.run import Launch, known_stdin_end

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.device import Device
    from devkit.runtime.apps import PreparedApp

OUTPUT_FOLDER = "devkit-out"


@dataclass(frozen=True)
class RunRequest:
    """The options of `devkit run` and `devkit watch`.

    Attributes:
        env: variables on top of the app's.
        cwd: instead of the app's.
        stdin: a file instead of this process's stdin.
        tty: whether the program gets a terminal; None decides by stdin and stdout.
        live: without one, its output comes line by line all the same.
        taskset: processors it may run on: big, little, prime, all, a mask or a list.
        root: run it as root.
        pull: outputs beside the app's own.
        pull_to: where outputs go; None: OUTPUT_FOLDER/APP in the project.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: Path | None = None
    tty: bool | None = None
    live: bool = False
    timeout_s: float | None = None
    taskset: str | None = None
    root: bool = False
    pull: tuple[str, ...] = ()
    pull_to: Path | None = None

    def patterns(self, app: AppConfig) -> tuple[str, ...]:
        """All outputs that come back.

        Raises:
            UsageError: a pattern leaves the working directory.
        """
        return check_patterns((*app.pull, *self.pull))

    def check(self, app: AppConfig) -> None:
        """Refuse what is wrong before anything is built.

        Raises:
            UsageError: a pattern leaves the working directory, or `taskset` can name no processors.
            FileError: the file for stdin cannot be read.
        """
        self.patterns(app)
        check_taskset(self.taskset)
        # Not opened: it may be a pipe, whose writer would see the reader go.
        if self.stdin is not None and (self.stdin.is_dir() or not os.access(self.stdin, os.R_OK)):
            number = errno.EISDIR if self.stdin.is_dir() else errno.EACCES
            reason = os.strerror(number if self.stdin.exists() else errno.ENOENT)
            raise FileError(f"--stdin {self.stdin} cannot be read", evidence=reason)


def plan_launch(device: Device, prepared: PreparedApp, args: Sequence[str], request: RunRequest) -> Launch:
    """The launch as asked for. Asks the phone only for `taskset` and `root`, a round trip each.

    Raises:
        UsageError: `taskset` names no processors of this phone.
        DeviceError: there is no root, no taskset, or the phone does not tell which processors are big.
    """
    launch = prepared.launch(args, request.env)
    if request.cwd is not None:
        launch = dataclasses.replace(launch, cwd=request.cwd)
    if request.taskset is not None:
        launch = dataclasses.replace(launch, cpu_mask=mask_for(device, request.taskset))
    if request.root:
        from devkit.runtime.root import find_root

        launch = dataclasses.replace(launch, root=find_root(device))
    return launch


def stdin_end_for(prepared: PreparedApp) -> str | None:
    """The line that ends the app's program when its input has ended: devkit.yaml's, else a known one."""
    own = prepared.local.app.stdin_end
    if own is not None:
        return own or None  # empty switches it off
    return known_stdin_end(prepared.plan.program)


def output_folder(config: Config, app: str, request: RunRequest) -> Path:
    """Where outputs go on this machine."""
    return (request.pull_to or config.root / OUTPUT_FOLDER / app).absolute()


def make_output_folder(config: Config, folder: Path) -> None:
    """Keep git from the default folder, when it is made now. Nothing else is made.

    Raises:
        FileError: it cannot be made.
    """
    ours = config.root.absolute() / OUTPUT_FOLDER
    if not folder.is_relative_to(ours) or ours.exists():
        return
    try:
        ours.mkdir(parents=True)
        (ours / ".gitignore").write_text("*\n", "ascii")
    except OSError as error:
        raise FileError(f"{ours} cannot be made", evidence=error.strerror or str(error)) from None


def check_taskset(wanted: str | None) -> None:
    """Refuse what names no processors of any phone, before anything is built.

    Raises:
        UsageError: it does not.
    """
    from devkit.device.cores import NAMES, parse_cpus

    if wanted is not None and wanted not in NAMES:
        parse_cpus(wanted)


def mask_for(device: Device, wanted: str) -> str:
    """The mask for `taskset` of the processors that a user means. One round trip; says which they are.

    Raises:
        UsageError: `wanted` names no processors of this phone.
        DeviceError: it has no taskset, or does not tell which processors are big.
    """
    from devkit.device.cores import mask_of, read_cores, show_cpus

    cores = read_cores(device)
    cpus = cores.choose(wanted)
    if not cores.taskset:
        raise DeviceError(
            f"the phone {device.serial} has no taskset: a program cannot be kept to some processors",
            where=PHONE,
            hints=["run it without --taskset"],
        )
    mask = mask_of(cpus)
    output.current().note(f"on processors {show_cpus(cpus)} of {show_cpus(cores.online)} (mask {mask})")
    return mask
