"""Entry point: answers --version at once, loads one command lazily, turns errors into messages."""

from __future__ import annotations

import sys


def main() -> None:
    """Run devkit with this process's arguments and leave with its exit code."""
    if sys.argv[1:] in (["--version"], ["version"]):
        from devkit import __version__

        sys.stdout.write(f"devkit {__version__}\n")
        sys.exit(0)
    from devkit.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
