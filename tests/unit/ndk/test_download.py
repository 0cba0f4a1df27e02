"""Downloads from a real server on loopback that breaks off, lies and sends rubbish."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import output
from devkit.errors import DevkitError, FileError, OperationTimeout
from devkit.ndk import download, transfer
from devkit.ndk.download import fetch
from tests.support.http_server import GOOD, Behaviour, Server, serve, sha1, with_etag

PATH = "/ndk/android-ndk-r27d-linux.zip"
CONTENT = b"PK\x03\x04" + random.Random(7).randbytes(700_001)
SHA1 = sha1(CONTENT)
SIZE = len(CONTENT)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "RETRY_DELAY_S", 0.02)
    monkeypatch.setattr(download, "MIN_DELAY_S", 0.0)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "下载 downloads" / "android-ndk-r27d-linux.zip"


def get(target: Path, *servers: Server, checked: bool = True, size: int | None = SIZE) -> download.Fetched:
    return fetch([s.url + PATH for s in servers], target, sha1=SHA1 if checked else None, size=size)


def refused(target: Path, *servers: Server, checked: bool = True, size: int | None = SIZE) -> DevkitError:
    with pytest.raises((FileError, OperationTimeout)) as caught:
        get(target, *servers, checked=checked, size=size)
    assert not target.exists(), "nothing is saved under the final name"
    return caught.value


def left(target: Path) -> list[str]:
    return sorted(f.name for f in target.parent.iterdir() if not f.name.endswith(".lock"))


def test_a_good_server(target: Path) -> None:
    with serve({PATH: CONTENT}) as server:
        fetched = get(target, server)
    assert target.read_bytes() == CONTENT
    assert (fetched.size, fetched.sha1, fetched.url) == (SIZE, SHA1, server.url + PATH)
    assert left(target) == [target.name]


def test_without_a_checksum_what_was_seen_is_told(target: Path) -> None:
    with serve({PATH: CONTENT}) as server:
        fetched = get(target, server, checked=False, size=None)
    assert fetched.sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_cut_connections_are_continued_where_they_broke(target: Path) -> None:
    cuts = [Behaviour(cut_after=200_000), Behaviour(cut_after=150_000), GOOD]
    with serve({PATH: CONTENT}, *cuts) as server:
        get(target, server)
        assert server.ranges == [None, "bytes=200000-", "bytes=350000-"]
    assert target.read_bytes() == CONTENT


def test_the_next_process_goes_on(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(cut_after=300_000), Behaviour(status=404)) as server:
        error = refused(target, server)
        assert "goes on where it stopped" in " ".join(error.hints)
    assert left(target) == [target.name + ".part", target.name + ".part.json"]
    with serve({PATH: CONTENT}) as server:
        get(target, server)
        assert server.ranges == ["bytes=300000-"]


def test_a_server_that_ignores_ranges_sends_it_all_again(target: Path) -> None:
    plain = Behaviour(ranges=False)
    with serve({PATH: CONTENT}, Behaviour(ranges=False, cut_after=300_000), plain) as server:
        get(target, server)
        assert server.ranges == [None, "bytes=300000-"]
    assert target.read_bytes() == CONTENT


def test_a_server_that_always_breaks_at_the_same_place_is_given_up(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(ranges=False, cut_after=300_000)) as server:
        error = refused(target, server)
        assert len(server.requests) <= 1 + download.ATTEMPTS
    assert f"broke off after 300000 of {SIZE} bytes" in (error.evidence or "")


def test_crumbs_are_no_progress(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(cut_after=10)) as server:
        refused(target, server)
        assert len(server.requests) == download.ATTEMPTS


@pytest.mark.parametrize("lie", [-1000, 5000], ids=["too small", "too big"])
def test_a_length_that_contradicts_the_table_is_refused(target: Path, lie: int) -> None:
    with serve({PATH: CONTENT}, Behaviour(length_error=lie)) as liar, serve({PATH: CONTENT}) as honest:
        error = refused(target, liar)
        assert f"offers a file of {SIZE + lie} bytes; {SIZE} are expected" in (error.evidence or "")
        assert get(target, liar, honest).url == honest.url + PATH


def test_a_length_too_big_is_seen_through_by_the_digest(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(length_error=5000)) as liar:
        assert get(target, liar, size=None).size == SIZE
    assert target.read_bytes() == CONTENT


def test_a_length_too_small_is_a_wrong_file(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(length_error=-1000)) as liar:
        error = refused(target, liar, size=None)
    assert "is not the right one" in (error.evidence or "")
    assert left(target) == []


def test_a_range_of_another_files_size_is_refused(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(cut_after=300_000), Behaviour(total_error=9)) as server:
        error = refused(target, server)
    assert f"offers a file of {SIZE + 9} bytes" in (error.evidence or "")


def test_a_body_without_length_that_is_too_long(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(say_length=False, extra=b"more")) as server:
        error = refused(target, server)
        assert f"sends more than the {SIZE} bytes" in (error.evidence or "")
    assert left(target) == []


def test_a_body_without_length_that_is_right(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(say_length=False)) as server:
        assert get(target, server, size=None).sha1 == SHA1


def test_a3_html_for_a_404_is_an_error_with_the_url(target: Path) -> None:
    with serve({}) as server:
        error = refused(target, server)
    assert f"{server.url}{PATH}: does not exist there (404 Not Found)" in (error.evidence or "")
    assert left(target) == []


LOGIN = b"<html>log in to this network</html>"


@pytest.mark.parametrize(
    ("content", "behaviour", "said"),
    [
        (LOGIN, Behaviour(content_type="text/html"), "sends a document (text/html)"),
        (LOGIN, GOOD, "does not send a zip archive (it begins with '<html>log in"),
        (CONTENT, Behaviour(status=403), "answers 403 Forbidden"),
        (CONTENT, Behaviour(status=503), "answers 503 Service Unavailable"),
    ],
    ids=["html with 200", "html as zip", "403", "503"],
)
def test_something_else_than_the_file(target: Path, content: bytes, behaviour: Behaviour, said: str) -> None:
    with serve({PATH: content}, behaviour) as server:
        assert said in (refused(target, server, size=None).evidence or "")
        # An error that may pass is asked for again, the others are not.
        assert len(server.requests) == (download.ATTEMPTS if behaviour.status == 503 else 1)
    assert not [name for name in left(target) if name.endswith(".zip")]


def test_a_wrong_byte_is_found_deleted_and_blamed(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(wrong_byte_at=333_333)) as bad:
        error = refused(target, bad)
        assert f"the file from {bad.url}{PATH} is not the right one: its SHA-1 is" in (error.evidence or "")
        assert left(target) == []
        with serve({PATH: CONTENT}) as good:
            assert get(target, bad, good).url == good.url + PATH


def test_a_wrong_byte_of_the_mirror_before_is_not_the_next_ones_fault(target: Path) -> None:
    broken = (Behaviour(wrong_byte_at=5, cut_after=300_000), Behaviour(status=404))
    with serve({PATH: CONTENT}, *broken) as bad, serve({PATH: CONTENT}) as good:
        get(target, bad, good)
        assert good.ranges == ["bytes=300000-", None]
    assert target.read_bytes() == CONTENT


def test_mirrors_in_order(target: Path) -> None:
    files = {PATH: CONTENT}
    overloaded = Behaviour(status=500)
    with serve({}) as first, serve(files, overloaded) as second, serve(files) as third, serve(files) as last:
        get(target, first, second, third, last)
        assert [len(s.requests) for s in (first, second, third, last)] == [1, download.ATTEMPTS, 1, 0]


def test_hosts_that_are_not_there(target: Path) -> None:
    with serve({}) as gone:
        pass
    with pytest.raises(FileError) as caught:
        fetch([gone.url + PATH, "http://no-such-host.invalid/x.zip"], target, sha1=SHA1, size=SIZE)
    assert "refuses the connection" in (caught.value.evidence or "")
    assert "name is not known here" in (caught.value.evidence or "")


def test_a_partial_file_that_is_longer_than_the_real_one(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.with_name(target.name + ".part").write_bytes(CONTENT + b"x" * 100_000)
    with serve({PATH: CONTENT}) as server:
        get(target, server, size=None)
        assert server.ranges == [f"bytes={SIZE + 100_000}-", None]


def test_a_complete_partial_file_needs_no_network(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.with_name(target.name + ".part").write_bytes(CONTENT)
    with serve({PATH: CONTENT}) as server:
        get(target, server)
        assert server.requests == []


def test_rubbish_in_the_partial_file_costs_a_second_try(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.with_name(target.name + ".part").write_bytes(b"PK\x03\x04" + bytes(50_000))
    target.with_name(target.name + ".part.json").write_text("{")
    with serve({PATH: CONTENT}) as server:
        get(target, server)
        assert server.ranges == ["bytes=50004-", None]


def test_without_a_checksum_a_changed_file_starts_over(target: Path) -> None:
    broken = (with_etag('"v1"', cut_after=300_000), Behaviour(status=404))
    with serve({PATH: CONTENT}, *broken, with_etag('"v2"')) as server:
        refused(target, server, checked=False, size=None)
        get(target, server, checked=False, size=None)
        # If-Range: the server itself sends the whole new file.
        assert server.ranges == [None, "bytes=300000-", "bytes=300000-"]
    assert target.read_bytes() == CONTENT


def test_without_checksum_and_validator_nothing_is_continued(target: Path) -> None:
    anonymous = Behaviour(etag=None)
    with serve({PATH: CONTENT}, Behaviour(etag=None, cut_after=300_000), anonymous) as server:
        get(target, server, checked=False, size=None)
        assert server.ranges == [None, None]
    assert target.read_bytes() == CONTENT


def test_a_redirect_is_followed(target: Path) -> None:
    with serve({PATH: CONTENT}) as real, serve({}, Behaviour(redirect=real.url + PATH)) as front:
        get(target, front)
        assert len(real.requests) == 1


def test_a_throttled_server_is_waited_for(target: Path) -> None:
    with serve({PATH: CONTENT}, Behaviour(bytes_per_s=1_500_000)) as server:
        get(target, server)


def test_a_server_that_hardly_sends_is_left(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "SLOW_FOR_S", 0.3)
    monkeypatch.setattr(transfer, "SLOW_BYTES_PER_S", 200_000)
    with serve({PATH: CONTENT}, Behaviour(bytes_per_s=20_000)) as slow, serve({PATH: CONTENT}) as quick:
        assert get(target, slow, quick).url == quick.url + PATH
        [header] = quick.ranges
        assert header is not None, "what the slow one sent is kept"


def test_a_server_that_says_nothing_times_out(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT_S", 0.2)
    with serve({PATH: CONTENT}, Behaviour(stall_s=1.0)) as silent:
        error = refused(target, silent)
    assert isinstance(error, OperationTimeout)
    assert "sent nothing for 0.2 s" in (error.evidence or "")


def test_a_host_that_does_not_answer_is_asked_once(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf, serve({PATH: CONTENT}) as good:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}{PATH}"
        started = time.monotonic()
        assert fetch([url, good.url + PATH], target, sha1=SHA1).url == good.url + PATH
        assert time.monotonic() - started < 2 * download.ATTEMPTS * transfer.TIMEOUT_S
        with pytest.raises(OperationTimeout) as caught:
            fetch([url], target.with_name("other.zip"), sha1=SHA1)
    assert caught.value.evidence == f"{url}: did not answer in 0.2 s"


def test_two_at_once_download_once(target: Path) -> None:
    results: list[object] = []

    def one() -> None:
        results.append(get(target, server).sha1)

    with serve({PATH: CONTENT}, Behaviour(bytes_per_s=2_000_000)) as server:
        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [SHA1, SHA1]
        assert len(server.requests) == 1


def test_a_full_disk_is_named_and_the_part_stays(target: Path) -> None:
    size = 3_000_000
    # A limit on the size of files stands for the end of a disk: EFBIG instead of ENOSPC.
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "from devkit.ndk.download import fetch; from devkit.errors import FileError\n"
        "try: fetch([sys.argv[1]], Path(sys.argv[2]), sha1='0' * 40)\n"
        "except FileError as error: print(error.what, '|', error.evidence)\n"
    )
    with serve({}, generated={PATH: size}) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, server.url + PATH, str(target)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert f"{target.name}.part cannot be written | [Errno 27]" in done.stdout
    assert 0 < target.with_name(target.name + ".part").stat().st_size <= 1_000_000


def test_progress_reaches_the_end_also_after_a_break(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[output.Progress] = []

    class Watched(output.Output):
        @contextlib.contextmanager
        def progress(
            self, label: str, total: float | None, *, unit: str = "steps"
        ) -> Iterator[output.Progress]:
            assert unit == "bytes" and total == SIZE
            seen.append(output.Progress())
            yield seen[-1]

    monkeypatch.setattr(output, "_current", Watched())
    with serve({PATH: CONTENT}, Behaviour(cut_after=300_000), GOOD) as server:
        get(target, server)
    assert [bar.done for bar in seen] == [SIZE]


@pytest.mark.slow
def test_a_gigabyte_takes_little_memory(tmp_path: Path) -> None:
    size = 1_000_000_000
    digest = hashlib.sha1(b"PK\x03\x04")
    for _ in range((size - 4) // 4_000_000):
        digest.update(bytes(4_000_000))
    digest.update(bytes((size - 4) % 4_000_000))
    script = (
        "import sys; from pathlib import Path; from devkit.ndk.download import fetch\n"
        "fetch([sys.argv[1]], Path(sys.argv[2]), sha1=sys.argv[3])\n"
        # Not ru_maxrss: it remembers the size of the process that forked this one.
        "status = Path('/proc/self/status').read_text()\n"
        "print(status.split('VmHWM:')[1].split()[0])\n"
    )
    with serve({}, Behaviour(cut_after=400_000_000), GOOD, generated={PATH: size}) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, server.url + PATH, str(tmp_path / "big.zip"), digest.hexdigest()],
            capture_output=True, text=True, timeout=170, check=True, env=dict(os.environ),
        )  # fmt: skip
        assert len(server.requests) == 2
    assert (tmp_path / "big.zip").stat().st_size == size
    assert int(done.stdout) < 100_000, f"{done.stdout.strip()} kB of memory"
