"""SDKs on this machine: the Android NDK and Qualcomm's QNN SDK, found, installed and described."""

from __future__ import annotations

from devkit.ndk.candidates import Candidate
from devkit.ndk.layout import (
    VARIABLES,
    Ndk,
    choose_host_tag,
    missing_parts,
    read_revision,
)
from devkit.ndk.locate import find_ndk, known_ndks, ndk_for, store_dir, warn_about_conflicts

__all__ = [
    "VARIABLES",
    "Candidate",
    "Ndk",
    "choose_host_tag",
    "find_ndk",
    "known_ndks",
    "missing_parts",
    "ndk_for",
    "read_revision",
    "store_dir",
    "warn_about_conflicts",
]
