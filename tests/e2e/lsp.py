"""A small client of the language server protocol: enough to be clangd's editor."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ANSWER_TIMEOUT_S = 60


class LanguageServer:
    """A running server; messages that it sends on its own are kept in `notifications`."""

    def __init__(self, argv: Sequence[str], root: Path) -> None:
        self._log = open(root.parent / "clangd.log", "wb")
        self._process = subprocess.Popen(
            argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self._count = 0
        self.notifications: list[dict[str, Any]] = []
        self.request("initialize", {"processId": None, "rootUri": root.as_uri(), "capabilities": {}})
        self.notify("initialized", {})

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    def open(self, file: Path) -> None:
        """Show a file to the server, as an editor does."""
        document = {"uri": file.as_uri(), "languageId": "cpp", "version": 1, "text": file.read_text("utf-8")}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def at(self, method: str, file: Path, text: str, *, into: int = 0) -> Any:
        """Ask about the place where `text` first stands in the file, `into` characters further."""
        before, found, _ = file.read_text("utf-8").partition(text)
        assert found, f"{file.name} does not hold {text}"
        lines = before.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1]) + into}
        return self.request(method, {"textDocument": {"uri": file.as_uri()}, "position": position})

    def diagnostics(self, file: Path) -> list[dict[str, Any]]:
        """The problems of a file, once the server has said them."""
        while True:
            for note in reversed(self.notifications):
                if (
                    note["method"] == "textDocument/publishDiagnostics"
                    and note["params"]["uri"] == file.as_uri()
                ):
                    found: list[dict[str, Any]] = note["params"]["diagnostics"]
                    return found
            self._take(self._receive())

    def request(self, method: str, params: object) -> Any:
        """Ask, and wait for the answer."""
        self._count += 1
        wanted = self._count
        self._send({"id": wanted, "method": method, "params": params})
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._receive()
            if message.get("id") == wanted and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self._take(message)
        raise AssertionError(f"no answer to {method}")

    def notify(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._send({"id": message["id"], "result": None})
        else:
            self.notifications.append(message)

    def _send(self, message: dict[str, object]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()) != b"\r\n":
            assert line, "clangd has ended; see clangd.log"
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message
