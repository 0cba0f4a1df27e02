"""A real headless Chromium, driven over its own DevTools pipe: no driver, no websocket, no package.

What it speaks: the Chrome DevTools Protocol, JSON messages that end with a NUL byte, on the browser's
file descriptors 3 and 4 (`--remote-debugging-pipe`).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_S = 120.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Picture:
    """A screenshot: eight bits for each of red, green and blue."""

    width: int
    height: int
    rows: list[bytes]

    def colour(self, x: float, y: float) -> tuple[int, int, int]:
        row, at = self.rows[int(y)], int(x) * 3
        return row[at], row[at + 1], row[at + 2]

    def colours(self) -> set[tuple[int, int, int]]:
        return {tuple(row[at : at + 3]) for row in self.rows for at in range(0, len(row), 3)}  # type: ignore[misc]


class Page:
    """One tab."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._number, self._buffer, self._session = 0, b"", ""
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank", newWindow=False)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + ANSWER_S
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, file: Path, *, width: int = 1200, height: int = 800) -> None:
        """Load a page and wait for it; its errors and its requests are kept."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=file.as_uri())
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, *, limit_s: float = ANSWER_S) -> None:
        end = time.monotonic() + limit_s
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self) -> Picture:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        return read_png(base64.b64decode(data))

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready = select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has gone"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.console.append(json.dumps(parameters))


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A browser with a profile of its own, ended with all its children."""
    program = find_chromium()
    assert program is not None, "these tests want chromium: script/test installs it"
    from_here, to_browser = os.pipe()
    from_browser, to_here = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def descriptors() -> None:
            # 3 and 4 may be any of the four pipes' own numbers: both go through high ones.
            reading, writing = os.dup(from_here), os.dup(to_here)
            high = [os.dup2(reading, 200), os.dup2(writing, 201)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--force-color-profile=srgb", "--hide-scrollbars",
                f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=descriptors, close_fds=False, start_new_session=True,
        )  # fmt: skip
        os.close(from_here)
        os.close(to_here)
        try:
            yield Page(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read_png(data: bytes) -> Picture:
    """Eight-bit RGB or RGBA without interlacing: what Chromium writes."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, depth = 8, b"", 0, 0, 3
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            assert body[8] == 8 and body[9] in (2, 6) and body[12] == 0, body
            depth = 3 if body[9] == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, rows, above = zlib.decompress(packed), [], bytearray(width * depth)
    for y in range(height):
        start = y * (width * depth + 1)
        row = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * depth]), above, depth)
        rows.append(bytes(row) if depth == 3 else _without_alpha(row))
        above = row
    return Picture(width, height, rows)


def _without_alpha(row: bytearray) -> bytes:
    kept = bytearray(len(row) // 4 * 3)
    for channel in range(3):
        kept[channel::3] = row[channel::4]
    return bytes(kept)


def _unfiltered(kind: int, row: bytearray, above: bytearray, depth: int) -> bytearray:
    for at in range(len(row)):
        left = row[at - depth] if at >= depth else 0
        up = above[at]
        if kind == 1:
            row[at] = (row[at] + left) & 255
        elif kind == 2:
            row[at] = (row[at] + up) & 255
        elif kind == 3:
            row[at] = (row[at] + (left + up) // 2) & 255
        elif kind == 4:
            corner = above[at - depth] if at >= depth else 0
            estimate = left + up - corner
            distances = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
            nearest = (left, up, corner)[distances.index(min(distances))]
            row[at] = (row[at] + nearest) & 255
        else:
            return row
    return row
