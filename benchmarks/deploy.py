"""Getting a debug build to the phone over a slow link, against `adb push` of the same files.

The phone offers zstd, and adb push is left at its defaults (it compresses, too).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import adbutils

from benchmarks import debug_set
from benchmarks.report import Measure
from devkit.sim import LinkSettings, Phone, count_bytes, start_phone

ROUNDS, QUICK_ROUNDS = 3, 1
# A phone behind a tunnel.
RATE_BITS_S, ONE_WAY_S = 20_000_000.0, 0.010
FILES, MODEL_BYTES = 200, 3_000_000_000
ADB = Path(adbutils.__file__).parent / "binaries" / "adb"


def run(*, quick: bool) -> list[Measure]:
    """A first deployment, one changed source, and nothing changed at all."""
    with tempfile.TemporaryDirectory(prefix="devkit-bench-") as base, _phone(Path(base)) as phone:
        program = debug_set.build()
        rounds = QUICK_ROUNDS if quick else ROUNDS
        return [
            _first(phone, Path(base), program, rounds),
            *_small(phone, Path(base), rounds),
            _changed(phone, Path(base), program, rounds),
            _unchanged(phone, Path(base), program, rounds),
        ]


def _first(phone: Phone, base: Path, program: Path, rounds: int) -> Measure:
    planned = _deploy(phone, base, base / "cache warm up", program, "warm up", "--dry-run")
    files = [Path(file["local"]) for file in json.loads(planned)["files"]]
    total = sum(file.stat().st_size for file in files)
    assert total >= 100_000_000, f"the debug set has {total} bytes"
    ours, peer = [], []
    for number in range(rounds):
        there = f"/data/local/tmp/peer{number}"
        _adb(phone, "shell", "mkdir", "-p", there)
        peer.append(_timed(lambda there=there: _adb(phone, "push", *files, there)))
        # Nothing is known yet: no hashes, no stripped copies.
        cache = base / f"cache{number}"
        ours.append(_timed(lambda: _deploy(phone, base, cache, program, f"first{number}")))  # noqa: B023
        _adb(phone, "shell", "rm", "-rf", there, f"/data/local/tmp/first{number}")
    return _times(f"first deploy, {total / 1e6:.0f} MB, 20 Mbit/s", ours, peer, 10)


def _small(phone: Phone, base: Path, rounds: int) -> list[Measure]:
    """The example engine: its first deployment, and its own files where the compiler's libraries are already.

    The virtual phone has no C++ library: the compiler's, 2.3 MB without debug information, is most of a first
    deployment. MNN for Android is linked with it (ANDROID_STL=c++_static).
    """
    project = base / "mini-engine"
    shutil.copytree(Path(__file__).parents[1] / "examples/mini-engine", project)
    cache = base / "cache small"
    _deploy(phone, base, cache, "llm_demo", "small build", cwd=project)
    words = ("llm_demo", "small", "--no-build")
    planned = json.loads(_deploy(phone, base, cache, *words, "--dry-run", cwd=project))
    files = [Path(file["local"]) for file in planned["files"]]
    own = [Path(file["local"]) for file in planned["files"] if file["stripped"]]
    theirs = "/data/local/tmp/small-peer"
    measures = []
    for name, sent in (("first deploy", files), ("its own program and libraries", own)):
        ours, peer, our_bytes, peer_bytes = [], [], 0, 0
        gone = [f"{planned['folder']}/{file.name}" for file in own]
        for _ in range(max(3, rounds)):
            # Those of its own are missing on the phone; or all.
            _adb(phone, "shell", "rm", "-rf", theirs, *(gone if sent is own else [planned["folder"]]))
            _adb(phone, "shell", "mkdir", "-p", theirs)
            before = _sent(phone)
            peer.append(_timed(lambda sent=sent: _adb(phone, "push", *sent, theirs)))
            between = _sent(phone)
            shutil.rmtree(cache / "devkit/stripped", ignore_errors=True)
            done: list[bytes] = []
            ours.append(
                _timed(lambda done=done: done.append(_deploy(phone, base, cache, *words, cwd=project)))
            )
            assert json.loads(done[0])["push_files"] == len(sent)
            peer_bytes, our_bytes = between - before, _sent(phone) - between
        measures.append(_times(f"example engine, {name}", ours, peer, 1))
    share = our_bytes / peer_bytes
    measures.append(
        Measure(
            "example engine, its own files' bytes on the wire", "kB", our_bytes / 1e3, peer_bytes / 1e3, 0.0,
            share, "of the peer's", "<= 0.2", share <= 0.2,
        )
    )  # fmt: skip
    return measures


def _changed(phone: Phone, base: Path, program: Path, rounds: int) -> Measure:
    cache = base / "cache changed"
    _deploy(phone, base, cache, program, "changed")
    there = "/data/local/tmp/peer changed"
    _adb(phone, "shell", "mkdir", "-p", f"'{there}'")
    ours, peer = [], []
    for number in range(rounds):
        library = debug_set.change(program.parent, 0, salt=number + 1)
        ours.append(_timed(lambda: _deploy(phone, base, cache, program, "changed")))
        stripped = base / "libpart0.so"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, library], check=True)
        peer.append(_timed(lambda: _adb(phone, "push", base / "libpart0.so", there)))
    debug_set.change(program.parent, 0, salt=0)
    # Next to the link the peer's stripped library is the floor: what is above is devkit's own.
    return _times("one source changed; peer: its library, stripped by hand", ours, peer, 1 / 1.2)


def _unchanged(phone: Phone, base: Path, program: Path, rounds: int) -> Measure:
    data = base / "data"
    data.mkdir()
    for number in range(FILES):
        (data / f"file{number}").write_bytes(os.urandom(2000))
    with (data / "model").open("wb") as file:
        file.truncate(MODEL_BYTES)
    cache = base / "cache unchanged"
    project = base / "project"
    project.mkdir()
    (project / "devkit.yaml").write_text(
        f"engine: cmake\napps:\n  bench:\n    target: {program}\n"
        f"    files: [{{local: {data}, remote: data}}]\n"
    )
    there = "/data/local/tmp/peer unchanged"
    _adb(phone, "push", "--sync", data, there)
    _deploy(phone, base, cache, "bench", "unchanged", cwd=project)
    ours, peer = [], []
    for _ in range(max(3, rounds)):
        peer.append(_timed(lambda: _adb(phone, "push", "--sync", data, there)))
        ours.append(_timed(lambda: _deploy(phone, base, cache, "bench", "unchanged", cwd=project)))
    measure = _times(f"nothing changed, {FILES} files and a 3 GB model", ours, peer, 3)
    return Measure(**{**measure.__dict__, "met": measure.met and measure.ours < 1.0, "goal": ">= 3x, < 1 s"})


def _times(name: str, ours: list[float], peer: list[float], goal: float) -> Measure:
    mine, theirs = statistics.median(ours), statistics.median(peer)
    ratio = theirs / mine
    return Measure(
        name, "s", mine, theirs, statistics.pstdev(ours), ratio, "x faster", f">= {goal:g}x", ratio >= goal
    )


def _timed(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def _sent(phone: Phone) -> int:
    """Bytes towards the phone so far."""
    return int(count_bytes(phone.record.name)["bytes_up"])


def _deploy(
    phone: Phone,
    base: Path,
    cache: Path,
    app: Path | str,
    folder: str,
    *options: str,
    cwd: Path | None = None,
) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "devkit", "deploy", app, "-s", f"sim:{phone.record.name}",
         "--device-dir", f"/data/local/tmp/{folder}", "--json", *options],
        cwd=cwd or base, stdout=subprocess.PIPE, check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "XDG_STATE_HOME": str(base / "state")},
    )  # fmt: skip
    return done.stdout


def _adb(phone: Phone, *words: str | Path) -> None:
    record = phone.record
    subprocess.run(
        [ADB, "-H", str(record.adb_host), "-P", str(record.adb_port), "-s", record.serial, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip


@contextlib.contextmanager
def _phone(base: Path) -> Iterator[Phone]:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(base / "state")
    try:
        link = LinkSettings(RATE_BITS_S, RATE_BITS_S, ONE_WAY_S, ONE_WAY_S)
        with start_phone("bench", adb=ADB, lifeline=True, link=link) as phone:
            yield phone
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before
