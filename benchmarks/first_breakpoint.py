"""From an editor's request to the stop in a library, on a process with 200 of them over a slow link.

The peer is the recipe of articles on MNN: the program and its pid after `platform connect` to lldb-server,
with an empty module cache, in the same adapter on the same link. Then the whole `devkit debug`, warm, on a
link that is not slowed down: until LLDB has stopped and takes its first command.
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
from typing import TYPE_CHECKING, Any

from benchmarks import crowd
from benchmarks.report import Measure

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.sim import Phone

ROUNDS, QUICK_ROUNDS = 5, 2
RATE, DELAY = "20mbit", "10ms"  # each way: a round trip of 20 ms
FACTOR, MOST_S, PROMPT_S = 20, 2.0, 1.5
NAME = "first-breakpoint"
ENGINE = Path(__file__).parents[1] / "examples" / "mini-engine"
APP, PEER = "/data/local/tmp/devkit/crowd", "/data/local/tmp/articles"


def run(*, quick: bool) -> list[Measure]:
    """Build the program, deploy it, attach to it in both ways; then launch it with everything warm."""
    from devkit import config, lldb
    from devkit.device import AdbServer, Device, PushItem, find_private_adb
    from devkit.sim import slow_phone, start_phone

    adapter = shutil.which("lldb-dap-19") or shutil.which("lldb-dap")
    if adapter is None:
        raise SystemExit("this benchmark needs lldb-dap (apt install lldb-19)")
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with (
        tempfile.TemporaryDirectory() as text,
        start_phone(f"{NAME}-{os.getpid()}", adb=find_private_adb().path, lifeline=True) as phone,
    ):
        folder = Path(text)
        program = crowd.build(folder)
        record = phone.record
        assert record.adb_host is not None and record.adb_port is not None
        device = Device(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))
        tools = lldb.find_tools(config.load(folder), device)
        environment = {
            **os.environ,
            "DEVKIT_LLDB_PATH": str(tools.lldb),
            "DEVKIT_LLDB_SERVER": str(tools.server),
        }
        prompts = [_until_prompt(phone, environment, folder) for _ in range(1 + rounds)][1:]
        subprocess.run(
            [sys.executable, "-m", "devkit", "deploy", program, "-s", f"sim:{record.name}"],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        with _started(device, APP) as pid:
            slow_phone(record.name, rate=RATE, delay=DELAY)
            with _served(phone, program, pid, folder, environment):
                pass  # the phone's libc and linker come once
            ours = []
            for _ in range(rounds):
                with _served(phone, program, pid, folder, environment) as commands:
                    ours.append(_until_stop(adapter, folder, {"attachCommands": commands}, {}))
        # The articles push what they have built: with its debug information.
        slow_phone(record.name, rate="unlimited", delay="0")
        device.shell(["mkdir", "-p", PEER], check=True)
        files = [program, *sorted(folder.glob("*.so")), tools.server]
        device.push([PushItem(file, f"{PEER}/{file.name}", 0o755, 0) for file in files])
        with _started(device, PEER) as pid:
            slow_phone(record.name, rate=RATE, delay=DELAY)
            articles = _articles(phone, device, f"{PEER}/{tools.server.name}", pid, adapter, folder)
    ours_s, prompt_s = statistics.median(ours), statistics.median(prompts)
    return [
        Measure(
            "attach until stopped, lldb-dap, 20 Mbit/s 20 ms", "s", ours_s, articles, statistics.pstdev(ours),
            articles / ours_s, "x", f">= {FACTOR} x and <= {MOST_S:g} s",
            articles / ours_s >= FACTOR and ours_s <= MOST_S,
        ),
        Measure(
            "warm devkit debug until LLDB takes commands", "s", prompt_s, PROMPT_S,
            statistics.pstdev(prompts), prompt_s, "s", f"< {PROMPT_S:g} s", prompt_s < PROMPT_S,
        ),
    ]  # fmt: skip


@contextlib.contextmanager
def _started(device: Device, folder: str) -> Iterator[int]:
    """The pid of the program, all of whose libraries are loaded."""
    with device.open_shell(f"cd {folder} && LD_LIBRARY_PATH={folder} exec ./crowd"):
        yield _pid_of(device)
    device.shell("kill $(pidof crowd)")


def _pid_of(device: Device) -> int:
    until = time.monotonic() + 30
    last = f"libcrowd{crowd.LIBRARIES - 1:03d}.so"
    while time.monotonic() < until:
        pids = device.shell("pidof crowd").text.split()
        if pids and last in device.shell(["cat", f"/proc/{pids[0]}/maps"]).text:
            return int(pids[0])
    raise SystemExit("the program does not start on the virtual phone")


@contextlib.contextmanager
def _served(
    phone: Phone, program: Path, pid: int, folder: Path, environment: dict[str, str]
) -> Iterator[list[str]]:
    """LLDB's commands of a session that devkit keeps ready, as launch.json has them."""
    from devkit.lldb.recipes import READY, adapter_commands

    place = folder / "serve"
    words = [sys.executable, "-m", "devkit", "debug", program, "-s", f"sim:{phone.record.name}"]
    words += ["--attach", str(pid), "--serve", place]
    child = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.startswith(READY):
                break
        commands = adapter_commands(str(place))
        yield [*commands["init"], *commands["target"], *commands["process"]]
    finally:
        subprocess.run([*words, "--end"], cwd=folder, env=environment, capture_output=True, check=False)
        child.wait(30)
        child.stdout.close()


