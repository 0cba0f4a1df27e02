"""What the phone says of a detached run."""

from __future__ import annotations

from devkit.runtime.detached import _parse_status
from devkit.runtime.root import RootWay

LOG = "/d/app/.devkit-detached/log"


def status(alive: str, *more: str) -> str:
    about = "about\n/d/app\n/d/app/app 'line one\nline two'\n"
    facts = [f"alive {alive}", "session 4711 su-c", "log 2048", "started 1000", "now 4725", *more]
    return "\n".join(facts) + "\n" + about


def test_running_ended_and_lost() -> None:
    running = _parse_status(status("1"), "app", LOG)
    assert running is not None and (running.state, running.exit_code, running.pid) == ("running", None, 4711)
    assert running.as_text() == "app has been running for 1 h 2 min (pid 4711, log 2.0 kB)"
    assert (running.cwd, running.command) == ("/d/app", "/d/app/app 'line one\nline two'")
    assert running.root == RootWay("su-c") and running.as_dict()["root"] is True
    # Its leader may live on for a moment: the exit code decides.
    ended = _parse_status(status("1", "exit 139 1061"), "app", LOG)
    assert ended is not None and (ended.state, ended.exit_code, ended.seconds) == ("ended", 139, 61)
    assert ended.as_text() == "app ended after 1 min 1 s with exit code 139: SIGSEGV (log 2.0 kB)"
    assert ended.as_dict()["signal"] == "SIGSEGV"
    lost = _parse_status(status("0"), "app", LOG)
    assert lost is not None and lost.state == "lost" and "gone without an exit code" in lost.as_text()
    assert _parse_status("none\n", "app", LOG) is None
    # The phone was restarted while it was being started.
    half = _parse_status("alive 0\nsession  \nlog \nstarted 1\nnow 2\nabout\n", "app", LOG)
    assert half is not None and (half.state, half.pid, half.log_bytes) == ("lost", 0, 0)
