"""The QNN side of a deployment: which library set travels, and that everything with it fits together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import ConfigError, DeviceError, ToolMissing
from devkit.ndk.qnn_sets import HTP, SKEL, STUB, QnnSet, library_set, needs_arch, target_for
from devkit.ndk.qnn_version import ContextFacts, is_qnn_name, read_context
from devkit.runtime.closure import OpenedFile
from devkit.runtime.own_files import own_files
from devkit.runtime.qnn_checks import QNN_MANIFEST, check_by_hand, check_contexts, check_on_phone, check_own

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.device import Device
    from devkit.device.soc import SocFacts
    from devkit.runtime.deploy import DeployPlan

ORIGIN = "QNN SDK"
_CONTEXT_SUFFIXES = (".bin", ".serialized", ".ctx", ".qnn")


@dataclass(frozen=True)
class QnnPlan:
    """What of QNN is part of a deployment.

    Attributes:
        files: the set; None when the user's own files are all there is.
        soc: the phone's chip, where it was needed.
        contexts: context binaries among the app's files, by their path on the phone.
        dropped: names in the set that the user's `files:` bring already, the very same.
        own: names of QNN libraries that the user's `files:` put beside the set; they fit.
    """

    files: QnnSet | None
    soc: SocFacts | None = None
    contexts: Mapping[str, ContextFacts] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    def opened(self) -> tuple[OpenedFile, ...]:
        """The set as files for the closure."""
        if self.files is None:
            return ()
        by = f"QNN {self.files.backend}, SDK {self.files.version}"
        kinds = {STUB: f"{by}: talks to the DSP", SKEL: f"{by}: runs on the DSP"}
        return tuple(
            OpenedFile(f.path, kinds.get(f.kind, by), ORIGIN, strict=False)
            for f in self.files.files
            if f.name not in self.dropped
        )

    def record(self) -> dict[str, Any]:
        """What the manifest on the phone says: which SDK, arch and context binaries belong together."""
        assert self.files is not None
        return {
            "version": 1,
            "sdk": self.files.version,
            "build_id": self.files.build_id,
            "backend": self.files.backend,
            "arch": self.files.arch,
            "soc_model": self.soc.soc_model if self.soc else None,
            "chip": self.soc.chip.chip if self.soc and self.soc.chip else None,
            "files": sorted(f.name for f in self.files.files),
            "contexts": {
                remote: {"build_id": c.build_id, "soc": c.soc, "arch": c.arch, "vtcm_mb": c.vtcm_mb}
                for remote, c in sorted(self.contexts.items())
            },
        }

    def manifest(self) -> tuple[tuple[str, Path, str], ...]:
        """The manifest as a file that travels: (path on the phone, local file, reason)."""
        if self.files is None:
            return ()
        text = json.dumps(self.record(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        name = hashlib.sha256(text.encode()).hexdigest()[:32] + ".json"
        file = paths.cache_dir() / "qnn-manifests" / name
        if not file.is_file():
            paths.write_atomically(file, text)
        return ((QNN_MANIFEST, file, "says which QNN files belong together"),)

    def check_on_phone(self, device: Device, plan: DeployPlan) -> None:
        """Compare the app's folder on the phone with the set, before a program starts.

        No round trip where nothing has travelled and nothing else of QNN lies there: the plan has compared
        the set's files and the manifest.

        Raises:
            DeployError: QNN files there do not belong together.
        """
        strangers = any("/" not in name and is_qnn_name(name) for name in plan.others)
        if self.files is not None and (plan.to_push or strangers):
            check_on_phone(device, plan.folder, self.files, self.record(), self.own)

    def environment(self, env: Mapping[str, str], folder: str) -> dict[str, str]:
        """An app's variables with those that QNN's libraries are found by: our folder comes first.

        LD_LIBRARY_PATH separates by `:`, ADSP_LIBRARY_PATH by `;`.

        Raises:
            ConfigError: the user's own value has the other's separator.
        """
        if self.files is None:
            return dict(env)
        found = {**env, "LD_LIBRARY_PATH": _joined(env, "LD_LIBRARY_PATH", folder, ":", ";")}
        if self.files.has_dsp_code:
            found["ADSP_LIBRARY_PATH"] = _joined(env, "ADSP_LIBRARY_PATH", folder, ";", ":")
        return found


def plan_qnn(
    config: Config,
    device: Device,
    app: AppConfig,
    program: Path,
    options: Mapping[str, str],
) -> QnnPlan | None:
    """Choose the set of an app and hold everything else of QNN that travels against it.

    A build with MNN_QNN gets the set for the NPU unless the app says something else; where there is none
    for this phone, that is said.

    Args:
        options: CMake options of the app's build; empty for a ready-made program.

    Returns:
        None when the app has nothing to do with QNN.

    Raises:
        ToolMissing: no SDK, or one that lacks a file or is mixed.
        DeviceError: the phone's chip is not known, or has no NPU for this backend.
        DeployError: a file of another version or for another chip; names it.
    """
    own = own_files(app.files)
    libraries = {remote: path for remote, path in own.items() if is_qnn_name(path.name)}
    if app.backend != "none":
        return _plan(config, device, app.backend, program, options, own, libraries)
    if libraries:
        from devkit.device.soc import KNOWN, soc_of

        # A phone's properties are known by now: it costs no round trip where they decide.
        soc = soc_of(device, config) if any(p.name == "libQnnHtp.so" for p in libraries.values()) else None
        certain = soc if soc is not None and soc.state == KNOWN else None
        check_by_hand(libraries, has_dsp=device.libc == "bionic", contexts=_contexts(own), soc=certain)
    if f"apps.{app.name}.backend" in config.values or libraries or not _opens_qnn(options):
        return None
    try:
        return _plan(config, device, "htp", program, options, own, libraries)
    except (ToolMissing, DeviceError) as error:
        # Nobody has asked for the NPU: the program may run without it.
        output.current().warn(f"no QNN libraries travel, which this build opens at run time: {error.what}")
        for hint in (*error.hints[:1], f"apps.{app.name}.backend in devkit.yaml says which, or none"):
            output.current().note(f"  try: {hint}")
        return None


def _plan(
    config: Config,
    device: Device,
    wanted: str,
    program: Path,
    options: Mapping[str, str],
    own: Mapping[str, Path],
    libraries: Mapping[str, Path],
) -> QnnPlan:
    from devkit.device.soc import require_arch, soc_of
    from devkit.ndk.qnn_sdk import find_qnn_sdk, qnn_sdk_for, warn_about_conflicts

    root = options.get("QNN_SDK_ROOT")
    # The libraries are to be those of the headers it was compiled with.
    sdk = find_qnn_sdk(Path(root)) if root else qnn_sdk_for(config)
    warn_about_conflicts(sdk)
    contexts = _contexts(own)
    backend = _backend(wanted, options, contexts)
    target = target_for(sdk, device.abi, device.libc)
    soc, arch = None, None
    if needs_arch(backend, target):
        soc = soc_of(device, config)
        arch = require_arch(soc, device.serial)
        for warning in soc.warnings:
            output.current().warn(warning)
    files = library_set(sdk, backend, target, arch=arch, program=program.name)
    dropped = check_own(libraries, files)
    if backend in HTP:
        check_contexts(contexts, files, soc)
    return QnnPlan(
        files,
        soc,
        contexts if backend in HTP else {},
        dropped,
        frozenset(remote for remote in libraries if "/" not in remote),
    )


def _backend(wanted: str, options: Mapping[str, str], contexts: Mapping[str, ContextFacts]) -> str:
    if wanted != "htp":
        return wanted
    return "htp-offline" if _is_on(options, "MNN_WITH_PLUGIN") or contexts else "htp-online"


def _opens_qnn(options: Mapping[str, str]) -> bool:
    """Whether a build runs models with QNN; that of the converters only writes them."""
    return _is_on(options, "MNN_QNN") and not _is_on(options, "MNN_QNN_CONVERT_MODE")


def _is_on(options: Mapping[str, str], name: str) -> bool:
    from devkit.engine.profiles import is_on

    return is_on(options.get(name))


def _contexts(own: Mapping[str, Path]) -> dict[str, ContextFacts]:
    found = {}
    for remote, path in own.items():
        facts = read_context(path) if path.suffix in _CONTEXT_SUFFIXES else None
        if facts is not None:
            found[remote] = facts
    return found


def _joined(env: Mapping[str, str], name: str, folder: str, separator: str, wrong: str) -> str:
    given = env.get(name, "")
    if wrong in given and separator not in given:
        raise ConfigError(
            f"{name} separates folders by `{separator}`, not by `{wrong}`",
            evidence=f"env: {name}: {given}",
            hints=[f"{name}: {given.replace(wrong, separator)!r}"],
        )
    parts = [part for part in given.split(separator) if part and part != folder]
    return separator.join([folder, *parts])
