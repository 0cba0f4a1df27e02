"""A checkout's generate_llm_qnn.py: which programs it runs, which arguments its revision takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import output, process
from devkit.errors import ToolFailed, ToolMissing, UsageError

SCRIPT = "transformers/llm/export/npu/generate_llm_qnn.py"
CONVERT = "source/backend/qnn/npu_convert.py"
TIMEOUT_S = 30.0
_TOOLS = ("generateIO", "generateLlmIO", "compilefornpu", "MNN2QNNModel")
_OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)")
_REQUIRED = ("model", "soc_id", "dsp_arch")
# What devkit itself has to say, and what it may leave out where a revision does not know it.
_OWN = ("mnn_path", "cache_path")


@dataclass(frozen=True)
class ExportScript:
    """The export script of a checkout.

    Attributes:
        tools: the host programs that it names.
        options: the arguments that this revision knows, without dashes.
    """

    path: Path
    convert: Path
    tools: tuple[str, ...]
    options: frozenset[str]


def find_script(source: Path, python: str) -> ExportScript:
    """Read a checkout's script and ask it for its arguments.

    Raises:
        ToolMissing: the checkout has no such script, or no npu_convert.py.
        ToolFailed: it does not answer to --help, or lacks an argument that nothing can be done without.
    """
    path, convert = source / SCRIPT, source / CONVERT
    for file in (path, convert):
        if not file.is_file():
            raise ToolMissing(
                f"this checkout has no {file.name}",
                evidence=f"{file} does not exist",
                hints=["source: in devkit.yaml names the engine", "a newer MNN has it: git pull"],
            )
    text = path.read_text("utf-8", "replace")
    tools = tuple(tool for tool in _TOOLS if re.search(rf"[\"'/]{tool}[\"']", text))
    # Only a vision model needs it.
    tools = tuple(tool for tool in tools if tool != "MNN2QNNModel" or "compilefornpu" not in tools)
    done = process.run([python, path, "--help"], check=False, timeout_s=TIMEOUT_S)
    options = frozenset(name.replace("-", "_") for name in _OPTION.findall(done.text)) - {"help"}
    missing = [name for name in _REQUIRED if name not in options]
    if done.exit_code != 0 or missing:
        lacks = "--" + ", --".join(missing)
        what = "does not answer to --help" if done.exit_code else f"has no {lacks}"
        raise ToolFailed(
            f"{path.name} {what}",
            evidence=process.tail(done.stderr.strip() or done.stdout) or str(path),
            hints=[f"{python} {path} --help"],
        )
    return ExportScript(path, convert, tools, options)


def arguments(
    script: ExportScript,
    own: Mapping[str, str],
    wanted: Mapping[str, str],
    more: Sequence[str] = (),
) -> tuple[str, ...]:
    """The script's argument list.

    Args:
        own: what devkit decides: model, soc_id, dsp_arch, mnn_path, cache_path, vtcm_mb.
        wanted: what the user asks for by name.
        more: words that are handed on as they are: "--image_sizes=224x224".

    Raises:
        UsageError: this revision does not know what the user asks for.
    """
    names = [word.partition("=")[0].removeprefix("--") for word in more]
    for name in (*wanted, *names):
        if name.replace("-", "_") not in script.options:
            raise UsageError(
                f"generate_llm_qnn.py of this checkout has no --{name}",
                evidence="it takes: " + ", ".join(f"--{option}" for option in sorted(script.options)),
                hints=["leave it out, or take a newer MNN"],
            )
    words: list[str] = []
    for name, value in {**own, **wanted}.items():
        if name in script.options and name not in names:
            words += [f"--{name}", value]
        elif name in _OWN:
            output.current().detail(f"this revision of the script has no --{name}")
    return (*words, *more)
