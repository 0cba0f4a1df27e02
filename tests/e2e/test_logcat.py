"""`devkit logcat` against virtual phones: live, filters, files, a link that breaks, a phone that restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit.device import Device
from devkit.sim import break_phone, heal_phone
from tests.e2e.support import REPO, Cli, Sim, eventually, left_on_phone, start_sim

TMP = "/data/local/tmp"
# Logs "NAME line N" every 20 ms, as liblog does.
WRITER = r"""
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_un address = {AF_UNIX, "/dev/socket/logdw"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) return 2;
    for (int i = 0; i < atoi(argv[1]); i++) {
        char packet[300] = {0};
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        unsigned short tid = getpid();
        unsigned seconds = now.tv_sec, nanoseconds = now.tv_nsec;
        memcpy(packet + 1, &tid, 2);
        memcpy(packet + 3, &seconds, 4);
        memcpy(packet + 7, &nanoseconds, 4);
        packet[11] = i % 10 == 9 ? 6 : 4;
        int size = 12 + sprintf(packet + 12, "MNNJNI") + 1;
        size += sprintf(packet + size, "%s line %d", argv[2], i) + 1;
        if (send(fd, packet, size, 0) < 0) return 3;
        usleep(20000);
    }
    puts("done");
    return 0;
}
"""


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    """A phone of its own: its link is broken, its log emptied."""
    started = start_sim("logs", tmp_path_factory.mktemp("日志 state"), adb)
    yield started
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(started.state_home))
        started.phone.stop()


@pytest.fixture(scope="module")
def writer(phone: Sim, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schreiber 写")
    (folder / "writer.c").write_text(WRITER)
    subprocess.run(["gcc", "-O1", "writer.c", "-o", "writer"], cwd=folder, check=True)
    device = phone.device()
    device.push_bytes((folder / "writer").read_bytes(), f"{TMP}/writer", mode=0o755)
    device.push_bytes((folder / "writer").read_bytes(), f"{TMP}/other", mode=0o755)
    return folder / "writer"


@pytest.fixture
def device(phone: Sim, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    monkeypatch.setenv("XDG_STATE_HOME", str(phone.state_home))
    found = phone.device()
    found.shell("logcat -b all -c")
    yield found
    heal_phone("logs")


class Live:
    """A `devkit logcat --json` that runs."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.out = folder / "out.jsonl"
        self.err = folder / "err.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "devkit", "logcat", "-s", "sim:logs", "--json", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL,
            stdout=self.out.open("wb"),
            stderr=self.err.open("wb"),
        )

    def rows(self) -> list[dict[str, Any]]:
        lines = self.out.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def messages(self) -> list[str]:
        return [row["message"] for row in self.rows() if "message" in row]

    def notices(self) -> list[str]:
        return [row["notice"] for row in self.rows() if "notice" in row]

    def until(self, message: str, within_s: float = 20) -> None:
        assert eventually(lambda: message in self.messages(), within_s), (
            message,
            self.rows()[-5:],
            self.err.read_text(),
        )

    def end(self, code: int = 130) -> dict[str, Any]:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == code, self.err.read_text()
        assert "Traceback" not in self.err.read_text()
        (summary,) = [row["summary"] for row in self.rows() if "summary" in row]
        assert isinstance(summary, dict)
        return summary


def test_live_filtered_and_saved(device: Device, workdir: Path, writer: Path) -> None:
    live = Live(workdir, "MNNJNI:E", "--save", "log.txt")
    device.shell(
        "log -t Other hidden; log -p w -t MNNJNI hidden too; log -p e -t MNNJNI shown; log -t Other '中文'"
    )
    live.until("shown")
    device.shell(f"{TMP}/writer 10 w", check=True)
    live.until("w line 9")
    summary = live.end()
    assert live.messages() == ["shown", "w line 9"]
    saved = (workdir / "log.txt").read_text("utf-8")
    assert "hidden" in saved and "W MNNJNI  : hidden too" in saved and "I Other   : 中文" in saved
    assert summary["read"] >= 14 and summary["shown"] == 2 and summary["gaps"] == 0
    assert eventually(lambda: not left_on_phone(device, "logcat"))


