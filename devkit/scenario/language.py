"""The language of scenarios: a YAML file becomes checked steps; every complaint names file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from devkit.config import nearest
from devkit.errors import UsageError
from devkit.sim.faults import FAULTS, plan_trouble
from devkit.sim.links import link_from, parse_bytes
from devkit.virtual_device import OPTIONS

DEFAULT_PHONE = "phone"
STATES = ("device", "offline", "gone")
WITHIN_S = 30.0
_LINK_OPTIONS = ("rate", "rate_up", "rate_down", "delay", "delay_up", "delay_down")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min)")
_TIME_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


@dataclass(frozen=True)
class Expectation:
    """What a program must do. None: anything will do.

    Args:
        output: text that stdout or stderr holds, or /a regular expression/.
        not_output: the same, for what they must not hold.
        within_s: it has ended by then.
    """

    exit_code: int | None = 0
    output: str | None = None
    not_output: str | None = None
    within_s: float = WITHIN_S


@dataclass(frozen=True)
class Step:
    """One step.

    Args:
        kind: the key that names it: start, break, shell…
        value: what stands behind that key.
        phone: the phone it is about.
        name: a program that goes on in the background, for `join`.
        options: the other keys.
    """

    line: int
    kind: str
    value: Any
    phone: str = DEFAULT_PHONE
    name: str | None = None
    expect: Expectation = field(default_factory=Expectation)
    options: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        """The step as one line for people."""
        value = " ".join(map(str, self.value)) if isinstance(self.value, list) else self.value
        extra = "".join(f" {key}={each}" for key, each in self.options.items())
        return f"{self.kind} {'' if value is None else value}{extra}".strip()


@dataclass(frozen=True)
class Scenario:
    """A file's steps."""

    file: str
    steps: tuple[Step, ...]


