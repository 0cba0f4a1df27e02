"""Whether QNN files belong together: those of the user, context binaries, and what lies on the phone."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.errors import PHONE, DeployError
from devkit.ndk.qnn_sets import QnnSet
from devkit.ndk.qnn_version import ContextFacts, read_build_id, short_version
from devkit.runtime.hashes import HashCache

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.device.soc import SocFacts

QNN_MANIFEST = ".devkit-qnn.json"
_STUB = re.compile(r"libQnnHtpV(\d+)Stub\.so")
_SKEL = re.compile(r"libQnnHtpV(\d+)Skel\.so")
_HINT = "backend: htp in devkit.yaml sends the set of one SDK"
# For each QNN library that is not of the set: the build id inside it, else its SHA-256. Those of the set were
# compared by the deployment: nothing reads 90 MB at every start.
_LOOK = """\
cd {folder} || exit 1
cat {manifest} 2>/dev/null; echo; echo --
for f in libQnn*.so lib*HtpPrepare.so; do
  [ -f "$f" ] || continue
  case $f in {known}) echo "set $f"; continue ;; esac
  id=$(grep -aoE 'v[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]{{6,14}}(_[0-9]+)*' "$f" 2>/dev/null | head -n 1)
  [ -n "$id" ] || id=$(sha256sum "$f" 2>/dev/null | cut -d ' ' -f 1)
  echo "$id $f"
done"""


def check_by_hand(
    libraries: Mapping[str, Path],
    *,
    has_dsp: bool,
    contexts: Mapping[str, ContextFacts] | None = None,
    soc: SocFacts | None = None,
) -> None:
    """QNN libraries that the user sends without naming a backend: of one version, complete, for this chip.

    Args:
        libraries: by their path on the phone.
        has_dsp: whether the phone may have a Hexagon, which needs a Stub and a Skel.
        contexts: context binaries that travel along, by their path on the phone.
        soc: the phone's chip, where it is certain.

    Raises:
        DeployError: they are not; names the file.
    """
    build_ids = {remote: build_id for remote, path in libraries.items() if (build_id := read_build_id(path))}
    if len(set(build_ids.values())) > 1:
        raise DeployError(
            "the QNN libraries under `files:` are of several versions",
            evidence="\n".join(f"{build_id}: {libraries[remote]}" for remote, build_id in build_ids.items()),
            hints=["take all of them from one SDK", _HINT],
        )
    names = {path.name for path in libraries.values()}
    listed = "\n".join(str(path) for path in libraries.values())
    if "libQnnHtp.so" not in names:
        return
    if has_dsp:
        _check_parts(names, listed, soc)
    if contexts and "libQnnSystem.so" not in names:
        raise DeployError(
            f"{next(iter(contexts))} travels without libQnnSystem.so, which reads context binaries",
            evidence=listed,
            hints=[_HINT, "or add libQnnSystem.so of the same SDK to `files:`"],
        )
    if not contexts and not names & {"libQnnHtpPrepare.so", "libHtpPrepare.so"}:
        output.current().warn(
            "libQnnHtp.so travels without libQnnHtpPrepare.so: only context binaries can be run"
        )
    build_id = next(iter(build_ids.values()), None)
    arch = soc.dsp_arch if soc else None
    for remote, facts in (contexts or {}).items():
        if build_id and _numbers(short_version(facts.build_id)) > _numbers(short_version(build_id)):
            raise _too_new(remote, facts, short_version(build_id), "under `files:`")
        if facts.arch and arch and int(facts.arch[1:]) > int(arch[1:]):
            raise _other_chip(remote, facts, arch, soc)


def _check_parts(names: set[str], listed: str, soc: SocFacts | None) -> None:
    """libQnnHtp.so wants a Stub and a Skel of one Hexagon, the phone's."""
    stubs = {found[1] for name in names if (found := _STUB.fullmatch(name))}
    skels = {found[1] for name in names if (found := _SKEL.fullmatch(name))}
    whose = "the program would take the phone's own, of another version\n"
    for there, others, part in ((stubs, skels, "Stub"), (skels, stubs, "Skel")):
        if not there or others - there:
            number = next(iter(sorted(others - there)), "##")
            raise DeployError(
                f"libQnnHtp.so travels without libQnnHtpV{number}{part}.so",
                evidence=whose + listed,
                hints=[_HINT, f"or add the {part} of the same SDK to `files:`"],
            )
    arch = soc.dsp_arch if soc else None
    if arch is not None and arch[1:] not in stubs:
        raise DeployError(
            f"libQnnHtpV{arch[1:]}Stub.so is missing: the phone has Hexagon {arch}, the files are for "
            + ", ".join(f"v{number}" for number in sorted(stubs)),
            evidence=listed,
            hints=[_HINT, f"or take the Stub and Skel of {arch} from the same SDK"],
        )


def check_own(libraries: Mapping[str, Path], files: QnnSet) -> frozenset[str]:
    """Hold the user's own QNN libraries against the set.

    Returns:
        the names that are the very same as the set's.

    Raises:
        DeployError: one is of another SDK.
    """
    same = set()
    in_set = {f.name: f for f in files.files}
    with HashCache() as hashes:
        for remote, path in libraries.items():
            build_id = read_build_id(path)
            mine = in_set.get(path.name)
            if mine is not None and hashes.sha256(path) == hashes.sha256(mine.path):
                if remote == path.name:
                    same.add(path.name)
                continue
            if mine is None and build_id in (None, files.build_id):
                continue
            raise DeployError(
                f"{path.name} under `files:` is not of the QNN SDK that `backend:` takes its files from",
                evidence=f"{path}: {build_id or 'another content than the copy in the SDK'}\n"
                f"the set: {files.build_id or files.version}, from {files.sdk.path}",
                hints=[
                    f"take {path.name} out of `files:`: `backend:` sends it",
                    "or set qnn.path to its SDK",
                ],
            )
    return frozenset(same)


