"""Pushes travel compressed where the phone can unpack: the bytes on the wire, and the content there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device, PushItem
from devkit.device.compression import codec_for
from devkit.device.files import open_sync
from devkit.device.sync import SyncSession
from devkit.errors import DeviceError
from tests.e2e.support import start_sim

FOLDER = "/data/local/tmp/compressed 中"
TEXT = b"".join(b"line %d of a log that repeats itself, as logs do\n" % n for n in range(60_000))
NOISE = os.urandom(1_500_000)


# What the best codec of a release is; None: its adbd has no sync v2.
CODECS = {"6": None, "11": "brotli", "14": "zstd"}


@pytest.fixture(scope="module", params=CODECS)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def device(release: str, tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Device]:
    sim = start_sim("release", tmp_path_factory.mktemp("release"), adb, android=release)
    with sim.phone:
        yield sim.device()


def sent(device: Device, items: list[PushItem]) -> int:
    with open_sync(device, "pushing") as session:
        session.push(items)
        return int(session.sent_bytes)


def test_a_far_phone_gets_brotli_which_is_smaller_and_flows(device: Device, release: str) -> None:
    found = codec_for(device.features, far=True)
    assert (found.name if found else None) == (None if release == "6" else "brotli")
    if found is None:
        return
    device.shell(f"mkdir -p '{FOLDER}'")
    content = b"".join(os.urandom(40) + b"which repeats itself" * 3 for _ in range(20_000))
    sock = device.dial("sync:")
    with SyncSession(
        sock, server=device.server, serial=device.serial, features=device.features, far=True
    ) as session:
        session.push([PushItem(content, f"{FOLDER}/far", 0o640, 1_700_000_000)])
        assert session.sent_bytes < len(content) * 0.6
    assert hash_there(device, "far") == hashlib.sha256(content).hexdigest()
    # It does not keep megabytes while the link has nothing to do.
    encoder = found.make()
    pieces = [encoder.compress(content[at : at + 65536]) for at in range(0, 1_048_576, 65536)]
    assert sum(map(bool, pieces)) >= 3


def hash_there(device: Device, name: str) -> str:
    return hashlib.sha256(device.read_bytes(f"{FOLDER}/{name}")).hexdigest()


def test_content_arrives_and_less_travels(device: Device, release: str) -> None:
    device.shell(f"mkdir -p '{FOLDER}'")
    found = codec_for(device.features)
    assert (found.name if found else None) == CODECS[release]
    files = {"text": TEXT, "noise": NOISE, "empty": b"", "short": b"x", "last 末": TEXT[:70_000]}
    sizes = {}
    for name, content in files.items():
        sizes[name] = sent(device, [PushItem(content, f"{FOLDER}/{name}", 0o640, 1_700_000_000)])
        assert hash_there(device, name) == hashlib.sha256(content).hexdigest()
    if found is None:
        assert sizes["text"] > len(TEXT)
    else:
        assert sizes["text"] < len(TEXT) / 5
    # What does not shrink is not touched.
    assert len(NOISE) < sizes["noise"] < len(NOISE) * 1.01
    status = device.stat([f"{FOLDER}/text"])[f"{FOLDER}/text"]
    assert status is not None and status.mtime_s == 1_700_000_000 and status.size == len(TEXT)
    # Many in one session, compressed and not.
    sent(device, [PushItem(content, f"{FOLDER}/{name}", 0o644, 0) for name, content in files.items()])
    assert all(hash_there(device, n) == hashlib.sha256(c).hexdigest() for n, c in files.items())


def test_a_refused_file_is_named(device: Device) -> None:
    with pytest.raises(DeviceError, match="/system/nowhere"):
        device.push([PushItem(TEXT, "/system/nowhere", 0o644, 0)])


def test_each_way_to_compress(device: Device, release: str) -> None:
    if release != "14":
        return
    device.shell(f"mkdir -p '{FOLDER}'")
    for name in ("zstd", "lz4", "brotli"):
        features = frozenset({"sendrecv_v2", f"sendrecv_v2_{name}"})
        sock = device.dial("sync:", doing="pushing")
        with SyncSession(sock, server=device.server, serial=device.serial, features=features) as session:
            session.push([PushItem(TEXT, f"{FOLDER}/{name}", 0o644, 0)])
            assert session.sent_bytes < len(TEXT) / 5
        assert hash_there(device, name) == hashlib.sha256(TEXT).hexdigest()
