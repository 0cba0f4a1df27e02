"""A graph run by qnn-net-run on one backend of a phone, through the same deployment as any app."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.config import AppConfig, Config, FileMapping
from devkit.errors import ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QnnSdk
from devkit.ndk.qnn_sets import target_for
from devkit.qnn.net_run.arrays import TOLERANCES, Comparison, Tolerance, compare
from devkit.qnn.net_run.given import INPUT_LIST, Reference
from devkit.qnn.net_run.host import Made
from devkit.qnn.op_package import Library, Package, built_libraries, read_package, registration
from devkit.results import OutputReader, Report

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.device.soc import SocFacts
    from devkit.runtime import PreparedApp

PROGRAM = "qnn-net-run"
BACKENDS = {"cpu": "libQnnCpu.so", "gpu": "libQnnGpu.so", "htp": "libQnnHtp.so"}
PROFILING = ("basic", "detailed", "linting")
PROFILE_LOG = re.compile(r"qnn-profiling-data.*\.log")
_OUTPUT = "output"
_RESULT = re.compile(r"Result_(\d+)")


@dataclass(frozen=True)
class Ran:
    """What one backend did.

    Attributes:
        state: "ok", "differs" (from the reference), "failed", or "not possible" (nothing was run).
        why: what failed.
    """

    backend: str
    state: str
    comparisons: tuple[Comparison, ...] = ()
    outputs: tuple[str, ...] = ()
    folder: Path | None = None
    report: dict[str, Any] = field(default_factory=dict)
    why: str | None = None
    hints: tuple[str, ...] = ()

    @property
    def profiles(self) -> list[Path]:
        """QNN's own profiles that came back."""
        logs = [path for path in self.outputs if PROFILE_LOG.fullmatch(Path(path).name)]
        return [self.folder / path for path in logs] if self.folder is not None else []

    def as_dict(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "state": self.state,
            "why": self.why,
            "hints": list(self.hints),
            "outputs": list(self.outputs),
            "folder": str(self.folder) if self.folder else None,
            "profiles": [str(path) for path in self.profiles],
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "report": self.report,
        }


def prepare(
    config: Config,
    device: Device,
    sdk: QnnSdk,
    made: Made,
    backend: str,
    inputs: Sequence[FileMapping],
    *,
    profiling: str | None = None,
    packages: Sequence[Path] = (),
    more: Sequence[str] = (),
) -> PreparedApp:
    """Plan what goes to the phone; everything that does not belong together is refused here.

    Args:
        profiling: one of PROFILING.
        packages: folders of op packages, built; they are registered with HTP.
        more: further words for qnn-net-run.

    Raises:
        ToolMissing, DeviceError, DeployError: as `runtime.prepare_app`.
    """
    from devkit import runtime
    from devkit.runtime.app_folder import survey
    from devkit.runtime.apps import LocalApp
    from devkit.runtime.closure import OpenedFile, SearchDir

    target = target_for(sdk, device.abi, device.libc)
    program = sdk.find_file(PROGRAM, target)
    files = list(inputs)
    args = ["--backend", BACKENDS[backend], "--input_list", INPUT_LIST, "--output_dir", _OUTPUT]
    args += ["--retrieve_context" if made.context else "--model", made.file.name]
    opened: tuple[OpenedFile, ...] = ()
    if made.context:
        files.append(FileMapping(made.file, made.file.name))
    else:
        opened = (OpenedFile(made.file, "the model library", "net-run"),)
    args += ["--profiling_level", profiling] if profiling else []
    if packages and backend == "htp":
        registered = _packages(config, device, packages, target)
        files += [FileMapping(one.path, one.remote) for _, found in registered for one in found]
        args += ["--op_packages", ",".join(registration(package, found) for package, found in registered)]
    app = AppConfig(
        name=f"net-run-{backend}",
        files=tuple(files),
        args=(*args, *more),
        backend=backend,
        pull=(f"{_OUTPUT}/**",),
    )
    search = [
        SearchDir(program.parent, "beside the program"),
        SearchDir(made.file.parent, "beside the model"),
    ]
    local = LocalApp(
        app,
        program,
        search=(*search, *_toolchain(config, device, sdk, target)),
        opened=opened,
        seen=survey(device, config.device.dir, app.name),
    )
    named = dataclasses.replace(config, qnn=dataclasses.replace(config.qnn, path=sdk.path, version=None))
    return runtime.prepare_app(named, device, local)


def _packages(
    config: Config, device: Device, folders: Sequence[Path], target: str
) -> list[tuple[Package, list[Library]]]:
    from devkit.ndk.qnn_sets import needs_arch

    arch = phone_soc(config, device).dsp_arch if needs_arch("htp-online", target) else None
    packages = [read_package(folder) for folder in folders]
    return [(package, built_libraries(package, target, arch)) for package in packages]


