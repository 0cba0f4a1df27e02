"""Programs of /system/bin that are Python: a service forks for each, and its process does the work.

The program itself (native/applet.c) hands over its standard files and its working directory and waits for the
exit code. When it dies, what works for it ends too.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from devkit.sim.adbd.log import log
from devkit.sim.services import PhoneFacts, Service, Sockets
from devkit.sim.users import SHELL_ID, ShellWorld, become_shell, user_of

APPLETS_SOCKET = "applets"
_FD_COUNT, _MOST_FDS = 4, 5
_EXIT_FAILED = 1

# One start of it → exit code.
Applet = Callable[["Call"], int]


def applets_service(applets: Callable[[PhoneFacts], Mapping[str, Applet]], world: ShellWorld) -> Service:
    """The service that does the work of applets, each as the user who started it.

    Args:
        applets: name → what it does, given the phone.
        world: of the shell user.
    """
    kinds = {APPLETS_SOCKET: socket.SOCK_STREAM}

    def run(facts: PhoneFacts, sockets: Sockets) -> None:
        known = applets(facts)

        def body(call: Call) -> int:
            # What was pushed may hold a version behind its name.
            applet = known.get(call.name) or known.get(call.name.partition("-")[0])
            if applet is None:
                os.write(2, f"{call.name}: no such applet\n".encode())
                return 127
            return applet(call)

        def become_caller(pid: int) -> None:
            if user_of(pid) == SHELL_ID:
                become_shell(world)

        serve_applets(sockets[APPLETS_SOCKET], body, become_caller)

    return Service("toolbox", kinds, as_root=True, run=run)


class Call:
    """One start of an applet.

    Args:
        pid: of the program that waits.
        connection: to it; its end is the program's.

    `at_end` is called when the program has died before its work was done, `on_signal` with the number of
    each signal that it passes on.
    """

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self.at_end: Callable[[], None] = lambda: None
        # Of simpleperf: where it says that it has started.
        self.told_fd = -1
        self.on_signal: Callable[[int], None] = lambda number: None
        words = _read(pid, "cmdline").split(b"\0")[:-1]
        self.name = os.path.basename(os.fsdecode(words[0])) if words else ""
        self.arguments = [os.fsdecode(word) for word in words[1:]]
        pairs = (entry.partition(b"=") for entry in _read(pid, "environ").split(b"\0"))
        self.environment = {os.fsdecode(key): os.fsdecode(value) for key, sep, value in pairs if sep}


def serve_applets(
    listener: socket.socket, body: Callable[[Call], int], prepare: Callable[[int], None] = lambda pid: None
) -> None:
    """Serve for ever: fork for each call, run `body` on its files, report its exit code.

    Args:
        prepare: called with the caller's pid before anything is done for it.
    """
    # Children need no waiting for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _work(connection, body, prepare)
        connection.close()


def _work(connection: socket.socket, body: Callable[[Call], int], prepare: Callable[[int], None]) -> None:
    code, number = _EXIT_FAILED, 0
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        fds = _receive_files(connection)
        if fds:
            call = Call(pid, connection)
            prepare(pid)
            call.told_fd = _take_files(fds)
            threading.Thread(target=_end_with, args=(call,), daemon=True).start()
            code = body(call)
    except BrokenPipeError:
        # Nobody reads its output: the program is to die of that, as any other would.
        number = signal.SIGPIPE
    except OSError as error:
        os.write(2, f"{os.strerror(error.errno or 0)}\n".encode())
    except BaseException:
        log(f"an applet failed:\n{traceback.format_exc()}")
    finally:
        try:
            connection.sendall(bytes([code & 0xFF, number]))
        finally:
            os._exit(0)


def _receive_files(connection: socket.socket) -> list[int]:
    """The caller's standard files and its working directory; empty when it sends none."""
    fds = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_MOST_FDS * fds.itemsize))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content)
    return list(fds) if data and len(fds) >= _FD_COUNT else []


def _take_files(fds: list[int]) -> int:
    """Make the caller's files this process's; one that came beside them is handed out, else -1."""
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
    os.fchdir(fds[3])
    for fd in fds[:_FD_COUNT]:
        if fd > 2:
            os.close(fd)
    return fds[_FD_COUNT] if len(fds) > _FD_COUNT else -1


def _end_with(call: Call) -> None:
    """End this process when the program that waits for it does."""
    try:
        while number := call.connection.recv(1):
            call.on_signal(number[0])
    except OSError:
        pass
    call.at_end()
    os._exit(0)


def _read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()
