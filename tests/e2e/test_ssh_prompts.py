"""Questions on a terminal, and none without one."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.ssh_support import WAIT_S, Lab, lab_in
from tests.support.sshd import fingerprint, make_key, public

SECRET = "streng geheim"
CODE = """\
import sys
from pathlib import Path
from devkit.errors import DevkitError
from devkit.tunnels import connect, terminal_prompts
try:
    with connect("s", config_file=Path(sys.argv[1]), prompts=terminal_prompts()) as link:
        print("in with", Path(link.status().hops[0].auth).name)
except DevkitError as error:
    print("no:", error.reason)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An unknown server, and a key that needs its passphrase."""
    with lab_in(tmp_path) as lab:
        key = make_key(lab.folder / "mine", passphrase=SECRET)
        server = lab.server("s", known=False, config=f' IdentityFile "{key}"')
        server.authorized_keys.write_text(public(key) + "\n", "utf-8")
        lab.servers = [server]  # type: ignore[attr-defined]
        yield lab


def converse(lab: Lab, *steps: tuple[str, str]) -> str:
    """Run CODE on a terminal; wait for each text, type the reply; all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", CODE, str(lab.config)])
    shown = b""
    try:
        for text, reply in [*steps, ("\0", "")]:
            deadline = time.monotonic() + WAIT_S
            while text.encode() not in shown:
                assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], shown
                try:
                    piece = os.read(terminal, 4096)
                except OSError:  # Linux says so at the end
                    piece = b""
                if not piece:
                    return shown.decode("utf-8", "replace")
                shown += piece
            # getpass switches the echo off before it asks, so nothing typed now is shown.
            os.write(terminal, reply.encode() + b"\n")
    finally:
        os.close(terminal)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    raise AssertionError(shown)


def test_an_unknown_host_and_a_locked_key(lab: Lab) -> None:
    server = lab.servers[0]  # type: ignore[attr-defined]
    shown = converse(
        lab,
        ("[yes/no/fingerprint]", "yes"),
        ("passphrase for", "wrong"),
        ("that was wrong; passphrase", SECRET),
    )
    assert "in with mine" in shown and fingerprint(server.host_key("ed25519")) in shown
    assert SECRET not in shown
    shown = converse(lab, ("passphrase for", SECRET))
    assert "in with mine" in shown and "[yes/no" not in shown


def test_a_fingerprint_is_a_yes_too_and_anything_else_is_a_no(lab: Lab) -> None:
    server = lab.servers[0]  # type: ignore[attr-defined]
    assert "no: host-key-unknown" in converse(lab, ("[yes/no/fingerprint]", "y"))
    assert lab.known_hosts.read_text("utf-8") == ""
    right = fingerprint(server.host_key("ed25519"))
    assert "no: auth" in converse(lab, ("[yes/no/fingerprint]", right), ("passphrase for", ""))


def test_without_a_terminal_nothing_is_asked(lab: Lab) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(lab.config)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "no: host-key-unknown\n" and done.stderr == ""
