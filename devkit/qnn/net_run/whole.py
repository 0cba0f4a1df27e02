"""One call of net-run: the model made, then each backend in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, process
from devkit.config import Config
from devkit.errors import DeployError, DeviceError, FileError, ToolMissing, UsageError
from devkit.ndk.converters import converter_interpreter
from devkit.ndk.qnn_sdk import QnnSdk
from devkit.ndk.qnn_sets import target_for
from devkit.qnn.net_run import given, host, phone
from devkit.qnn.net_run.arrays import Tolerance

if TYPE_CHECKING:
    from devkit.device import Device


@dataclass(frozen=True)
class Request:
    """What is to be run.

    Attributes:
        work: folder for all that is made.
        backends: of `phone.BACKENDS`.
        chosen: whether somebody named them: then one that is not possible is an error.
        offline: compile for the phone's HTP here.
        dtype: of the outputs' values.
        converter: words for the converter.
        packages: folders of op packages.
        more: words for qnn-net-run.
    """

    model: Path
    work: Path
    inferences: Sequence[Sequence[given.Input]]
    references: Sequence[given.Reference]
    backends: Sequence[str]
    chosen: bool = False
    offline: bool = False
    tolerance: Tolerance | None = None
    dtype: str = "f4"
    profiling: str | None = None
    converter: tuple[str, ...] = ()
    packages: tuple[Path, ...] = ()
    more: tuple[str, ...] = ()
    timeout_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """How it is done on one phone."""

    config: Config
    sdk: QnnSdk
    device: Device
    request: Request
    made: host.Made
    backends: tuple[str, ...]

    def lines(self) -> list[str]:
        """The commands of this machine, and what goes to the phone."""
        steps = [process.show(step.argv) for step in self.made.steps]
        where = f"{', '.join(self.backends)} of {self.device.serial}"
        return [*steps, f"push and run {self.made.file.name} on {where}"]

    def as_dict(self) -> dict[str, Any]:
        return {"steps": self.lines(), "backends": list(self.backends), "work": str(self.request.work)}


def plan_run(config: Config, sdk: QnnSdk, device: Device, request: Request) -> Plan:
    """Find out how the model is made for this phone. Makes nothing.

    Raises:
        UsageError: the model is nothing that can be run so.
        ToolMissing: the SDK lacks something for this machine or the phone.
        DeviceError: the phone's chip is not certain, and the graph is to be compiled for it.
    """
    is_context = host.kind_of(request.model) == host.CONTEXT
    backends = tuple(request.backends)
    if request.offline or is_context:
        if request.chosen and set(backends) != {"htp"}:
            raise UsageError("a context binary runs on HTP alone", hints=["--on htp"])
        backends = ("htp",)
    made = host.plan_model(
        sdk,
        request.model,
        request.work,
        target_for(sdk, device.abi, device.libc),
        soc=phone.phone_soc(config, device) if request.offline and not is_context else None,
        python=converter_interpreter(sdk),
        more=request.converter,
    )
    return Plan(config, sdk, device, request, made, backends)


def run(plan: Plan) -> list[phone.Ran]:
    """Make the model where it has to be, and run it on each backend.

    A backend that nobody has named and that this phone or SDK does not have is "not possible".

    Raises:
        ToolFailed: a program of the SDK failed on this machine.
        ToolMissing, DeviceError, DeployError: what is to travel does not belong together, or did not arrive.
    """
    request, work = plan.request, plan.request.work
    _make_folder(plan.config, work)
    host.make(plan.config, plan.sdk, plan.made, work)
    inputs = given.stage_inputs(request.inferences, work)
    results = []
    for backend in plan.backends:
        try:
            prepared = phone.prepare(
                plan.config, plan.device, plan.sdk, plan.made, backend, inputs,
                profiling=request.profiling, packages=request.packages, more=request.more,
            )  # fmt: skip
        except (ToolMissing, DeviceError, DeployError) as error:
            if request.chosen or len(plan.backends) == 1:
                raise
            results.append(phone.Ran(backend, "not possible", why=error.what, hints=tuple(error.hints)))
            continue
        output.current().note(f"running on {backend}")
        results.append(
            phone.run(
                plan.device, prepared, backend, work / backend, request.references,
                tolerance=request.tolerance, dtype=request.dtype, timeout_s=request.timeout_s,
            )
        )  # fmt: skip
    return results


def all_well(results: Sequence[phone.Ran]) -> bool:
    """Whether something ran, and nothing that ran failed or differs."""
    ran = [one for one in results if one.state != "not possible"]
    return bool(ran) and all(one.state == "ok" for one in ran)


def _make_folder(config: Config, work: Path) -> None:
    from devkit.runtime.request import make_output_folder

    make_output_folder(config, work)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{work} cannot be made", evidence=error.strerror) from None
