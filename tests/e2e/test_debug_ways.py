"""More ways into a session of `devkit debug`: waiting, picking, input, and builds that do not match."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Sim, TinyApp, eventually
from tests.e2e.terminal import Terminal
from tests.e2e.test_debug import nothing_left

DIR = "/data/local/tmp/devkit/tiny"
RUN = f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait"


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device) -> Iterator[None]:
    yield
    assert nothing_left(device)


def test_input_from_a_file_and_its_end(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    typed = workdir / "typed.txt"
    typed.write_text("one\nzwei 二\nno end of line", "utf-8")
    ran = devkit(
        "debug",
        tiny.program,
        "--stdin",
        typed,
        "--batch",
        "-",
        "--json",
        "--",
        "cat",
        stdin="process continue\n",
    )
    assert ran.code == 0, ran.err
    assert ran.data["stops"][0]["frames"][0]["function"] == "main"
    for line in ("one", "zwei 二", "no end of line", "eof"):
        assert line in ran.data["transcript"]


def test_input_that_cannot_be(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    for words in (["--stdin", "none.txt", "--batch", "-"], ["--stdin", "-", "--batch", "-"]):
        ran = devkit("debug", tiny.program, *words)
        assert ran.code == 2 and "--stdin" in ran.err
    assert devkit("debug", tiny.program, "--attach", "1", "--stdin", "-", "--batch", "-").code == 2


def test_it_waits_for_a_program(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    streams = []

    def start_later() -> None:
        if eventually(lambda: any("kill -STOP" in " ".join(p.cmdline) for p in device.list_processes())):
            streams.append(sim.device().open_shell(RUN))

    assert devkit("deploy", tiny.program).code == 0
    starter = threading.Thread(target=start_later)
    starter.start()
    ran = devkit("debug", tiny.program, "--wait-for", "--batch", "-", "--json", stdin="thread backtrace\n")
    starter.join()
    with streams[0]:
        assert ran.code == 0, ran.err
        status = device.shell(["cat", f"/proc/{ran.data['stops'][0]['pid']}/status"]).text
        assert "TracerPid:\t0" in status and "State:\tT" not in status


def test_waiting_ends_with_the_batchs_timeout(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("debug", tiny.program, "--wait-for", "--timeout", "0.5", "--batch", "-", stdin="bt\n")
    assert ran.code == 124
    assert "was not started on the phone within 0.5 s" in ran.err


def test_processes_listed_and_picked(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    assert devkit("deploy", tiny.program).code == 0
    with device.open_shell(RUN) as stream:
        stream.read(timeout_s=5)
        [entry] = devkit("device", "ps", "tiny wait", "--json").data["processes"]
        assert entry["program"] == "tiny" and entry["command"] == ["./tiny", "wait"]
        picked = devkit("device", "ps", "--pick", stdin="tiny\n")
        assert (picked.code, picked.out) == (0, f"{entry['pid']}\n") and "./tiny wait" in picked.err
        assert devkit("device", "ps", "--pick", stdin="nothing like it\n1\n").code == 0
        nobody = devkit("device", "ps", "--pick")
        assert nobody.code == 2 and "nobody answers" in nobody.err
        with Terminal("debug", str(tiny.program), "--pick") as terminal:
            terminal.wait_for(f"[tiny, {entry['pid']}]: ".encode())
            terminal.type(b"\n")
            terminal.wait_for(b"stop reason = signal SIGSTOP")
            terminal.wait_for(b"(lldb)")
            terminal.type(b"detach\n")
            terminal.wait_for(b"detached")
            terminal.type(b"quit\n")
            assert terminal.end() == 0


def test_another_build_on_the_phone_is_refused(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    folder = workdir / "edited"
    shutil.copytree(tiny.folder, folder)
    program = folder / "tiny"
    assert devkit("deploy", program).code == 0
    assert devkit("debug", program, "--no-deploy", "--batch", "-", stdin="process continue\n").code == 7
    with device.open_shell(RUN) as stream:
        stream.read(timeout_s=5)
        (folder / "inner.cpp").write_text((folder / "inner.cpp").read_text() + "int added() { return 1; }\n")
        build = ["g++", "-g", "-O0", "-fPIC", "-shared", "inner.cpp", "-o", "libinner.so"]
        subprocess.run([*build, "-Wl,-soname,libinner.so"], cwd=folder, check=True)
        for words in (["--no-deploy"], ["--attach", "tiny"]):
            ran = devkit("debug", program, *words, "--batch", "-", stdin="quit\n")
            assert ran.code == 125 and "the phone has another build" in ran.err
            assert "libinner.so" in ran.err and ran.err.count("here  ") == 1 and "devkit deploy" in ran.err
        # Deployed while it runs: the process has the old library still.
        assert devkit("deploy", program).code == 0
        ran = devkit("debug", program, "--attach", "tiny", "--batch", "-", stdin="quit\n")
        assert ran.code == 125 and "still runs an older build" in ran.err


def test_lines_without_debug_information_are_said_before(
    sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path
) -> None:
    folder = workdir / "stripped"
    shutil.copytree(tiny.folder, folder)
    for name in ("tiny", "libinner.so"):
        subprocess.run(["strip", "--strip-debug", folder / name], check=True)
    words = ("debug", folder / "tiny", "--batch", "-")
    by_line = devkit(*words, "-b", "inner.cpp:4", stdin="process continue\n")
    assert by_line.code == 7 and "no debug info in" in by_line.err and "FILE:LINE stay pending" in by_line.err
    by_name = devkit(*words, "-b", "inner", stdin="breakpoint delete --force\nprocess continue\n")
    assert by_name.code == 7 and "no debug info" not in by_name.err
