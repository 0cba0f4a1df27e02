"""The virtual phone under load: random command sequences, many at once, huge files, many phones."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import adbutils
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from devkit import sim
from devkit.sim import Phone

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
TMP = "/data/local/tmp"
INTERLEAVINGS = 1000
HUGE_BYTES = 4_500_000_000
PSS_LIMIT_BYTES = 1_500_000_000


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "leer zeichen 手机"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


class Adb:
    """The real adb client on one phone."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self._base = [str(ADB), "-P", str(phone.record.adb_port), "-s", phone.record.serial]

    def __call__(self, *words: str | Path, timeout_s: float = 120) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self._base, *map(str, words)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def out(self, *words: str | Path) -> str:
        done = self(*words)
        assert done.returncode == 0, (words, done)
        return done.stdout.decode()

    def shell(self, line: str) -> str:
        return self.out("shell", "-T", line)


@pytest.fixture
def adb() -> Iterator[Adb]:
    with sim.start_phone("stress", adb=ADB, lifeline=True) as phone:
        yield Adb(phone)
        log = (phone.record.state_dir / "adbd.log").read_text()
        assert "Traceback" not in log, log[-3000:]


# ---- random interleavings

_names = st.sampled_from(["a", "b c", "ü", "目", "d.bin", "-x", "it's"])
_contents = st.one_of(
    st.just(b""), st.binary(max_size=40), st.integers(1, 200_000).map(lambda n: bytes([n % 251]) * n)
)
_numbers = itertools.count()


