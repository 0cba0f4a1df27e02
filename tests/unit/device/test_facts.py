"""What phones print about themselves: properties, page size, space, processes, writable folders."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.device.processes import (
    LIST_SCRIPT,
    ProcessEntry,
    find_process,
    parse_processes,
    user_name,
)
from devkit.device.properties import FACTS_SCRIPT, Facts, fingerprint, parse_facts, parse_properties
from devkit.device.quoting import quote_word
from devkit.device.workdir import parse_trial, trial_script
from devkit.errors import DeviceError

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)] or ["sh"]

GETPROP = """\
[ro.build.fingerprint]: [OnePlus/PJZ110/OP5D0DL1:14/UKQ1/x:user/release-keys]
[persist.sys.boot.reason.history]: [reboot,1700000000
shutdown,1690000000]
[ro.empty]: []
[ro.brackets]: [a [b]: c]
[ro.tricky]: [x]: [y]
[ro.last.multi]: [one

three]]
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_properties(newline: str) -> None:
    assert parse_properties(GETPROP.replace("\n", newline)) == {
        "ro.build.fingerprint": "OnePlus/PJZ110/OP5D0DL1:14/UKQ1/x:user/release-keys",
        "persist.sys.boot.reason.history": "reboot,1700000000\nshutdown,1690000000",
        "ro.empty": "",
        "ro.brackets": "a [b]: c",
        "ro.tricky": "x]: [y",
        "ro.last.multi": "one\n\nthree]",
    }
    assert parse_properties("") == {}
    assert parse_properties("sh: getprop: not found") == {}


def test_fingerprint_falls_back() -> None:
    assert fingerprint({"ro.build.fingerprint": "a/b", "ro.vendor.build.fingerprint": "v"}) == "a/b"
    assert fingerprint({"ro.build.fingerprint": "", "ro.vendor.build.fingerprint": "v"}) == "v"
    assert fingerprint({"ro.product.name": "p", "ro.build.id": "Q1"}) == "?/p/?/Q1"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "KernelPageSize:        4 kB\n"
            "Filesystem     1K-blocks     Used Available Use% Mounted on\n"
            "/dev/block/dm-45 231000000 1000 5000 1% /data/user/0\n",
            Facts(4096, 5_120_000),
        ),
        (
            "KernelPageSize:       16 kB\nFilesystem 1K-blocks Used Available Use% Mounted on\n"
            "/dev/block/a/very/long/name\n            231 100 131 44% /data\n",
            Facts(16384, 131 * 1024),
        ),
        ("page 16384\n", Facts(16384, None)),
        ("page \n", Facts(None, None)),
        ("", Facts(None, None)),
    ],
)
def test_facts(text: str, facts: Facts) -> None:
    assert parse_facts(text) == facts


@pytest.mark.parametrize("shell", SHELLS)
def test_facts_of_this_machine(shell: str, tmp_path: Path) -> None:
    folder = tmp_path / "it's ü"
    folder.mkdir()
    script = FACTS_SCRIPT.format(folder=quote_word(str(folder)))
    out = subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout.decode()
    facts = parse_facts(out)
    assert facts.page_bytes == os.sysconf("SC_PAGESIZE")
    space = os.statvfs(folder)
    assert facts.free_bytes is not None
    assert abs(facts.free_bytes - space.f_bavail * space.f_frsize) < 1 << 30


@pytest.mark.parametrize("shell", SHELLS)
def test_processes_of_this_machine(shell: str) -> None:
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", "an arg", "", "new\nline 字"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        out = subprocess.run([shell, "-c", LIST_SCRIPT], capture_output=True, check=True).stdout
        found = {entry.pid: entry for entry in parse_processes(out)}
        assert child.stdin is not None
        child.stdin.close()
    entry = found[child.pid]
    assert entry.ppid == os.getpid()
    assert entry.cmdline == tuple(words)
    assert entry.program == Path(sys.executable).name
    assert entry.user == user_name(os.getuid())
    # Neither the asking shell nor what it started.
    assert not [e for e in found.values() if "== cmdlines ==" in " ".join(e.cmdline)]
    assert not [e for e in found.values() if e.program in ("cat", "head") and e.ppid not in found]


