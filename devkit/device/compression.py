"""Compressing what travels to the phone, with what its adbd can unpack (sync v2: `sendrecv_v2_*`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

# What does not shrink by a tenth costs both sides more than it saves: models, archives, pictures.
_WORTH = 0.9


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


def codec_for(features: frozenset[str]) -> Codec | None:
    """The best codec that the phone offers and this Python has; None: nothing is compressed.

    zstd is in phones from Android 12L on, lz4 and brotli from 11 on.
    """
    if "sendrecv_v2" not in features:
        return None
    for name, flag, load in (("zstd", 4, _zstd), ("lz4", 2, _lz4), ("brotli", 1, _brotli)):
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


def _brotli() -> Callable[[], Encoder]:
    import brotli  # type: ignore[import-untyped]

    class Stream:
        def __init__(self) -> None:
            self._stream: Any = brotli.Compressor(quality=4)

        def compress(self, data: bytes) -> bytes:
            return bytes(self._stream.process(data))

        def flush(self) -> bytes:
            return bytes(self._stream.finish())

    return Stream
