"""`devkit build --explain PROFILE`: the exact cmake command, and why each option is there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from devkit import process
from devkit.engine.plan import BuildPlan
from devkit.errors import DevkitError

_VARIABLES = ("$ANDROID_NDK", "$QNN_SDK_ROOT", "$CC", "$CXX")


@dataclass(frozen=True)
class Argument:
    """A word or two of cmake's command line, and why they are there."""

    name: str
    words: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Explanation:
    """A plan, word by word; `missing` are the SDKs and tools that are not on this machine."""

    plan: BuildPlan
    arguments: tuple[Argument, ...]
    missing: tuple[DevkitError, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The explanation as `--explain --json` prints it."""
        profile = self.plan.profile
        return {
            **self.plan.as_dict(),
            "about": profile.about,
            "origin": profile.origin,
            "needs": list(profile.needs),
            "products": dict(profile.products),
            "arguments": [{"name": a.name, "words": list(a.words), "why": a.why} for a in self.arguments],
            "missing": [error.as_dict() for error in self.missing],
        }

    def lines(self) -> list[str]:
        """The explanation for people: a command to copy, the reasons, what it needs and makes."""
        plan, profile = self.plan, self.plan.profile
        found = [f"{profile.name}: {profile.about or 'no description'} ({profile.origin})"]
        found += [f"  type:   {plan.build_type.name}: {plan.build_type.about}"]
        found += [
            f"  needs:  {', '.join(profile.needs) or 'a C++ compiler'}; here: {plan.toolchain.description}"
        ]
        for error in self.missing:
            found += [f"  missing: {error.what}", *(f"    try: {hint}" for hint in error.hints)]
        found += ["", *self._command(), "", process.show(plan.build_argv()), ""]
        found += ["why:"]
        for argument in self.arguments:
            found += [f"  {_shown(argument.words)}", f"      {argument.why}"]
        if profile.products:
            found += ["", "makes:"]
            width = max(map(len, profile.products))
            found += [f"  {name:<{width}}  {what}".rstrip() for name, what in profile.products.items()]
        return found

    def _command(self) -> list[str]:
        """The configure line, one argument a line, as a POSIX shell takes it."""
        words = [f"{name}={_quoted(value)}" for name, value in self.plan.toolchain.env.items()]
        rows = [" ".join([*words, _quoted(str(self.plan.tools.cmake))])]
        rows += ["    " + _shown(argument.words) for argument in self.arguments]
        return [row + " \\" for row in rows[:-1]] + rows[-1:]


def explain(plan: BuildPlan, missing: Sequence[DevkitError] = ()) -> Explanation:
    """Say why each word of a plan's configure line is there."""
    reasons = _reasons()
    arguments = [
        Argument("-S", ("-S", str(plan.source)), reasons["-S"]),
        Argument("-B", ("-B", str(plan.build_dir)), reasons["-B"]),
        Argument("-G", ("-G", plan.tools.generator), reasons["-G"]),
    ]
    for name, value in plan.entries.items():
        why = plan.why.get(name) or reasons.get(name) or f"the toolchain's: {plan.toolchain.description}"
        arguments.append(Argument(name, (f"-D{name}={value}",), why))
    return Explanation(plan, tuple(arguments), tuple(missing))


def _reasons() -> Mapping[str, str]:
    import yaml

    text = resources.files("devkit.engine").joinpath("plan_reasons.yaml").read_text("utf-8")
    loaded: Mapping[str, str] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


def _shown(words: Sequence[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Quoted for a shell, in which the variables that stand for missing SDKs still work."""
    if any(variable in word for variable in _VARIABLES):
        return '"' + word.replace('"', '\\"') + '"'
    return shlex.quote(word)
