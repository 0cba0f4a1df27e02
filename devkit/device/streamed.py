"""Files that reach the phone through a command's input: what sync cannot do, resume and gzip.

adbd removes a file whose SEND breaks off, and SEND begins at 0. What `cat` has appended stays. `exec-in`
would lose data; shell v2 keeps it and tells the exit code.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.device.compression import codec_for
from devkit.device.quoting import quote_word
from devkit.errors import PHONE, DeviceError, DevkitError, FileError

if TYPE_CHECKING:
    from devkit.device.phone import Device
    from devkit.device.shell import ShellStream

# Below this, beginning again costs less than it takes to look.
RESUME_BYTES = 16 * 1024 * 1024
_PACK_BYTES = 256 * 1024
_CHUNK_BYTES = 256 * 1024
_SAMPLE_BYTES = 64 * 1024
_WORTH = 0.9
_BUSY = 96
_LOOK_TIMEOUT_S = 600.0
_GZIP_WINDOW = 31  # zlib's number for "with a gzip header"

# What is there, and its hash. Nothing is locked yet: who appends looks again.
_LOOK = """\
size=$(stat -c %s {file} 2>/dev/null) || exit 0
sum=$(sha256sum < {file} 2>/dev/null) && echo "$size ${{sum%% *}}\""""

# A second devkit that appends to the same file would spoil it.
_RECEIVE = """\
(
  ! command -v flock >/dev/null 2>&1 || flock -n 9 || exit {busy}
  [ "$(stat -c %s {file})" = {offset} ] || exit {busy}
  {filter} >> {file} && [ "$(stat -c %s {file})" = {size} ] || exit 1
  {finish}
) 9>>{file}
"""


class PartInUse(DeviceError):
    """Somebody else is sending the same file to the same place."""


def wants_resume(device: Device, local: Path, size: int) -> bool:
    """Whether a file is big, and would travel as it is anyway: sync compresses what shrinks."""
    if size < RESUME_BYTES or "shell_v2" not in device.features:
        return False
    return codec_for(device.features) is None or not _shrinks(local, size)


def wants_gzip(device: Device, local: Path, size: int) -> bool:
    """Whether gzip makes it smaller and nothing better is there: phones before Android 11."""
    features = device.features
    if size < _PACK_BYTES or "shell_v2" not in features or codec_for(features) is not None:
        return False
    return _shrinks(local, size)


def send_resumable(
    device: Device,
    local: Path,
    part: str,
    target: str | None,
    *,
    mode: int,
    mtime_s: int,
    on_bytes: Callable[[int], None] | None = None,
) -> int:
    """Send a file to `part`, behind what is there of it already, and move it to `target` when it is whole.

    Args:
        target: None leaves it at `part`, as old as it is: `finish_line` does the rest.

    Returns:
        how many bytes had been there.

    Raises:
        PartInUse: somebody else is at it.
        DeviceError: the phone refused (disk full, …); carries its words. `part` stays for the next time.
        PhoneLost: the link broke; so does it then.
        FileError: the local file cannot be read, or has changed meanwhile.
    """
    size = _size(local)
    offset = _usable_prefix(device, local, size, part)
    if on_bytes is not None and offset:
        on_bytes(offset)
    script = _receive_script(part, target, "cat", offset, size, mode, mtime_s)
    _feed(device, script, local, offset, target or local.name, lambda data: data, on_bytes)
    return offset


def send_gzipped(
    device: Device,
    local: Path,
    part: str,
    target: str,
    *,
    mode: int,
    mtime_s: int,
    on_bytes: Callable[[int], None] | None = None,
) -> None:
    """Send a file packed; the phone's gzip unpacks it. Raises as `send_resumable`."""
    device.shell(["rm", "-f", part], check=True)
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP_WINDOW)
    script = _receive_script(part, target, "gzip -dc", 0, _size(local), mode, mtime_s)
    _feed(device, script, local, 0, target, packer.compress, on_bytes, packer.flush)


