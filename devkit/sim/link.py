"""The phone's cable: a process between the port that adb servers connect to and the phone's adbd.

Without limits or faults it only hands accepted connections over to adbd and costs nothing. As soon as
there are some, bytes run through here; connections that are open already are taken back for that.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import asdict

from devkit.errors import SimError
from devkit.sim.link_loop import run_link
from devkit.sim.link_orders import BACKLOG, MESSAGE_BYTES, LinkOrder, LinkReport

ANSWER_TIMEOUT_S = 20.0


class Link:
    """The supervisor's handle on the link's process, which ends with the supervisor."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock
        sock.settimeout(ANSWER_TIMEOUT_S)

    def obey(self, order: LinkOrder) -> LinkReport:
        """Change the link; returns when the change is in force.

        Raises:
            SimError: its process does not answer.
        """
        try:
            self._sock.send(json.dumps(asdict(order)).encode())
            answer = self._sock.recv(MESSAGE_BYTES)
        except OSError as error:
            raise SimError("the virtual phone's link does not answer", evidence=str(error)) from None
        if not answer:
            raise SimError("the virtual phone's link has ended")
        return LinkReport(**json.loads(answer))

    def end(self) -> None:
        """End its process."""
        self._sock.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def bind_listener(host: str, port: int) -> socket.socket:
    """A listening socket that keeps its port while it does not listen (UNPLUGGED).

    The kernel gives a port back that it has chosen itself, so it is asked for by its number.

    Args:
        port: 0 takes a free one.

    Raises:
        OSError: the port cannot be had.
    """
    with socket.socket() as chosen:
        chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        chosen.bind((host, port))
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, chosen.getsockname()[1]))
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    return listener


def start_link(listener: socket.socket, channel: socket.socket, keep_fds: set[int]) -> Link:
    """Fork the link's process. The caller must have no threads.

    Args:
        listener: bound and listening, the port that adb servers connect to.
        channel: where adbd receives connections (see `devkit.sim.adbd.handover`).
        keep_fds: descriptors that it holds on purpose (the lock).
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        run_link(listener, channel, theirs, supervisor, keep_fds)
    theirs.close()
    return Link(pid, ours)
