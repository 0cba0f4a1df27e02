"""Unsigned process domains: what a phone's shell printed, and what follows from it."""

from __future__ import annotations

import pytest

from devkit.qnn.dsp_program import DspAnswer, read_answer
from devkit.qnn.process_domain import DspAccess, check_domain, read_access

IMAGE = "/vendor/dsp/cdsp/fastrpc_shell_unsigned_3"
# toybox' ls -lZ, of a phone whose shell may read the device file but not write it.
PRINTED = f"""\
file|12|7f454c46|||libQnnHtp.so
self|2000|u:r:shell:s0|Enforcing
node|open|/dev/adsprpc-smd|crw-rw-r-- 1 system system u:object_r:vendor_qdsp_device:s0  484,   0 2026-01-02 10:00 /dev/adsprpc-smd
node|closed|/dev/fastrpc-cdsp-secure|crw-rw---- 1 system system u:object_r:vendor_xdsp_device:s0  484,   1 2026-01-02 10:00 /dev/fastrpc-cdsp-secure
searched|/vendor/dsp/cdsp
image|closed|{IMAGE}
forced|vendor.fastrpc.process.attrs|8
"""  # noqa: E501


def checked(access: DspAccess, answer: DspAnswer | None = None, arch: str | None = None) -> list[str]:
    return [f"{check.state} {check.name}: {check.text}" for check in check_domain(access, answer, arch)]


def test_what_the_phone_printed() -> None:
    access = read_access(PRINTED.splitlines())
    assert access.asked_by == "uid 2000, u:r:shell:s0, SELinux Enforcing"
    assert access.nodes == {"/dev/adsprpc-smd": True, "/dev/fastrpc-cdsp-secure": False}
    assert access.shown("/dev/adsprpc-smd") == (
        "/dev/adsprpc-smd (crw-rw-r-- system system u:object_r:vendor_qdsp_device:s0)"
    )
    assert checked(access) == [
        f"ok unsigned: the phone has an image for unsigned process domains: {IMAGE}",
        f"warning unsigned: this shell (uid 2000, u:r:shell:s0, SELinux Enforcing) may not read {IMAGE}",
        "warning unsigned: vendor.fastrpc.process.attrs is 8: a debug switch that every process of the DSP "
        "starts with",
    ]


def test_a_phone_that_tells_nothing() -> None:
    access = read_access(["self|2000||", "node|open|/dev/adsprpc-smd|"])
    assert access.asked_by == "uid 2000"
    assert access.shown("/dev/adsprpc-smd") == "/dev/adsprpc-smd"
    assert checked(access)[0].startswith("warning unsigned: whether the DSP takes unsigned code is not known")
    listed = DspAccess(searched=("/vendor/dsp/cdsp",))
    assert checked(listed) == ["warning unsigned: no fastrpc_shell_unsigned_3 is in /vendor/dsp/cdsp"]


def answers(unsigned: int, domain: int = 1) -> DspAnswer:
    return read_answer(
        f"answer|DOMAIN_SUPPORT|0|{domain}\nanswer|UNSIGNED_PD_SUPPORT|0|{unsigned}\nanswer|ARCH_VER|0|35957\n"
    )


@pytest.mark.parametrize(
    ("answer", "images", "wanted"),
    [
        (answers(1), {}, "ok unsigned: the DSP offers unsigned process domains: libcdsprpc.so says"),
        (answers(0), {}, "broken unsigned: the DSP offers no unsigned process domain"),
        (answers(0), {IMAGE: True}, "warning unsigned: libcdsprpc.so says UNSIGNED_PD_SUPPORT 0"),
        (answers(1, domain=0), {}, "broken unsigned: the phone's libcdsprpc.so says: no compute DSP"),
        (
            read_answer(f"answer|UNSIGNED_PD_SUPPORT|{0x80000414}|0\n"), {},
            "warning unsigned: libcdsprpc.so does not say whether there are unsigned process domains: it "
            "answers 0x80000414 (AEE_EUNSUPPORTED)",
        ),
        (
            read_answer("closed|library libcdsprpc.so not found\nclosed|not accessible\n"), {},
            "warning unsigned: libcdsprpc.so cannot be used: library libcdsprpc.so not found",
        ),
        (read_answer("old|remote_handle_control\n"), {}, "warning unsigned: libcdsprpc.so cannot be used: "),
    ],
)  # fmt: skip
def test_what_the_library_says(answer: DspAnswer, images: dict[str, bool], wanted: str) -> None:
    (said,) = checked(DspAccess(images=images), answer)
    assert said.startswith(wanted)


def test_without_an_ndk_the_files_are_looked_at() -> None:
    assert checked(DspAccess(images={IMAGE: True}), DspAnswer(problem="no NDK")) == [
        f"ok unsigned: the phone has an image for unsigned process domains: {IMAGE}",
        "warning unsigned: the DSP itself was not asked: no NDK",
    ]


def test_the_dsp_knows_its_own_architecture() -> None:
    assert answers(1).arch == "v75"
    assert len(checked(DspAccess(), answers(1), "v75")) == 1
    assert checked(DspAccess(), answers(1), "v73")[1] == (
        "warning arch: the DSP itself says Hexagon v75, the chip is said to have v73"
    )
