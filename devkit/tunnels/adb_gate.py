"""The laptop's adb server as the far end of a tunnel may use it: everything but ending it."""

from __future__ import annotations

_LENGTH_DIGITS = 4
_KILL = b"host:kill"
_REFUSAL = (
    b"this adb server is shared through a tunnel of devkit and is not ended from here; "
    b"the versions of adb on both machines differ, or somebody ran `adb kill-server`"
)


def screen_request(head: bytes) -> bytes | None:
    """Judge the first bytes of a connection to an adb server.

    A client whose version differs sends `host:kill` even to a server on another machine, and the
    owner of the phone loses all connections; the server has no way to refuse it (ADB_REJECT_KILL_SERVER
    counts only where devkit started it).

    Args:
        head: what the client has sent so far: four hexadecimal digits, then so many bytes of request
            (https://android.googlesource.com/platform/packages/modules/adb/+/HEAD/protocol.txt,
            OVERVIEW.TXT).

    Returns:
        None when more bytes are needed, b"" to let the connection through, else what to answer
        before it is closed.
    """
    if len(head) < _LENGTH_DIGITS:
        return None
    try:
        size = int(head[:_LENGTH_DIGITS], 16)
    except ValueError:
        return b""
    request = head[_LENGTH_DIGITS : _LENGTH_DIGITS + size]
    if size != len(_KILL) or not _KILL.startswith(request):
        return b""
    if len(request) < size:
        return None
    return b"FAIL%04x%s" % (len(_REFUSAL), _REFUSAL)
