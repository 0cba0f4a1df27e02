"""Large files over HTTP: resumed after a break, from the next mirror, and never believed unchecked.

urllib of the standard library does the transport. Everything that makes a download sound (ranges,
validators, lengths, digests, mirrors) would have to be written around any other library as well.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import FileError, OperationTimeout
from devkit.ndk.lock import exclusive
from devkit.ndk.transfer import Answer, MirrorFailed, open_range

if TYPE_CHECKING:
    from devkit.output import Progress

BLOCK_BYTES = 256 * 1024
# Breaks without a single new byte before the next mirror is tried.
ATTEMPTS = 3
# Less than this between two breaks is no progress: a broken server is not asked for ever.
MIN_PROGRESS_BYTES = 64 * 1024
RETRY_DELAY_S, MIN_DELAY_S = 1.0, 0.1
ZIP_MAGIC = b"PK\x03\x04"


@dataclass(frozen=True)
class Fetched:
    """A complete file. `url` sent the last part of it; `sha256` of a file without a known SHA-1."""

    path: Path
    url: str
    size: int
    sha1: str
    sha256: str


@dataclass
class _Part:
    """What is known of a partial file. Lies beside it, so that another process can go on."""

    url: str = ""
    etag: str | None = None
    modified: str | None = None
    size: int | None = None
    sources: list[str] | None = None


def fetch(
    urls: Sequence[str],
    target: Path,
    *,
    sha1: str | None = None,
    size: int | None = None,
    label: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Fetched:
    """Download a zip archive to `target`, from the first of `urls` that delivers it whole.

    A partial file stays as `<target>.part` after a break of any kind and is continued by the next
    call. With a checksum that is safe from any mirror; without one it is continued only when the
    server says that it is the same file (ETag or date), else begun anew.

    Args:
        sha1: the expected SHA-1; None accepts what the server sends, whole.
        size: the expected size in bytes, when it is known.

    Raises:
        FileError: no URL delivered it (every reason is in the evidence), or the disk is full.
        OperationTimeout: every URL was too slow to answer.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_name(f".{target.name}.lock")
    with exclusive(lock, f"downloading {label or target.name}"):
        if target.is_file() and sha1 is not None:
            found = _digests(target, None)
            if found[0] == sha1:
                return Fetched(target, urls[0], target.stat().st_size, *found)
            target.unlink()
        return _Download(urls, target, sha1, size, label or target.name, sleep).run()


def sha1_of(file: Path) -> str:
    """The SHA-1 of a file, as 40 hexadecimal digits."""
    return _digests(file, "")[0]


