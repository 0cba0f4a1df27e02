"""The phones that devkit has connected to over a network, remembered for `devkit device connect`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.ndk.lock import changing


@dataclass(frozen=True)
class NetworkPhone:
    """A phone, and where it was reached last.

    Attributes:
        address: HOST:PORT.
        serial_number: the phone's own (ro.serialno), by which it is known again; "" when it tells none.
        model: for people.
        server: address of the adb server that was connected to it.
    """

    address: str
    serial_number: str = ""
    model: str = ""
    server: str = ""

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def title(self) -> str:
        """How messages call it."""
        return " ".join(filter(None, (self.model or "the phone", self.serial_number))).strip()


def remembered_phones() -> list[NetworkPhone]:
    """The remembered phones, the one of last time first. A file that is no valid one is as none."""
    try:
        entries = json.loads(_file().read_text(encoding="utf-8"))["phones"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    phones: list[NetworkPhone] = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and _is_address(entry.get("address")):
            texts = ("serial_number", "model", "server")
            phones.append(
                NetworkPhone(entry["address"], **{name: str(entry.get(name) or "") for name in texts})
            )
    return phones


def remember_phone(phone: NetworkPhone) -> None:
    """Put a phone first. What was known of the same phone, or of its address, is replaced."""
    with changing(_file()):
        others = [each for each in remembered_phones() if not _same(each, phone)]
        _write([phone, *others])


def forget_phone(which: str) -> list[NetworkPhone]:
    """Forget the phones with that address, host or serial number. Returns them."""
    with changing(_file()):
        phones = remembered_phones()
        gone = [phone for phone in phones if is_called(phone, which)]
        if gone:
            _write([phone for phone in phones if phone not in gone])
    return gone


def is_called(phone: NetworkPhone, which: str) -> bool:
    """Whether a phone is meant by an address, a host or a serial number."""
    return which in (phone.address, phone.address.rpartition(":")[0], phone.serial_number)


def _same(one: NetworkPhone, other: NetworkPhone) -> bool:
    if one.address == other.address:
        return True
    return bool(one.serial_number) and one.serial_number == other.serial_number


def _write(phones: Sequence[NetworkPhone]) -> None:
    text = json.dumps({"phones": [asdict(phone) for phone in phones]}, indent=2, ensure_ascii=False)
    paths.write_atomically(_file(), text + "\n")


def _file() -> Path:
    return paths.state_dir() / "network-phones.json"


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    host, _, port = value.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536
