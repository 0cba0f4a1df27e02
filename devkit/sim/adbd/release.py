"""What distinguishes the adbd of one Android release from another's, as far as a peer can see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WireRelease:
    """An adbd's side of the protocol.

    Args:
        protocol_version: what CNXN says; 0x01000000 wants checksums in all packets.
        max_payload_bytes: the most one packet may carry towards the phone.
        features: what the banner offers, as far as the phone can do it.
        old_shell: before Android 7 `shell:` is always a cooked terminal and `exec:` a socket.
    """

    protocol_version: int
    max_payload_bytes: int
    features: tuple[str, ...]
    old_shell: bool
