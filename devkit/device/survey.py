"""All that devkit asks a phone before it works on it, as one command with one answer.

A command costs a round trip, and its output another for each packet after the first: without delayed
acks (which adb servers ask for only with ADB_BURST_MODE=1) adbd sends the next when the last has been
confirmed. So the output is packed by gzip, which writes once, and the exit code is not waited for.
"""

from __future__ import annotations

import posixpath
import secrets
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.device import workdir
from devkit.device.connection import Deadline
from devkit.device.quoting import quote_word
from devkit.errors import PHONE, DeviceError

if TYPE_CHECKING:
    from devkit.device.shell import ShellStream

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's number for "with a gzip header"


@dataclass(frozen=True)
class Survey:
    """One answer, cut into its parts: `getprop`, what the trial of folders said, and the rest."""

    properties: str
    trial: tuple[str, ...]
    more: bytes


def packed(script: str) -> str:
    """The script with its output packed where the phone has gzip. Its stderr is dropped."""
    return (
        f"report() {{\n{script}\n}}\n"
        "if command -v gzip >/dev/null 2>&1; then report 2>/dev/null | gzip -1; else report 2>/dev/null; fi"
    )


def read_packed(stream: ShellStream, timeout_s: float | None) -> bytes:
    """What a `packed` script printed, as soon as its end is known.

    Raises:
        DeviceError: the packed output ends in the middle.
        OperationTimeout, PhoneLost: as `ShellStream.read`.
    """
    deadline = Deadline(timeout_s)
    got = bytearray()
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    parts: list[bytes] = []
    while True:
        name, data = stream.read(deadline.left_s())
        if isinstance(data, int):
            if parts or got.startswith(_GZIP_MAGIC):
                raise DeviceError(
                    "an answer of the phone ends in the middle",
                    where=PHONE,
                    evidence=f"gzip there ended with exit code {data}",
                )
            return bytes(got)
        if name != "stdout":
            continue
        got += data
        if parts or (len(got) >= len(_GZIP_MAGIC) and got.startswith(_GZIP_MAGIC)):
            try:
                parts.append(unpacker.decompress(got))
            except zlib.error as error:
                raise DeviceError(
                    "an answer of the phone arrived damaged", where=PHONE, evidence=str(error)
                ) from None
            got.clear()
            if unpacker.eof:
                return b"".join(parts)


def survey_script(preferred: str, more: str, proof: str | None = None) -> tuple[str, str]:
    """The script, and the mark that separates the parts of its output.

    Args:
        preferred: the folder to try first.
        more: shell text that runs when a folder was found; `$dir` is its path.
        proof: a file below `preferred` that is only there when the folder was found good before.
    """
    mark = f"== {secrets.token_hex(8)}"
    trial = workdir.trial_script(preferred)
    if proof is not None:
        # Ten programs fewer.
        there, word = quote_word(posixpath.join(preferred, proof)), quote_word(preferred)
        trial = f'if [ -f {there} ]; then dir={word}; echo "yes $dir"; else\n{trial}\nfi'
    script = (
        f"getprop\necho; echo '{mark}'\ndir=\n{trial}\n"
        f"echo; echo '{mark}'\n[ -z \"$dir\" ] || {{\n{more or ':'}\n}}"
    )
    return script, mark


def parse_survey(output: bytes, mark: str) -> Survey:
    """The parts of the answer.

    Raises:
        DeviceError: it is not whole.
    """
    parts = output.replace(b"\r\n", b"\n").split(b"\n" + mark.encode() + b"\n", 2)
    if len(parts) != 3:
        raise DeviceError(
            "the phone did not answer what it was asked",
            where=PHONE,
            evidence=output[-400:].decode("utf-8", "replace"),
            hints=["devkit doctor"],
        )
    trial = parts[1].decode("utf-8", "replace").splitlines()
    return Survey(parts[0].decode("utf-8", "replace"), tuple(trial), parts[2])
