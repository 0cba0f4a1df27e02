"""Ways through which bytes reach the phone or another machine."""

from devkit.tunnels.relay import Relay

__all__ = ["Relay"]
