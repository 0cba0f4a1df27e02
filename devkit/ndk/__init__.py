"""SDKs on this machine: the Android NDK."""

from __future__ import annotations

from devkit.ndk.locate import (
    VARIABLES,
    Candidate,
    Ndk,
    choose_host_tag,
    find_ndk,
    read_revision,
    warn_about_conflicts,
)

__all__ = [
    "VARIABLES",
    "Candidate",
    "Ndk",
    "choose_host_tag",
    "find_ndk",
    "read_revision",
    "warn_about_conflicts",
]
