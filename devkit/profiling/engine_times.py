"""What an engine itself says about its time: phases, operators, the NPU's own profile.

Programs' outputs are read by `devkit.results`; here their numbers become phases and operators. The columns of
qnn-profile-viewer's CSV are those that ONNX Runtime's QNN provider writes, too.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devkit import process, results
from devkit.errors import FileError, ToolFailed, UsageError
from devkit.profiling.model import Profile

# llm_demo's measurements that are times of phases, in the order of a run.
_PHASES = (
    "load_time", "tuning_time", "vision_time", "audio_process_time", "audio_input_time", "prefill_time",
    "decode_time", "sample_time",
)  # fmt: skip
_TO_MS = {"ms": 1.0, "s": 1000.0, "us": 0.001}
_CSV_COLUMNS = ("Message", "Time", "Unit of Measurement", "Event Level", "Event Identifier")
_OP_ID = re.compile(r"(?::OpId_\d+)?(?: \((?:cycles|us)\))?$")
# llm_demo prints times with two decimals of a second; its tokens and speeds say more.
_BY_SPEED = {"prefill": ("prompt_tokens", "prefill_speed"), "decode": ("decode_tokens", "decode_speed")}
# Of the two times of an execution the one without waiting for the NPU.
_NPU_TIMES = ("Accelerator (execute) time", "QNN accelerator (execute) time")
_QNN_LOG = re.compile(r"qnn-profiling-data.*\.log")
_VIEWER_TIMEOUT_S = 120.0
_LOG_BYTES = 64 * 1024 * 1024

FindViewer = Callable[[], tuple[Path, Mapping[str, str]]]


@dataclass(frozen=True)
class Operator:
    """An operator's mean time in one run of the model, in the unit of its `EngineTimes`."""

    name: str
    kind: str
    value: float
    runs: int


@dataclass(frozen=True)
class EngineTimes:
    """What one program or profile says.

    Attributes:
        source: the program, or the file's name.
        phases: name → ms, in their order.
        speeds: (what, value, unit): tokens a second and the like.
        operators: the slowest first.
        unit: of the operators: "ms" or "cycles".
        npu_ms: time on the NPU in all executions; None when nothing says it.
    """

    source: str
    phases: Mapping[str, float]
    speeds: tuple[tuple[str, float, str], ...]
    operators: tuple[Operator, ...]
    unit: str = "ms"
    npu_ms: float | None = None

    @property
    def kinds(self) -> list[tuple[str, float, int]]:
        """(kind, time, how many operators) of each kind of operator, the slowest first."""
        summed: dict[str, tuple[float, int]] = {}
        for operator in self.operators:
            value, count = summed.get(operator.kind, (0.0, 0))
            summed[operator.kind] = value + operator.value, count + 1
        return sorted(((k, v, n) for k, (v, n) in summed.items() if k), key=lambda row: -row[1])

    @property
    def operator_sum(self) -> float:
        """All operators of one run together."""
        return sum(operator.value for operator in self.operators)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it, and as recordings keep it."""
        return {
            "source": self.source,
            "phases_ms": dict(self.phases),
            "speeds": [list(speed) for speed in self.speeds],
            "operators": [[o.name, o.kind, o.value, o.runs] for o in self.operators],
            "unit": self.unit,
            "npu_ms": self.npu_ms,
        }


def engine_from_dict(content: Mapping[str, Any]) -> EngineTimes:
    """What `EngineTimes.as_dict` wrote."""
    return EngineTimes(
        str(content["source"]),
        {str(name): float(ms) for name, ms in content["phases_ms"].items()},
        tuple((str(name), float(value), str(unit)) for name, value, unit in content["speeds"]),
        tuple(Operator(str(n), str(k), float(v), int(r)) for n, k, v, r in content["operators"]),
        str(content["unit"]),
        None if content["npu_ms"] is None else float(content["npu_ms"]),
    )


def engine_times_of(profile: Profile) -> list[EngineTimes]:
    """What a recording holds of it.

    Raises:
        FileError: it is damaged.
    """
    try:
        return [engine_from_dict(content) for content in profile.meta.extra.get("engine", ())]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError("the recording's engine times are damaged", evidence=repr(error)) from None


def with_engine_times(profile: Profile, times: Sequence[EngineTimes]) -> Profile:
    """The recording with more of it."""
    kept = [*profile.meta.extra.get("engine", ()), *(one.as_dict() for one in times)]
    return replace(profile, meta=replace(profile.meta, extra={**profile.meta.extra, "engine": kept}))


def with_report(profile: Profile, report: results.Report, source: str) -> Profile:
    """The recording with the times that the program's own output had; unchanged where it had none."""
    found = from_report(report, source)
    return with_engine_times(profile, [found]) if found.phases or found.operators or found.speeds else profile


