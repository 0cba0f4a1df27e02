"""Which backends the engine's libraries were built with: read in the files here, or asked on the phone."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import FileError
from devkit.models.findings import ERROR, WARNING, Finding
from devkit.models.folder import ModelConfig
from devkit.models.keys import load_table
from devkit.models.mnn_file import MnnFile

if TYPE_CHECKING:
    from devkit.device import Device


@dataclass(frozen=True)
class Libraries:
    """An engine's libraries and the backends found in them.

    Attributes:
        place: where they are, for messages.
        backends: names of keys.yaml's backends that were found.
        names: the libraries' file names; none when there were no libraries to look into.
    """

    place: str
    backends: frozenset[str]
    names: tuple[str, ...]


def libraries_here(files: Sequence[Path], place: str) -> Libraries:
    """Look for backends in libraries of this machine; others than libMNN*.so are passed over.

    Raises:
        FileError: one cannot be read.
    """
    mine = [file for file in files if file.name.startswith("libMNN") and ".so" in file.name]
    found = {name for file in mine for name in _backends_in(file)}
    return Libraries(place, frozenset(found), tuple(file.name for file in mine))


def libraries_on_phone(device: Device, folder: str) -> Libraries:
    """Look for backends in what was deployed below `folder` on the phone. One round trip."""
    from devkit.device import quote_word

    texts = {text: fact.name for fact in load_table().backends.values() for text in fact.texts}
    tests = "\n".join(
        f'  grep -qF -e {quote_word(text)} "$f" 2>/dev/null && echo "backend {name}"'
        for text, name in texts.items()
    )
    script = f"""\
for f in {quote_word(folder)}/*/libMNN*.so; do
  [ -f "$f" ] || continue
  echo "library ${{f##*/}}"
{tests}
done; :"""
    names, backends = [], set()
    for line in device.shell(script).text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "library":
            names.append(rest)
        elif kind == "backend":
            backends.add(rest)
    return Libraries(
        f"{folder} on {device.serial}", frozenset(backends | _by_name(names)), tuple(dict.fromkeys(names))
    )


def check_backend(
    config: ModelConfig, models: Mapping[str, MnnFile], libraries: Libraries | None
) -> list[Finding]:
    """backend_type against what was built: without it MNN says one line and runs on the CPU."""
    table = load_table()
    found: list[Finding] = []
    mllm = config.merged.get("mllm")
    wanted = [("backend_type", config.value("backend_type"))]
    if isinstance(mllm, dict):
        wanted.append(("mllm.backend_type", mllm.get("backend_type", "cpu")))
    for key, name in wanted:
        if name in table.elsewhere:
            use = table.elsewhere[name]
            what = f"{name} is for {use}: no Android phone has one, and MNN goes on on the CPU"
            found.append(
                Finding(
                    WARNING,
                    config.place("backend_type"),
                    key,
                    what,
                    '"backend_type": "cpu", "opencl" or "vulkan"',
                )
            )
        elif name in table.backends and libraries is not None and libraries.names:
            found += _not_built(
                config.place("backend_type"),
                key,
                name,
                libraries,
                "MNN says so in one line and runs on the CPU",
            )
    if any(model.npu for model in models.values()) and libraries is not None and libraries.names:
        found += _not_built(config.name, "llm_model", "qnn-plugin", libraries, "the model does not load")
    return found


def _not_built(place: str, key: str, name: str, libraries: Libraries, then: str) -> list[Finding]:
    if name in libraries.backends:
        return []
    fact = load_table().backends[name]
    looked = ", ".join(libraries.names)
    what = f"{name} is not built into {looked} ({libraries.place}): {then}"
    return [Finding(ERROR, place, key, what, f"devkit build {fact.profile}, a profile with {fact.option}")]


def _backends_in(file: Path) -> set[str]:
    try:
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = {
                fact.name
                for fact in load_table().backends.values()
                if any(data.find(text.encode()) >= 0 for text in fact.texts)
            }
    except (OSError, ValueError) as error:
        raise FileError(f"{file} cannot be read", evidence=str(error)) from None
    return found | _by_name([file.name])


def _by_name(names: Sequence[str]) -> set[str]:
    return {fact.name for fact in load_table().backends.values() if fact.library in names}
