"""Debug sessions: lldb-server on the phone, LLDB here, one relayed connection between them."""

from devkit.lldb.client import STDIN, check_terminal
from devkit.lldb.manual import render_manual_commands
from devkit.lldb.request import DebugRequest
from devkit.lldb.serving import announced, end_serving, is_begun, serve
from devkit.lldb.session import DebugResult, debug
from devkit.lldb.tools import LldbTools, find_tools

__all__ = [
    "STDIN",
    "DebugRequest",
    "DebugResult",
    "LldbTools",
    "announced",
    "check_terminal",
    "debug",
    "end_serving",
    "find_tools",
    "is_begun",
    "render_manual_commands",
    "serve",
]
