"""Runs a deployed program on the phone: live output, its own exit code, and a certain end."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.errors import PHONE, OperationTimeout
from devkit.runtime.guard import Guard

if TYPE_CHECKING:
    from devkit.device import Device


# Numbers of Linux, which this machine need not be.
_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 31: "SIGSYS",
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """How a program is started on the phone.

    `library_path` is the value of LD_LIBRARY_PATH: the app's folder comes first, because
    executables of the NDK carry no RUNPATH and vendor images may hold older copies.
    """

    program: str
    args: tuple[str, ...]
    folder: str
    env: Mapping[str, str]

    @property
    def library_path(self) -> str:
        return self.env.get("LD_LIBRARY_PATH", self.folder)

    def environment(self) -> dict[str, str]:
        """All variables that are set for the program."""
        return {**self.env, "LD_LIBRARY_PATH": self.library_path}

    def shell_text(self) -> str:
        """The command for the phone's shell: the shell becomes the program."""
        from devkit.device import quote

        variables = [f"{name}={value}" for name, value in self.environment().items()]
        return f"cd {quote([self.folder])} && exec {quote(['env', *variables, self.program, *self.args])}"


def launch_for(folder: str, program: str, args: Sequence[str], env: Mapping[str, str]) -> Launch:
    """The launch of a deployed program: working directory and libraries are its own folder."""
    return Launch(posixpath.join(folder, program), tuple(args), folder, dict(env))


def signal_name(exit_code: int) -> str | None:
    """The signal that an exit code stands for (128 + n), as "SIGSEGV"; None when it stands for none."""
    return _SIGNALS.get(exit_code - 128)


def run_program(device: Device, launch: Launch, *, timeout_s: float | None = None) -> int:
    """Run to the end with this process's stdin, stdout and stderr; return the exit code.

    128 + n means that signal n ended it. Ctrl-C ends the program on the phone first and then
    raises KeyboardInterrupt. When devkit dies, the program is ended by its guard.

    Raises:
        DeviceError: the phone went away while the program ran.
        OperationTimeout: it still ran after `timeout_s`; it has been ended.
    """
    from devkit.device.terminal import join_terminal

    doing = f"running {posixpath.basename(launch.program)}"
    guard = Guard(device, launch.folder)
    finished = False
    try:
        code = join_terminal(device, guard.prefix + launch.shell_text(), timeout_s=timeout_s, doing=doing)
        finished = True
        return code
    except OperationTimeout:
        if timeout_s is None:
            raise
        raise OperationTimeout(
            f"{posixpath.basename(launch.program)} was still running after {timeout_s:g} s; it was ended",
            where=PHONE,
            hints=["give it more time with --timeout, or none at all"],
        ) from None
    finally:
        if finished:
            guard.release()
        else:
            guard.kill()
