"""What `start_phone` hands to the supervisor, as JSON on its command line."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

# What keeps a phone apart from this machine: namespaces that need no root, those that root can make, or
# little (a plain folder).
AUTO, NAMESPACES, ROOT_NAMESPACES, REDUCED = "auto", "namespaces", "root-namespaces", "reduced"


@dataclass(frozen=True)
class PhoneRequest:
    """A phone that is to be started.

    Args:
        android: the release to imitate, None for the model's own.
        abi: the one programs are built for, None for this machine's.
        auth: adb hosts have to be allowed on the phone.
        su: there is a `su` on it.
        memory_limit_bytes: what its programs may use together, None without a limit.
        link: its LinkSettings as a dictionary, None for the fastest.
        confinement: AUTO; NAMESPACES for either kind; ROOT_NAMESPACES or REDUCED and nothing else.
        lock_fd: the phone's lock, taken by whoever starts it.
        ready_fd: where the outcome is written as one JSON document.
        lifeline_fd: end of file on it ends the phone.
    """

    name: str
    model: str
    port: int
    adb: str | None
    connect_to: tuple[str, int] | None
    data_limit_bytes: int | None
    lock_fd: int
    ready_fd: int
    lifeline_fd: int | None
    android: str | None = None
    abi: str | None = None
    auth: bool = False
    link: dict[str, Any] | None = None
    confinement: str = AUTO
    su: bool = False
    memory_limit_bytes: int | None = None

    @staticmethod
    def from_json(text: str) -> PhoneRequest:
        """The request that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        if values["connect_to"] is not None:
            values["connect_to"] = tuple(values["connect_to"])
        return PhoneRequest(**values)

    def to_json(self) -> str:
        """As JSON, for the command line."""
        return json.dumps(dataclasses.asdict(self))
