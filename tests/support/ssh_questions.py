"""A real SSH server (paramiko's) that asks for passwords and codes: sshd does so only through PAM."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import paramiko


class AskingServer:
    """Accepts `password`, or the answers to `questions`; knows no keys.

    Args:
        methods: what it offers, e.g. "password" or "publickey,keyboard-interactive".
        partial_key: a public key that is accepted as the first of two factors.
    """

    def __init__(
        self,
        host_key: Path,
        methods: str,
        *,
        password: str | None = None,
        answers: Sequence[str] = (),
        partial_key: str | None = None,
    ) -> None:
        self.methods = methods
        self.password = password
        self.answers = list(answers)
        self.partial_key = partial_key
        self.attempts: list[str] = []
        self._host_key = paramiko.Ed25519Key.from_private_key_file(str(host_key))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End it and its connections."""
        self._listener.close()
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(sock)
            transport.add_server_key(self._host_key)
            self._transports.append(transport)
            transport.start_server(threading.Event(), _Rules(self))


class _Rules(paramiko.ServerInterface):
    def __init__(self, server: AskingServer) -> None:
        self._server = server
        self._first_factor = False

    def get_allowed_auths(self, username: str) -> str:
        return "keyboard-interactive" if self._first_factor else self._server.methods

    def check_auth_password(self, username: str, password: str) -> int:
        self._server.attempts.append("password")
        right = password == self._server.password
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._server.attempts.append("publickey")
        if key.get_base64() == self._server.partial_key:
            self._first_factor = True
            return paramiko.AUTH_PARTIALLY_SUCCESSFUL
        return paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery | int:
        self._server.attempts.append("keyboard-interactive")
        return paramiko.InteractiveQuery("Title", "Instructions", ("Password: ", False), ("Code: ", True))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        right = list(responses) == self._server.answers
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True
