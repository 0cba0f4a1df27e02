"""What devkit checks of QNN's files on this machine: one function for each name in errors.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from devkit.ndk.qnn_version import short_version
from devkit.qnn.inventory import MACHINE, Inventory, Library

if TYPE_CHECKING:
    from devkit.device.soc import SocFacts

OK, BROKEN, WARNING = "ok", "broken", "warning"
PHONE_ABI = "arm64-v8a"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `state` is ok, warning or broken; `file` is the one to mend."""

    name: str
    state: str
    text: str
    file: str | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Surroundings:
    """What files are held against, as far as it is known.

    Attributes:
        soc: the phone's chip.
        wanted_arch: Hexagon architecture whose Skel a log asks for: "v73".
        expected: build id that a log says the library has.
        abi: of the phone's programs; anything but a phone's own has no DSP (virtual phones).
    """

    soc: SocFacts | None = None
    wanted_arch: str | None = None
    expected: str | None = None
    abi: str = PHONE_ABI

    @property
    def is_phone(self) -> bool:
        return self.abi == PHONE_ABI

    @property
    def arch(self) -> str | None:
        """The phone's Hexagon architecture: what its own log says before what the table says of its chip."""
        return self.wanted_arch or (self.soc.dsp_arch if self.soc else None)

    @property
    def arch_by(self) -> str:
        """What says so, for messages."""
        if self.wanted_arch:
            return "the log asks for"
        chip = self.soc.chip.chip if self.soc and self.soc.chip else "the phone"
        return f"{chip} has"


def run_checks(
    names: Sequence[str], inventory: Inventory, surroundings: Surroundings | None = None
) -> list[Check]:
    """Run some checks in their order, each once.

    Args:
        names: those of `check_names`; others, which need more than files, are left out.
    """
    against = surroundings or Surroundings()
    done: list[Check] = []
    for name in dict.fromkeys(names):
        if name in _CHECKS:
            done += _CHECKS[name](inventory, against)
    return done


def check_chip(against: Surroundings, *, files: bool) -> list[Check]:
    """The chip that somebody names against the Hexagon that a log asks for.

    Args:
        files: whether there are files, whose check says already that a chip has no HTP.
    """
    soc = against.soc
    if soc is None:
        return []
    if soc.state == "no HTP":
        return [] if files else [Check("arch", BROKEN, soc.hint or "this chip has no HTP")]
    if against.wanted_arch and soc.dsp_arch and against.wanted_arch != soc.dsp_arch:
        chip = soc.chip.chip if soc.chip else "the chip"
        text = f"the log asks for Hexagon {against.wanted_arch}, {chip} has {soc.dsp_arch}"
        return [Check("arch", WARNING, text, hint="is the log of another phone? devkit device info")]
    return []


def check_names() -> tuple[str, ...]:
    """Checks of files."""
    return tuple(_CHECKS)


