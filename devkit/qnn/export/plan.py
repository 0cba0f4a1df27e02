"""What an export needs, found and checked before anything is built or written."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import FileError, ToolMissing, UsageError
from devkit.models.folder import read_config
from devkit.ndk.converters import converter_interpreter
from devkit.ndk.qnn_sdk import HOST_TARGET, QnnSdk, tool_environment
from devkit.qnn.export.script import ExportScript, arguments, find_script

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device.soc import SocFacts

PROFILE = "qnn-tools"
# Below the script's working folder.
CACHE_PATH = "tmp"
# What a shell, and a Makefile of the SDK, take as one word.
_SAFE = re.compile(r"[A-Za-z0-9_./+,@%=-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
SDK_TOOLS = ("qnn-model-lib-generator", "qnn-context-binary-generator")
SDK_LIBRARIES = ("libQnnHtp.so", "libHtpPrepare.so", "libQnnHtpNetRunExtensions.so")
_COMPILER = "clang++"
# Free disk: weights as raw files, packed, in a library, in the context binary.
_DISK_TIMES = 4
_MEMORY_SHARE = 0.8
_LOW_MEMORY_BYTES = 2 << 30
# Substrings of the model's path that the script goes by, and the model types that they are for.
_PATH_TRAPS = {"VL": "vl", "FastVLM": "fastvlm", "Qwen3.5": "qwen3_5"}


@dataclass(frozen=True)
class ExportPlan:
    """One export, ready to be done.

    Attributes:
        model: the model folder.
        name: how the staging folder calls it: without blanks; the script reads the model's kind from it.
        words: the script's arguments.
        chip: "SM8650", or None when numbers were given.
        jobs: graphs at a time, at most.
        memory_bytes: what they may take together.
        cache: where compiled graphs are kept, or None.
        warnings: what will most likely go wrong, or surprise.
        sdk_files: the SDK's programs and libraries that make the graphs.
    """

    model: Path
    name: str
    source: Path
    sdk: QnnSdk
    script: ExportScript
    python: str
    words: tuple[str, ...]
    soc_id: int
    dsp_arch: str
    chip: str | None
    vtcm_mb: int | None
    chunk_size: int
    stage_parent: Path
    jobs: int
    memory_bytes: int
    cache: Path | None
    warnings: tuple[str, ...] = ()
    sdk_files: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": str(self.model),
            "name": self.name,
            "source": str(self.source),
            "sdk": {"path": str(self.sdk.path), "version": self.sdk.version},
            "script": str(self.script.path),
            "python": self.python,
            "arguments": list(self.words),
            "tools": list(self.script.tools),
            "soc_id": self.soc_id,
            "dsp_arch": self.dsp_arch,
            "chip": self.chip,
            "vtcm_mb": self.vtcm_mb,
            "chunk_size": self.chunk_size,
            "stage": str(self.stage_parent),
            "jobs": self.jobs,
            "memory_bytes": self.memory_bytes,
            "cache": str(self.cache) if self.cache else None,
            "warnings": list(self.warnings),
        }


def plan_export(
    config: Config,
    sdk: QnnSdk,
    model: Path,
    *,
    soc: SocFacts | None = None,
    soc_id: int | None = None,
    dsp_arch: str | None = None,
    wanted: dict[str, str] | None = None,
    more: tuple[str, ...] = (),
    stage: Path | None = None,
    jobs: int | None = None,
    memory_bytes: int | None = None,
    use_cache: bool = True,
) -> ExportPlan:
    """Find and check all that an export needs. Writes nothing.

    Args:
        soc: the chip, where it is known by its name or from a phone.
        soc_id: QNN's number of the chip instead of the table's.
        dsp_arch: "v75" instead of the table's.
        wanted: arguments of the script by name, as chunk_size.
        more: arguments handed on as they are.
        stage: folder for the staging folder (default: a place whose path a shell takes as one word).

    Raises:
        UsageError: no such model folder, no chip, an argument that this revision does not know.
        FileError: the model folder lacks what the script reads.
        ToolMissing: not Linux x86_64, no script, no python3, an SDK without the tools for this machine.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ToolMissing(
            "the SDK's compilers of graphs run on Linux x86_64 only",
            evidence=f"this machine is {platform.system()} {platform.machine()}",
        )
    number, arch = soc_id or (soc.soc_model if soc else None), dsp_arch or (soc.dsp_arch if soc else None)
    if number is None or arch is None:
        raise UsageError(
            "which chip the model is for is not known",
            evidence=soc.hint if soc and soc.hint else None,
            hints=["--soc SM8650", "--soc-id 57 --dsp-arch v75", "-s SERIAL asks a phone"],
        )
    arch = arch if arch.startswith("v") else f"v{arch}"
    check_model(model, more)
    python = converter_interpreter(sdk)
    environment = tool_environment(sdk)
    # The script calls python3 by that name; the SDK's tools are made for the converters' one.
    before = environment.get("PATH", os.environ.get("PATH", ""))
    environment["PATH"] = f"{Path(python).parent}{os.pathsep}{before}"
    tools = tuple(sdk.find_file(name, HOST_TARGET) for name in (*SDK_TOOLS, *SDK_LIBRARIES))
    script = find_script(config.source, python)
    wanted = dict(wanted or {})
    weights = sum(file.stat().st_size for file in model.glob("*.weight"))
    vtcm = soc.vtcm_mb if soc else None
    parent = _stage_parent(stage)
    own = {
        "model": f"../../../../model/{(name := _staged_name(model))}",
        "soc_id": str(number),
        "dsp_arch": arch,
        "mnn_path": "../../../build/",
        "cache_path": CACHE_PATH,
        **({"vtcm_mb": str(vtcm)} if vtcm else {}),
    }
    memory = memory_bytes or int(_available_memory() * _MEMORY_SHARE)
    return ExportPlan(
        model=model,
        name=name,
        source=config.source,
        sdk=sdk,
        script=script,
        python=python,
        words=arguments(script, own, wanted, more),
        soc_id=number,
        dsp_arch=arch,
        chip=soc.chip.chip if soc and soc.chip and not soc_id else None,
        vtcm_mb=int(wanted.get("vtcm_mb") or vtcm or 0) or None if "vtcm_mb" in script.options else None,
        chunk_size=int(wanted.get("chunk_size", "128")),
        stage_parent=parent,
        jobs=jobs or max(1, (os.cpu_count() or 2) // 2),
        memory_bytes=memory,
        cache=paths.cache_dir() / "qnn-graphs" if use_cache else None,
        warnings=tuple(_warnings(model, name, parent, weights, memory)),
        sdk_files=tools,
        environment=environment,
    )


def is_safe(path: Path) -> bool:
    """Whether a shell takes the path as one word: the script quotes nothing."""
    return _SAFE.fullmatch(str(path)) is not None


def _model_name(more: tuple[str, ...]) -> str:
    """Which of the folder's models is compiled: `--model_name=visual.mnn`."""
    given = [word.partition("=")[2] for word in more if word.startswith("--model_name=")]
    return given[-1] if given else "llm.mnn"


def check_model(model: Path, more: tuple[str, ...] = ()) -> None:
    """Whether a folder is what the script reads.

    Args:
        more: the script's arguments, which may choose another model of the folder.

    Raises:
        UsageError: there is no such folder.
        FileError: it lacks what the script reads.
    """
    name = _model_name(more)
    if not model.is_dir():
        raise UsageError(f"there is no model folder {model}", hints=["devkit qnn export MODEL_DIR"])
    if "FastVLM" in model.name and name == "visual.mnn":
        raise UsageError(
            "the visual model of FastVLM goes another way (MNN2QNNModel), which devkit does not check",
            hints=["run generate_llm_qnn.py by hand; devkit build qnn-tools makes its programs"],
        )
    config = model / "llm_config.json"
    for file in (model / name, config):
        if not file.is_file():
            raise FileError(
                f"{model} holds no {file.name}",
                evidence="the script takes a folder as llmexport.py writes it",
                hints=[f"devkit model check {model}"],
            )
    try:
        told = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{config} cannot be read", evidence=str(error)) from None
    if not isinstance(told, dict) or not isinstance(told.get("hidden_size"), int):
        raise FileError(
            f"{config} has no hidden_size",
            evidence="the script then ends with 0 and makes nothing",
            hints=["export the model again with a newer llmexport.py"],
        )


def _staged_name(model: Path) -> str:
    """The model folder's own name, in letters that a shell takes as one word."""
    return _UNSAFE.sub("_", model.resolve().name).strip("._-") or "model"


def _stage_parent(given: Path | None) -> Path:
    """A folder whose real path needs no quotes: os.getcwd() of the script sees through links."""
    import tempfile

    if given is not None:
        place = Path(os.path.realpath(paths.expand_user(given)))
        if not is_safe(place):
            raise UsageError(
                f"--stage {given} cannot be used",
                evidence=f"the script's commands are not quoted, and {place} is not one word to a shell",
            )
        return place
    for candidate in (paths.cache_dir() / "qnn-export", Path(tempfile.gettempdir()), Path("/var/tmp")):
        place = Path(os.path.realpath(candidate))
        if is_safe(place):
            return place
    raise UsageError("no folder without blanks was found for the staging", hints=["--stage DIR"])


def _warnings(model: Path, name: str, parent: Path, weights: int, memory: int) -> list[str]:
    found = []
    existing = next(folder for folder in (parent, *parent.parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if free < weights * _DISK_TIMES:
        wanted = output.human_bytes(weights * _DISK_TIMES)
        found.append(
            f"{output.human_bytes(free)} are free in {parent}; about {wanted} may be needed (--stage)"
        )
    if memory < _LOW_MEMORY_BYTES:
        found.append(f"{output.human_bytes(memory)} of memory are little for compiling graphs (--memory)")
    if shutil.which(_COMPILER) is None:
        found.append(f"{_COMPILER} was not found: qnn-model-lib-generator needs it (sudo apt install clang)")
    kind = str(read_config(model / "config.json").merged.get("model_type", "")).lower()
    for word, model_type in _PATH_TRAPS.items():
        if word in name and kind and model_type not in kind:
            found.append(
                f"the script takes a model for another kind when its folder's name holds {word!r} "
                f"(model_type is {kind}): rename {name}"
            )
        elif kind and model_type in kind and word not in name and word != "FastVLM":
            found.append(
                f"the script knows a {kind} model by {word!r} in its folder's name; {name} does not hold it"
            )
    return found


def _available_memory() -> int:
    try:
        text = Path("/proc/meminfo").read_text("ascii")
    except OSError:
        return 4 << 30
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 4 << 30