def _toolchain(config: Config, device: Device, sdk: QnnSdk, target: str) -> list[Any]:
    """Where libc++_shared.so may be: Qualcomm's programs for phones need that of an NDK."""
    from devkit import engine
    from devkit.ndk import ndk_for
    from devkit.runtime.closure import TOOLCHAIN, SearchDir

    found = [SearchDir(sdk.path / "lib" / target, TOOLCHAIN)]
    if device.libc == "glibc":
        try:
            found += [SearchDir(folder, TOOLCHAIN) for folder in engine.host_toolchain().runtime_dirs]
        except ToolMissing as missing:
            output.current().detail(missing.what)
        return found
    return [*found, SearchDir(ndk_for(config).runtime_dir(device.abi), TOOLCHAIN)]


def run(
    device: Device,
    prepared: PreparedApp,
    backend: str,
    folder: Path,
    references: Sequence[Reference],
    *,
    tolerance: Tolerance | None = None,
    dtype: str = "f4",
    timeout_s: float | None = None,
) -> Ran:
    """Deploy, run, bring the outputs back and compare them.

    Args:
        folder: where outputs go.

    Raises:
        DeviceError: the phone went away.
        DeployError: a file did not arrive.
    """
    from devkit import runtime
    from devkit.runtime.pulls import Outputs

    runtime.deploy_app(device, prepared)
    app = prepared.local.app
    launch = prepared.launch(())
    outputs = Outputs(launch, app.pull)
    reader = OutputReader(program=PROGRAM, app=app.name)
    # What an earlier run left would be compared with this one's reference.
    first = f"rm -rf {_OUTPUT}; "
    code = runtime.run_program(
        device,
        launch,
        timeout_s=timeout_s,
        first=outputs.first + launch.enter() + "; " + first,
        tty=False,
        on_output=reader.feed,
    )
    report = reader.finish(code)
    pulled = outputs.fetch(device, folder)
    written = tuple(sorted(file.path for file in pulled.plan.files))
    told = {"program_exit": code, **report.as_dict()}
    why = _why(report, code, written)
    if why is not None:
        steps = report.first_cause.next if report.first_cause else ()
        return Ran(backend, "failed", (), written, folder, told, why, tuple(steps))
    allowed = tolerance or TOLERANCES[backend]
    found = tuple(_compared(folder, written, one, allowed, dtype) for one in references)
    state = "ok" if all(comparison.within for comparison in found) else "differs"
    return Ran(backend, state, found, written, folder, told)


def _why(report: Report, code: int, written: Sequence[str]) -> str | None:
    cause = report.first_cause
    if cause is not None and (code != 0 or report.status == "failed"):
        return f"{cause.meaning} ({cause.line})" if cause.line else cause.meaning
    if code != 0:
        return f"{PROGRAM} ended with exit code {code}"
    if not any(path.endswith(".raw") for path in written):
        return f"{PROGRAM} ended with 0 and wrote no output"
    return None


def _compared(
    folder: Path, written: Sequence[str], reference: Reference, tolerance: Tolerance, dtype: str
) -> Comparison:
    of_one = [
        path
        for path in written
        if path.endswith(".raw")
        and (match := _RESULT.search(path)) is not None
        and int(match[1]) == reference.inference
    ]
    if reference.name is not None:
        of_one = [path for path in of_one if _plain(Path(path).stem) == _plain(reference.name)]
    if len(of_one) == 1:
        return compare(folder / of_one[0], reference.file, tolerance, dtype=dtype)
    what = f"output {reference.name or ''} of inference {reference.inference}".replace("  ", " ")
    if of_one:
        names = ", ".join(Path(path).stem for path in of_one)
        problem = f"{what} is one of {names}: --reference NAME={reference.file.name}"
    else:
        problem = f"there is no {what}; written: {', '.join(written)}"
    return Comparison(reference.file.name, 0, False, tolerance=tolerance, problem=problem)


def _plain(name: str) -> str:
    """qnn-net-run replaces what is no letter or digit in a tensor's name."""
    return re.sub(r"\W", "_", name.removesuffix("_native"))


def known_backends(words: str) -> list[str]:
    """`cpu,htp` as a list.

    Raises:
        UsageError: one is unknown.
    """
    names = [word.strip() for word in words.split(",") if word.strip()]
    unknown = [name for name in names if name not in BACKENDS]
    if unknown or not names:
        raise UsageError(
            f"--on cannot be {words!r}", evidence=f"backends: {', '.join(BACKENDS)}", hints=["--on cpu,htp"]
        )
    return list(dict.fromkeys(names))


def phone_soc(config: Config, device: Device) -> SocFacts:
    """The phone's chip, certain enough to compile for.

    Raises:
        DeviceError: it is not.
    """
    from devkit.device.soc import require_arch, soc_of

    soc = soc_of(device, config)
    require_arch(soc, device.serial)
    return soc
