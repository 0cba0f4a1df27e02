"""devkit: from C++ on a server to a breakpoint on the phone, in one command."""

__version__ = "0.1.0"