def test_processes_of_a_phone() -> None:
    out = (
        b"self 900\n"
        b"Name:\tinit\nUmask:\t0000\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\n"
        b"Name:\tkworker/0:1\nPid:\t20\nPPid:\t2\nUid:\t0\t0\t0\t0\n"
        b"Name:\tmple.app:remote\nPid:\t700\nPPid:\t1\nUid:\t10123\t10123\t10123\t10123\n"
        b"Name:\tsh\nPid:\t900\nPPid:\t300\nUid:\t2000\t2000\t2000\t2000\n"
        b"Name:\tcat\nPid:\t901\nPPid:\t900\nUid:\t2000\t2000\t2000\t2000\n"
        b"Name:\thalf\nPid:\t902\n"
        b"== cmdlines ==\n"
        b"==> /proc/1/cmdline <==\n/system/bin/init\0second_stage\0\n"
        b"==> /proc/20/cmdline <==\n\n"
        b"==> /proc/700/cmdline <==\ncom.example.app:remote\0\0\0\n"
        b"==> /proc/901/cmdline <==\ncat\0/proc/1/status\0\n"
        b"==> /dev/null <==\n"
    )
    assert parse_processes(out) == [
        ProcessEntry(1, 0, "root", "init", ("/system/bin/init", "second_stage")),
        ProcessEntry(20, 2, "root", "kworker/0:1", ()),
        ProcessEntry(700, 1, "u0_a123", "mple.app:remote", ("com.example.app:remote",)),
    ]


def test_find_process() -> None:
    entries = [
        ProcessEntry(1, 0, "root", "init", ("/system/bin/init",)),
        ProcessEntry(7, 1, "shell", "llm_demo", ("./llm_demo", "config.json")),
        ProcessEntry(8, 1, "shell", "llm_demo", ("/data/local/tmp/llm_demo",)),
        ProcessEntry(9, 1, "u0_a1", "mple.app:remote", ("com.example.app:remote",)),
        ProcessEntry(20, 2, "root", "kworker/0:1", ()),
    ]
    assert find_process(entries, 7).pid == 7
    assert find_process(entries, "8").pid == 8
    assert find_process(entries, "init").pid == 1
    assert find_process(entries, "/data/local/tmp/llm_demo").pid == 8
    assert find_process(entries, "com.example.app:remote").pid == 9
    assert find_process(entries, "kworker/0:1").pid == 20
    with pytest.raises(DeviceError, match="2 processes") as several:
        find_process(entries, "llm_demo")
    assert "7  shell  ./llm_demo config.json" in (several.value.evidence or "")
    with pytest.raises(DeviceError, match=r"no process .* called llm_dem") as none:
        find_process(entries, "llm_dem")
    assert "did you mean llm_demo?" in none.value.hints
    with pytest.raises(DeviceError, match="has no process 99"):
        find_process(entries, 99)


@pytest.mark.parametrize(
    ("uid", "name"),
    [
        (0, "root"),
        (2000, "shell"),
        (10123, "u0_a123"),
        (1010050, "u10_a50"),
        (99001, "u0_i9001"),
        (5555, "5555"),
    ],
)
def test_user_names(uid: int, name: str) -> None:
    assert user_name(uid) == name


def run_trial(shell: str, preferred: Path | str, **environ: str) -> tuple[str | None, tuple[str, ...]]:
    out = subprocess.run(
        [shell, "-c", trial_script(str(preferred))],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environ},
    ).stdout.decode()
    return parse_trial(out.splitlines())


@pytest.fixture
def no_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The built-in fallback lies under a file, where nothing can be made."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("devkit.device.workdir.FALLBACK_FOLDERS", (str(tmp_path / "file" / "x"),))
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_trial_takes_the_preferred_folder(shell: str, no_fallback: Path) -> None:
    folder = no_fallback / "it's a ü" / "deep"
    assert run_trial(shell, folder) == (str(folder), ())
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_trial_falls_back_to_tmpdir_with_reasons(shell: str, no_fallback: Path) -> None:
    temporary = no_fallback / "t m p"
    temporary.mkdir()
    folder, refused = run_trial(shell, no_fallback / "file" / "y", TMPDIR=str(temporary))
    assert folder == str(temporary / "devkit")
    assert len(refused) == 2
    assert refused[0].startswith(str(no_fallback / "file" / "y") + ": ")
    assert "Not a directory" in refused[0]


@pytest.mark.parametrize("shell", SHELLS)
def test_trial_that_fails_everywhere(shell: str, no_fallback: Path) -> None:
    folder, refused = run_trial(shell, no_fallback / "file" / "y")
    assert folder is None
    assert len(refused) == 2


@pytest.mark.parametrize("shell", SHELLS)
def test_trial_notices_noexec(shell: str, no_fallback: Path) -> None:
    """Needs no mount: a chmod that does nothing leaves a file that cannot be run either."""
    tools = no_fallback / "tools"
    tools.mkdir()
    chmod = tools / "chmod"
    chmod.write_text("#!/bin/sh\nexit 0\n")
    chmod.chmod(chmod.stat().st_mode | stat.S_IXUSR)
    preferred = no_fallback / "sdcard"
    folder, refused = run_trial(shell, preferred, PATH=f"{tools}:{os.environ['PATH']}")
    assert folder is None
    assert "cannot be run" in refused[0]
    assert "ermission denied" in refused[0]
    assert not preferred.exists()


def test_trial_output_over_several_lines() -> None:
    assert parse_trial(["no /a: first", "second", "yes /b"]) == ("/b", ("/a: first second",))
    assert parse_trial([]) == (None, ())