def parse_scenario(text: str, file: str) -> Scenario:
    """Read a scenario.

    Raises:
        UsageError: it is not one; says file and line, and what may stand there.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{file}:{line}: not YAML: {getattr(error, 'problem', error)}") from None
    reader = _Reader(file)
    top = reader.mapping(root, "a scenario")
    reader.check_keys(top, ("steps",))
    if "steps" not in top:
        raise reader.error(root, "a scenario has `steps`")
    return Scenario(file, tuple(reader.step(node) for node in reader.sequence(top["steps"], "`steps`")))


def parse_time(text: str) -> float:
    """'2s' → 2 seconds.

    Raises:
        ValueError: it is no time.
    """
    match = _TIME.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time (500ms, 2s, 1min)")
    return float(match[1]) * _TIME_UNITS[match[2]]


class _Reader:
    """Turns YAML nodes into steps; knows the file's name for complaints."""

    def __init__(self, file: str) -> None:
        self._file = file

    def error(self, node: Any, what: str, *hints: str) -> UsageError:
        line = node.start_mark.line + 1 if node is not None else 1
        return UsageError(f"{self._file}:{line}: {what}", hints=hints)

    def mapping(self, node: Any, what: str) -> dict[str, Any]:
        """Key → node."""
        import yaml

        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} is a mapping (key: value)")
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.value in found:
                raise self.error(key, f"`{key.value}` stands here twice")
            found[key.value] = value
        return found

    def sequence(self, node: Any, what: str) -> list[Any]:
        import yaml

        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"{what} is a list (- item)")
        return list(node.value)

    def check_keys(self, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key, node in found.items():
            if key not in known:
                guess = nearest(key, list(known))
                hints = [f"did you mean {guess}?"] if guess else []
                raise self.error(node, f"unknown key `{key}`", *hints, f"known here: {', '.join(known)}")

    def plain(self, node: Any) -> Any:
        """The node's value as Python has it."""
        import yaml

        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise self.error(node, f"not YAML: {error}") from None
        finally:
            loader.dispose()

    def step(self, node: Any) -> Step:
        """A step: one key that names its kind, and that kind's others."""
        found = self.mapping(node, "a step")
        kinds = [key for key in found if key in _KINDS]
        # `after` is a step and an option of others: the first key says what a step is.
        clashing = [key for key in kinds[1:] if key not in _KINDS[kinds[0]][0]]
        if clashing:
            raise self.error(node, f"a step is one of {kinds[0]} and {clashing[0]}, not both")
        if not kinds or next(iter(found)) != kinds[0]:
            first = next(iter(found), "")
            guess = nearest(first, list(_KINDS))
            hints = [f"did you mean {guess}?"] if guess else []
            raise self.error(
                node, f"no such step: {first or '(empty)'}", *hints, f"steps: {', '.join(_KINDS)}"
            )
        kind = kinds[0]
        allowed, check = _KINDS[kind]
        self.check_keys(found, (kind, "phone", *allowed))
        value = self.plain(found[kind])
        options = {key: self.plain(each) for key, each in found.items() if key not in (kind, *_COMMON)}
        try:
            value = check(value, options)
        except UsageError as error:
            raise self.error(node, error.what, *error.hints) from None
        except (ValueError, TypeError, KeyError) as error:
            raise self.error(node, f"`{kind}`: {error}") from None
        phone = str(self.plain(found["phone"])) if "phone" in found else DEFAULT_PHONE
        if kind in ("start", "stop"):
            phone = value
        return Step(
            line=node.start_mark.line + 1,
            kind=kind,
            value=value,
            phone=phone,
            name=str(self.plain(found["as"])) if "as" in found else None,
            expect=self.expectation(found["expect"]) if "expect" in found else Expectation(),
            options=options,
        )

    def expectation(self, node: Any) -> Expectation:
        found = self.mapping(node, "`expect`")
        self.check_keys(found, ("exit_code", "output", "not_output", "within"))
        values: dict[str, Any] = {}
        for key, each in found.items():
            value = self.plain(each)
            try:
                if key == "exit_code":
                    values[key] = None if value == "any" else int(value)
                elif key == "within":
                    values["within_s"] = parse_time(value)
                else:
                    values[key] = str(value)
                    text_test(values[key])
            except (ValueError, TypeError, re.error) as error:
                raise self.error(each, f"`{key}`: {error}") from None
        return Expectation(**values)


def text_test(wanted: str) -> Callable[[str], bool]:
    """Whether a text holds `wanted`, or matches it when it is /a regular expression/.

    Raises:
        re.error: it is no regular expression.
    """
    if len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/"):
        pattern = re.compile(wanted[1:-1], re.MULTILINE)
        return lambda text: pattern.search(text) is not None
    return lambda text: wanted in text


# ---- the kinds of steps: keys beside the first, and a check that returns the value as the runner wants it

_COMMON = ("phone", "as", "expect")
_Check = Callable[[Any, dict[str, Any]], Any]


def _start(value: Any, options: dict[str, Any]) -> str:
    link_from(None, **{key: str(options[key]) for key in _LINK_OPTIONS if key in options})
    for key in ("storage", "memory"):
        if key in options:
            parse_bytes(str(options[key]))
    for key in ("android", *_LINK_OPTIONS):
        if key in options:
            options[key] = str(options[key])
    return DEFAULT_PHONE if value is None else _word(value, options)


def _stop(value: Any, options: dict[str, Any]) -> str:
    return DEFAULT_PHONE if value is None else _word(value, options)


def _break(value: Any, options: dict[str, Any]) -> str:
    plan_trouble(str(value), options)
    return str(value)


def _heal(value: Any, _: dict[str, Any]) -> str | None:
    if value is not None and value not in FAULTS:
        plan_trouble(str(value), {})
    return None if value is None else str(value)


def _slow(value: Any, _: dict[str, Any]) -> dict[str, str]:
    if not isinstance(value, dict) or not set(value) <= set(_LINK_OPTIONS):
        raise ValueError(f"it takes {{rate: 20mbit, delay: 10ms}}; known are {', '.join(_LINK_OPTIONS)}")
    link = {key: str(each) for key, each in value.items()}
    link_from(None, **link)
    return link


def _shell(value: Any, _: dict[str, Any]) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("it takes a command line for the phone's shell")
    return value


def _run(value: Any, _: dict[str, Any]) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError("it takes a list: [devkit, run, llm_demo]")
    return [str(word) for word in value]


def _word(value: Any, _: dict[str, Any]) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("it takes a name")
    return value


def _wait(value: Any, options: dict[str, Any]) -> Any:
    if value in STATES:
        options["within"] = parse_time(options.get("within", f"{WITHIN_S:g}s"))
        return value
    if "within" in options:
        raise ValueError(f"`within` goes with a state: {', '.join(STATES)}")
    return parse_time(value)


def _at(value: Any, _: dict[str, Any]) -> float:
    return parse_time(value)


def _after(value: Any, options: dict[str, Any]) -> int:
    options["within"] = parse_time(options.get("within", f"{WITHIN_S:g}s"))
    if options.setdefault("direction", "up") not in ("up", "down"):
        raise ValueError("`direction` is up or down")
    return parse_bytes(str(value))


_FAULT_OPTIONS = tuple(dict.fromkeys(option.name for fault in FAULTS.values() for option in fault.options))
_KINDS: dict[str, tuple[tuple[str, ...], _Check]] = {
    "start": (OPTIONS, _start),
    "stop": ((), _stop),
    "break": (_FAULT_OPTIONS, _break),
    "heal": ((), _heal),
    "slow": ((), _slow),
    "shell": (("as", "expect"), _shell),
    "run": (("as", "expect"), _run),
    "join": (("expect",), _word),
    "wait": (("within",), _wait),
    "at": ((), _at),
    "after": (("direction", "within"), _after),
}
