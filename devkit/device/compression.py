"""Compressing what travels to the phone, with what its adbd can unpack (sync v2: `sendrecv_v2_*`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

# What does not shrink by a tenth costs both sides more than it saves: models, archives, pictures.
_WORTH = 0.9
_HELD_BYTES = 256 * 1024


class Encoder(Protocol):
    """A stream on its way: what it has ready comes out of `compress`, the rest out of `flush`."""

    def compress(self, data: bytes) -> bytes:
        """Take some of the file."""

    def flush(self) -> bytes:
        """The end of the stream."""


@dataclass(frozen=True)
class Codec:
    """One way to compress.

    Attributes:
        flag: its bit in the send_v2 request (file_sync_protocol.h, SyncFlag).
    """

    name: str
    flag: int
    make: Callable[[], Encoder]

    def shrinks(self, sample: bytes) -> bool:
        """Whether a file that begins so is worth it."""
        encoder = self.make()
        return len(encoder.compress(sample) + encoder.flush()) < len(sample) * _WORTH


def codec_for(features: frozenset[str], *, far: bool = False) -> Codec | None:
    """The best codec that the phone offers and this Python has; None: nothing is compressed.

    zstd is in phones from Android 12L on, lz4 and brotli from 11 on.

    Args:
        far: bytes are dear (see `Device.is_far`): brotli takes a ninth off what zstd leaves of machine code,
            at a fifth of its speed (75 MB/s here), which is more than such a link carries.
    """
    if "sendrecv_v2" not in features:
        return None
    codecs = [("zstd", 4, _zstd), ("lz4", 2, _lz4), ("brotli", 1, lambda: _brotli(4))]
    if far:
        codecs.insert(0, ("brotli", 1, lambda: _brotli(5)))
    for name, flag, load in codecs:
        if f"sendrecv_v2_{name}" not in features:
            continue
        try:
            return Codec(name, flag, load())
        except ImportError:
            continue
    return None


def _zstd() -> Callable[[], Encoder]:
    import zstandard

    # Three times as small as lz4 on machine code, at several times the speed of any phone's link.
    compressor = zstandard.ZstdCompressor(level=3)
    return compressor.compressobj


def _lz4() -> Callable[[], Encoder]:
    import lz4.frame  # type: ignore[import-untyped]

    class Frame:
        def __init__(self) -> None:
            self._frame: Any = lz4.frame.LZ4FrameCompressor()
            self._begun = False

        def compress(self, data: bytes) -> bytes:
            begin = b"" if self._begun else self._frame.begin()
            self._begun = True
            return bytes(begin + self._frame.compress(data))

        def flush(self) -> bytes:
            return bytes((b"" if self._begun else self._frame.begin()) + self._frame.flush())

    return Frame


def _brotli(quality: int) -> Callable[[], Encoder]:
    import brotli  # type: ignore[import-untyped]

    class Stream:
        def __init__(self) -> None:
            self._stream: Any = brotli.Compressor(quality=quality)
            self._held = 0

        def compress(self, data: bytes) -> bytes:
            packed = self._stream.process(data)
            self._held += len(data)
            if self._held >= _HELD_BYTES:
                # It would keep megabytes, while the link has nothing to do.
                packed += self._stream.flush()
                self._held = 0
            return bytes(packed)

        def flush(self) -> bytes:
            return bytes(self._stream.finish())

    return Stream
