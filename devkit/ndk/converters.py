"""Virtual environments for the QNN SDK's converters and for the engine's export script."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit import output, paths, process
from devkit.errors import FileError, ToolFailed, ToolMissing, UsageError
from devkit.ndk.lock import exclusive
from devkit.ndk.qnn_sdk import QnnSdk, tool_environment

PROBE_TIMEOUT_S = 20.0
MARKER = "devkit-venv.json"
# The SDK's own list of pinned packages: a program that installs them with pip.
PYTHON_DEPENDENCIES = "bin/check-python-dependency"
EXPORT_REQUIREMENTS = Path("transformers/llm/export/requirements.txt")
# What SDKs from 2.20 on are documented with, for those that do not tell.
USUAL_PYTHON = "3.10"


@dataclass(frozen=True)
class VenvPlan:
    """A virtual environment to make.

    Attributes:
        python: the interpreter it is made with.
        requirements: a pip requirements file, or None.
        installer: the SDK's program that installs its own pinned packages, or None.
        index_url: the package index to use instead of pip's own.
        fingerprint: equal when an existing environment is up to date.
        ready: it exists and is up to date.
    """

    path: Path
    purpose: str
    python: Path
    python_version: str
    requirements: Path | None
    installer: Path | None
    index_url: str | None
    fingerprint: str
    ready: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def interpreter(self) -> Path:
        """Its python."""
        return self.path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def command_lines(self) -> tuple[tuple[str, ...], ...]:
        """What `apply_venv` runs."""
        lines: list[tuple[str, ...]] = [(str(self.python), "-m", "venv", "--clear", str(self.path))]
        index = ("--index-url", self.index_url) if self.index_url else ()
        pip = (str(self.interpreter), "-m", "pip", "install", "--disable-pip-version-check", *index)
        if self.requirements is not None:
            lines.append((*pip, "-r", str(self.requirements)))
        elif self.installer is not None:
            lines.append((str(self.interpreter), str(self.installer)))
        return tuple(lines)


def plan_converters(
    sdk: QnnSdk,
    *,
    path: Path | None = None,
    python: str | None = None,
    requirements: Path | None = None,
    index_url: str | None = None,
) -> VenvPlan:
    """Plan the environment of the SDK's converters. Touches nothing.

    The pinned packages are the SDK's own: its check-python-dependency installs them. With
    `requirements` that file is used instead.

    Args:
        python: interpreter, or version like "3.10" (default: what the converters are made for).

    Raises:
        ToolMissing: no Python of that version, or the SDK does not say which packages.
        FileError: the requirements file does not exist.
    """
    versions = converter_python(sdk)
    if not versions:
        output.current().detail(f"the SDK does not tell its Python; taking {USUAL_PYTHON}")
    interpreter, version = _interpreter(python, versions or (USUAL_PYTHON,))
    if versions and version not in versions:
        output.current().warn(f"the converters of this SDK are made for Python {' or '.join(versions)}")
    installer = sdk.path / PYTHON_DEPENDENCIES
    if requirements is None and not installer.is_file():
        raise ToolMissing(
            "this QNN SDK does not say which packages its converters need",
            evidence=f"{installer} does not exist",
            hints=["devkit qnn sdk venv --requirements FILE"],
        )
    return _plan(
        path or _default_path(f"qnn-{sdk.version}"),
        f"the converters of QNN {sdk.version}",
        interpreter,
        version,
        requirements=requirements,
        installer=None if requirements else installer,
        index_url=index_url,
    )


def plan_export(
    source: Path,
    *,
    path: Path | None = None,
    python: str | None = None,
    requirements: Path | None = None,
    index_url: str | None = None,
) -> VenvPlan:
    """Plan the environment of the engine's export script (`transformers/llm/export`). Touches nothing.

    Args:
        source: the engine's source folder.

    Raises:
        ToolMissing: no such Python.
        FileError: the engine has no such requirements file.
    """
    interpreter, version = _interpreter(python, (".".join(map(str, sys.version_info[:2])),))
    key = hashlib.sha256(os.fsencode(source.absolute())).hexdigest()[:8]
    return _plan(
        path or _default_path(f"export-{key}"),
        f"the export script of {source}",
        interpreter,
        version,
        requirements=requirements or source / EXPORT_REQUIREMENTS,
        installer=None,
        index_url=index_url,
    )


def apply_venv(plan: VenvPlan, sdk: QnnSdk | None) -> bool:
    """Make the environment; False when it was up to date. One that was interrupted is made anew.

    Raises:
        ToolFailed: venv or pip failed.
        UsageError: the folder holds something else.
    """
    empty = not plan.path.exists() or (plan.path.is_dir() and not any(plan.path.iterdir()))
    if not empty and not (plan.path / "pyvenv.cfg").is_file():
        raise UsageError(
            f"{plan.path} is in the way", evidence="it is no virtual environment", hints=["--path OTHER"]
        )
    with exclusive(plan.path.parent / f".{plan.path.name}.lock", f"making {plan.path}"):
        if _fingerprint_of(plan.path) == plan.fingerprint:
            return False
        make, *install = plan.command_lines()
        output.current().note(f"making an environment for {plan.purpose} with Python {plan.python_version}")
        process.run(make, hints=[f"sudo apt install python{plan.python_version}-venv"])
        env = _inside(plan, sdk)
        for line in install:
            _stream(line, env, plan)
        done = process.run(
            [plan.interpreter, "-m", "pip", "check", "--disable-pip-version-check"], check=False, env=env
        )
        if done.exit_code:
            output.current().warn("packages do not fit together:\n" + process.tail(done.stdout))
        content = {"fingerprint": plan.fingerprint, "purpose": plan.purpose}
        # Last: an environment without it was interrupted.
        paths.write_atomically(plan.path / MARKER, json.dumps(content, indent=1) + "\n")
    return True


def find_python(version: str) -> Path | None:
    """An interpreter of this version ("3.10"): of PATH, pyenv, uv, or the one that runs devkit."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    places = [Path(on_path)] if on_path else []
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    places += sorted(pyenv.glob(f"versions/{version}.*/bin/python3"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    places += sorted(uv.glob(f"cpython-{version}.*/bin/python3"), reverse=True)
    # pyenv has shims on PATH also for versions that are not selected: they have to answer.
    return next((python for python in places if _version_of(python) == version), None)


def converter_python(sdk: QnnSdk) -> tuple[str, ...]:
    """The Python versions ("3.10") that the SDK's converters are made for, as their files say.

    Empty when the SDK has no Python parts, or they do not tell.
    """
    found: set[str] = set()
    machine = platform.machine()
    libraries = list((sdk.path / "lib/python").rglob("*.so"))
    # Side by side lie modules for Windows and for Linux on ARM.
    ours = [lib for lib in libraries if f"linux-{machine}" in lib.parts] or [
        lib for lib in libraries if not any("linux-" in part or "windows" in part for part in lib.parts)
    ]
    for library in ours:
        # libPyIrGraph310.so, x.cpython-310-x86_64-linux-gnu.so
        named = re.search(r"(?:\.cpython-|^libPy[A-Za-z]+)3(\d{1,2})(?:-[\w-]+)?\.so$", library.name)
        if named:
            found.add(f"3.{named.group(1)}")
    for library in ours if not found else ():
        found.update(_linked_python(library))
    return tuple(sorted(found, key=lambda version: int(version.partition(".")[2])))


def converter_interpreter(sdk: QnnSdk) -> str:
    """python3 of the converters' environment where that was made, else this machine's.

    Raises:
        ToolMissing: there is no python3.
    """
    made = _default_path(f"qnn-{sdk.version}")
    # Whether it is up to date is not asked: that starts every Python of this machine.
    if _fingerprint_of(made) is not None and (made / "bin/python3").is_file():
        return str(made / "bin/python3")
    found = shutil.which("python3")
    if found is None:
        raise ToolMissing("python3 was not found", hints=["devkit qnn sdk venv"])
    return found


def _interpreter(wanted: str | None, versions: Sequence[str]) -> tuple[Path, str]:
    if wanted is not None and not re.fullmatch(r"3\.\d+", wanted):
        program = shutil.which(wanted)
        version = _version_of(Path(program)) if program else None
        if program is None or version is None:
            raise ToolMissing(
                f"{wanted} is no Python that runs", hints=["--python 3.10", "--python /path/to/python3"]
            )
        return Path(program), version
    for version in (wanted,) if wanted else versions:
        found = find_python(version)
        if found is not None:
            return found, version
    names = " or ".join((wanted,) if wanted else versions)
    first = wanted or versions[-1]
    raise ToolMissing(
        f"Python {names} was not found",
        evidence=f"python{first} is not on PATH; nothing of pyenv or uv either",
        hints=[f"sudo apt install python{first} python{first}-venv", f"uv python install {first}",
               "--python PATH names an interpreter"],
    )  # fmt: skip


def _version_of(python: Path) -> str | None:
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = process.run([python, "-c", question], check=False, timeout_s=PROBE_TIMEOUT_S)
    except ToolMissing:
        return None
    return done.text.strip() if done.exit_code == 0 else None


def _default_path(name: str) -> Path:
    return paths.data_dir() / "venvs" / name


def _plan(
    path: Path,
    purpose: str,
    python: Path,
    version: str,
    *,
    requirements: Path | None,
    installer: Path | None,
    index_url: str | None,
) -> VenvPlan:
    path = paths.expand_user(path).absolute()
    if requirements is not None:
        requirements = paths.expand_user(requirements).absolute()
        if not requirements.is_file():
            raise FileError(f"{requirements} does not exist", hints=["--requirements FILE"])
    source = requirements or installer
    content = source.read_bytes() if source is not None else b""
    key = b"\n".join([os.fsencode(python), version.encode(), os.fsencode(source or ""), content])
    fingerprint = hashlib.sha256(key).hexdigest()[:16]
    ready = _fingerprint_of(path) == fingerprint
    return VenvPlan(path, purpose, python, version, requirements, installer, index_url, fingerprint, ready)


def _fingerprint_of(path: Path) -> str | None:
    try:
        return str(json.loads((path / MARKER).read_text("utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _inside(plan: VenvPlan, sdk: QnnSdk | None) -> dict[str, str]:
    """The variables of an activated environment; the SDK's installer refuses to run outside one."""
    env = dict(tool_environment(sdk)) if sdk is not None else {}
    # pip must not see the SDK's packages as installed ones, also where `devkit env` has exported
    # them. Empty: to Python that is as good as unset.
    env["PYTHONPATH"] = ""
    path = env.get("PATH") or os.environ.get("PATH", "")
    env["PATH"] = os.pathsep.join([str(plan.interpreter.parent), path])
    env["VIRTUAL_ENV"] = str(plan.path)
    if plan.index_url:
        env["PIP_INDEX_URL"] = plan.index_url
    return env


def _stream(line: Sequence[str], env: dict[str, str], plan: VenvPlan) -> None:
    sink = output.current()
    done = process.stream(line, sink.detail, env=env)
    if done.exit_code:
        raise ToolFailed(
            f"the packages for {plan.purpose} could not be installed (exit code {done.exit_code})",
            evidence=process.show(line) + "\n" + process.tail(done.stdout),
            hints=["--index-url URL takes another package index", "run it again with -v to see all of it"],
        )


def _linked_python(library: Path) -> set[str]:
    """The versions of libpython3.NN.so that a library needs."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    try:
        with library.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(".dynamic")
            tags = section.iter_tags("DT_NEEDED") if isinstance(section, DynamicSection) else ()
            needed = [str(getattr(tag, "needed", "")) for tag in tags]
    except (OSError, ELFError):
        return set()
    return {f"3.{m.group(1)}" for name in needed if (m := re.match(r"libpython3\.(\d+)", name))}
