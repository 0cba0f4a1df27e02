"""Debug sessions: lldb-server on the phone, LLDB here, one relayed connection between them."""

from devkit.lldb.client import STDIN, check_terminal
from devkit.lldb.session import DebugRequest, DebugResult, debug, render_manual_commands
from devkit.lldb.tools import LldbTools, find_tools

__all__ = [
    "STDIN",
    "DebugRequest",
    "DebugResult",
    "LldbTools",
    "check_terminal",
    "debug",
    "find_tools",
    "render_manual_commands",
]
