"""A reading as one HTML page that needs no network, now or in ten years: for colleagues and bug trackers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import __version__
from devkit.crashes.model import Reading
from devkit.crashes.report import as_dict
from devkit.crashes.summary import headline, summary
from devkit.results import Finding

if TYPE_CHECKING:
    from jinja2 import Template


def as_html(reading: Reading, findings: Sequence[Finding], roots: Sequence[Path]) -> str:
    """The whole page: everything that the text report has, and all threads."""
    crashes = reading.crashes
    return _template().render(
        title=headline(crashes[0]) if len(crashes) == 1 else f"{len(crashes)} crashes",
        data=as_dict(reading, findings, roots),
        summaries=[summary(crash, roots) for crash in crashes],
        left_out=reading.folded + reading.expired,
        version=__version__,
        made=time.strftime("%Y-%m-%d %H:%M"),
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("devkit.crashes"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.j2")
