"""`su`: commands as root, in the namespace whose root the phone's init is.

Both notations work: Magisk's `su -c COMMAND`, and `su 0 COMMAND ARGUMENT…` of userdebug builds.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from devkit.sim.applets import Call, serve_applets
from devkit.sim.services import PhoneFacts, Service, Sockets
from devkit.sim.users import ROOT_ID, SHELL_ID, ShellWorld, become_shell

SU_SOCKET = "su"
_SHELL = "/system/bin/sh"
_USERS = {"root": ROOT_ID, "shell": SHELL_ID}
_USAGE = "usage: su [-lmp] [-s SHELL] [-c COMMAND] [-] [USER [COMMAND ARGUMENT...]]\n"
_EXIT_CANNOT_START = 126
_EXIT_NOT_FOUND = 127


class SuError(Exception):
    """What su says before it ends with exit code 1."""


@dataclass(frozen=True)
class SuRequest:
    """Whom to become, and what to run.

    Args:
        argv: the program and its arguments.
        keep: the environment stays as it is (`-p`).
    """

    user: int
    argv: tuple[str, ...]
    keep: bool = False


def su_service(world: ShellWorld) -> Service:
    """The service.

    Args:
        world: of the shell user, for `su shell`.
    """

    def run(facts: PhoneFacts, sockets: Sockets) -> None:
        serve_applets(sockets[SU_SOCKET], lambda call: _run(call, facts, world))

    return Service("magiskd", {SU_SOCKET: socket.SOCK_STREAM}, as_root=True, run=run)


def parse(arguments: list[str]) -> SuRequest:
    """Understand a command line.

    Raises:
        SuError: it is wrong.
    """
    waiting = list(arguments)
    command: str | None = None
    shell, keep = _SHELL, False
    while waiting and waiting[0].startswith("-"):
        word = waiting.pop(0)
        if word in ("-c", "--command"):
            if not waiting:
                raise SuError(_USAGE)
            # Magisk takes everything that follows for the command.
            command = " ".join(waiting)
            waiting = []
        elif word in ("-s", "--shell") and waiting:
            shell = waiting.pop(0)
        elif word in ("-p", "-m", "--preserve-environment"):
            keep = True
        elif word not in ("-", "-l", "--login", "-mm", "-M", "--mount-master"):
            raise SuError(_USAGE)
    user = ROOT_ID
    if waiting and command is None:
        user = _user(waiting.pop(0))
        if waiting[:1] in (["-c"], ["--command"]) and len(waiting) > 1:
            command, waiting = " ".join(waiting[1:]), []
    if command is not None:
        return SuRequest(user, (shell, "-c", command), keep)
    return SuRequest(user, tuple(waiting) or (shell,), keep)


def _user(name: str) -> int:
    number = _USERS.get(name, int(name) if name.isdecimal() else None)
    if number not in (ROOT_ID, SHELL_ID):
        raise SuError(f"su: unknown user {name}\n")
    return number


def _run(call: Call, facts: PhoneFacts, world: ShellWorld) -> int:
    try:
        request = parse(call.arguments)
    except SuError as error:
        os.write(2, str(error).encode("utf-8", "surrogateescape"))
        return 1
    pid = os.fork()
    if pid == 0:
        _become(request, call.environment, facts, world)
    call.at_end = lambda: _hang_up(pid)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _hang_up(group: int) -> None:
    """A killed `su` takes its command along, as the end of a terminal would."""
    try:
        os.killpg(group, signal.SIGHUP)
    except OSError:
        pass


def _become(request: SuRequest, environment: Mapping[str, str], facts: PhoneFacts, world: ShellWorld) -> None:
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        env = dict(environment)
        if not request.keep:
            name = "root" if request.user == ROOT_ID else "shell"
            env |= {"HOME": facts.environment["HOME"], "USER": name, "LOGNAME": name, "SHELL": _SHELL}
        if request.user == SHELL_ID:
            folder = os.getcwd()
            become_shell(world)
            os.chdir(folder)
        os.execvpe(request.argv[0], request.argv, env)
    except OSError as error:
        os.write(2, f"su: {request.argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        os._exit(_EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else _EXIT_CANNOT_START)
    finally:
        os._exit(_EXIT_CANNOT_START)
