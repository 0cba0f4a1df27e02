"""A real HTTP server on loopback that serves archives, well or in every way mirrors go wrong."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = 64 * 1024


@dataclass(frozen=True)
class Behaviour:
    """How one request is answered.

    Attributes:
        cut_after: bytes of the body after which the connection is closed.
        length_error: added to the length that is announced.
        wrong_byte_at: this byte of the file is flipped.
        status: an error's code; its body is a page of HTML.
        content_type: what the body is said to be.
        ranges: whether Range is honoured.
        say_length: whether Content-Length is sent.
        total_error: added to the file's size in Content-Range.
        bytes_per_s: how fast the body is sent.
        stall_s: how long to do nothing before the body.
        etag: the file's ETag; None sends none.
        extra: appended to the body: more than was announced or expected.
        redirect: send the client there instead.
    """

    cut_after: int | None = None
    length_error: int = 0
    wrong_byte_at: int | None = None
    status: int = 200
    content_type: str = "application/zip"
    ranges: bool = True
    say_length: bool = True
    total_error: int = 0
    bytes_per_s: float | None = None
    stall_s: float = 0.0
    etag: str | None = '"v1"'
    modified: str | None = None
    extra: bytes = b""
    redirect: str | None = None


GOOD = Behaviour()


@dataclass
class Server:
    """A running server. `behaviours` are used up one per request; the last one stays."""

    files: dict[str, bytes]
    behaviours: list[Behaviour] = field(default_factory=lambda: [GOOD])
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0
    on_request: Callable[[int], None] | None = None
    # path -> size of a body of zeros after a zip's magic, made while it is sent.
    generated: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ranges(self) -> list[str | None]:
        """The Range headers of all requests so far."""
        return [header for _, header in self.requests]

    def next_behaviour(self) -> Behaviour:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]


@contextmanager
def serve(
    files: dict[str, bytes], *behaviours: Behaviour, generated: dict[str, int] | None = None
) -> Iterator[Server]:
    """Serve `files` (path -> content) on a port of 127.0.0.1."""
    server = Server(files, list(behaviours) or [GOOD], generated=generated or {})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, server)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def with_etag(etag: str, **changes: object) -> Behaviour:
    return replace(GOOD, etag=etag, **changes)  # type: ignore[arg-type]


def _answer(handler: BaseHTTPRequestHandler, server: Server) -> None:
    how = server.next_behaviour()
    header = handler.headers.get("Range")
    server.requests.append((handler.path, header))
    if server.on_request:
        server.on_request(len(server.requests))
    handler.close_connection = True
    if how.redirect:
        handler.send_response(302)
        handler.send_header("Location", how.redirect)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    size = server.generated.get(handler.path, len(server.files.get(handler.path, b"")))
    if how.status != 200 or (handler.path not in server.files and handler.path not in server.generated):
        _page(handler, how.status if how.status != 200 else 404)
        return
    begin = 0
    condition = handler.headers.get("If-Range")
    if header and how.ranges and (condition is None or condition == how.etag):
        found = re.fullmatch(r"bytes=(\d+)-", header)
        assert found
        begin = int(found.group(1))
        if begin >= size:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{size}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size + how.total_error}")
    else:
        handler.send_response(200)
    if how.say_length:
        handler.send_header("Content-Length", str(size - begin + how.length_error))
    handler.send_header("Content-Type", how.content_type)
    if how.etag:
        handler.send_header("ETag", how.etag)
    if how.modified:
        handler.send_header("Last-Modified", how.modified)
    handler.end_headers()
    time.sleep(how.stall_s)
    try:
        _send_body(handler, server, how, begin, size)
    except (BrokenPipeError, ConnectionResetError):
        pass


def _send_body(
    handler: BaseHTTPRequestHandler, server: Server, how: Behaviour, begin: int, size: int
) -> None:
    sent, at = 0, begin
    block = BLOCK if how.bytes_per_s is None else max(1, int(how.bytes_per_s / 50))
    while at < size:
        piece = _piece(server, handler.path, at, min(block, size - at))
        if how.cut_after is not None and sent + len(piece) > how.cut_after:
            handler.wfile.write(piece[: how.cut_after - sent])
            return
        if how.wrong_byte_at is not None and at <= how.wrong_byte_at < at + len(piece):
            changed = bytearray(piece)
            changed[how.wrong_byte_at - at] ^= 0xFF
            piece = bytes(changed)
        handler.wfile.write(piece)
        sent += len(piece)
        at += len(piece)
        if how.bytes_per_s is not None:
            time.sleep(len(piece) / how.bytes_per_s)
    handler.wfile.write(how.extra)


def _piece(server: Server, path: str, at: int, length: int) -> bytes:
    if path in server.files:
        return server.files[path][at : at + length]
    magic = b"PK\x03\x04"
    return (magic[at : at + length] + bytes(length))[:length]


def _page(handler: BaseHTTPRequestHandler, status: int) -> None:
    page = b"<!DOCTYPE html><html><body><h1>Not here</h1></body></html>"
    handler.send_response(status)
    handler.send_header("Content-Type", "text/html; charset=utf-8")
    handler.send_header("Content-Length", str(len(page)))
    handler.end_headers()
    handler.wfile.write(page)