def _receive_script(
    part: str, target: str | None, filter_: str, offset: int, size: int, mode: int, mtime_s: int
) -> str:
    finish = finish_line(part, target, mode=mode, mtime_s=mtime_s) if target else ":"
    return _RECEIVE.format(
        busy=_BUSY, file=quote_word(part), offset=offset, filter=filter_, size=size, finish=finish
    )


def finish_line(part: str, target: str, *, mode: int, mtime_s: int) -> str:
    """Shell text that gives a whole file its mode and time, and then its place."""
    stamp = time.strftime("%Y%m%d%H%M.%S", time.gmtime(min(max(mtime_s, 0), 0xFFFFFFFF)))
    file = quote_word(part)
    touch = f"TZ=UTC0 touch -t {stamp} {file}"
    return f"chmod {mode & 0o777:o} {file} && {touch} && mv -f {file} {quote_word(target)}"


def _usable_prefix(device: Device, local: Path, size: int, part: str) -> int:
    """How many bytes of the file are on the phone; what is there and is something else is removed."""
    said = device.shell(_LOOK.format(file=quote_word(part)), timeout_s=_LOOK_TIMEOUT_S).text.split()
    if not said:
        return 0
    if len(said) == 2 and said[0].isdigit():
        there = int(said[0])
        if there <= size and said[1] == _hash_prefix(local, there):
            return there
    device.shell(["rm", "-f", part], check=True)
    return 0


def _feed(
    device: Device,
    script: str,
    local: Path,
    offset: int,
    target: str,
    pack: Callable[[bytes], bytes],
    on_bytes: Callable[[int], None] | None,
    finish: Callable[[], bytes] = lambda: b"",
) -> None:
    ended = threading.Event()
    words: list[bytes] = []
    outcome: list[int | DevkitError] = []

    def listen(stream: ShellStream) -> None:
        try:
            for name, data in stream:
                if isinstance(data, int):
                    outcome.append(data)
                elif name == "stderr":
                    words.append(data)
        except DevkitError as error:
            outcome.append(error)
        ended.set()

    with device.open_shell(script, doing=f"pushing {target}") as stream:
        listener = threading.Thread(target=listen, args=(stream,), daemon=True)
        listener.start()
        try:
            with open(local, "rb") as source:
                source.seek(offset)
                while not ended.is_set() and (chunk := source.read(_CHUNK_BYTES)):
                    if data := pack(chunk):
                        stream.write_stdin(data)
                    if on_bytes is not None:
                        on_bytes(len(chunk))
        except OSError as error:
            raise FileError(f"cannot read {local}", evidence=os.strerror(error.errno or 0)) from None
        if data := finish():
            stream.write_stdin(data)
        stream.close_stdin()
        listener.join()
    result = outcome[0]
    if isinstance(result, DevkitError):
        raise result
    if result == _BUSY:
        raise PartInUse(f"somebody else is pushing {target}", where=PHONE)
    if result != 0:
        raise DeviceError(
            f"pushing {target} failed on the phone {device.serial} (exit code {result})",
            where=PHONE,
            evidence=b"".join(words).decode("utf-8", "replace"),
        )


def _size(local: Path) -> int:
    try:
        return local.stat().st_size
    except OSError as error:
        raise FileError(f"cannot read {local}", evidence=os.strerror(error.errno or 0)) from None


def _hash_prefix(local: Path, count: int) -> str:
    digest = hashlib.sha256()
    try:
        with open(local, "rb") as source:
            while count and (chunk := source.read(min(count, 1 << 20))):
                digest.update(chunk)
                count -= len(chunk)
    except OSError as error:
        raise FileError(f"cannot read {local}", evidence=os.strerror(error.errno or 0)) from None
    return digest.hexdigest()


def _shrinks(local: Path, size: int) -> bool:
    """Whether gzip's quickest makes samples from all over the file a tenth smaller."""
    samples = []
    try:
        with open(local, "rb") as source:
            for part in range(4):
                source.seek(max(0, size * part // 4))
                samples.append(source.read(_SAMPLE_BYTES))
    except OSError as error:
        raise FileError(f"cannot read {local}", evidence=os.strerror(error.errno or 0)) from None
    data = b"".join(samples)
    return len(zlib.compress(data, 1)) < len(data) * _WORTH
