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


def check_by_hand(libraries: Mapping[str, Path], *, has_dsp: bool) -> None:
    """QNN libraries that the user sends without naming a backend: of one version, and complete.

    Args:
        libraries: by their path on the phone.
        has_dsp: whether the phone may have a Hexagon, which needs a Stub.

    Raises:
        DeployError: they are not.
    """
    build_ids = {remote: build_id for remote, path in libraries.items() if (build_id := read_build_id(path))}
    if len(set(build_ids.values())) > 1:
        raise DeployError(
            "the QNN libraries under `files:` are of several versions",
            evidence="\n".join(f"{build_id}: {libraries[remote]}" for remote, build_id in build_ids.items()),
            hints=["take all of them from one SDK", _HINT],
        )
    names = {path.name for path in libraries.values()}
    if has_dsp and "libQnnHtp.so" in names and not any(_STUB.fullmatch(name) for name in names):
        raise DeployError(
            "libQnnHtp.so travels without libQnnHtpV##Stub.so",
            evidence="the program would take the phone's own, of another version\n"
            + "\n".join(str(path) for path in libraries.values()),
            hints=[_HINT, "or add the Stub of the same SDK to `files:`"],
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
            raise DeployError(
                f"{remote} was made by a newer QNN than the libraries that would load it",
                evidence=f"it is of {facts.build_id}, they are of {files.version} ({files.sdk.path})",
                hints=[
                    "qnn.version in devkit.yaml picks the SDK",
                    f"or export it again with {files.version}",
                ],
            )
        if facts.arch is None or files.arch is None:
            continue
        chip = soc.chip.chip if soc and soc.chip else "the phone's chip"
        if int(facts.arch[1:]) > int(files.arch[1:]):
            raise DeployError(
                f"{remote} is for Hexagon {facts.arch} ({facts.soc}), the phone has {files.arch} ({chip})",
                evidence=f"context binary of QNN {facts.build_id}",
                hints=[
                    f"export it again for soc_model {soc.soc_model if soc else '…'}, dsp_arch {files.arch}",
                    "or take the phone it was made for: -s SERIAL",
                ],
            )
        if facts.arch != files.arch:
            output.current().warn(
                f"{remote} is for Hexagon {facts.arch} ({facts.soc}), {chip} has {files.arch}"
            )
        elif facts.vtcm_mb and soc and soc.vtcm_mb and facts.vtcm_mb > soc.vtcm_mb:
            output.current().warn(f"{remote} wants {facts.vtcm_mb} MB of VTCM, {chip} has {soc.vtcm_mb} MB")


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