def read_engine_file(path: Path, find_viewer: FindViewer | None = None) -> EngineTimes:
    """A program's saved output, a CSV of qnn-profile-viewer, or the log of QNN that it reads.

    Args:
        find_viewer: the SDK's qnn-profile-viewer and its environment, asked for such a log; may raise.

    Raises:
        FileError: it cannot be read.
        UsageError: nothing in it says where time went.
        ToolFailed: the viewer cannot read the log.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_LOG_BYTES)
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=error.strerror) from None
    if _QNN_LOG.fullmatch(path.name) and b"\0" in data and find_viewer is not None:
        return from_qnn_csv(_viewed(path, *find_viewer()), path.name)
    text = data.decode("utf-8", "replace")
    if _is_qnn_csv(text):
        found = from_qnn_csv(text, path.name)
    else:
        reader = results.OutputReader()
        reader.feed(data)
        found = from_report(reader.finish(None), path.name)
    if not (found.phases or found.operators or found.speeds):
        raise UsageError(
            f"{path} says nothing about times",
            hints=[
                "it may be the output of llm_demo, llm_bench, MNNV2Basic.out or qnn-profile-viewer",
                "qnn-profiling-data_*.log is read by the SDK's viewer: "
                f"qnn-profile-viewer --input_log {path.name} --output {path.stem}.csv",
            ],
        )
    return found


def _viewed(log: Path, viewer: Path, environment: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory(prefix="devkit-qnn-") as folder:
        made = Path(folder, "profile.csv")
        process.run(
            [viewer, "--input_log", log, "--output", made], env=environment, timeout_s=_VIEWER_TIMEOUT_S,
            hints=["the viewer must be of the SDK that wrote the log: devkit qnn sdk check"],
        )  # fmt: skip
        try:
            return made.read_text("utf-8", "replace")
        except OSError:
            raise ToolFailed(
                f"{viewer.name} wrote no CSV of {log}", hints=[f"{viewer} --input_log {log}  # what it says"]
            ) from None


def from_report(report: results.Report, source: str = "") -> EngineTimes:
    """A program's numbers as phases, speeds and operators."""
    phases: dict[str, float] = {}
    speeds: list[tuple[str, float, str]] = []
    operators: list[Operator] = []
    npu_us: dict[str, float] = {}
    for name in _PHASES:
        phase = name.removesuffix("_time").replace("_", " ")
        value = next((m for m in reversed(report.measurements) if m.name == name), None)
        if phase in _BY_SPEED and report.parser == "llm_demo":
            tokens, speed = (report.value(one) for one in _BY_SPEED[phase])
            if tokens and speed:
                phases[phase] = 1000 * tokens / speed
                continue
        if value is not None and value.value:
            phases[phase] = value.value * _TO_MS.get(value.unit, 1.0)
    for m in report.measurements:
        if m.value is None:
            continue
        if m.name == "op_time":
            operators.append(
                Operator(m.labels["op"], m.labels["type"], m.value, int(m.labels.get("runs", "1")))
            )
        elif m.name == "NetRun" and m.unit in _TO_MS and "stage" in m.labels:
            stage = m.labels["stage"].removesuffix(" Statistics").lower()
            phases[stage] = phases.get(stage, 0.0) + m.value * _TO_MS[m.unit]
        elif m.unit == "us" and (known := re.fullmatch(r"Backend \((.*)\)", m.name)):
            npu_us[known[1]] = npu_us.get(known[1], 0.0) + m.value
        elif m.unit in ("tok/s", "MP/s", "inf/sec"):
            label = " ".join([m.name, *(m.labels[k] for k in ("test", "backend") if k in m.labels)])
            speeds.append((label, m.value, m.unit))
    operators.sort(key=lambda operator: -operator.value)
    npu = next((npu_us[name] / 1000 for name in _NPU_TIMES if name in npu_us), None)
    return EngineTimes(source or report.parser or "", phases, tuple(speeds), tuple(operators), "ms", npu)


def from_qnn_csv(text: str, source: str = "") -> EngineTimes:
    """The CSV of qnn-profile-viewer: operators of the graph (NODE rows), and times of whole calls."""
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    phases: dict[str, tuple[float, int]] = {}
    npu_us: dict[str, float] = {}
    for row in csv.DictReader(io.StringIO(text[_csv_start(text) :])):
        try:
            value = float(row["Time"] or "")
        except ValueError:
            continue
        message = (row["Message"] or "").strip()
        unit = (row["Unit of Measurement"] or "").strip().upper()
        what = (row["Event Identifier"] or "").strip()
        if message == "NODE" and unit in ("CYCLES", "US"):
            key = _OP_ID.sub("", what), unit
            total, count = sums.get(key, (0.0, 0))
            sums[key] = total + value, count + 1
        elif unit == "US":
            if what in _NPU_TIMES:
                npu_us[what] = npu_us.get(what, 0.0) + value
            name = what if what not in ("", "NULL") else message.lower()
            total, count = phases.get(name, (0.0, 0))
            phases[name] = total + value, count + 1
    # Graphs are profiled in cycles or in microseconds; where both are, cycles are what the NPU measured.
    unit = "CYCLES" if any(unit == "CYCLES" for _, unit in sums) else "US"
    scale = 1.0 if unit == "CYCLES" else 0.001
    operators = sorted(
        (
            Operator(name, "", total / count * scale, count)
            for (name, kind), (total, count) in sums.items()
            if kind == unit
        ),
        key=lambda operator: -operator.value,
    )
    return EngineTimes(
        source,
        {name: total / count / 1000 for name, (total, count) in phases.items()},
        (),
        tuple(operators),
        "cycles" if unit == "CYCLES" else "ms",
        next((npu_us[name] / 1000 for name in _NPU_TIMES if name in npu_us), None),
    )


def _csv_start(text: str) -> int:
    """Where the header line begins; viewers may write lines of their own before it."""
    at = text.find(",".join(("Message", "Time", "Unit of Measurement")))
    return text.rfind("\n", 0, at) + 1 if at >= 0 else -1


def _is_qnn_csv(text: str) -> bool:
    start = _csv_start(text)
    return start >= 0 and all(column in text[start : text.find("\n", start)] for column in _CSV_COLUMNS)