class Interleaving(RuleBasedStateMachine):
    """Commands on a tree of the phone, some at the same time, against a model of that tree."""

    adb: Adb
    scratch: Path

    @initialize()
    def begin(self) -> None:
        self.root = f"{TMP}/t{next(_numbers)}"
        self.files: dict[str, bytes] = {}
        self.folders = {""}
        self.forwards: dict[str, str] = {}
        self.reverses: dict[str, str] = {}
        self.adb.shell(f"mkdir '{self.root}'")

    def remote(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def quoted(self, path: str) -> str:
        return "'" + self.remote(path).replace("'", "'\\''") + "'"

    def pick(self, data: st.DataObject, from_: Any) -> str:
        return data.draw(st.sampled_from(sorted(from_)))

    def free_path(self, data: st.DataObject) -> str:
        folder = self.pick(data, self.folders)
        return "/".join(filter(None, (folder, data.draw(_names))))

    def push_one(self, path: str, content: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self.scratch) as local:
            local.write(content)
            local.flush()
            self.adb.out("push", local.name, self.remote(path))

    @rule(data=st.data(), content=_contents)
    def push(self, data: st.DataObject, content: bytes) -> None:
        path = self.free_path(data)
        if path in self.folders:
            return
        self.push_one(path, content)
        self.files[path] = content

    @rule(data=st.data(), contents=st.lists(_contents, min_size=2, max_size=4))
    def push_several_at_once(self, data: st.DataObject, contents: list[bytes]) -> None:
        folder = self.pick(data, self.folders)
        paths = ["/".join(filter(None, (folder, f"p{i}"))) for i in range(len(contents))]
        if set(paths) & self.folders:
            return
        with ThreadPoolExecutor(len(paths) + 1) as pool:
            listing = pool.submit(self.adb, "shell", "-T", f"ls -R {self.quoted('')}")
            list(pool.map(self.push_one, paths, contents))
            assert listing.result().returncode == 0
        self.files |= dict(zip(paths, contents, strict=True))

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def pull(self, data: st.DataObject) -> None:
        path = self.pick(data, self.files)
        local = self.scratch / "pulled"
        self.adb.out("pull", self.remote(path), local)
        assert local.read_bytes() == self.files[path]

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def read_in_the_shell(self, data: st.DataObject) -> None:
        path = self.pick(data, self.files)
        assert self.adb("shell", "-T", f"cat {self.quoted(path)}").stdout == self.files[path]

    @rule(data=st.data())
    def mkdir(self, data: st.DataObject) -> None:
        path = self.free_path(data)
        there = path in self.files or path in self.folders
        done = self.adb("shell", "-T", f"mkdir {self.quoted(path)}")
        assert (done.returncode != 0) == there
        if not there:
            self.folders.add(path)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = self.free_path(data)
        self.adb.shell(f"rm -rf {self.quoted(path)}")
        self.forget(path)

    def forget(self, path: str) -> None:
        self.files = {p: c for p, c in self.files.items() if p != path and not p.startswith(path + "/")}
        self.folders = {p for p in self.folders if p != path and not p.startswith(path + "/")} | {""}

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        source, target = self.pick(data, self.files), self.free_path(data)
        if target in self.folders or source == target:
            return
        self.adb.shell(f"mv {self.quoted(source)} {self.quoted(target)}")
        self.files[target] = self.files.pop(source)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def stat(self, data: st.DataObject) -> None:
        path = self.pick(data, self.files)
        assert self.adb.shell(f"stat -c %s {self.quoted(path)}") == f"{len(self.files[path])}\n"

    @rule(number=st.integers(1, 5))
    def forward(self, number: int) -> None:
        name = f"localabstract:fwd{number}"
        port = self.adb.out("forward", "tcp:0", name).strip()
        self.forwards[f"tcp:{port}"] = name

    @precondition(lambda self: self.forwards)
    @rule(data=st.data())
    def remove_forward(self, data: st.DataObject) -> None:
        where = self.pick(data, self.forwards)
        self.adb.out("forward", "--remove", where)
        del self.forwards[where]

    @rule(number=st.integers(1, 5))
    def reverse(self, number: int) -> None:
        name = f"localabstract:rev{number}"
        self.adb.out("reverse", name, "tcp:9")
        self.reverses[name] = "tcp:9"

    @precondition(lambda self: self.reverses)
    @rule(data=st.data())
    def remove_reverse(self, data: st.DataObject) -> None:
        where = self.pick(data, self.reverses)
        self.adb.out("reverse", "--remove", where)
        del self.reverses[where]

    def teardown(self) -> None:
        """The phone's tree and lists are the model's, and nothing of them is left after it."""
        if not hasattr(self, "root"):
            return
        found = self.adb.shell(
            f"cd '{self.root}' && find . -type f -exec md5sum {{}} +; find . -type d | sort"
        )
        lines = [line.lstrip("\\") for line in found.splitlines()]
        hashes = {line[34:].removeprefix("./"): line[:32] for line in lines if line[32:34] == "  "}
        folders = {line.removeprefix(".").removeprefix("/") for line in lines if line[32:34] != "  "}
        assert hashes == {path: hashlib.md5(content).hexdigest() for path, content in self.files.items()}
        assert folders == self.folders
        assert self.listed("forward") == self.forwards
        assert self.listed("reverse") == self.reverses
        self.adb.out("forward", "--remove-all")
        self.adb.out("reverse", "--remove-all")
        self.adb.shell(f"rm -rf '{self.root}'")

    def listed(self, kind: str) -> dict[str, str]:
        rows = [line.split() for line in self.adb.out(kind, "--list").splitlines() if line]
        return {row[1]: row[2] for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_random_interleavings_leave_the_phone_consistent(adb: Adb, tmp_path: Path) -> None:
    Interleaving.adb, Interleaving.scratch = adb, tmp_path
    run_state_machine_as_test(
        Interleaving,
        settings=settings(
            max_examples=INTERLEAVINGS,
            stateful_step_count=8,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert next(_numbers) >= INTERLEAVINGS
    assert adb.shell(f"ls -A {TMP}") == ""


# ---- many at once


def test_24_pushes_and_shells_at_once(adb: Adb, tmp_path: Path) -> None:
    def push(number: int) -> str:
        content = random.Random(number).randbytes(2_000_000 + number)
        local = tmp_path / f"p{number}"
        local.write_bytes(content)
        adb.out("push", local, f"{TMP}/p{number}")
        return hashlib.md5(content).hexdigest()

    def shell(number: int) -> str:
        return adb.shell(f"i=0; while [ $i -lt 200 ]; do echo line $i of {number}; i=$((i+1)); done")

    with ThreadPoolExecutor(48) as pool:
        pushes = [pool.submit(push, number) for number in range(24)]
        shells = [pool.submit(shell, number) for number in range(24)]
        for number, future in enumerate(shells):
            assert future.result() == "".join(f"line {i} of {number}\n" for i in range(200))
        for number, future in enumerate(pushes):
            assert future.result() in adb.shell(f"md5sum {TMP}/p{number}")


def test_many_connections_to_a_socket_of_the_phone(adb: Adb) -> None:
    """Through `reverse` and back: the phone's programs reach this machine, 24 at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(client.recv(100)[::-1])

        threading.Thread(target=serve, daemon=True).start()
        adb.out("reverse", "tcp:4747", f"tcp:{server.getsockname()[1]}")
        port = int(adb.out("forward", "tcp:0", "tcp:4747"))

        def ask(number: int) -> bytes:
            with socket.create_connection(("127.0.0.1", port), 20) as sock:
                sock.sendall(f"{number:05d}".encode())
                return sock.recv(100)

        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(ask, range(96)))
        assert answers == [f"{number:05d}"[::-1].encode() for number in range(96)]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sparse_file_of_4_5_gigabytes_there_and_back(adb: Adb, tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 3 * HUGE_BYTES:
        pytest.fail("this test needs 14 GB of free disk")
    local, back = tmp_path / "groß 大.bin", tmp_path / "back"
    randomness = random.Random(45)
    with local.open("wb") as file:
        # Content on both sides of 2 GiB and 4 GiB, and at the very end.
        for position in (0, 2**31 - 500, 2**32 - 500, HUGE_BYTES - 1000):
            file.seek(position)
            file.write(randomness.randbytes(1000))
    try:
        assert local.stat().st_size == HUGE_BYTES
        assert local.stat().st_blocks * 512 < 1_000_000
        expected = sha256(local)
        adb.out("push", local, f"{TMP}/huge")
        assert adb.shell(f"stat -c %s {TMP}/huge").strip() == str(HUGE_BYTES)
        assert adb.shell(f"sha256sum {TMP}/huge").startswith(expected)
        adb.out("pull", f"{TMP}/huge", back)
        assert back.stat().st_size == HUGE_BYTES and sha256(back) == expected
    finally:
        back.unlink(missing_ok=True)
        local.unlink(missing_ok=True)
        adb("shell", f"rm -f {TMP}/huge")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else _slowly(file)
        )


def _slowly(file: Any) -> str:
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


@pytest.mark.slow
def test_eight_phones_fit_into_1_5_gigabytes() -> None:
    phones = []
    try:
        for number in range(8):
            phones.append(sim.start_phone(f"crowd-{number}", adb=ADB, lifeline=True))
        for phone in phones:
            adb = Adb(phone)
            assert adb.shell("echo hello; sleep 0.1") == "hello\n"
        total = sum(pss_bytes(pid) for phone in phones for pid in family(phone.record.pid))
        assert len({phone.record.serial for phone in phones}) == 8
        assert 0 < total < PSS_LIMIT_BYTES, total
    finally:
        for phone in phones:
            phone.stop()
    assert sim.list_phones() == []


def family(pid: int) -> set[int]:
    """A process and all below it."""
    found, waiting = {pid}, [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
            children = {int(child) for child in (task / "children").read_text().split()} - found
            found |= children
            waiting += children
    return found


def pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError as error:
        if error.errno in (2, 3):
            return 0
        raise
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
