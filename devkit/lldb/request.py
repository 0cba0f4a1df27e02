"""What to debug, as all kinds of sessions take it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devkit.lldb.sanitized import Sanitizer
    from devkit.runtime.run import Launch


@dataclass(frozen=True)
class DebugRequest:
    """What to debug.

    `program` and `libraries` are the unstripped files on this machine, `search_paths` folders that
    hold nothing but files made for the phone; exactly one of `launch`, `attach_pid` and `wait_for` is given;
    `batch` is a file of LLDB commands to run instead of a prompt; `name` is the app's, for messages.

    Attributes:
        wait_for: attach to the next process of this name.
        stdin: what the program reads: a file, another terminal (which shows its output, too), or
            client.STDIN for this process's own; None: a launched program gets no input.
        input_by: how a program gets its terminal on the phone: "launch", "preload", or "auto".
        platform: through lldb-server's platform, which LLDB asks to launch or attach.
        timeout_s: a batch that takes longer is ended.
        source_map: folders of the debug information, each with its place on this machine.
        pending: for each breakpoint, why it has no code, if LLDB finds none.
        notes: for each breakpoint, what a stop there tells; empty where nobody said.
        sanitizer: that of the program; it goes on to the report instead of stopping at main.
        device_program: the program's path on the phone; needed for a platform that attaches.
    """

    program: Path
    libraries: tuple[Path, ...]
    search_paths: tuple[Path, ...]
    device_dir: str
    launch: Launch | None = None
    attach_pid: int | None = None
    wait_for: str | None = None
    breakpoints: tuple[str, ...] = ()
    batch: Path | None = None
    stdin: Path | None = None
    name: str = ""
    input_by: str = "auto"
    platform: bool = False
    device_program: str = ""
    source_map: tuple[tuple[str, str], ...] = ()
    pending: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sanitizer: Sanitizer | None = None
    timeout_s: float | None = None

    @property
    def attaches(self) -> bool:
        """Whether the program is somebody else's: it lives on after the session."""
        return self.launch is None