class _Download:
    def __init__(
        self,
        urls: Sequence[str],
        target: Path,
        sha1: str | None,
        size: int | None,
        label: str,
        sleep: Callable[[float], None],
    ) -> None:
        self._urls, self._target, self._sha1, self._size = urls, target, sha1, size
        self._label, self._sleep = label, sleep
        self._part_file = target.with_name(target.name + ".part")
        self._info_file = target.with_name(target.name + ".part.json")
        self._failures: list[MirrorFailed] = []
        self._bar: Progress

    def run(self) -> Fetched:
        part = self._read_part()
        with output.current().progress(self._label, self._size or part.size, unit="bytes") as self._bar:
            self._bar.skip(self._have)
            for number, url in enumerate(self._urls):
                fetched = self._from(url)
                if fetched is not None:
                    return fetched
                if number + 1 < len(self._urls):
                    output.current().note(f"{self._failures[-1]}; trying {self._urls[number + 1]}")
        raise self._failed()

    @property
    def _have(self) -> int:
        try:
            return self._part_file.stat().st_size
        except OSError:
            return 0

    def _from(self, url: str) -> Fetched | None:
        """All attempts with one mirror; None when it has failed (the reasons are in `_failures`)."""
        breaks = 0
        mixed = self._have > 0
        while True:
            before = self._have
            try:
                self._receive(url)
                return self._finish(url)
            except MirrorFailed as failure:
                if failure.wrong_content and mixed:
                    # The wrong byte may have come from the mirror before: this one gets its chance.
                    mixed = False
                    output.current().note(f"{failure}; starting over")
                    continue
                breaks = 1 if self._have >= before + MIN_PROGRESS_BYTES else breaks + 1
                last = failure.final or breaks >= ATTEMPTS
                # A server may promise more than there is: what came can be the whole file.
                if (last or failure.beyond_end) and self._is_whole():
                    return self._finish(url)
                if failure.beyond_end:
                    self._restart()
                if last:
                    self._failures.append(failure)
                    return None
                output.current().detail(f"{failure}; going on at byte {self._have}")
                self._sleep(RETRY_DELAY_S * (breaks - 1) + MIN_DELAY_S)

    def _receive(self, url: str) -> None:
        """Append what is missing.

        Raises:
            MirrorFailed: the mirror broke off, or what it sends is not the file.
        """
        part = self._read_part()
        offset = self._usable(url, part)
        if offset and offset == self._size:
            return
        # The digest decides where there is one; mirrors of one file have ETags of their own.
        etag = part.etag if part.url == url and self._sha1 is None else None
        with open_range(url, offset, etag) as answer:
            self._check(answer, part)
            if answer.offset != offset:
                self._restart()
                offset = answer.offset
            self._make_room(answer)
            sources = [*(part.sources or []), url] if offset else [url]
            part = _Part(url, answer.etag, answer.modified, answer.total, list(dict.fromkeys(sources)))
            paths.write_atomically(self._info_file, json.dumps(asdict(part)))
            total = self._size or answer.total
            if total is not None:
                self._bar.total(total)
            try:
                self._append(answer, offset, total)
            except OSError as error:
                raise FileError(
                    f"{self._part_file} cannot be written",
                    evidence=str(error),
                    hints=["free some space and run it again: what is here already is kept"],
                ) from None

    def _usable(self, url: str, part: _Part) -> int:
        """Where to go on: the partial file counts only when it can be the same file."""
        have = self._have
        known = part.url == url and (part.etag or part.modified)
        too_long = self._size is not None and have > self._size
        if have and (too_long or (self._sha1 is None and not known)):
            self._restart()
            return 0
        return have

    def _check(self, answer: Answer, part: _Part) -> None:
        if self._size is not None and answer.total is not None and answer.total != self._size:
            raise MirrorFailed(
                answer.url, f"offers a file of {answer.total} bytes; {self._size} are expected", final=True
            )
        if self._sha1 is not None or not answer.offset:
            return
        for name, before, now in (
            ("ETag", part.etag, answer.etag),
            ("Last-Modified", part.modified, answer.modified),
        ):
            if before != now:
                self._restart()
                raise MirrorFailed(answer.url, f"has another file than before (its {name} changed)")

    def _make_room(self, answer: Answer) -> None:
        if answer.length is None:
            return
        free = shutil.disk_usage(self._target.parent).free
        if free < answer.length:
            raise FileError(
                f"not enough disk space to download {self._label}",
                evidence=f"{output.human_bytes(answer.length)} are to come, "
                f"{output.human_bytes(free)} are free in {self._target.parent}",
                hints=["free some space and run it again: what is here already is kept",
                       "XDG_CACHE_HOME names another folder for downloads"],
            )  # fmt: skip

    def _append(self, answer: Answer, offset: int, total: int | None) -> None:
        received = offset
        with self._part_file.open("ab") as file:
            while block := answer.read(BLOCK_BYTES):
                while received == 0 and len(block) < len(ZIP_MAGIC) and (more := answer.read(BLOCK_BYTES)):
                    block += more
                if received == 0 and not block.startswith(ZIP_MAGIC):
                    why = f"does not send a zip archive ({_excerpt(block)})"
                    raise MirrorFailed(answer.url, why, final=True)
                received += len(block)
                if total is not None and received > total:
                    file.close()
                    self._restart()
                    why = f"sends more than the {total} bytes of the file"
                    raise MirrorFailed(answer.url, why, final=True)
                file.write(block)
                self._bar.advance(len(block))
        if total is not None and received < total:
            raise MirrorFailed(answer.url, f"broke off after {received} of {total} bytes")

    def _is_whole(self) -> bool:
        return self._sha1 is not None and self._have > 0 and _digests(self._part_file, "")[0] == self._sha1

    def _finish(self, url: str) -> Fetched:
        """Check the digest and give the file its name.

        Raises:
            MirrorFailed: it is another file; the partial one is removed then.
        """
        self._bar.describe(f"checking {self._label}")
        found = _digests(self._part_file, self._sha1)
        if self._sha1 is not None and found[0] != self._sha1:
            sources = self._read_part().sources or [url]
            self._restart()
            raise MirrorFailed(
                url,
                f"the file from {' and '.join(sources)} is not the right one: its SHA-1 is {found[0]}, "
                f"{self._sha1} is expected; it was deleted",
                final=True,
                wrong_content=True,
                whole=True,
            )
        size = self._have
        self._part_file.replace(self._target)
        self._info_file.unlink(missing_ok=True)
        return Fetched(self._target, url, size, *found)

    def _restart(self) -> None:
        self._bar.skip(-self._bar.done)
        self._part_file.unlink(missing_ok=True)
        self._info_file.unlink(missing_ok=True)

    def _read_part(self) -> _Part:
        try:
            raw: dict[str, Any] = json.loads(self._info_file.read_text("utf-8"))
            return _Part(**raw)
        except (OSError, ValueError, TypeError):
            return _Part()

    def _failed(self) -> FileError | OperationTimeout:
        kind = OperationTimeout if all(f.timeout for f in self._failures) else FileError
        have = self._have
        hints = ["run it again: it goes on where it stopped"] if have else []
        return kind(
            f"{self._label} could not be downloaded",
            evidence="\n".join(str(failure) for failure in self._failures),
            hints=[
                *hints,
                "--mirror URL takes another server, --from FILE an archive that is here already",
                "behind a proxy: set HTTPS_PROXY; with a company's certificate: SSL_CERT_FILE",
            ],
        )


def _digests(file: Path, sha1: str | None) -> tuple[str, str]:
    """(SHA-1, SHA-256). Only the first when there is one to compare with: half the time."""
    first, second = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(4 * BLOCK_BYTES):
            first.update(block)
            if sha1 is None:
                second.update(block)
    return first.hexdigest(), second.hexdigest() if sha1 is None else ""


def _excerpt(block: bytes) -> str:
    text = block[:60].decode("latin-1").split("\n")[0].strip()
    return f"it begins with {text!r}"
