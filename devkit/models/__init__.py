"""Models of the engine as folders: checked before they travel, and fetched from a hub."""

from devkit.models.check import ModelReport, check_model
from devkit.models.findings import ERROR, NOTE, WARNING, Finding
from devkit.models.libraries import Libraries, libraries_here, libraries_on_phone

__all__ = [
    "ERROR",
    "NOTE",
    "WARNING",
    "Finding",
    "Libraries",
    "ModelReport",
    "check_model",
    "libraries_here",
    "libraries_on_phone",
]
