"""Runs a deployed program on the phone: live output, its own exit code, and a certain end."""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import EXIT_DEVKIT_FAILED, PHONE, OperationTimeout
from devkit.runtime.guard import Guard

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.runtime.root import RootWay


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

    Attributes:
        folder: the app's folder.
        cwd: the working directory, relative to the folder or absolute; empty for the folder itself.
        cpu_mask: the processors it may run on, in hexadecimal as taskset takes it; empty for all.
        root: how it becomes root; None for the shell user.
    """

    program: str
    args: tuple[str, ...]
    folder: str
    env: Mapping[str, str]
    cwd: str = ""
    cpu_mask: str = ""
    root: RootWay | None = None

    @property
    def library_path(self) -> str:
        return self.env.get("LD_LIBRARY_PATH", self.folder)

    @property
    def working_dir(self) -> str:
        """The absolute working directory."""
        return posixpath.normpath(posixpath.join(self.folder, self.cwd))

    def environment(self) -> dict[str, str]:
        """All variables that are set for the program."""
        # One folder: the DSP's loader separates folders by `;`, and takes a `:` for part of a name.
        dsp_path = self.env.get("ADSP_LIBRARY_PATH", self.folder)
        return {**self.env, "LD_LIBRARY_PATH": self.library_path, "ADSP_LIBRARY_PATH": dsp_path}

    def words(self) -> list[str]:
        """The program with its environment, processors and arguments, as an argv."""
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        pinned = ["taskset", self.cpu_mask] if self.cpu_mask else []
        return [*pinned, "env", *variables, self.program, *self.args]

    def enter(self) -> str:
        """Shell text that goes to the working directory; without one nothing was run, and no program's
        exit code may look as if."""
        from devkit.device import quote

        return f"cd {quote([self.working_dir])} || exit {EXIT_DEVKIT_FAILED}"

    def shell_text(self, first: str = "") -> str:
        """The command for the phone's shell: the shell becomes the program.

        Args:
            first: shell text that runs before, as the same user and in the same shell.
        """
        from devkit.device import quote

        text = f"{first}{self.enter()}; exec {quote(self.words())}"
        return f"exec {self.root.wrap(text)}" if self.root else text


def launch_for(
    folder: str, program: str, args: Sequence[str], env: Mapping[str, str], *, cwd: str | None = None
) -> Launch:
    """The launch of a deployed program: working directory and libraries are its own folder."""
    return Launch(posixpath.join(folder, program), tuple(args), folder, dict(env), cwd or "")


def signal_name(exit_code: int) -> str | None:
    """The signal that an exit code stands for (128 + n), as "SIGSEGV"; None when it stands for none."""
    return _SIGNALS.get(exit_code - 128)


def known_stdin_end(program: str) -> str | None:
    """The line that ends a program which does not notice the end of its input (see programs.yaml).

    Args:
        program: its path or file name.
    """
    return _programs().get(posixpath.basename(program), {}).get("stdin_end")


@lru_cache(maxsize=1)
def _programs() -> dict[str, dict[str, str]]:
    import yaml

    text = resources.files("devkit.runtime").joinpath("programs.yaml").read_text("utf-8")
    programs: dict[str, dict[str, str]] = yaml.safe_load(text)
    return programs


def run_program(
    device: Device,
    launch: Launch,
    *,
    timeout_s: float | None = None,
    stdin: Path | None = None,
    stdin_end: str | None = None,
    tty: bool | None = None,
    live: bool = False,
    first: str = "",
    ended: Callable[[], bool] | None = None,
    on_output: Callable[[bytes, bool], None] | None = None,
) -> int:
    """Run to the end with this process's stdin, stdout and stderr; return the exit code.

    128 + n means that signal n ended it. Ctrl-C ends the program on the phone first and then
    raises KeyboardInterrupt. When devkit dies, the program is ended by its guard.

    Args:
        stdin: a file to read instead of this process's stdin.
        stdin_end: a line that is sent when stdin, no terminal, has ended.
        tty: whether it gets a terminal; None: when stdin and stdout are one.
        live: where it gets none, its stdout alone is a terminal of the phone, so that the C library hands
            out each line; costs a second stream.
        first: shell text that the phone runs before the program.
        ended: asked several times a second; True ends the program.
        on_output: gets all output too, after it is shown; the flag says that it is of stderr.

    Raises:
        FileError: `stdin` cannot be read.
        DeviceError: the phone went away while the program ran.
        OperationTimeout: it still ran after `timeout_s`; it has been ended.
        StreamStopped: `ended` said so; the program has been ended.
    """
    from devkit.device.terminal import Input, join_terminal, wants_pty

    name = posixpath.basename(launch.program)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(Input.opened(stdin, last_line=stdin_end))
        if live and not wants_pty(source, tty):
            tty = False
            on_output = _one_at_a_time(on_output)
            first += stack.enter_context(_line_by_line(device, on_output))
        guard = Guard(device, launch.folder, root=launch.root)
        finished = False
        try:
            code = join_terminal(
                device,
                launch.shell_text(guard.prefix + first),
                timeout_s=timeout_s,
                doing=f"running {name}",
                source=source,
                tty=tty,
                stopped=ended,
                on_output=on_output,
            )
            finished = True
            return code
        except OperationTimeout:
            if timeout_s is None:
                raise
            raise OperationTimeout(
                f"{name} was still running after {timeout_s:g} s; it was ended",
                where=PHONE,
                hints=["give it more time with --timeout, or none at all"],
            ) from None
        finally:
            if finished:
                guard.release()
            else:
                guard.kill()


def _one_at_a_time(on_output: Callable[[bytes, bool], None] | None) -> Callable[[bytes, bool], None] | None:
    """stdout and stderr come from two threads then."""
    if on_output is None:
        return None
    lock = threading.Lock()

    def locked(data: bytes, is_stderr: bool) -> None:
        with lock:
            on_output(data, is_stderr)

    return locked


@contextlib.contextmanager
def _line_by_line(device: Device, on_output: Callable[[bytes, bool], None] | None) -> Iterator[str]:
    """Shell text that sends stdout to a terminal of the phone, whose output is shown here."""
    from devkit.device import quote_word
    from devkit.device.phone_terminal import PhoneTerminal

    sink = output.current()

    def show(data: bytes) -> None:
        sink.raw(data)
        if on_output is not None:
            on_output(data, False)

    with PhoneTerminal(device, show) as terminal:
        yield f"exec > {quote_word(terminal.path)}; "
