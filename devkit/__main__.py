"""Entry point: answers --version at once, loads one command lazily, turns errors into messages."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run devkit with this process's arguments and leave with its exit code."""
    _open_what_is_closed()
    if sys.argv[1:] in (["--version"], ["version"]):
        from devkit import __version__

        sys.stdout.write(f"devkit {__version__}\n")
        sys.exit(0)
    try:
        from devkit.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)  # too early for anything but the number
    sys.exit(run(sys.argv[1:]))


def _open_what_is_closed() -> None:
    """A closed stdin, stdout or stderr (cron, `>&-`) becomes /dev/null.

    Else the first socket that is opened gets its number, and what is printed goes there.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free number is this one: those below it are open by now.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8", errors="replace", closefd=False))


if __name__ == "__main__":
    main()
