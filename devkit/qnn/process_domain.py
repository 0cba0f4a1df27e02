"""Whether this phone lets its shell run unsigned code on the DSP: what can be asked, each with its evidence.

QNN's Skel files are not signed for a phone: they run in an unsigned process domain of the compute DSP. The
program's libcdsprpc.so reads its image, fastrpc_shell_unsigned_3, and opens the device file for reading;
where it may not, it asks the maker's DSP service (github.com/qualcomm/fastrpc, issues 266 and 401).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devkit.errors import UsageError
from devkit.qnn.checks import BROKEN, OK, WARNING, Check
from devkit.qnn.knowledge import look_up

if TYPE_CHECKING:
    from devkit.qnn.dsp_program import DspAnswer

RPC = "libcdsprpc.so"
IMAGE = "fastrpc_shell_unsigned_3"  # 3: the compute DSP
# The same numbers are debug switches too (remote.h, fastrpc_proc_attr): 8 is an unsigned domain.
_FORCED = ("vendor.fastrpc.process.attrs", "persist.vendor.fastrpc.process.attrs")
# For the phone's shell, a line for each thing: who asks, device files, images, properties.
LOOK = f"""\
echo "self|$(id -u)|$(cat /proc/self/attr/current 2>/dev/null | tr -d '\\000')|$(getenforce 2>/dev/null)"
for f in /dev/adsprpc-smd /dev/fastrpc-cdsp /dev/fastrpc-cdsp-secure /dev/fastrpc-nsp*; do
  [ -e "$f" ] || continue
  if [ -r "$f" ]; then s=open; else s=closed; fi
  echo "node|$s|$f|$(ls -lZd "$f" 2>/dev/null)"
done
for d in /vendor/dsp /vendor/dsp/cdsp /vendor/dsp/xdsp /dsp /dsp/cdsp; do
  [ -d "$d" ] && ls "$d" >/dev/null 2>&1 && echo "searched|$d"
  [ -e "$d/{IMAGE}" ] || continue
  if [ -r "$d/{IMAGE}" ]; then echo "image|open|$d/{IMAGE}"; else echo "image|closed|$d/{IMAGE}"; fi
done
for p in {" ".join(_FORCED)}; do
  v=$(getprop "$p" 2>/dev/null)
  [ -n "$v" ] && echo "forced|$p|$v"
