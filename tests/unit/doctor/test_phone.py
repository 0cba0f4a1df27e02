"""What the doctor says of a phone's page size, with NDKs of several ages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devkit import config as configuration
from devkit.doctor import phone
from devkit.doctor.report import Link, Section
from tests.support.ndk_trees import make_ndk


@pytest.mark.parametrize(
    ("page_bytes", "libc", "revision", "state", "said"),
    [
        (4096, "bionic", "26.3.11579264", "ok", "4096 bytes"),
        (16384, "bionic", "29.0.14206865", "ok", "r29 aligns for it"),
        (16384, "bionic", "27.3.13750724", "warning", "ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON"),
        (16384, "bionic", "26.3.11579264", "warning", "max-page-size=16384"),
        # A virtual phone's programs are not built with the NDK.
        (16384, "glibc", "26.3.11579264", "ok", "16384 bytes"),
        (None, "bionic", "29.0.14206865", "ok", "? bytes"),
    ],
)
def test_page_size(
    tmp_path: Path, page_bytes: int | None, libc: str, revision: str, state: str, said: str
) -> None:
    ndk = make_ndk(tmp_path / "ndk", revision)
    settings = configuration.load(tmp_path, environ={"DEVKIT_NDK_PATH": str(ndk)})
    links: list[Link] = []
    device: Any = SimpleNamespace(libc=libc)
    phone._page_size(Section("phone", links), settings, device, page_bytes)
    assert links[0].state == state and said in " ".join([links[0].evidence, *links[0].hints])
