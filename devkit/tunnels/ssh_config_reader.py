"""ssh_config(5) read without an OpenSSH client: Include, Host, Match, first value wins. No defaults here.

Checked against `ssh -G` of OpenSSH 9.2 (tests/unit/tunnels/test_ssh_config.py).
"""

from __future__ import annotations

import getpass
import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit.errors import TunnelError

# readconf.c: READCONF_MAX_DEPTH
_MAX_DEPTH = 16
_ADD_UP = ("identityfile", "certificatefile")
# Everything after the keyword is one value, blanks and quotes included.
_WHOLE_LINE = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_EXCLUDE = {"proxyjump": "proxycommand", "proxycommand": "proxyjump"}
_ALIASES = {"challengeresponseauthentication": "kbdinteractiveauthentication", "dsaauthentication": "_"}

Values = dict[str, list[str]]


@dataclass
class _State:
    """What is known while files are read."""

    host: str
    values: Values
    final: bool
    asks_final: bool = False
    skipped: list[str] = field(default_factory=list)


def read(host: str, files: Sequence[Path], given: Values) -> tuple[Values, list[str]]:
    """The values of the files for one host, in the files' order.

    Args:
        host: as it was asked for, without user and port.
        files: those that do not exist are skipped.
        given: values that were set before ("user", "port" of user@host:port).

    Returns:
        The values by lower-case keyword, one string an argument, and what was not looked at
        (`Match exec` would run programs).

    Raises:
        TunnelError: "config", with file:line.
    """
    state = _State(host, {key: list(value) for key, value in given.items()}, final=False)
    for file in files:
        _read_file(state, file, True, 0)
    if state.asks_final:
        state.final = True
        for file in files:
            _read_file(state, file, True, 0)
    return state.values, state.skipped


def matches(name: str, patterns: Sequence[str]) -> bool:
    """ssh's pattern lists: * and ?, a negated pattern that fits excludes."""
    found = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        if _fits(name, pattern[negated:]):
            if negated:
                return False
            found = True
    return found


def _fits(name: str, pattern: str) -> bool:
    text = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(text, name, re.DOTALL) is not None


def _read_file(state: _State, file: Path, active: bool, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _bad(file, 1, "Include is nested too deeply (does a file include itself?)")
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return
    except OSError as error:
        raise TunnelError(
            f"{file} cannot be read", reason="config", evidence=str(error.strerror or error)
        ) from None
    outer = active
    for number, line in enumerate(text.splitlines(), 1):
        keyword, words = _split(line, file, number)
        if not keyword:
            continue
        if keyword == "host":
            active = outer and matches(state.host, words)
        elif keyword == "match":
            active = _match(state, words, file, number) and outer
        elif keyword == "include":
            for name in words:
                for found in _included(name, file):
                    _read_file(state, found, active, depth + 1)
        elif active:
            _store(state.values, keyword, words)


def _store(values: Values, keyword: str, words: list[str]) -> None:
    if keyword in _ADD_UP:
        known = values.setdefault(keyword, [])
        known += [word for word in words[:1] if word not in known]
    elif keyword in _EXCLUDE and _excluding(keyword, values):
        return
    else:
        values.setdefault(keyword, words)


def _excluding(keyword: str, values: Values) -> bool:
    """Whether an earlier value of the other way to a host keeps this one out.

    A `ProxyJump none` keeps further jumps out but no ProxyCommand (readconf.c, parse_jump).
    """
    earlier = values.get(_EXCLUDE[keyword])
    return earlier is not None and not (keyword == "proxycommand" and earlier == ["none"])


def _split(line: str, file: Path, number: int) -> tuple[str, list[str]]:
    """The keyword in lower case and its arguments; "" for an empty line or a comment."""
    found = re.match(r'\s*"?([^\s="]+)"?(?:\s*=\s*|\s+|$)(.*)', line)
    if found is None or found[1].startswith("#"):
        return "", []
    keyword = found[1].lower()
    keyword = _ALIASES.get(keyword, keyword)
    rest = found[2].strip()
    if not rest:
        raise _bad(file, number, f"{found[1]} has no value")
    if keyword in _WHOLE_LINE:
        return keyword, [rest]
    words: list[str] = []
    for piece in re.finditer(r'\s*(?:"((?:\\.|[^"\\])*)"|\'([^\']*)\'|((?:\\.|[^\s"\'\\])+|["\']))', rest):
        quoted, single, plain = piece.groups()
        if plain in ('"', "'"):
            raise _bad(file, number, f"{found[1]}: a quote is not closed")
        if plain is not None and plain.startswith("#"):
            break
        text = next(part for part in (quoted, single, plain) if part is not None)
        words.append(re.sub(r'\\(["\'\\ ])', r"\1", text))
    return (keyword, words) if words else ("", [])


def _match(state: _State, words: list[str], file: Path, number: int) -> bool:
    result, rest = True, list(words)
    while rest:
        name = rest.pop(0)
        negated = name.startswith("!")
        kind, _, value = name[negated:].partition("=")
        kind = kind.lower()
        if kind in ("all", "canonical", "final"):
            state.asks_final = state.asks_final or kind == "final"
            fits = kind == "all" or (kind == "final" and state.final)
        else:
            value = value or (rest.pop(0) if rest else "")
            if not value:
                raise _bad(file, number, f"Match {kind} has no value")
            looked = _criterion(state, kind, value.split(","), f"{file}:{number}")
            if looked is None:
                return False
            fits = looked
        result = result and fits != negated
    return result


def _criterion(state: _State, kind: str, patterns: list[str], place: str) -> bool | None:
    """Whether one criterion of Match fits; None when it was not looked at."""
    if kind == "originalhost":
        return matches(state.host, patterns)
    if kind == "host":
        return matches(_hostname(state), patterns)
    if kind == "user":
        return matches(state.values.get("user", [_local_user()])[0], patterns)
    if kind == "localuser":
        return matches(_local_user(), patterns)
    state.skipped.append(f"{place}: Match {kind} is read by OpenSSH only; its block was skipped")
    return None


def _hostname(state: _State) -> str:
    return state.values.get("hostname", ["%h"])[0].replace("%h", state.host)


def _local_user() -> str:
    return getpass.getuser()


def _included(name: str, file: Path) -> list[Path]:
    """Files an Include stands for; relative ones lie beside the main file (~/.ssh or /etc/ssh)."""
    path = os.path.expanduser(name)
    if not os.path.isabs(path):
        system = os.path.join(os.environ.get("PROGRAMDATA", ""), "ssh") if os.name == "nt" else "/etc/ssh"
        inside = str(file).startswith(system + os.sep)
        path = os.path.join(system if inside else os.path.expanduser("~/.ssh"), path)
    return [Path(found) for found in sorted(glob.glob(path))]  # noqa: PTH207 - patterns with a root


def _bad(file: Path, number: int, what: str) -> TunnelError:
    return TunnelError(f"{file}:{number}: {what}", reason="config", hints=[f"correct line {number}"])
