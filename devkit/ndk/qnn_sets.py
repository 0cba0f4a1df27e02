"""The files of one QNN SDK that a backend needs on the phone, proved to be of one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from devkit.errors import ToolMissing
from devkit.ndk.candidates import quoted
from devkit.ndk.qnn_sdk import QnnSdk
from devkit.ndk.qnn_version import read_build_id, short_version

LIBRARY, STUB, SKEL, PROGRAM = "library", "stub", "skel", "program"
HTP = ("htp-online", "htp-offline")


@dataclass(frozen=True)
class QnnFile:
    """One file of a set. `build_id` is the version inside it, or None where it carries none."""

    name: str
    path: Path
    kind: str
    build_id: str | None


@dataclass(frozen=True)
class QnnSet:
    """What one backend needs on the phone, all from one SDK.

    Attributes:
        backend: cpu, gpu, htp-online or htp-offline.
        target: the SDK's folder the libraries are from: aarch64-android.
        arch: the Hexagon architecture, "v75", or None where none is needed.
        build_id: what those files that say it agree on; None when none does.
    """

    sdk: QnnSdk
    backend: str
    target: str
    arch: str | None
    files: tuple[QnnFile, ...]
    build_id: str | None

    @property
    def version(self) -> str:
        """The SDK's version, as exactly as it is known."""
        return (
            self.sdk.version if self.sdk.version != "unknown" else short_version(self.build_id or "unknown")
        )

    @property
    def has_dsp_code(self) -> bool:
        return any(file.kind == SKEL for file in self.files)

    def as_dict(self) -> dict[str, Any]:
        """The set as `devkit qnn libs --json` prints it."""
        return {
            "sdk": str(self.sdk.path),
            "version": self.version,
            "build_id": self.build_id,
            "backend": self.backend,
            "target": self.target,
            "arch": self.arch,
            "files": [
                {
                    "name": f.name,
                    "path": str(f.path),
                    "kind": f.kind,
                    "size": f.path.stat().st_size,
                    "build_id": f.build_id,
                }
                for f in self.files
            ],
        }


def backend_names() -> tuple[str, ...]:
    """The sets there are."""
    return tuple(_table()["sets"])


def vendor_libraries() -> frozenset[str]:
    """What QNN's libraries load from the phone's vendor image."""
    return frozenset(_table()["vendor"])


def target_for(sdk: QnnSdk, abi: str, libc: str) -> str:
    """The SDK's folder for a phone.

    Raises:
        ToolMissing: the SDK has no libraries for it.
    """
    there = sdk.target_folders()
    for row in _table()["targets"]:
        if (row["abi"], row["libc"]) == (abi, libc):
            for folder in row["folders"]:
                if folder in there:
                    return str(folder)
    raise ToolMissing(
        f"this QNN SDK has no libraries for {abi}" + ("" if libc == "bionic" else f" ({libc})"),
        evidence=f"QNN SDK {sdk.version} at {quoted(sdk.path)}\nit has: {', '.join(there) or 'nothing'}",
        hints=["devkit qnn sdk check", "devkit qnn sdk list"],
    )


def needs_arch(backend: str, target: str) -> bool:
    """Whether a set differs by the Hexagon architecture of the phone."""
    table = _table()
    return bool(table["sets"][backend].get("dsp")) and target not in table["dsp"]["targets_without"]


def library_set(
    sdk: QnnSdk, backend: str, target: str, *, arch: str | None = None, program: str | None = None
) -> QnnSet:
    """The files of a backend.

    Args:
        backend: one of `backend_names`.
        target: of `target_for`.
        arch: "v75", where `needs_arch`.
        program: name of a program that may open more (qnn-net-run).

    Raises:
        ToolMissing: the SDK lacks one of the files, or holds files of several versions.
    """
    table = _table()
    row: Mapping[str, Any] = table["sets"][backend]
    names = list(row["files"])
    if row.get("prepare"):
        names.append(table["prepare"].get(target, table["prepare"]["default"]))
    names += table["programs"].get(program, {}).get(backend, ())
    found = [_file(sdk, f"lib/{target}/{name}", LIBRARY, backend) for name in dict.fromkeys(names)]
    dsp = table["dsp"]
    if needs_arch(backend, target):
        if arch is None:
            raise ValueError(f"{backend} on {target} needs an architecture")
        number = arch.removeprefix("v")
        stub = dsp["stub"].format(v=number)
        skel = f"{dsp['skel_folder']}/{dsp['skel']}".format(v=number)
        found.append(_file(sdk, f"lib/{target}/{stub}", STUB, backend))
        found.append(_file(sdk, f"lib/{skel}", SKEL, backend))
    else:
        arch = None
    return QnnSet(sdk, backend, target, arch, tuple(found), _one_version(sdk, found))


def _file(sdk: QnnSdk, inside: str, kind: str, backend: str) -> QnnFile:
    path = sdk.path / inside
    if not path.is_file():
        others = sorted(p.name for p in path.parent.glob("libQnnHtpV*.so")) if kind != LIBRARY else []
        if kind == SKEL:
            others = sorted(p.name for p in (sdk.path / "lib").glob("hexagon-v*") if p.is_dir())
        raise ToolMissing(
            f"this QNN SDK has no {path.name}, which the backend {backend} needs",
            evidence=f"QNN SDK {sdk.version}: {quoted(path)} does not exist"
            + (f"\nit has: {', '.join(others)}" if others else ""),
            hints=[
                "take an SDK that knows the phone's chip: devkit qnn sdk install …",
                "devkit qnn sdk check",
            ],
        )
    return QnnFile(path.name, path, kind, read_build_id(path))


def _one_version(sdk: QnnSdk, files: list[QnnFile]) -> str | None:
    """The one build id inside the files.

    Raises:
        ToolMissing: there are several, or another than the SDK's version.
    """
    said = {file.build_id for file in files if file.build_id is not None}
    whole = {short_version(build_id) for build_id in said}
    stated = short_version(sdk.version) if sdk.version != "unknown" else None
    if len(said) <= 1 and (stated is None or whole <= {stated}):
        return next(iter(said), None)
    raise ToolMissing(
        "this QNN SDK holds files of several versions",
        evidence=f"the SDK at {quoted(sdk.path)} says {sdk.version}\n"
        + "\n".join(f"{f.build_id}: {f.path.relative_to(sdk.path)}" for f in files if f.build_id),
        hints=["reinstall it: devkit qnn sdk install", "devkit qnn sdk list shows others"],
    )


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    import yaml

    text = resources.files("devkit.ndk").joinpath("qnn_sets.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return table
