"""From a model to what qnn-net-run takes: converter, model library, context binary; each only when needed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import FileError, ToolFailed, UsageError
from devkit.ndk.qnn_sdk import HOST_TARGET, PHONE_TARGET, QnnSdk, tool_environment
from devkit.ndk.qnn_version import read_context
from devkit.runtime.hashes import HashCache
from devkit.symbols import is_elf

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device.soc import SocFacts

ONNX, CODE, LIBRARY, CONTEXT = "onnx", "cpp", "library", "context"
CONVERTER, GENERATOR, COMPILER = (
    "qnn-onnx-converter",
    "qnn-model-lib-generator",
    "qnn-context-binary-generator",
)
_DONE = ".done.json"


@dataclass(frozen=True)
class Step:
    """One program of the SDK for this machine.

    Attributes:
        reads: files that its result depends on.
        makes: the file that must be there afterwards.
    """

    name: str
    argv: tuple[str, ...]
    reads: tuple[Path, ...]
    makes: Path


@dataclass(frozen=True)
class Made:
    """What travels: a model library or a context binary.

    Attributes:
        context: whether it is a context binary.
        steps: how it is made; empty for a file that was given.
        configs: JSON files that the steps read, written before them.
    """

    file: Path
    context: bool
    steps: tuple[Step, ...]
    configs: Mapping[Path, Any] = field(default_factory=dict)


def kind_of(model: Path) -> str:
    """What a user's file is.

    Raises:
        UsageError: it does not exist, or is nothing that net-run takes.
    """
    if not model.is_file():
        raise UsageError(f"{model} does not exist" if not model.is_dir() else f"{model} is a folder")
    if model.suffix == ".onnx":
        return ONNX
    if model.suffix == ".cpp":
        return CODE
    if is_elf(model):
        return LIBRARY
    if read_context(model) is not None:
        return CONTEXT
    raise UsageError(
        f"{model} is nothing that net-run takes",
        evidence="no .onnx, no .cpp of a converter, no model library (ELF), no context binary",
    )


def plan_model(
    sdk: QnnSdk,
    model: Path,
    work: Path,
    target: str,
    *,
    soc: SocFacts | None = None,
    python: str = "python3",
    more: Sequence[str] = (),
) -> Made:
    """How a model becomes what one backend on one phone takes.

    Args:
        work: folder for everything that is made.
        target: of the phone's libraries: aarch64-android.
        soc: the chip to compile the graph for here, into a context binary for HTP.
        python: interpreter of the SDK's Python tools.
        more: further words for the converter.

    Raises:
        UsageError: `model` is nothing that can be used so.
        ToolMissing: the SDK lacks a program for this machine.
    """
    kind = kind_of(model)
    if kind == CONTEXT:
        return Made(model, True, ())
    steps: list[Step] = []
    code = model
    if kind == ONNX:
        code = work / f"{model.stem}.cpp"
        argv = (
            *_tool(sdk, CONVERTER, python),
            "--input_network",
            str(model),
            "--output_path",
            str(code),
            *more,
        )
        steps.append(Step("convert", argv, (model,), code))
    elif more:
        raise UsageError("words for the converter need an .onnx model")
    wanted = HOST_TARGET if soc is not None else target
    if kind == LIBRARY:
        if soc is None:
            return Made(model, False, ())
        raise UsageError(
            f"{model.name} is a model library already: a context binary is made of this machine's own",
            hints=["give the .onnx or .cpp that it was made of"],
        )
    library = work / "libs" / wanted / f"lib{model.stem}.so"
    weights = code.with_suffix(".bin")
    argv = (*_tool(sdk, GENERATOR, python), "-c", str(code))
    argv += ("-b", str(weights)) if kind == ONNX or weights.is_file() else ()
    argv += ("-t", wanted, "-o", str(work / "libs"))
    steps.append(
        Step("build", argv, (code, weights) if weights.is_file() or kind == ONNX else (code,), library)
    )
    if soc is None:
        return Made(library, False, tuple(steps))
    configs = htp_configs(sdk, soc, model.stem, work / "htp")
    config = next(iter(configs))
    context = work / "context" / f"{model.stem}.bin"
    argv = (
        *_tool(sdk, COMPILER, python),
        "--model", str(library),
        "--backend", str(sdk.find_file("libQnnHtp.so", HOST_TARGET)),
        "--binary_file", model.stem,
        "--output_dir", str(context.parent),
        "--config_file", str(config),
    )  # fmt: skip
    steps.append(Step("compile", argv, (library, *configs), context))
    return Made(context, True, tuple(steps), configs)


def htp_configs(sdk: QnnSdk, soc: SocFacts, graph: str, folder: Path) -> dict[Path, Any]:
    """The backend-extension config for a chip: the file that the context-binary generator is given, and that
    which the first one names.

    Args:
        graph: the graph's name: that of its model file.

    Raises:
        ToolMissing: the SDK has no libQnnHtpNetRunExtensions.so for this machine.
        UsageError: the chip's numbers are not known.
    """
    if soc.soc_model is None or soc.dsp_arch is None:
        raise UsageError(
            "the chip's soc_model and dsp_arch are not known", hints=[soc.hint] if soc.hint else []
        )
    name = "libQnnHtpNetRunExtensions.so"
    vtcm = {"vtcm_mb": soc.vtcm_mb} if soc.vtcm_mb else {}
    inner: dict[str, Any] = {
        "graphs": [{"graph_names": [graph], "O": 3, "fp16_relaxed_precision": 1, **vtcm}],
        "devices": [
            {
                "soc_id": soc.soc_model,
                "dsp_arch": soc.dsp_arch,
                "cores": [{"core_id": 0, "perf_profile": "burst"}],
            }
        ],
    }
    outer = {
        "backend_extensions": {
            "shared_library_path": str(sdk.find_file(name, HOST_TARGET)),
            "config_file_path": str(folder / "htp.json"),
        }
    }
    return {folder / "config.json": outer, folder / "htp.json": inner}


def make(config: Config, sdk: QnnSdk, made: Made, work: Path) -> None:
    """Run the steps whose result is not there, or is of other inputs.

    Raises:
        ToolFailed: one failed, or ended with 0 and made nothing; names its first error.
    """
    for file, content in made.configs.items():
        if _read(file) != content:
            _write(file, content)
    done = _read(work / _DONE)
    environment = _environment(config, sdk, made)
    for step in made.steps:
        key = _key(sdk, step)
        if done.get(step.name + str(step.makes)) == key and step.makes.is_file():
            output.current().detail(f"{step.name}: {step.makes} is up to date")
            continue
        output.current().note(f"{step.name}: {_program(step)}")
        step.makes.parent.mkdir(parents=True, exist_ok=True)
        step.makes.unlink(missing_ok=True)
        lines: list[str] = []

        def take(line: str, lines: list[str] = lines) -> None:
            lines.append(line)
            output.current().detail(line)

        ended = process.stream(step.argv, take, cwd=work, env=environment)
        if ended.exit_code != 0 or not step.makes.is_file() or not step.makes.stat().st_size:
            how = f"exit code {ended.exit_code}" if ended.exit_code else f"no {step.makes.name} was made"
            raise ToolFailed(
                f"{_program(step)} failed ({how})",
                evidence=_first_error(lines) + "\n" + process.show(step.argv),
                hints=["-v shows all that it prints", "devkit qnn sdk check"],
            )
        done[step.name + str(step.makes)] = key
        _write(work / _DONE, done)


def _program(step: Step) -> str:
    return Path(next(word for word in step.argv if Path(word).name.startswith("qnn-"))).name


def _tool(sdk: QnnSdk, name: str, python: str) -> tuple[str, ...]:
    """A tool's command: those that are Python run with the interpreter of the converters' environment."""
    path = sdk.find_file(name, HOST_TARGET)
    with path.open("rb") as stream:
        first = stream.readline(200)
    return (python, str(path)) if first.startswith(b"#!") and b"python" in first else (str(path),)


def _environment(config: Config, sdk: QnnSdk, made: Made) -> dict[str, str]:
    environment = tool_environment(sdk)
    if any(PHONE_TARGET in step.argv for step in made.steps):
        from devkit.ndk import ndk_for

        # The generator calls ndk-build, which lies at the NDK's root.
        ndk = ndk_for(config)
        path = environment.get("PATH", os.environ.get("PATH", ""))
        environment |= {"ANDROID_NDK_ROOT": str(ndk.path), "PATH": f"{ndk.path}{os.pathsep}{path}"}
    return {**environment, "LC_ALL": "C.UTF-8"}


def _key(sdk: QnnSdk, step: Step) -> str:
    """Changes with what a step is called with and with the content of what it reads."""
    with HashCache() as hashes:
        files = [f"{file.name} {hashes.sha256(file)}" for file in step.reads if file.is_file()]
    return hashlib.sha256("\n".join([sdk.version, *step.argv, *files]).encode()).hexdigest()


def _first_error(lines: list[str]) -> str:
    at = next((i for i, line in enumerate(lines) if "error" in line.lower()), None)
    return "\n".join(lines[max(0, at - 1) : at + 5] if at is not None else lines[-10:])


def _read(file: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _write(file: Path, value: object) -> None:
    try:
        paths.write_atomically(file, json.dumps(value, indent=1) + "\n")
    except OSError as error:
        raise FileError(f"{file} cannot be written", evidence=error.strerror) from None