def _articles(phone: Phone, device: Device, server: str, pid: int, adapter: str, folder: Path) -> float:
    port = 31313
    record = phone.record
    home = folder / "empty home"
    home.mkdir()
    variables = {
        "ANDROID_SERIAL": record.serial,
        "ANDROID_ADB_SERVER_PORT": str(record.adb_port),
        "HOME": str(home),
    }
    with device.open_shell(f"exec {server} platform --server --listen 127.0.0.1:{port}"):
        while f":{port:04X} 00000000:0000 0A" not in device.shell("cat /proc/net/tcp").text:
            pass
        # Alone, as a phone's program is: most of its libraries are the system's, and not on this machine.
        alone = folder / "alone"
        alone.mkdir()
        shutil.copy(folder / "crowd", alone)
        request = {
            "program": str(alone / "crowd"),
            "pid": pid,
            "initCommands": [
                "platform select remote-android",
                f"platform connect connect://localhost:{port}",
            ],
        }
        return _until_stop(adapter, folder, request, variables)


def _until_stop(adapter: str, folder: Path, request: dict[str, Any], variables: dict[str, str]) -> float:
    """Seconds from the adapter's attach request to its stop at the breakpoint."""
    from tests.tools.dap import DapClient

    with DapClient(adapter, env=variables, timeout_s=180) as client:
        client.ask("initialize", {"adapterID": "lldb-dap", "pathFormat": "path", "linesStartAt1": True})
        started = time.perf_counter()
        attach = client.send("attach", request)
        client.event("initialized")
        source = {"path": str(folder / f"s{crowd.STOP_AT}.c")}
        client.ask("setBreakpoints", {"source": source, "breakpoints": [{"line": 2}]})
        client.ask("configurationDone")
        client.answer(attach)
        body: dict[str, Any] = client.event("stopped")["body"]
        while body["reason"] != "breakpoint":
            body = client.event("stopped")["body"]
        took = time.perf_counter() - started
        frames = client.ask("stackTrace", {"threadId": body["threadId"], "levels": 2})["stackFrames"]
        assert [frame["name"] for frame in frames] == [f"f{crowd.STOP_AT}", "tick"], frames
        client.ask("setBreakpoints", {"source": source, "breakpoints": []})
        client.ask("disconnect", {"terminateDebuggee": False})
    return took


def _until_prompt(phone: Phone, environment: dict[str, str], folder: Path) -> float:
    """Seconds from the start of devkit, with nothing to build or push, to LLDB's first command at main."""
    stamp, batch = folder / "stamp", folder / "prompt.lldb"
    batch.write_text(f"script import time; open({str(stamp)!r}, 'w').write(repr(time.time()))\n", "utf-8")
    words = [sys.executable, "-m", "devkit", "debug", "llm_demo", "-s", f"sim:{phone.record.name}"]
    started = time.time()
    subprocess.run(
        [*words, "--batch", batch], cwd=ENGINE, env=environment, stdout=subprocess.DEVNULL, check=True
    )
    return float(stamp.read_text("utf-8")) - started
