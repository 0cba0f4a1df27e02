"""The phone's log: logd with its buffers and sockets, and the `logcat` that reads them.

Formats and texts are those of system/logging (Android 14) and, for older releases, system/core.
"""
