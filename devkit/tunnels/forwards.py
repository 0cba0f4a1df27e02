"""Ports that lead through an SSH connection: `ssh -R` and `ssh -L`, several on one connection."""

from __future__ import annotations

from devkit.tunnels.model import ForwardStatus


class Forward:
    """A listening port whose connections travel through a link; made by `Link.*_forward`.

    When the link breaks or is closed its listener is closed, too, so that clients fail at once.
    """

    kind: str
    bind: str
    port: int

    def status(self) -> ForwardStatus:
        """What went through it so far."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening and end its connections. Does nothing the second time."""
        raise NotImplementedError

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
