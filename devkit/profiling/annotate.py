"""Source lines of one function with what they cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit import output
from devkit.errors import UsageError
from devkit.profiling.tree import Merged, functions_of

_AROUND = 3
_MOST_GUESSES = 15


@dataclass
class LineCost:
    """Of one line: weight of samples in it, and of those in it or in what it calls."""

    own: int = 0
    total: int = 0


@dataclass(frozen=True)
class Annotated:
    """A function's lines.

    Attributes:
        functions: the names that fit, each with its weights in `files`.
        files: the source file as the debug information has it → line → cost. Line 0: no line is known.
        total: of the whole event.
    """

    functions: tuple[str, ...]
    files: dict[str, dict[int, LineCost]] = field(default_factory=dict)
    total: int = 0

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "functions": list(self.functions),
            "total": self.total,
            "files": {
                file: [
                    {"line": line or None, "self": cost.own, "total": cost.total}
                    for line, cost in sorted(lines.items())
                ]
                for file, lines in self.files.items()
            },
        }


def annotate(merged: Merged, wanted: str, event: int = 0) -> Annotated:
    """What the lines of a function cost.

    Args:
        wanted: a function's whole name, its name without parameters, or a part of it that fits one only.

    Raises:
        UsageError: no function fits, or several differ in more than their parameters.
    """
    profile = merged.profile
    functions, function_of = functions_of(profile)
    # Those without a symbol are called by their library, which is no function.
    known = {functions[function].name for function, frame in zip(function_of, profile.frames, strict=True)
             if frame.function}  # fmt: skip
    names = _matching([function.name for function in functions if function.name in known], wanted)
    chosen = [functions[function].name in names for function in function_of]
    own = _stack_weights(merged, event)
    found = Annotated(tuple(names), {}, merged.totals[event])
    # A line that is several times in one stack counts once: the outermost one.
    above: list[frozenset[tuple[str, int]]] = []
    sums = list(own)
    for stack in range(len(sums) - 1, -1, -1):
        if profile.stack_parent[stack] >= 0:
            sums[profile.stack_parent[stack]] += sums[stack]
    nothing: frozenset[tuple[str, int]] = frozenset()
    for stack, (parent, index) in enumerate(zip(profile.stack_parent, profile.stack_frame, strict=True)):
        seen = above[parent] if parent >= 0 else nothing
        if chosen[index]:
            frame = profile.frames[index]
            place = frame.file, frame.line
            cost = found.files.setdefault(frame.file, {}).setdefault(frame.line, LineCost())
            cost.own += own[stack]
            if place not in seen:
                cost.total += sums[stack]
                seen |= {place}
        above.append(seen)
    return found


def annotated_text(found: Annotated, sources: Sequence[Path], recorded_at: float) -> tuple[str, list[str]]:
    """(the lines for people, what they have to be warned of).

    Args:
        sources: folders in which a file may be that is not where the debug information says.
        recorded_at: seconds since 1970; files changed after it are suspect. 0: unknown.
    """
    parts: list[str] = []
    warnings: list[str] = []
    for file, costs in sorted(found.files.items(), key=lambda item: -sum(c.own for c in item[1].values())):
        if not any(cost.total for cost in costs.values()):
            continue
        if not file:
            whole = sum(cost.own for cost in costs.values())
            parts.append(f"{_percent(whole, found.total)} without a source line: built without -g?\n")
            continue
        path = find_source(file, sources)
        text = _lines(path) if path else []
        if path is None:
            warnings.append(f"{file} is not on this machine: lines without their text")
        elif recorded_at and path.stat().st_mtime > recorded_at:
            warnings.append(f"{path} was changed after the recording: lines may be off")
        parts.append(f"{path or file}\n{_table(costs, text, found.total)}")
    return "\n".join(parts), warnings


def find_source(file: str, sources: Sequence[Path]) -> Path | None:
    """A source file by the path in the debug information, else by as much of its end as there is."""
    if os.path.isfile(file):
        return Path(file)
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for start in range(len(parts)):
        for folder in sources:
            candidate = folder.joinpath(*parts[start:])
            if candidate.is_file():
                return candidate
    return None


def _matching(names: Sequence[str], wanted: str) -> list[str]:
    unique = dict.fromkeys(names)
    for fits in (
        lambda name: name == wanted,
        lambda name: without_parameters(name) == wanted,
        lambda name: bare_name(name) == wanted,
        lambda name: wanted in name,
        lambda name: wanted.lower() in name.lower(),
    ):
        found = [name for name in unique if fits(name)]
        if len({without_parameters(name) for name in found}) == 1:
            return found
        if found:
            raise UsageError(
                f"several functions are called {wanted}",
                evidence="\n".join(found[:_MOST_GUESSES]),
                hints=["--annotate takes a whole name, too"],
            )
    from devkit.config import nearest

    guess = nearest(wanted, [without_parameters(name) for name in unique])
    raise UsageError(
        f"no function of this profile is called {wanted}",
        hints=[*([f"--annotate '{guess}'"] if guess else []), "the top functions are in the report"],
    )


def without_parameters(name: str) -> str:
    """`f<int>(float*) const` → `f<int>`: up to the bracket of the parameters."""
    depth = 0
    for at, letter in enumerate(name):
        if letter == "<":
            depth += 1
        elif letter == ">" and name[at - 1 : at] != "-":
            depth -= 1
        elif letter == "(" and depth <= 0 and at and not name.startswith("(anonymous", at):
            if name[:at].endswith("operator") and name.startswith("()", at):
                continue
            return name[:at]
    return name


def bare_name(name: str) -> str:
    """`void ns::f<int>(float*)` → `f`: without return type, namespaces, template arguments and parameters."""
    plain, depth = [], 0
    for letter in without_parameters(name):
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter != ">":
            plain.append(letter)
    return "".join(plain).rpartition("::")[2].rpartition(" ")[2]


def _stack_weights(merged: Merged, event: int) -> list[int]:
    own = [0] * len(merged.profile.stack_parent)
    for stack, _, kind, weight in merged.weights.rows():
        if kind == event and stack >= 0:
            own[stack] += weight
    return own


def _table(costs: dict[int, LineCost], text: Sequence[str], total: int) -> str:
    hot = sorted(line for line, cost in costs.items() if line and cost.total)
    shown = sorted({n for line in hot for n in range(line - _AROUND, line + _AROUND + 1) if n >= 1})
    rows: list[tuple[str, ...]] = []
    last = 0
    for number in shown:
        if number not in costs and number > len(text):
            continue
        if last and number > last + 1:
            rows.append(("", "", "…", ""))
        last = number
        cost = costs.get(number, LineCost())
        rows.append(
            (
                _percent(cost.own, total) if cost.own else "",
                _percent(cost.total, total) if cost.total else "",
                str(number),
                text[number - 1].rstrip().expandtabs(4) if number <= len(text) else "",
            )
        )
    return output.table(rows, ("SELF", "TOTAL", "LINE", "SOURCE"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _percent(weight: int, total: int) -> str:
    return f"{100 * weight / total:.2f} %" if total else "-"