def test_a_broken_link_loses_and_doubles_nothing(device: Device, workdir: Path, writer: Path) -> None:
    live = Live(workdir, "MNNJNI", "--save", "log.txt")
    device.shell(f"setsid {TMP}/writer 150 x >/dev/null 2>&1 </dev/null &")
    live.until("x line 20")
    break_phone("logs", "unplug")
    time.sleep(1.0)
    heal_phone("logs")
    live.until("x line 149")
    summary = live.end()
    assert live.messages() == [f"x line {i}" for i in range(150)]
    # The adb server may lose a phone that has just come back once more.
    assert live.notices() == ["lost", "back"] * summary["reconnects"] and summary["reconnects"]
    assert summary["gaps"] == 0 and summary["repeated"] > 0
    saved = [
        line.split(": ", 1)[1] for line in (workdir / "log.txt").read_text().splitlines() if "MNNJNI" in line
    ]
    assert saved == [f"x line {i}" for i in range(150)]


def test_a_log_saved_whole_passes_as_text(device: Device, workdir: Path, writer: Path) -> None:
    """What is shown comes out of the text then; the file is that of the binary way."""
    command = [sys.executable, "-m", "devkit", "logcat", "-s", "sim:logs", "MNNJNI:E"]
    out, err = workdir / "out.txt", workdir / "err.txt"
    device.shell(f"log -t Other $'中文\\n  second'; setsid {TMP}/writer 150 x >/dev/null 2>&1 </dev/null &")
    live = subprocess.Popen(
        [*command, "--save", "text.txt"],
        cwd=workdir,
        env={**os.environ, "PYTHONPATH": str(REPO), "TZ": "Asia/Shanghai"},
        stdout=out.open("wb"),
        stderr=err.open("wb"),
    )
    assert eventually(lambda: "x line 19" in out.read_text()), err.read_text()
    break_phone("logs", "unplug")
    time.sleep(1.0)
    heal_phone("logs")
    assert eventually(lambda: "x line 149" in out.read_text(), 20), err.read_text()
    live.send_signal(signal.SIGINT)
    assert live.wait(20) == 130 and "broken links" in err.read_text() and "gap" not in err.read_text()
    assert [line.split("  ")[-1] for line in out.read_text().splitlines()] == [
        f"x line {i}" for i in range(9, 150, 10)
    ]
    text = [line for line in (workdir / "text.txt").read_text().splitlines() if "--- devkit" not in line]
    saved = [line for line in text if "MNNJNI" in line]
    assert [line.split(": ", 1)[1] for line in saved] == [f"x line {i}" for i in range(150)]
    # `--json` is read in binary: the same file.
    subprocess.run(
        [*command, "--json", "--dump", "--save", "binary.txt"],
        cwd=workdir,
        env={**os.environ, "PYTHONPATH": str(REPO), "TZ": "Asia/Shanghai"},
        check=True,
    )
    assert [x for x in (workdir / "binary.txt").read_text().splitlines() if "MNNJNI" in x] == saved
    assert " +0800 " in text[-1] and "I Other   :   second" in "\n".join(text)


