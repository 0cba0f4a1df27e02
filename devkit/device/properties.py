"""Parsing what a phone says about itself: getprop, page size, free space."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_START = re.compile(r"^\[([^\]\n]+)\]: \[", re.MULTILINE)

# One shell, one round trip. smaps tells the kernel's page size where getconf is missing.
FACTS_SCRIPT = """\
grep -m1 KernelPageSize /proc/self/smaps 2>/dev/null || echo "page $(getconf PAGE_SIZE 2>/dev/null)"
df -k {folder} 2>/dev/null"""


@dataclass(frozen=True)
class Facts:
    """What only a look at the running phone tells. None: the phone did not say."""

    page_bytes: int | None
    free_bytes: int | None


def parse_properties(text: str) -> dict[str, str]:
    """Parse the output of `getprop`: `[name]: [value]`, where a value may span lines."""
    text = text.replace("\r\n", "\n")
    starts = list(_START.finditer(text))
    properties = {}
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        value = text[start.end() : end].rstrip("\n")
        properties[start.group(1)] = value[:-1] if value.endswith("]") else value
    return properties


def fingerprint(properties: Mapping[str, str]) -> str:
    """What tells one system image from another; caches of the phone's libraries go by it."""
    for key in ("ro.build.fingerprint", "ro.system.build.fingerprint", "ro.vendor.build.fingerprint"):
        if properties.get(key):
            return properties[key]
    parts = ("ro.product.brand", "ro.product.name", "ro.build.version.release", "ro.build.id")
    return "/".join(properties.get(key, "?") for key in parts)


def parse_facts(text: str) -> Facts:
    """Parse the output of FACTS_SCRIPT."""
    page_bytes = free_bytes = None
    lines = text.splitlines()
    if lines:
        words = lines.pop(0).split()
        if words[:1] == ["KernelPageSize:"] and len(words) == 3:
            page_bytes = int(words[1]) * 1024
        elif words[:1] == ["page"] and len(words) == 2 and words[1].isdigit():
            page_bytes = int(words[1])
    # A long device name has a line of its own. Columns: name, size, used, available, use%, mount.
    words = " ".join(lines[1:]).split()
    if len(words) >= 6 and words[3].isdigit():
        free_bytes = int(words[3]) * 1024
    return Facts(page_bytes, free_bytes)