done
"""


@dataclass(frozen=True)
class DspAccess:
    """What the phone's shell sees of the way to the DSP.

    Attributes:
        asked_by: "uid 2000, u:r:shell:s0, SELinux Enforcing", as far as the phone tells.
        nodes: device files, path → whether this shell may read it.
        facts: of each device file mode, owner, group and label, as `ls -lZ` prints them.
        images: files of unsigned process domains, path → whether this shell may read it.
        searched: folders for images that this shell may list.
        forced: properties that give every process of the DSP attributes, and their values.
    """

    asked_by: str = ""
    nodes: Mapping[str, bool] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, bool] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    forced: Mapping[str, str] = field(default_factory=dict)

    def shown(self, node: str) -> str:
        """A device file with its mode, owner and label, for messages."""
        return f"{node} ({self.facts[node]})" if self.facts.get(node) else node


def read_access(lines: list[str]) -> DspAccess:
    """What `LOOK` printed; other lines are left alone."""
    asked_by = ""
    nodes: dict[str, bool] = {}
    facts: dict[str, str] = {}
    images: dict[str, bool] = {}
    searched: list[str] = []
    forced: dict[str, str] = {}
    for line in lines:
        kind, _, rest = line.partition("|")
        first, _, more = rest.partition("|")
        if kind == "self":
            context, _, enforcing = more.partition("|")
            parts = [f"uid {first}", context.strip(), f"SELinux {enforcing}" if enforcing else ""]
            asked_by = ", ".join(part for part in parts if part)
        elif kind == "node":
            path, _, listed = more.partition("|")
            nodes[path] = first == "open"
            words = listed.split()
            if len(words) > 4:
                facts[path] = " ".join([words[0], *words[2:5]])
        elif kind == "image":
            images[more] = first == "open"
        elif kind == "searched":
            searched.append(first)
        elif kind == "forced":
            forced[first] = more
    return DspAccess(asked_by, nodes, facts, images, tuple(searched), forced)


def check_domain(access: DspAccess, answer: DspAnswer | None, arch: str | None = None) -> Iterator[Check]:
    """Whether the DSP takes unsigned code.

    Args:
        answer: of the phone's FastRPC library; None when it was not asked.
        arch: the Hexagon architecture that the chip is said to have.
    """
    image = next(iter(sorted(access.images, key=lambda path: not access.images[path])), None)
    if answer is not None and (answer.problem is None or answer.library):
        yield _answered(answer, image)
    else:
        yield _by_image(access, image)
        if answer is not None:
            yield Check("unsigned", WARNING, f"the DSP itself was not asked: {answer.problem}")
    if image is not None and not access.images[image]:
        text = f"this shell ({access.asked_by}) may not read {image}"
        hint = f"{RPC} asks the maker's DSP service then; a refusal is in the log: logcat -d | grep avc"
        yield Check("unsigned", WARNING, text, image, hint)
    if answer is not None and answer.arch and arch and answer.arch != arch:
        text = f"the DSP itself says Hexagon {answer.arch}, the chip is said to have {arch}"
        yield Check(
            "arch", WARNING, text, hint="the DSP is right: name its chip in device.soc of devkit.yaml"
        )
    for name, value in access.forced.items():
        if value.strip() not in ("0", ""):
            text = f"{name} is {value}: a debug switch that every process of the DSP starts with"
            hint = f"restart the phone, or as root: setprop {name} 0"
            yield Check("unsigned", WARNING, text, None, hint)


def _answered(answer: DspAnswer, image: str | None) -> Check:
    if answer.problem is not None:
        return Check("unsigned", WARNING, f"{RPC} cannot be used: {answer.problem}")
    if answer.values.get("DOMAIN_SUPPORT") == 0:
        text = f"the phone's {RPC} says: no compute DSP (DOMAIN_SUPPORT 0)"
        return Check("unsigned", BROKEN, text, None, "backend: gpu")
    supported = answer.values.get("UNSIGNED_PD_SUPPORT")
    if supported is None:
        code = _named(answer.errors.get("UNSIGNED_PD_SUPPORT", 0))
        text = f"{RPC} does not say whether there are unsigned process domains: it answers {code}"
        return Check("unsigned", WARNING, text)
    says = f"{RPC} says UNSIGNED_PD_SUPPORT {supported} of the compute DSP"
    if answer.arch:
        says += f", Hexagon {answer.arch}"
    if supported:
        return Check("unsigned", OK, f"the DSP offers unsigned process domains: {says}")
    if image is not None:
        # Seen on firmware that takes unsigned code all the same (fastrpc#401).
        return Check(
            "unsigned", WARNING, f"{says}, and yet there is {image}", image, "try it: devkit run APP"
        )
    hint = "only files that the maker has signed run there: backend: gpu"
    return Check("unsigned", BROKEN, f"the DSP offers no unsigned process domain: {says}", None, hint)


def _by_image(access: DspAccess, image: str | None) -> Check:
    if image is not None:
        return Check("unsigned", OK, f"the phone has an image for unsigned process domains: {image}")
    if not access.searched:
        return Check("unsigned", WARNING, "whether the DSP takes unsigned code is not known: nothing says so")
    text = f"no {IMAGE} is in {', '.join(access.searched)}"
    return Check("unsigned", WARNING, text, None, "without it the DSP runs signed files only: backend: gpu")


def _named(code: int) -> str:
    try:
        name = look_up(str(code)).name
    except UsageError:
        name = None
    return f"{code:#x} ({name})" if name else f"{code:#x}"
