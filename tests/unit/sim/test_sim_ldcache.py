from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkit.sim import ldcache

X86 = ldcache.FLAGS["x86_64"]
NAMES = {
    "libc.so.6": "/system/lib64/libc.so.6",
    "libm.so.6": "/system/lib64/libm.so.6",
    "liba 手.so": "/x/手",
}


def test_what_was_written_is_read() -> None:
    data = ldcache.write_cache(NAMES, X86)
    assert ldcache.read_cache(data, X86) == NAMES
    assert ldcache.read_cache(data, ldcache.FLAGS["aarch64"]) == {}


def test_an_old_header_in_front_is_skipped() -> None:
    data = b"ld.so-1.7.0\0" + bytes(20) + ldcache.write_cache(NAMES, X86)
    assert ldcache.read_cache(data, X86) == NAMES


@given(st.binary(max_size=200))
def test_anything_else_is_no_cache(data: bytes) -> None:
    ldcache.read_cache(data, X86)
    ldcache.read_cache(ldcache.MAGIC + data, X86)


def test_order_is_the_loaders() -> None:
    # Descending; digits are numbers and come after letters: dl-cache.c's comparison.
    names = ["libc.so.6", "libc.so.10", "libc.so.9", "liba.so", "lib10.so", "lib9.so", "libc.so", "libB.so"]
    assert ldcache.sort_names(names) == [
        "lib10.so",
        "lib9.so",
        "libc.so.10",
        "libc.so.9",
        "libc.so.6",
        "libc.so",
        "liba.so",
        "libB.so",
    ]


def test_ldconfig_reads_it(tmp_path: Path) -> None:
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin")
    assert ldconfig, "glibc machines have ldconfig"
    (tmp_path / "cache").write_bytes(ldcache.write_cache(NAMES, X86))
    done = subprocess.run(
        [ldconfig, "-p", "-C", tmp_path / "cache"], capture_output=True, text=True, check=True
    )
    assert "3 libs found" in done.stdout
    assert "libc.so.6 (libc6,x86-64) => /system/lib64/libc.so.6" in done.stdout


def test_this_machines_cache_knows_its_libc() -> None:
    path = Path("/etc/ld.so.cache")
    if not path.exists():
        pytest.skip("this machine has no ld.so.cache")
    import os

    found = ldcache.read_cache(path.read_bytes(), ldcache.FLAGS[os.uname().machine])
    assert Path(found["libc.so.6"]).exists()
