"""What can be made to go wrong with a virtual phone, on demand."""

from devkit.sim.faults.catalog import FAULTS, Fault, Trouble, plan_trouble

__all__ = ["FAULTS", "Fault", "Trouble", "plan_trouble"]
