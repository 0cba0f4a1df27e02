"""How many bytes of a plan go over the link, estimated by compressing samples as the transfer will."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import FileError

if TYPE_CHECKING:
    from devkit.device.compression import Codec
    from devkit.runtime.deploy import DeployPlan

_SAMPLE_BYTES = 1 << 20
_SAMPLES = 8
_FIRST_BYTES = 256 * 1024
_LEAST_BYTES = 256


def wire_sizes(plan: DeployPlan, features: frozenset[str], *, far: bool = False) -> Mapping[str, int]:
    """Bytes of each file that travels, by its path on the phone; a few percent off for files above 8 MB.

    Args:
        features: adb features of the phone, which say what it can unpack.
        far: whether a slow link is in between.

    Raises:
        FileError: a file cannot be read.
    """
    from devkit.device.compression import codec_for

    codec = codec_for(features, far=far)
    return {f.remote: _estimate(f.sent, f.sent_size, codec) for f in plan.to_push}


def _estimate(file: Path, size: int, codec: Codec | None) -> int:
    if codec is None or size < _LEAST_BYTES:
        return size
    try:
        with file.open("rb") as stream:
            first = stream.read(_FIRST_BYTES)
            if not codec.shrinks(first):
                return size
            stream.seek(0)
            if size <= _SAMPLES * _SAMPLE_BYTES:
                return min(size, _compressed(codec, stream.read()))
            taken = packed = 0
            step = (size - _SAMPLE_BYTES) // (_SAMPLES - 1)
            for index in range(_SAMPLES):
                stream.seek(index * step)
                sample = stream.read(_SAMPLE_BYTES)
                taken += len(sample)
                packed += _compressed(codec, sample)
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=str(error)) from None
    return min(size, size * packed // max(taken, 1))


def _compressed(codec: Codec, data: bytes) -> int:
    encoder = codec.make()
    return len(encoder.compress(data)) + len(encoder.flush())