def check_contexts(contexts: Mapping[str, ContextFacts], files: QnnSet, soc: SocFacts | None) -> None:
    """Hold context binaries against the set that will load them, and the phone's chip.

    Raises:
        DeployError: one was made by a newer QNN, or for a newer Hexagon.
    """
    for remote, facts in contexts.items():
        if _numbers(short_version(facts.build_id)) > _numbers(files.version):
            raise _too_new(remote, facts, files.version, str(files.sdk.path))
        if facts.arch is None or files.arch is None:
            continue
        chip = soc.chip.chip if soc and soc.chip else "the phone's chip"
        if int(facts.arch[1:]) > int(files.arch[1:]):
            raise _other_chip(remote, facts, files.arch, soc)
        if facts.arch != files.arch:
            output.current().warn(
                f"{remote} is for Hexagon {facts.arch} ({facts.soc}), {chip} has {files.arch}"
            )
        elif facts.vtcm_mb and soc and soc.vtcm_mb and facts.vtcm_mb > soc.vtcm_mb:
            output.current().warn(f"{remote} wants {facts.vtcm_mb} MB of VTCM, {chip} has {soc.vtcm_mb} MB")


def _too_new(remote: str, facts: ContextFacts, version: str, place: str) -> DeployError:
    return DeployError(
        f"{remote} was made by a newer QNN than the libraries that would load it",
        evidence=f"it is of {facts.build_id}, they are of {version} ({place})",
        hints=["qnn.version in devkit.yaml picks the SDK", f"or export it again with {version}"],
    )


def _other_chip(remote: str, facts: ContextFacts, arch: str, soc: SocFacts | None) -> DeployError:
    chip = soc.chip.chip if soc and soc.chip else "the phone's chip"
    return DeployError(
        f"{remote} is for Hexagon {facts.arch} ({facts.soc}), the phone has {arch} ({chip})",
        evidence=f"context binary of QNN {facts.build_id}",
        hints=[
            f"export it again for soc_model {soc.soc_model if soc else '…'}, dsp_arch {arch}",
            "or take the phone it was made for: -s SERIAL",
        ],
    )


def check_on_phone(
    device: Device, folder: str, files: QnnSet, record: Mapping[str, Any], strangers: frozenset[str]
) -> None:
    """Compare the app's folder on the phone with its set, before a program starts. One round trip.

    Args:
        record: what the manifest there must say.
        strangers: names that were compared already, besides those of the set.

    Raises:
        DeployError: a QNN library there is of another version or missing, or another deployment has changed
            the set.
    """
    from devkit.device import quote, quote_word

    names = sorted({f.name for f in files.files} | strangers)
    script = _LOOK.format(
        folder=quote([folder]), manifest=QNN_MANIFEST, known="|".join(quote_word(name) for name in names)
    )
    lines = device.shell(script, timeout_s=120, check=True).text.splitlines()
    mark = lines.index("--") if "--" in lines else len(lines)
    try:
        said = json.loads("\n".join(lines[:mark]) or "null")
    except ValueError:
        said = None
    there = [line.strip().partition(" ")[::2] for line in lines[mark + 1 :]]
    missing = sorted({f.name for f in files.files} - {name for _, name in there})
    if said != record or missing:
        raise DeployError(
            "the QNN files on the phone are not those of this deployment",
            where=PHONE,
            evidence=f"{posixpath.join(folder, QNN_MANIFEST)} says {_spoken(said)}\n"
            f"this deployment is {_spoken(record)}" + (f"\nmissing: {', '.join(missing)}" if missing else ""),
            hints=["another deployment may have run meanwhile: run it again"],
        )
    wrong = list(_wrong(there, files))
    if wrong:
        paths = [posixpath.join(folder, name) for name, _ in wrong]
        raise DeployError(
            f"{wrong[0][0]} on the phone does not belong to the QNN set of this app",
            where=PHONE,
            evidence="\n".join([*(text for _, text in wrong), f"the set is {_spoken(record)}"]),
            hints=[
                f"devkit device shell -- {quote(['rm', *paths])}",
                "a program that finds two versions fails with `Stub lib id mismatch` or error 1008",
            ],
        )


def _wrong(there: Iterable[tuple[str, str]], files: QnnSet) -> Iterator[tuple[str, str]]:
    """Libraries that are not of the set's SDK, with what is known of them."""
    folder = files.sdk.path / "lib"
    with HashCache() as hashes:
        for found, name in there:
            if found == "set":
                continue
            if found.startswith("v"):
                if files.build_id is not None and found != files.build_id:
                    yield name, f"{name} is of QNN {found}"
            else:
                copies = [folder / files.target / name, *folder.glob(f"hexagon-v*/unsigned/{name}")]
                copies = [copy for copy in copies if copy.is_file()]
                # What the SDK does not have is the user's own: an op package.
                if copies and found not in {hashes.sha256(copy) for copy in copies}:
                    yield name, f"{name} is not the SDK's copy ({copies[0]})"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _spoken(record: Any) -> str:
    if not isinstance(record, dict):
        return "nothing"
    arch = f", Hexagon {record.get('arch')}" if record.get("arch") else ""
    return f"{record.get('backend')} of QNN {record.get('sdk')} ({record.get('build_id')}{arch})"
