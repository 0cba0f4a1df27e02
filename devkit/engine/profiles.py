"""Build profiles: named sets of CMake options, as data, extended by the user's devkit.yaml."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

from devkit.config import BUILD_TYPES
from devkit.engine.requirements import parse_requirement
from devkit.errors import ConfigError, UsageError

TARGETS = ("device", "host")
ENGINES = ("mnn", "cmake")
Entries = Mapping[str, Mapping[str, Any]]
_KEYS = ("about", "extends", "options", "target", "type", "targets", "needs", "products", "opens")


@dataclass(frozen=True)
class Profile:
    """What to build, and how.

    Attributes:
        options: CMake cache entries, name → value.
        target: "device" (the phone) or "host" (this machine).
        type: build type, or None for the configured one.
        targets: CMake targets to build; none means all.
        needs: SDKs without which it cannot be built: ndk, ndk>=21, qnn>=2.38, asan.
        products: CMake targets that it makes, name → what it is.
        opens: CMake targets, or names of files, of libraries that its programs open at run time: no NEEDED
            names them, and they travel all the same.
        why: the reason of an option, for those that have one.
        origin: "built-in", "devkit.yaml" or both.
        user_options: names of options that the user's devkit.yaml set.
    """

    name: str
    about: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    target: str = "device"
    type: str | None = None
    targets: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    products: Mapping[str, str] = field(default_factory=dict)
    opens: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    origin: str = "built-in"
    user_options: frozenset[str] = frozenset()

    def as_dict(self) -> dict[str, object]:
        """The profile as `devkit build --list --json` prints it."""
        return {**asdict(self), "user_options": sorted(self.user_options)}


def load_profiles(engine: str, user: Entries | None = None) -> dict[str, Profile]:
    """The engine's built-in profiles with the user's on top.

    A user's profile named like a built-in one changes only what it says; a new name may start
    from another profile with `extends`. An option set to null is taken away.

    Raises:
        ConfigError: an unknown key, value or profile in `extends`, or profiles that extend each other.
    """
    layers: list[tuple[str, Entries]] = [("built-in", _built_in(engine))]
    if user:
        layers.append(("devkit.yaml", user))
    found: dict[str, Profile] = {}
    for origin, entries in layers:
        resolver = _Resolver(dict(found), entries, origin)
        for name in entries:
            found[name] = resolver.resolve(name)
    return found


def get_profile(profiles: Mapping[str, Profile], name: str) -> Profile:
    """The profile of that name.

    Raises:
        UsageError: there is none; names the nearest and all others.
    """
    if name in profiles:
        return profiles[name]
    raise UsageError(
        f"there is no build profile {name!r}",
        evidence="profiles: " + ", ".join(profiles),
        hints=[*_did_you_mean(name, list(profiles)), "devkit build --list shows what each is for"],
    )


class _Resolver:
    """Resolves one layer's entries, in any order, over the profiles of the layers below."""

    def __init__(self, below: Mapping[str, Profile], entries: Entries, origin: str) -> None:
        self._below = below
        self._entries = entries
        self._origin = origin
        self._done: dict[str, Profile] = {}
        self._open: list[str] = []

    def resolve(self, name: str) -> Profile:
        if name in self._done:
            return self._done[name]
        if name in self._open:
            circle = " → ".join([*self._open[self._open.index(name) :], name])
            raise ConfigError(f"profiles extend each other: {circle}")
        self._open.append(name)
        try:
            profile = self._merge(self._base(name), name)
        finally:
            self._open.pop()
        self._done[name] = profile
        return profile

    def _base(self, name: str) -> Profile:
        parent = self._entries[name].get("extends")
        if parent is None or parent == name:
            return self._below.get(name, Profile(name, origin=self._origin))
        if parent in self._entries:
            return self.resolve(parent)
        if parent in self._below:
            return self._below[parent]
        raise ConfigError(
            f"profiles.{name}.extends: there is no profile {parent!r}",
            hints=_did_you_mean(str(parent), [*self._below, *self._entries]),
        )

    def _merge(self, base: Profile, name: str) -> Profile:
        entry = self._entries[name]
        for key in entry:
            if key not in _KEYS:
                raise ConfigError(f"profiles.{name}: unknown key {key!r}", hints=_did_you_mean(key, _KEYS))
        target = str(entry.get("target") or base.target)
        if target not in TARGETS:
            hints = [f"target: {known}" for known in TARGETS]
            raise ConfigError(f"profiles.{name}.target is {target!r}", hints=hints)
        options, why, mine = dict(base.options), dict(base.why), set(base.user_options)
        for option, value in (entry.get("options") or {}).items():
            detail = value if isinstance(value, Mapping) else {"value": value}
            options.pop(option, None)
            why.pop(option, None)
            if detail.get("value") is not None:
                options[option] = cmake_value(detail["value"])
            if detail.get("why"):
                why[option] = str(detail["why"])
            if self._origin != "built-in":
                mine.add(option)
        return Profile(
            name=name,
            about=str(entry.get("about") or base.about),
            options=options,
            target=target,
            type=self._type(entry, name) or base.type,
            targets=tuple(entry["targets"]) if entry.get("targets") else base.targets,
            needs=self._needs(entry, base, name, target),
            products={**base.products, **_products(entry.get("products") or {})},
            opens=tuple(dict.fromkeys([*base.opens, *(entry.get("opens") or ())])),
            why=why,
            origin=" + ".join(dict.fromkeys([*base.origin.split(" + "), self._origin])),
            user_options=frozenset(mine),
        )

    @staticmethod
    def _type(entry: Mapping[str, Any], name: str) -> str | None:
        kind = entry.get("type")
        if kind is not None and kind not in BUILD_TYPES:
            raise ConfigError(
                f"profiles.{name}.type is {kind!r}", hints=_did_you_mean(str(kind), BUILD_TYPES)
            )
        return kind

    @staticmethod
    def _needs(entry: Mapping[str, Any], base: Profile, name: str, target: str) -> tuple[str, ...]:
        if entry.get("needs") is not None:
            return tuple(str(parse_requirement(text, f"profiles.{name}.needs")) for text in entry["needs"])
        # A phone's profile that is built for this machine needs no NDK.
        kept = (text for text in base.needs if target == "device" or not text.startswith("ndk"))
        return tuple(kept)


def _products(entry: Any) -> dict[str, str]:
    return dict(entry) if isinstance(entry, Mapping) else dict.fromkeys(entry, "")


def cmake_value(value: object) -> str:
    """A YAML value as CMake wants it: YAML 1.1 reads ON and OFF as booleans."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


def is_on(value: str | None) -> bool:
    """Whether CMake takes a value for true."""
    return (value or "").upper() in ("ON", "1", "TRUE", "YES", "Y")


def _built_in(engine: str) -> Entries:
    if engine not in ENGINES:
        hints = _did_you_mean(engine, ENGINES)
        raise ConfigError(f"devkit has no profiles for the engine {engine!r}", hints=hints)
    import yaml

    text = resources.files("devkit.engine").joinpath(f"{engine}.yaml").read_text("utf-8")
    loaded: Entries = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


def _did_you_mean(word: str, known: tuple[str, ...] | list[str]) -> list[str]:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return [f"did you mean {near[0]}?"] if near else []
