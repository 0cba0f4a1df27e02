"""`devkit model check`: one folder, all its configs, everything that would go wrong on the phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.models.cores import check_threads
from devkit.models.files_check import check_files
from devkit.models.findings import ERROR, WARNING, Finding, by_severity
from devkit.models.folder import find_configs, read_config
from devkit.models.keys_check import check_keys
from devkit.models.libraries import Libraries, check_backend
from devkit.models.npu_check import check_npu
from devkit.models.sizes_check import check_sizes

if TYPE_CHECKING:
    from devkit.device.cores import Cores
    from devkit.models.folder import ModelConfig


@dataclass(frozen=True)
class ModelReport:
    """What a check of a model folder found.

    Attributes:
        configs: the config files that were looked at.
        libraries: where backends were looked for; None: nowhere.
        phone: which phone's cores counted; None: none.
    """

    folder: Path
    configs: tuple[str, ...]
    findings: tuple[Finding, ...]
    libraries: str | None = None
    phone: str | None = None

    @property
    def broken(self) -> bool:
        """Whether anything is an error."""
        return any(finding.severity == ERROR for finding in self.findings)

    def count(self, severity: str) -> int:
        """How many findings of a severity there are."""
        return sum(finding.severity == severity for finding in self.findings)

    def as_dict(self) -> dict[str, object]:
        """The report as `--json` prints it."""
        return {
            "folder": str(self.folder),
            "status": "broken" if self.broken else "ok",
            "configs": list(self.configs),
            "errors": self.count(ERROR),
            "warnings": self.count(WARNING),
            "findings": [finding.as_dict() for finding in self.findings],
            "libraries": self.libraries,
            "phone": self.phone,
        }


def check_model(
    place: Path,
    *,
    cores: Cores | None = None,
    phone: str | None = None,
    libraries: Libraries | None = None,
) -> ModelReport:
    """Check a model folder, or one config.json of it, against what the engine reads.

    Args:
        cores: those of the phone it is meant for; None leaves thread_num unchecked.
        phone: its name, for messages.
        libraries: what was built or deployed; None leaves backend_type unchecked.

    Raises:
        UsageError: there is no such folder or file.
        FileError: a library cannot be read.
    """
    configs = find_configs(place)
    folder = place.parent if place.is_file() else place
    if not configs:
        return ModelReport(folder, (), (_no_config(folder),))
    findings: list[Finding] = []
    for path in configs:
        findings += _check_config(read_config(path), cores, phone or "the phone", libraries)
    looked = libraries.place if libraries is not None and libraries.names else None
    names = tuple(path.name for path in configs)
    return ModelReport(folder, names, by_severity(findings), looked, phone if cores and cores.all else None)


def _check_config(
    config: ModelConfig, cores: Cores | None, phone: str, libraries: Libraries | None
) -> list[Finding]:
    keys = check_keys(config)
    if any(finding.key is None and finding.severity == ERROR for finding in (*config.findings, *keys)):
        # Not a config of MNN, or none that can be read: what it leads to would be guesses.
        return [*config.findings, *keys]
    files, models = check_files(config)
    found: list[Finding] = [*config.findings, *keys, *files]
    found += check_sizes(config, models)
    found += check_npu(config, models)
    if cores is not None:
        found += check_threads(config, cores, phone)
    found += check_backend(config, models, libraries)
    return found


def _no_config(folder: Path) -> Finding:
    names: Sequence[str] = sorted(path.name for path in folder.iterdir())
    likely = next((name for name in names if name.lower() == "config.json"), None)
    inside = [
        path.parent.name
        for path in sorted(folder.glob("*/config.json"))
        if (path.parent / "llm_config.json").is_file()
    ]
    if likely:
        hint = f"{likely} is there: names are case-sensitive on the phone"
    elif inside:
        hint = f"it is one folder further down: devkit model check '{folder / inside[0]}'"
    elif "llm_config.json" in names or any(name.endswith(".mnn") for name in names):
        hint = 'export again, or write one: {"llm_model": "llm.mnn", "llm_weight": "llm.mnn.weight"}'
    elif any(name.endswith((".safetensors", ".gguf")) for name in names):
        hint = "this is a model that has to be exported first: transformers/llm/export/llmexport.py"
    else:
        hint = "is this the model folder?"
    return Finding(ERROR, "config.json", None, "there is no config.json", hint)
