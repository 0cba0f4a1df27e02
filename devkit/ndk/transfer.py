"""One HTTP request for a file or the rest of it, with every way it goes wrong named."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from devkit import __version__

# For connecting, and between two pieces of the body. Short: a mirror behind a firewall that drops
# packets costs this long, and a stall is continued at no cost.
TIMEOUT_S = 20.0
# A server that sends less than this for so long hardly ever recovers; the next mirror does better.
SLOW_BYTES_PER_S = 2_000
SLOW_FOR_S = 60.0
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
# Documents instead of a file: error pages, logins of a hotel's network.
_DOCUMENTS = ("text/html", "application/xhtml", "application/json", "application/xml", "text/xml")


class MirrorFailed(Exception):
    """One server did not deliver.

    Attributes:
        final: asking the same server again will not help.
        wrong_content: all of it came, but it is another file.
        timeout: it did not answer in time.
        beyond_end: it has fewer bytes than are here already.
    """

    def __init__(
        self,
        url: str,
        why: str,
        *,
        final: bool = False,
        wrong_content: bool = False,
        timeout: bool = False,
        beyond_end: bool = False,
        whole: bool = False,
    ) -> None:
        super().__init__(why if whole else f"{url}: {why}")
        self.final, self.wrong_content = final, wrong_content
        self.timeout, self.beyond_end = timeout, beyond_end


@dataclass
class Answer:
    """A response whose body is the file from `offset` on.

    `length` is what the server says the body has, `total` what it says the file has, in bytes;
    None when it does not say.
    """

    url: str
    offset: int
    length: int | None
    total: int | None
    etag: str | None
    modified: str | None
    _body: IO[bytes]

    def __post_init__(self) -> None:
        self._slow_since = time.monotonic()
        self._slow_bytes = 0

    def read(self, limit: int) -> bytes:
        """The next piece, empty at the end or when the connection broke.

        Raises:
            MirrorFailed: nothing came in TIMEOUT_S, or too little for SLOW_FOR_S.
        """
        try:
            # One piece as it comes: read() would wait until `limit` bytes are together.
            block: bytes = self._body.read1(limit)  # type: ignore[attr-defined]
        except TimeoutError:
            raise MirrorFailed(self.url, f"sent nothing for {TIMEOUT_S:g} s", timeout=True) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise MirrorFailed(self.url, f"broke off ({_reason(error)})") from None
        self._slow_bytes += len(block)
        elapsed = time.monotonic() - self._slow_since
        if elapsed >= SLOW_FOR_S:
            if self._slow_bytes < SLOW_BYTES_PER_S * elapsed:
                rate = self._slow_bytes / elapsed
                raise MirrorFailed(self.url, f"is too slow ({rate:.0f} bytes/s)", final=True, timeout=True)
            self._slow_since, self._slow_bytes = time.monotonic(), 0
        return block


@contextlib.contextmanager
def open_range(url: str, offset: int, etag: str | None) -> Iterator[Answer]:
    """Ask for a file from `offset` on. The answer's offset is 0 when the server ignores ranges.

    Args:
        etag: what the server called the file before; another file comes whole then.

    Raises:
        MirrorFailed: no answer, an error, or a document instead of a file.
    """
    headers = {"User-Agent": f"devkit/{__version__}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        # A weak ETag does not promise equal bytes: the server must not compare it (RFC 9110, 13.1.5).
        if etag and not etag.startswith("W/"):
            headers["If-Range"] = etag
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(url, error.code, error.reason, offset) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_answer(url, error) from None
    with response:
        yield _read_head(url, response, offset)


def _read_head(url: str, response: http.client.HTTPResponse, offset: int) -> Answer:
    kind = response.headers.get_content_type()
    if kind in _DOCUMENTS:
        raise MirrorFailed(url, f"sends a document ({kind}) instead of the file", final=True)
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding not in ("", "identity"):
        raise MirrorFailed(url, f"sends the file as {encoding}, which nobody asked for", final=True)
    length = _number(response.headers.get("Content-Length"))
    begin, total = 0, length
    if response.status == 206:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if not found:
            raise MirrorFailed(url, "answers a range without saying which", final=True)
        begin = int(found.group(1))
        total = None if found.group(3) == "*" else int(found.group(3))
        if begin != offset:
            raise MirrorFailed(url, f"sends bytes from {begin} on; {offset} was asked for", final=True)
    elif response.status != 200:
        raise MirrorFailed(url, f"answers {response.status} {response.reason}", final=True)
    headers = response.headers
    return Answer(url, begin, length, total, headers.get("ETag"), headers.get("Last-Modified"), response)


def _refusal(url: str, code: int, reason: str, offset: int) -> MirrorFailed:
    if code in (404, 410):
        return MirrorFailed(url, f"does not exist there ({code} {reason})", final=True)
    if code == 416:
        return MirrorFailed(url, f"has no byte {offset}: its file is shorter", beyond_end=True)
    # Overload and gateways between may pass.
    return MirrorFailed(url, f"answers {code} {reason}", final=code < 500 and code not in (408, 429))


def _no_answer(url: str, error: Exception) -> MirrorFailed:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return MirrorFailed(url, f"did not answer in {TIMEOUT_S:g} s", final=True, timeout=True)
    if isinstance(cause, socket.gaierror):
        return MirrorFailed(url, f"the host's name is not known here ({cause.strerror})", final=True)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return MirrorFailed(url, f"has no certificate to trust ({cause.verify_message})", final=True)
    if isinstance(cause, ConnectionRefusedError):
        return MirrorFailed(url, "refuses the connection", final=True)
    return MirrorFailed(url, f"cannot be reached ({_reason(cause)})")


def _reason(error: object) -> str:
    text = str(error)
    return text or type(error).__name__


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None
