"""Getting a debug build to the phone over a slow link, against `adb push` of the same files.

The phone offers zstd, and adb push is left at its defaults (it compresses, too).
"""

from __future__ import annotations

import contextlib
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

from benchmarks.report import Measure
from devkit import paths
from devkit.sim import LinkSettings, Phone, start_phone

ROUNDS, QUICK_ROUNDS = 3, 1
RATE_BITS_S = 20_000_000.0
LIBRARIES, UNITS, KINDS = 4, 2, 60
FILES, MODEL_BYTES = 200, 3_000_000_000
ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
# Debug information of an engine's size in minutes of compiling: types that differ, used in containers.
_CODE = """#include <map>
#include <set>
#include <utility>
#include <vector>
template <int N> struct K {{ int v; bool operator<(const K& o) const {{ return v < o.v; }} }};
template <int N> int use(int n) {{
  std::map<K<N>, std::vector<std::set<K<N>>>> m;
  m[K<N>{{n}}].emplace_back().insert(K<N>{{n}});
  return int(m.size());
}}
template <int... N> int all(int n, std::integer_sequence<int, N...>) {{
  return (use<{n} * 1000 + N>(n) + ...);
}}
int part_{n}(int n) {{ return all(n, std::make_integer_sequence<int, {kinds}>()) + {salt}; }}
"""


def run(*, quick: bool) -> list[Measure]:
    """A first deployment, one changed source, and nothing changed at all."""
    with tempfile.TemporaryDirectory(prefix="devkit-bench-") as base, _phone(Path(base)) as phone:
        # Kept: compiling it takes minutes.
        folder = paths.cache_dir() / f"benchmarks/deploy-{LIBRARIES}-{UNITS}-{KINDS}"
        folder.mkdir(parents=True, exist_ok=True)
        program = _build(folder)
        rounds = QUICK_ROUNDS if quick else ROUNDS
        return [
            _first(phone, Path(base), program, rounds),
            _changed(phone, Path(base), program, rounds),
            _unchanged(phone, Path(base), program, rounds),
        ]


def _first(phone: Phone, base: Path, program: Path, rounds: int) -> Measure:
    files = [program, *sorted(program.parent.glob("*.so"))]
    total = sum(file.stat().st_size for file in files)
    assert total >= 100_000_000, f"the debug set has {total} bytes"
    ours, peer = [], []
    for number in range(rounds):
        there = f"/data/local/tmp/peer{number}"
        _adb(phone, "shell", "mkdir", "-p", there)
        peer.append(_timed(lambda there=there: _adb(phone, "push", *files, there)))  # type: ignore[misc]
        # Nothing is known yet: no hashes, no stripped copies.
        cache = base / f"cache{number}"
        ours.append(_timed(lambda: _deploy(phone, base, cache, program, f"first{number}")))  # noqa: B023
        _adb(phone, "shell", "rm", "-rf", there, f"/data/local/tmp/first{number}")
    return _times(f"first deploy, {total / 1e6:.0f} MB, 20 Mbit/s", ours, peer, 10)


def _changed(phone: Phone, base: Path, program: Path, rounds: int) -> Measure:
    cache = base / "cache changed"
    _deploy(phone, base, cache, program, "changed")
    library = program.parent / "libpart0.so"
    there = "/data/local/tmp/peer changed"
    _adb(phone, "shell", "mkdir", "-p", f"'{there}'")
    ours, peer = [], []
    for number in range(rounds):
        _library(program.parent, 0, salt=number + 1)
        ours.append(_timed(lambda: _deploy(phone, base, cache, program, "changed")))
        stripped = base / "libpart0.so"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, library], check=True)
        peer.append(_timed(lambda: _adb(phone, "push", base / "libpart0.so", there)))
    # Next to the link the peer's stripped library is the floor: what is above is devkit's own.
    return _times("one source changed; peer: its library, stripped by hand", ours, peer, 0.2)


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


def _deploy(
    phone: Phone, base: Path, cache: Path, app: Path | str, folder: str, *, cwd: Path | None = None
) -> None:
    subprocess.run(
        [sys.executable, "-m", "devkit", "deploy", app, "-s", f"sim:{phone.record.name}",
         "--device-dir", f"/data/local/tmp/{folder}", "--json"],
        cwd=cwd or base, stdout=subprocess.DEVNULL, check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "XDG_STATE_HOME": str(base / "state")},
    )  # fmt: skip


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
        link = LinkSettings(RATE_BITS_S, RATE_BITS_S)
        with start_phone("bench", adb=ADB, lifeline=True, link=link) as phone:
            yield phone
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def _build(folder: Path) -> Path:
    """A program and its libraries with all the debug information a compiler can make of them."""
    for library in range(LIBRARIES):
        _library(folder, library, salt=0)
    calls = [f"part_{n}" for n in range(LIBRARIES * UNITS)]
    source = folder / "main.cpp"
    source.write_text(
        "".join(f"int {call}(int);\n" for call in calls)
        + "int main() { return (" + " + ".join(f"{call}(1)" for call in calls) + ") == 0; }\n"
    )  # fmt: skip
    program = folder / "program"
    names = [f"-lpart{n}" for n in range(LIBRARIES)]
    subprocess.run([_compiler(), "-g", source, "-o", program, f"-L{folder}", *names], check=True)
    return program


def _library(folder: Path, library: int, *, salt: int) -> None:
    objects = []
    for unit in range(UNITS):
        number = library * UNITS + unit
        source, made = folder / f"part{number}.cpp", folder / f"part{number}.o"
        text = _CODE.format(n=number, kinds=KINDS, salt=salt if unit == 0 else 0)
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
            flags = ["-std=c++17", "-g", "-O0", "-fPIC"]
            subprocess.run([_compiler(), *flags, "-c", source, "-o", made], check=True)
        objects.append(made)
    file = folder / f"libpart{library}.so"
    subprocess.run(
        [_compiler(), "-shared", *objects, "-o", file, f"-Wl,-soname,{file.name}", "-Wl,--build-id"],
        check=True,
    )


def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise SystemExit("this benchmark needs a C++ compiler")
    return found
