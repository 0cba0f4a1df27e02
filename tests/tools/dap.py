"""A small client of the Debug Adapter Protocol, as much of VS Code as a session needs."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 30.0


class DapFailed(Exception):
    """The adapter refused a request, ended, or did not answer."""


class DapClient:
    """One adapter as a child process. A context manager."""

    def __init__(
        self, adapter: str | Path, *, env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._argv = [str(adapter)]
        self._env = {**os.environ, **(env or {})}
        self._timeout_s = timeout_s
        self._sequence = 0
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._waiting: list[dict[str, Any]] = []
        self.output: dict[str, str] = {}

    def __enter__(self) -> DapClient:
        self._child = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._env,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join(5)
        self._child.stdout.close()

    def send(self, command: str, arguments: dict[str, Any] | None = None) -> int:
        self._sequence += 1
        message = {"seq": self._sequence, "type": "request", "command": command, "arguments": arguments or {}}
        body = json.dumps(message).encode()
        assert self._child.stdin is not None
        self._child.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._child.stdin.flush()
        return self._sequence

    def answer(self, number: int) -> dict[str, Any]:
        """The body of the response to a request."""
        message = self._next(lambda m: m["type"] == "response" and m["request_seq"] == number)
        if not message["success"]:
            raise DapFailed(f"{message['command']}: {message.get('message')} {message.get('body')}")
        body: dict[str, Any] = message.get("body") or {}
        return body

    def ask(self, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.send(command, arguments))

    def event(self, *names: str) -> dict[str, Any]:
        return self._next(lambda m: m["type"] == "event" and m["event"] in names)

    def _next(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for index, message in enumerate(self._waiting):
            if wanted(message):
                return self._waiting.pop(index)
        while True:
            try:
                received = self._messages.get(timeout=self._timeout_s)
            except queue.Empty:
                raise DapFailed(
                    f"the adapter says nothing for {self._timeout_s:g} s; {self.output}"
                ) from None
            if received is None:
                raise DapFailed(f"the adapter has ended; {self.output}")
            if wanted(received):
                return received
            self._waiting.append(received)

    def _read(self) -> None:
        stream = self._child.stdout
        assert stream is not None
        while True:
            length: int | None = None
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value) if value.strip() else None
            body_text = stream.read(length) if length else b""
            if not length or len(body_text) < length:
                self._messages.put(None)
                return
            message = json.loads(body_text)
            if message.get("event") == "output":
                body = message["body"]
                kind = body.get("category", "console")
                self.output[kind] = self.output.get(kind, "") + body["output"]
            self._messages.put(message)
