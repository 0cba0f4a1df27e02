"""What the commands of `devkit sim` share: options and the completion of names."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_NAME = "phone"


def complete_names(incomplete: str) -> list[str]:
    """The running phones whose names begin so."""
    from devkit.sim import list_phones

    return [record.name for record in list_phones() if record.name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """The models whose names begin so."""
    from devkit.sim.models import model_names

    return [name for name in model_names() if name.startswith(incomplete)]


def complete_faults(incomplete: str) -> list[str]:
    """The faults whose names begin so."""
    from devkit.sim.faults import FAULTS

    return [name for name in FAULTS if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="The phone's name.", autocompletion=complete_names)]
Phone = Annotated[
    str, typer.Option("--name", metavar="PHONE", help="Which phone.", autocompletion=complete_names)
]
Rate = Annotated[str | None, typer.Option(metavar="RATE", help="Link speed each way, as 20mbit.")]
RateUp = Annotated[str | None, typer.Option(metavar="RATE", help="Only towards the phone.")]
RateDown = Annotated[str | None, typer.Option(metavar="RATE", help="Only from the phone.")]
Delay = Annotated[str | None, typer.Option(metavar="TIME", help="Delay one way, each way, as 10ms.")]
DelayUp = Annotated[str | None, typer.Option(metavar="TIME", help="Only towards the phone.")]
DelayDown = Annotated[str | None, typer.Option(metavar="TIME", help="Only from the phone.")]
