"""What `--fix` does: the repairs that links bring along, one after the other, each one said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from devkit.doctor.report import Report
from devkit.errors import DevkitError

DONE, FAILED, TO_DO = "done", "failed", "to do"
# A mended link may show others that are broken behind it: a server, its phone, what lies on that.
_ROUNDS = 3


@dataclass(frozen=True)
class Fix:
    """One repair: the link it is for, "done", "failed" or "to do", and what happened."""

    link: str
    state: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def plan_fixes(report: Report) -> tuple[Fix, ...]:
    """What `apply_fixes` would begin with."""
    return tuple(Fix(link.id, TO_DO, link.repair.what) for link in report.links if link.repair)


def apply_fixes(look: Callable[[], Report]) -> tuple[Report, tuple[Fix, ...]]:
    """Mend what can be mended, and look again until there is nothing new to mend.

    A repair that fails is told and does not keep the others from being tried.

    Args:
        look: examines the whole chain.

    Returns:
        how it is now, and what was done.
    """
    fixes: list[Fix] = []
    tried: set[tuple[str, str]] = set()
    report = look()
    for _ in range(_ROUNDS):
        repairs = [(link.id, link.repair) for link in report.links if link.repair]
        new = [(id_, repair) for id_, repair in repairs if (id_, repair.what) not in tried]
        if not new:
            break
        for id_, repair in new:
            tried.add((id_, repair.what))
            try:
                fixes.append(Fix(id_, DONE, repair.apply()))
            except DevkitError as error:
                evidence = f" ({error.evidence.splitlines()[0]})" if error.evidence else ""
                fixes.append(Fix(id_, FAILED, f"{repair.what}: {error.what}{evidence}"))
            except OSError as error:
                fixes.append(Fix(id_, FAILED, f"{repair.what}: {error}"))
        report = look()
    return report, tuple(fixes)
