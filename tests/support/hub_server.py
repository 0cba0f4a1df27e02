"""A hub on loopback: what fetching a model needs of the Hugging Face API, with cuts in the middle."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_BLOCK = 16 * 1024


@dataclass
class HubServer:
    """A running hub with one model.

    Attributes:
        files: path → content; those in `large` are LFS: a sha256, and a redirect to a CDN path.
        cuts: path → bytes after which each of the next answers breaks off.
        ranges: whether the CDN honours Range.
        down: every answer is 503; with `down_after_cut` from the first cut on.
        flip: paths whose content comes with a wrong byte.
        requests: (method, path, Range, Authorization)
    """

    name: str
    files: dict[str, bytes]
    large: set[str]
    port: int = 0
    gated: bool = False
    ranges: bool = True
    down: bool = False
    down_after_cut: bool = False
    cuts: dict[str, list[int]] = field(default_factory=dict)
    flip: set[str] = field(default_factory=set)
    requests: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fetched(self, path: str) -> list[str | None]:
        """The Range headers of all GETs of a file's content."""
        return [r for method, place, r, _ in self.requests if method == "GET" and place.endswith(path)]

    def listing(self) -> dict[str, Any]:
        siblings = []
        for path, content in self.files.items():
            row: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git_sha1(content)}
            if path in self.large:
                sha = hashlib.sha256(content).hexdigest()
                row["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 134}
            siblings.append(row)
        return {
            "id": self.name, "modelId": self.name, "sha": COMMIT, "private": False, "tags": [],
            "downloads": 0, "likes": 0, "siblings": siblings,
        }  # fmt: skip


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def serve_hub(name: str, files: dict[str, bytes], large: set[str]) -> Iterator[HubServer]:
    """Serve one model on a port of 127.0.0.1."""
    hub = HubServer(name, files, large)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, hub)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    hub.port = http.server_address[1]
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield hub
    finally:
        http.shutdown()
        http.server_close()


def _answer(handler: BaseHTTPRequestHandler, hub: HubServer) -> None:
    path = unquote(urlsplit(handler.path).path)
    asked = handler.headers.get("Range")
    hub.requests.append((handler.command, path, asked, handler.headers.get("Authorization")))
    handler.close_connection = True
    if hub.down:
        _reply(handler, 503, {}, b"busy")
        return
    api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path)
    resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
    if hub.gated:
        _reply(handler, 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "accept the terms"}, b"{}")
    elif api and api[1] == hub.name and api[2] in (None, "main", COMMIT):
        _reply(handler, 200, {"Content-Type": "application/json"}, json.dumps(hub.listing()).encode())
    elif api and api[1] == hub.name:
        _reply(handler, 404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
    elif resolve and resolve[1] == hub.name and resolve[3] in hub.files:
        if resolve[3] in hub.large:
            # As the hub does: the content is elsewhere, its hash and size are told here.
            content = hub.files[resolve[3]]
            headers = {
                "Location": f"/cdn/{resolve[3]}", "X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(content)),
                "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
            }  # fmt: skip
            _reply(handler, 302, headers, b"")
        else:
            _content(handler, hub, resolve[3], asked)
    elif path.startswith("/cdn/") and path.removeprefix("/cdn/") in hub.files:
        _content(handler, hub, path.removeprefix("/cdn/"), asked)
    else:
        _reply(handler, 404, {"X-Error-Code": "RepoNotFound"}, b"{}")


def _content(handler: BaseHTTPRequestHandler, hub: HubServer, path: str, asked: str | None) -> None:
    content = hub.files[path]
    if path in hub.flip:
        content = bytes([content[0] ^ 0xFF]) + content[1:]
    begin = 0
    if asked and hub.ranges:
        found = re.fullmatch(r"bytes=(\d+)-", asked)
        assert found, asked
        begin = int(found[1])
    handler.send_response(206 if begin else 200)
    if begin:
        handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - begin))
    handler.send_header("ETag", f'"{git_sha1(content)}"')
    handler.send_header("X-Repo-Commit", COMMIT)
    handler.send_header("Connection", "close")
    handler.end_headers()
    if handler.command == "HEAD":
        return
    limit = hub.cuts[path].pop(0) if hub.cuts.get(path) else None
    body = content[begin:] if limit is None else content[begin : begin + limit]
    try:
        for at in range(0, len(body), _BLOCK):
            handler.wfile.write(body[at : at + _BLOCK])
            hub.sent[path] = hub.sent.get(path, 0) + len(body[at : at + _BLOCK])
    except (BrokenPipeError, ConnectionResetError):
        pass
    if limit is not None and hub.down_after_cut:
        hub.down = True


def _reply(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    # Said, not only done: a client must not send its next request into a connection that ends.
    handler.send_header("Connection", "close")
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
