"""What of QNN lies on a phone: an app's folder, the maker's own copies, the way to the DSP."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DeployError
from devkit.ndk.qnn_version import ContextFacts, short_version
from devkit.qnn.checks import BROKEN, OK, WARNING, Check, Surroundings
from devkit.qnn.inventory import Context, Inventory, Library, part_of
from devkit.qnn.process_domain import LOOK, RPC, DspAccess, check_domain, read_access
from devkit.symbols import ElfInfo

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.qnn.dsp_program import DspAnswer

TIMEOUT_S = 120.0
# e_machine of the processors that may be met here.
_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 164: "hexagon", 183: "aarch64"}
_ID = "v[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]{6,14}(_[0-9]+)*"
# A line for each file: size, the first 20 bytes, version, chip, name; the same for what the maker has.
_LOOK = f"""\
id() {{ grep -aoE -m 1 '{_ID}' "$1" 2>/dev/null | head -n 1; }}
chip() {{ grep -aoE -m 1 'soc_type=[A-Za-z0-9_]+;arch=[0-9]+;' "$1" 2>/dev/null | head -n 1; }}
for f in *.so *.bin *.serialized *.ctx *.qnn qnn/*.bin; do
  [ -f "$f" ] || continue
  echo "file|$(stat -c %s "$f")|$(head -c 20 "$f" | od -An -v -tx1 | tr -d ' \\n')|$(id "$f")|$(chip "$f")|$f"
done
for d in /vendor/lib64 /odm/lib64 /system_ext/lib64 /vendor/lib/rfsa/adsp /vendor/dsp/cdsp; do
  for f in $d/libQnn*.so $d/libcdsprpc.so; do [ -f "$f" ] && echo "maker|$(id "$f")|$f"; done
done
{LOOK}exit 0
"""


@dataclass(frozen=True)
class PhoneFiles:
    """What the phone has.

    Attributes:
        inventory: of the app's folder; paths are the phone's.
        maker: the maker's own libraries, path → version inside (None: it has none).
        access: the way to the DSP as the phone's shell sees it.
        answer: of the phone's FastRPC library; None when it was not asked.
    """

    inventory: Inventory
    maker: Mapping[str, str | None]
    access: DspAccess = field(default_factory=DspAccess)
    answer: DspAnswer | None = None

    @property
    def has_rpc(self) -> bool:
        """Whether there is a FastRPC library that can be asked."""
        names = [*self.maker, *(str(library.path) for library in self.inventory.libraries)]
        return any(posixpath.basename(name) == RPC for name in names)


def look_at_phone(device: Device, folder: str) -> PhoneFiles:
    """Look at an app's folder on the phone.

    Raises:
        DeployError: it has no such folder.
    """
    from devkit.device import quote

    done = device.shell(f"cd {quote([folder])} || exit 9\n{_LOOK}", timeout_s=TIMEOUT_S)
    if done.exit_code == 9:
        raise DeployError(
            f"there is no folder {folder} on the phone",
            where=PHONE,
            hints=["--phone APP names an app that was deployed", "devkit deploy APP"],
        )
    libraries, contexts = [], []
    maker: dict[str, str | None] = {}
    lines = done.text.splitlines()
    for line in lines:
        kind, _, rest = line.partition("|")
        if kind == "file" and rest.count("|") >= 4:
            size, head, build_id, chip, name = rest.split("|", 4)
            path = Path(posixpath.join(folder, name))
            if name.endswith(".so"):
                elf = _elf(path, bytes.fromhex(head))
                libraries.append(Library(path, int(size), build_id or None, elf, *part_of(path.name)))
            elif build_id:
                contexts.append(Context(path, int(size), _facts(build_id, chip)))
        elif kind == "maker":
            build_id, _, name = rest.partition("|")
            maker[name] = build_id or None
    inventory = Inventory(Path(folder), tuple(libraries), tuple(contexts))
    return PhoneFiles(inventory, maker, read_access(lines))


def check_phone(found: PhoneFiles, against: Surroundings) -> list[Check]:
    """The maker's copies that would be taken for missing ones, and the way to the DSP."""
    mine = {library.path.name for library in found.inventory.libraries}
    if not any(name.startswith("libQnnHtp") for name in mine):
        return []
    if not against.is_phone:
        return list(check_domain(found.access, found.answer)) if found.answer is not None else []
    checks = []
    ours = next((library.build_id for library in found.inventory.qnn() if library.build_id), None)
    wanted = (
        {f"libQnnHtp{against.arch.upper()}{part}.so" for part in ("Stub", "Skel")} if against.arch else set()
    )
    for path, build_id in found.maker.items():
        name = posixpath.basename(path)
        if name in wanted - mine:
            version = f" of QNN {short_version(build_id)}" if build_id else ""
            mixed = ours and build_id and short_version(ours) != short_version(build_id)
            checks.append(
                Check(
                    "maker", BROKEN if mixed else WARNING,
                    f"{name} is not in the app's folder: the maker's own{version} is taken, {path}",
                    path, f"send {name} of the same SDK along: backend: htp does",
                )
            )  # fmt: skip
    access = found.access
    if not found.has_rpc:
        checks.append(
            Check("dsp", BROKEN, f"the phone has no {RPC}, which leads to the DSP", None,
                  "a phone without Hexagon, or a build that hides it: backend: gpu")
        )  # fmt: skip
    if not access.nodes:
        checks.append(
            Check("dsp", BROKEN, "the phone has no device file that leads to the DSP (adsprpc-smd)")
        )
    elif not any(access.nodes.values()):
        names = ", ".join(access.shown(node) for node in access.nodes)
        checks.append(
            Check("dsp", WARNING, f"this shell ({access.asked_by}) may not read {names}", None,
                  f"{RPC} asks the maker's DSP service then, which may refuse: devkit run --root, or an app")
        )  # fmt: skip
    if not any(check.name == "dsp" for check in checks):
        usable = [access.shown(path) for path, is_open in access.nodes.items() if is_open]
        checks.append(Check("dsp", OK, f"the way to the DSP is open: {', '.join(usable)}, {RPC}"))
    if found.has_rpc:
        checks += check_domain(access, found.answer, against.arch)
    return checks


def _elf(path: Path, head: bytes) -> ElfInfo | None:
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        return None
    machine = int.from_bytes(head[18:20], "little")
    return ElfInfo(
        path, _MACHINES.get(machine, f"machine {machine}"), 64 if head[4] == 2 else 32, "shared", None, (),
        None, None, False,
    )  # fmt: skip


def _facts(build_id: str, chip: str) -> ContextFacts:
    values = dict(part.split("=") for part in chip.strip(";").split(";") if "=" in part)
    arch = values.get("arch")
    return ContextFacts(build_id, values.get("soc_type"), f"v{arch}" if arch else None)
