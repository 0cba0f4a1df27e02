"""What a build cost: the slowest steps as ninja wrote them down, and what ccache saved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SLOWEST = 5
STATS_LOG = ".devkit-ccache.log"
# ccache's own words; see "Statistics" in ccache(1).
_HITS = ("direct_cache_hit", "preprocessed_cache_hit")
_MISSES = ("cache_miss",)


@dataclass(frozen=True)
class CcacheStats:
    """Compilations of one build that ccache answered, and those that it had to run."""

    hits: int
    misses: int

    @property
    def text(self) -> str:
        """'34 of 40 compilations from the cache (85 %)'."""
        total = self.hits + self.misses
        return f"{self.hits} of {total} compilations from the cache ({100 * self.hits // total} %)"


@dataclass(frozen=True)
class Step:
    """One step of a build: what it made, and how many seconds it took."""

    output: str
    seconds: float


def ccache_environment(build_dir: Path) -> dict[str, str]:
    """Variables that make ccache write down what it did for this build, and only for it (4.4 and later)."""
    return {"CCACHE_STATSLOG": str(build_dir / STATS_LOG)}


def read_ccache(build_dir: Path) -> CcacheStats | None:
    """What ccache did since the log was removed; None when it did nothing, or is not used."""
    try:
        lines = (build_dir / STATS_LOG).read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    counted = Counter(line.strip() for line in lines)
    hits, misses = (sum(counted[word] for word in words) for words in (_HITS, _MISSES))
    return CcacheStats(hits, misses) if hits + misses else None


class NinjaTimes:
    """Reads the steps that ninja added to its log since this was made (v5 and later: milliseconds)."""

    def __init__(self, build_dir: Path) -> None:
        self._file = build_dir / ".ninja_log"
        self._before = self._lines()

    def slowest(self, count: int = SLOWEST) -> tuple[Step, ...]:
        """The slowest steps, the slowest first. Empty with another build program than ninja."""
        before = Counter(self._before)
        found: dict[tuple[str, str, str], Step] = {}
        for line in self._lines():
            if before[line]:
                before[line] -= 1
                continue
            parts = line.split("\t")
            if len(parts) != 5 or not (parts[0].isdigit() and parts[1].isdigit()):
                continue
            start, end, _, output, digest = parts
            # One step with several outputs has a line for each.
            found.setdefault((start, end, digest), Step(output, (int(end) - int(start)) / 1000))
        return tuple(sorted(found.values(), key=lambda step: -step.seconds)[:count])

    def _lines(self) -> list[str]:
        try:
            return self._file.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