def _versions(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    """Libraries on one phone must all be of one build (case K1)."""
    known: dict[str, list[Library]] = {}
    for library in inventory.qnn():
        if library.build_id:
            known.setdefault(library.build_id, []).append(library)
    if not known:
        return
    if len(known) > 1:
        usual = max(known, key=lambda build_id: (build_id == against.expected, len(known[build_id])))
        for build_id, libraries in known.items():
            if build_id != usual:
                names = ", ".join(library.path.name for library in libraries)
                yield Check(
                    "versions", BROKEN, f"{names}: of QNN {build_id}, the others are of {usual}",
                    str(libraries[0].path), "take all of them from one SDK",
                )  # fmt: skip
        return
    (build_id,) = known
    if against.expected and against.expected != build_id:
        yield Check(
            "versions", WARNING, f"these libraries are of QNN {build_id}, the log is of {against.expected}",
            str(inventory.place), "these are not the files that ran",
        )  # fmt: skip
    else:
        yield Check("versions", OK, f"all QNN libraries are of {short_version(build_id)} ({build_id})")


def _stub(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    yield from _partner(inventory, against, "Stub", "lib/aarch64-android")


def _skel(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    yield from _partner(inventory, against, "Skel", "lib/hexagon-{v}/unsigned")


def _partner(inventory: Inventory, against: Surroundings, part: str, folder: str) -> Iterator[Check]:
    """libQnnHtp.so wants a Stub (for the CPU) and a Skel (for the DSP) of the phone's architecture."""
    if not against.is_phone:
        return
    htp = inventory.named("libQnnHtp.so")
    others = inventory.parts("Skel" if part == "Stub" else "Stub")
    if htp is None and not others:
        return
    there = {library.arch for library in inventory.parts(part) if library.arch}
    archs = {library.arch for library in others if library.arch}
    wanted = {against.arch} if against.arch else archs
    name = part.lower()
    if not there and not wanted:
        yield Check(
            name, BROKEN, f"libQnnHtp.so is here without any libQnnHtpV##{part}.so", str(inventory.place),
            "devkit qnn libs htp-online --soc CHIP names it",
        )  # fmt: skip
        return
    for arch in sorted(wanted):
        file = f"libQnnHtpV{arch[1:]}{part}.so"
        if arch in there:
            yield Check(name, OK, f"{file} is here")
        else:
            other = f"; here is {_spoken(there, part)}" if there else ""
            yield Check(
                name, BROKEN, f"{file} is missing{other}: the phone's own, of another version, may be taken",
                str(inventory.place), f"take it from {folder.format(v=arch)} of the same SDK",
            )  # fmt: skip


def _arch(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    """Skel and Stub against the phone's Hexagon (case K3)."""
    if against.soc is not None and against.soc.state == "no HTP":
        yield Check("arch", BROKEN, against.soc.hint or "this chip has no HTP")
        return
    there = {library.arch for library in inventory.libraries if library.arch}
    if against.arch is None or not there:
        return
    if against.arch in there:
        yield Check("arch", OK, f"{against.arch_by} Hexagon {against.arch}, and its files are here")
    else:
        yield Check(
            "arch", BROKEN, f"{against.arch_by} Hexagon {against.arch}, the files are for {_spoken(there)}",
            str(inventory.place), f"take the Stub and Skel of {against.arch}",
        )  # fmt: skip


def _abi(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    """A Skel is 32-bit Hexagon code, rightly; everything else must be the phone's (case C3)."""
    wrong = 0
    for library in inventory.libraries:
        name, elf = library.path.name, library.elf
        if elf is None:
            yield Check(
                "abi", BROKEN, f"{name} is no library: {library.size} bytes without an ELF header",
                str(library.path), "copy it again; a Git LFS pointer or a web page looks like that",
            )  # fmt: skip
        elif library.part == "Skel":
            if elf.machine == MACHINE:
                continue
            yield Check("abi", BROKEN, f"{name} is for {elf.describe}, a Skel is Hexagon code",
                        str(library.path), "take the one in lib/hexagon-v##/unsigned")  # fmt: skip
        elif elf.abi != against.abi:
            if elf.machine == MACHINE:
                continue  # an op package's half for the DSP, or libQnnSystem.so of hexagon-v##
            yield Check("abi", BROKEN, f"{name} is for {elf.describe}, a phone wants {against.abi}",
                        str(library.path), f"build it for {against.abi}")  # fmt: skip
        else:
            continue
        wrong += 1
    skels = sum(library.part == "Skel" for library in inventory.libraries)
    if inventory.libraries and not wrong:
        rightly = f"; {skels} for Hexagon, rightly 32-bit" if skels else ""
        yield Check("abi", OK, f"{len(inventory.libraries)} libraries are of the right processors{rightly}")


def _context(inventory: Inventory, against: Surroundings) -> Iterator[Check]:
    """Context binaries against each other, the libraries beside them and the chip."""
    libraries = {library.build_id for library in inventory.qnn() if library.build_id}
    newest = max((_numbers(build_id) for build_id in libraries), default=None)
    for context in inventory.contexts:
        facts, name = context.facts, context.path.name
        if newest is not None and _numbers(facts.build_id) > newest:
            yield Check(
                "context", BROKEN,
                f"{name} was made by QNN {short_version(facts.build_id)}, the libraries here are older",
                str(context.path), "make it again with the SDK of the libraries, or take newer libraries",
            )  # fmt: skip
        if against.arch and facts.arch and facts.arch != against.arch:
            newer = int(facts.arch[1:]) > int(against.arch[1:])
            yield Check(
                "context", BROKEN if newer else WARNING,
                f"{name} is for Hexagon {facts.arch} ({facts.soc}), {against.arch_by} {against.arch}",
                str(context.path), f"export it again for dsp_arch {against.arch}",
            )  # fmt: skip
        vtcm = against.soc.vtcm_mb if against.soc else None
        if facts.vtcm_mb and vtcm and facts.vtcm_mb > vtcm:
            yield Check(
                "context", WARNING, f"{name} counts on {facts.vtcm_mb} MB of VTCM, the chip has {vtcm} MB",
                str(context.path), f"export it again with --vtcm_mb {vtcm}",
            )  # fmt: skip
    made = {(c.facts.build_id, c.facts.soc, c.facts.arch) for c in inventory.contexts}
    if len(made) > 1:
        kinds = ", ".join(sorted(f"{short_version(b)} for {soc or 'any chip'}" for b, soc, _ in made))
        yield Check(
            "context", WARNING, f"the context binaries are of {len(made)} kinds: {kinds}",
            str(inventory.place), "an interrupted export leaves such a mixture: export again",
        )  # fmt: skip
    elif made:
        ((build_id, soc, arch),) = made
        count = f"{len(inventory.contexts)} context binaries, " if len(inventory.contexts) > 1 else ""
        chip = f" for {soc} ({arch})" if soc else ""
        yield Check("context", OK, f"{count}made by QNN {short_version(build_id)}{chip}")


def _numbers(build_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in short_version(build_id).split(".") if part.isdigit())


def _spoken(archs: set[str], part: str = "") -> str:
    names = sorted(archs)
    return ", ".join(f"libQnnHtpV{name[1:]}{part}.so" for name in names) if part else ", ".join(names)


_CHECKS: dict[str, Callable[[Inventory, Surroundings], Iterator[Check]]] = {
    "versions": _versions,
    "stub": _stub,
    "skel": _skel,
    "arch": _arch,
    "abi": _abi,
    "context": _context,
}