def test_a_phone_that_does_not_know_the_layout_is_read_in_binary(
    device: Device, workdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from devkit.cli.main import run

    monkeypatch.chdir(workdir)
    monkeypatch.setattr("devkit.logcat.source._TEXT_WORDS", ("-v", "threadtime", "-v", "psec"))
    device.shell("log -p e -t MNNJNI one")
    assert run(["logcat", "-s", "sim:logs", "--dump", "--save", "log.txt"]) == 0
    assert "one" in capsys.readouterr().out and b"E MNNJNI  : one" in (workdir / "log.txt").read_bytes()


def test_a_program_across_restarts(device: Device, workdir: Path, writer: Path) -> None:
    live = Live(workdir, "--app", "writer")
    # Names are asked of what runs: devkit must be there before the short ones are.
    early = device.shell(f"{TMP}/writer 5000 early >/dev/null 2>&1 </dev/null & echo $!").text.strip()
    assert eventually(lambda: bool(live.messages()))
    device.shell(f"{TMP}/other 20 o & {TMP}/writer 20 first; wait", check=True)
    device.shell(f"{TMP}/writer 20 second", check=True)
    live.until("second line 19")
    live.end()
    device.shell(f"kill {early}", check=True)
    later = [message for message in live.messages() if not message.startswith("early")]
    assert later == [f"{run} line {i}" for run in ("first", "second") for i in range(20)]


def test_a_restart_of_the_phone_is_a_gap(device: Device, workdir: Path) -> None:
    live = Live(workdir, "MNNJNI")
    device.shell("log -t MNNJNI before")
    live.until("before")
    break_phone("logs", "reboot", {"down": "1"})
    assert eventually(lambda: "reboot" in live.notices(), 40), live.err.read_text()
    device.shell("log -t MNNJNI after", check=True)
    live.until("after")
    assert live.end()["gaps"] == 1
    assert live.notices()[:3] == ["lost", "back", "reboot"] and live.messages() == ["before", "after"]


def test_dump_since_and_clear(device: Device, phone: Sim, devkit: Cli) -> None:
    device.shell("log -t MNNJNI old; sleep 1.2; log -t MNNJNI new; log -t Other x")
    assert [line.split()[-1] for line in devkit("logcat", "-s", "sim:logs", "--dump").out.splitlines()] == [
        "old",
        "new",
    ]
    recent = devkit("logcat", "-s", "sim:logs", "--dump", "--since", "1s", "--all").out
    assert "old" not in recent
    refused = devkit("logcat", "-s", "sim:logs", "--clear")
    assert refused.code == 2 and "--yes" in refused.err
    assert devkit("logcat", "-s", "sim:logs", "--clear", "--yes").code == 0
    assert "MNNJNI" not in devkit("logcat", "-s", "sim:logs", "--dump").out
    ended = devkit("logcat", "-s", "sim:logs", "--duration", "1s")
    assert ended.code == 0 and "0 shown" in ended.err


def test_events_of_a_live_log(device: Device, workdir: Path) -> None:
    live = Live(workdir, "--events")
    told = lambda: [row["event"] for row in live.rows() if "event" in row]  # noqa: E731
    device.shell(
        'log -p e -t MNNJNI "Can\'t Find type=5 backend, use 0 instead"; log -t Other nothing', check=True
    )
    assert eventually(lambda: len(told()) == 1, 20), live.err.read_text()
    live.end()
    (end,) = [row["events"] for row in live.rows() if "events" in row]
    assert [event["category"] for event in end] == ["cpu"] and end == told()


def test_beside_a_run(device: Device, phone: Sim, devkit: Cli, writer: Path) -> None:
    device.shell("log -t MNNJNI before")
    ran = devkit("run", str(writer), "-s", "sim:logs", "--logcat", "--", "5", "mine")
    assert ran.code == 0, ran.err
    assert ran.out == "done\n"
    assert [line.split("  ")[-1] for line in ran.err.splitlines() if "MNNJNI" in line] == [
        f"mine line {i}" for i in range(5)
    ]


def test_beside_a_debug_session(device: Device, phone: Sim, devkit: Cli, writer: Path, workdir: Path) -> None:
    (workdir / "batch.lldb").write_text("process continue\n")
    device.shell(f"setsid {TMP}/other 3000 others >/dev/null 2>&1 </dev/null & echo $!")
    session = ["debug", str(writer), "-s", "sim:logs", "--batch", "batch.lldb"]
    ran = devkit(*session, "--logcat", "the log.txt", "--", "30", "mine")
    assert ran.code == 0 and "mine line" not in ran.out + ran.err, ran.err
    lines = (workdir / "the log.txt").read_text().splitlines()
    assert [line.split("  ")[-1] for line in lines] == [f"mine line {i}" for i in range(30)]
    ran = devkit(*session, "--logcat", "-", "--", "30", "again")
    assert ran.code == 0 and ran.err.count("again line") == 30
    device.shell("pkill -x other")


def test_android_6(tmp_path: Path, adb: Path, devkit: Cli) -> None:
    old = start_sim("logs6", tmp_path / "stät", adb, android="6")
    try:
        device = old.device()
        device.shell("log -t MNNJNI one; log -t MNNJNI two")
        environ = {"XDG_STATE_HOME": str(old.state_home)}
        dumped = devkit("logcat", "-s", "sim:logs6", "--dump", **environ)
        assert dumped.code == 0, dumped.err
        assert [line.split()[-1] for line in dumped.out.splitlines()] == ["one", "two"]
        later = devkit("logcat", "-s", "sim:logs6", "--dump", "--since", "1h", **environ)
        assert later.out == dumped.out
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(old.state_home))
            old.phone.stop()
