"""The compressions of `sendrecv_v2`, as far as their Python packages are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FLAG_BROTLI = 1
FLAG_LZ4 = 2
FLAG_ZSTD = 4


@dataclass(frozen=True)
class Codec:
    """One compression.

    Args:
        feature: what the banner says when it is offered.
        encoder: makes a function pair (compress a piece, finish).
        decoder: makes a function that decompresses the next piece.
    """

    feature: str
    encoder: Callable[[], tuple[Callable[[bytes], bytes], Callable[[], bytes]]]
    decoder: Callable[[], Callable[[bytes], bytes]]


def available_codecs() -> dict[int, Codec]:
    """Flag → codec. Imports the packages, so call it before the phone's root is changed."""
    makers = {FLAG_ZSTD: _zstd, FLAG_LZ4: _lz4, FLAG_BROTLI: _brotli}
    codecs: dict[int, Codec] = {}
    for flag, make in makers.items():
        try:
            codecs[flag] = make()
        except ImportError:
            continue
    return codecs


def _zstd() -> Codec:
    zstandard: Any = importlib.import_module("zstandard")

    def encoder() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
        compressor = zstandard.ZstdCompressor(level=1).compressobj()
        return compressor.compress, compressor.flush

    return Codec("sendrecv_v2_zstd", encoder, lambda: zstandard.ZstdDecompressor().decompressobj().decompress)


def _lz4() -> Codec:
    frame: Any = importlib.import_module("lz4.frame")

    def encoder() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
        compressor = frame.LZ4FrameCompressor()
        head = [compressor.begin()]

        def take_head() -> bytes:
            return head.pop() if head else b""

        return (
            lambda data: take_head() + compressor.compress(data),
            lambda: take_head() + compressor.flush(),
        )

    return Codec("sendrecv_v2_lz4", encoder, lambda: frame.LZ4FrameDecompressor().decompress)


def _brotli() -> Codec:
    brotli: Any = importlib.import_module("brotli")

    def encoder() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
        compressor = brotli.Compressor(quality=1)
        return compressor.process, compressor.finish

    return Codec("sendrecv_v2_brotli", encoder, lambda: brotli.Decompressor().process)
