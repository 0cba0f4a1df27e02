"""The phone's /system: made once from programs and libraries of this machine, then cached.

The image lies in the cache under a name that says what it was made from, so an update of this machine
makes a new one. Phones that run hold a shared lock on theirs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.errors import SimError
from devkit.sim import clock, elf, foreign, ldcache
from devkit.sim.native import attach
from devkit.sim.places import control_folder
from devkit.sim.releases import RELEASES_FILE, Release

# Raise it whenever the same sources give another image.
GENERATOR_VERSION = 4
CONTENTS_FILE = Path(__file__).parent / "system" / "contents.yaml"
# Scripts for all releases; those in bin-RELEASE replace them.
SCRIPTS_DIR = Path(__file__).parent / "system" / "bin"
SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"
HOST_LD_CACHE = Path("/etc/ld.so.cache")

# Where the phone keeps its dynamic loader, and the path under which programs built here ask for it.
LOADER = "bin/linker64"
LOADER_PATHS = {
    "x86_64": Path("/lib64/ld-linux-x86-64.so.2"),
    "aarch64": Path("/lib/ld-linux-aarch64.so.1"),
}
LIB_DIR = "lib64"

_FALLBACK_LIB_DIRS = (
    "/lib/{triple}",
    "/usr/lib/{triple}",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
_ETC = {
    "passwd": "root:x:0:0:root:/:/system/bin/sh\nshell:x:2000:2000:shell:/:/system/bin/sh\n",
    "group": "root:x:0:\nshell:x:2000:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hosts": "127.0.0.1 localhost\n",
}


@dataclass(frozen=True)
class SystemPlan:
    """What an image is made from.

    Args:
        key: hash of all sources, and the release if it has an image of its own; names the image.
        loader: this machine's dynamic loader.
        shell: becomes /system/bin/sh.
        programs: name on the phone → file here (several names may share one).
        scripts: name on the phone → our script.
        libraries: names that are part of the image whether a program needs them or not.
    """

    key: str
    loader: Path
    shell: Path
    programs: dict[str, Path]
    scripts: dict[str, Path]
    libraries: tuple[str, ...]


def acquire_system(release: Release) -> tuple[Path, str, int]:
    """The folder of a release's image for this machine, made if need be, its key, and a descriptor.

    For as long as the descriptor is open, the image is not pruned.

    Raises:
        SimError: this machine has no glibc loader or no shell, or the cache cannot be written.
    """
    plan = plan_system(release)
    target = images_dir() / f"system-{plan.key}"
    while True:
        try:
            if not target.is_dir():
                _build_beside(plan, target)
                _prune(keep=target)
            held = _hold(target)
        except OSError as error:
            raise SimError(
                "the virtual phone's system image cannot be made",
                evidence=str(error),
                hints=[f"check the free space and the permissions of {images_dir()}"],
            ) from None
        if held is not None:
            return target, plan.key, held


def images_dir() -> Path:
    """The folder of all images."""
    return paths.cache_dir() / "sim"


def plan_system(release: Release) -> SystemPlan:
    """Look at this machine and decide what goes into the image. Reads names and sizes only.

    Raises:
        SimError: this machine has no glibc loader or no shell.
    """
    import yaml

    contents: dict[str, list[str]] = yaml.safe_load(CONTENTS_FILE.read_text(encoding="utf-8"))
    loader = _find_loader()
    shell = next((found for name in contents["shell"] if (found := _find_program(name))), None)
    if shell is None:
        raise SimError(
            "no shell for the virtual phone was found on this machine",
            evidence=f"looked for {', '.join(contents['shell'])} in {SYSTEM_PATH}",
            hints=["install dash or mksh, e.g. apt-get install mksh"],
        )
    programs = {
        name: found for name in contents["tools"] + contents["extras"] if (found := _find_program(name))
    }
    programs |= {name: attach.applet() for name in contents["applets"]}
    optional = set(contents["fallbacks"])
    scripts = {
        path.name: path
        for path in sorted(SCRIPTS_DIR.iterdir())
        if path.name not in optional or path.name not in programs
    }
    own_scripts = SCRIPTS_DIR.with_name(f"bin-{release.name}")
    if own_scripts.is_dir():
        scripts |= {path.name: path for path in sorted(own_scripts.iterdir())}
    for name in contents["wrapped"]:
        if name in programs:
            programs[f".{name}"] = programs[name]
    for name in scripts:
        programs.pop(name, None)
    # What decides over the name of the image is the same for all releases: see _prune.
    sources = [loader, shell, *programs.values(), CONTENTS_FILE, RELEASES_FILE]
    sources += [*sorted(SCRIPTS_DIR.parent.glob("bin*/*")), attach.linker_hook(), attach.clock_library()]
    for name in release.removed_tools:
        programs.pop(name, None)
        scripts.pop(name, None)
    libraries = tuple(contents["libraries"])
    # Every update of a library renews this cache, so it stands for all libraries.
    sources += [HOST_LD_CACHE] if HOST_LD_CACHE.exists() else []
    host = _host_libraries()
    sources += [host[name] for name in libraries if name in host]
    key = _hash(sources)
    if release.removed_tools or own_scripts.is_dir():
        key += f"-{release.name}"
    return SystemPlan(key, loader, shell, programs, scripts, libraries)


def build_system(plan: SystemPlan, target: Path) -> None:
    """Make the image in an empty folder.

    Raises:
        OSError: a file cannot be read or written.
        SimError: a library that a program needs is not found.
    """
    binaries, libraries, etc = target / "bin", target / LIB_DIR, target / "etc"
    # The last is where a phone mounts libraries of another processor.
    for folder in (binaries, libraries, etc, target / Path(foreign.LIBRARY_DIR).relative_to("system")):
        folder.mkdir(parents=True)
    copied: dict[Path, str] = {}
    for name, source in {"sh": plan.shell, **plan.programs}.items():
        # Programs with many names (busybox, coreutils) ask argv[0] who they are: a link keeps that.
        if source in copied:
            (binaries / name).symlink_to(copied[source])
        else:
            shutil.copyfile(source, binaries / name)
            (binaries / name).chmod(0o755)
            copied[source] = name
    for name, source in plan.scripts.items():
        shutil.copyfile(source, binaries / name)
        (binaries / name).chmod(0o755)
    _copy_loader(plan.loader, target / LOADER)
    found = _closure(plan, list(copied))
    for name, source in found.items():
        _copy_library(source, libraries / name)
    for name, text in _ETC.items():
        (etc / name).write_text(text, encoding="utf-8")
    cache = {name: f"/system/{LIB_DIR}/{name}" for name in found}
    cache[LOADER_PATHS[os.uname().machine].name] = f"/system/{LOADER}"
    shutil.copyfile(attach.clock_library(), libraries / clock.LIBRARY)
    (libraries / clock.LIBRARY).chmod(0o755)
    # There while the phone's clock is wrong.
    (etc / "ld.so.preload").symlink_to(control_folder() / clock.PRELOAD_FILE)
    (etc / "ld.so.cache").write_bytes(ldcache.write_cache(cache, ldcache.FLAGS[os.uname().machine]))


def _build_beside(plan: SystemPlan, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        build_system(plan, temporary / "system")
        (temporary / "system").chmod(0o755)
        try:
            os.rename(temporary / "system", target)
        except OSError:
            # Another phone's start was faster; its image is the same.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _hold(image: Path) -> int | None:
    """A shared lock on an image; None when another process has just pruned it."""
    try:
        fd = os.open(image, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        if os.path.samestat(os.fstat(fd), image.stat()):
            return fd
    except FileNotFoundError:
        pass
    os.close(fd)
    return None


def _prune(keep: Path) -> None:
    """Remove images of older states of this machine that no phone uses, whatever their release."""
    current = keep.name.split("-")[1]
    for image in images_dir().glob("system-*"):
        name = re.fullmatch(r"system-([0-9a-f]+)(-[0-9]+)?", image.name)
        if name is None or name[1] == current:
            continue
        try:
            fd = os.open(image, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            doomed = image.with_name(f".{image.name}.old")
            os.rename(image, doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(fd)


def _find_loader() -> Path:
    machine = os.uname().machine
    candidates = [LOADER_PATHS.get(machine)]
    shell = _find_program("sh")
    if shell is not None:
        candidates.append(elf.interpreter(shell))
    for candidate in candidates:
        if candidate is not None and candidate.exists() and "ld-linux" in candidate.name:
            return candidate.resolve()
    raise SimError(
        "this machine has no glibc, which the virtual phone's programs need",
        evidence=f"{LOADER_PATHS.get(machine, 'ld-linux')} does not exist",
        hints=["use a distribution with glibc (Debian, Ubuntu, Fedora, Arch…), e.g. in a container"],
    )


def _find_program(name: str) -> Path | None:
    search = SYSTEM_PATH + os.pathsep + os.environ.get("PATH", "")
    found = shutil.which(name, path=search)
    if found is None:
        return None
    path = Path(found)
    # What is a script here would need this machine's interpreter.
    return path.resolve() if elf.is_elf(path) else None


def _closure(plan: SystemPlan, programs: list[Path]) -> dict[str, Path]:
    """All libraries, by the name they are asked for, that the programs need, and the C library's."""
    host = _host_libraries()
    found: dict[str, Path] = {}
    waiting: list[tuple[str, Path, tuple[Path, ...]]] = []

    def add_needs(path: Path) -> None:
        facts = elf.read_facts(path)
        waiting.extend((name, path, facts.search_dirs) for name in facts.needed)

    for path in programs:
        add_needs(path)
    for name in plan.libraries:
        if _search(name, (), host) is not None:
            waiting.append((name, plan.loader, ()))
    loader_name = LOADER_PATHS[os.uname().machine].name
    while waiting:
        name, user, dirs = waiting.pop()
        if name in found or name == loader_name:
            continue
        source = _search(name, dirs, host)
        if source is None:
            raise SimError(
                f"the library {name} that {user} needs was not found on this machine",
                hints=[f"ldd {user}"],
            )
        found[name] = source.resolve()
        add_needs(found[name])
    return found


def _search(name: str, dirs: tuple[Path, ...], host: dict[str, Path]) -> Path | None:
    for folder in dirs:
        if elf.is_elf(folder / name):
            return folder / name
    if host:
        return host.get(name)
    triple = f"{os.uname().machine}-linux-gnu"
    for folder in (Path(template.format(triple=triple)) for template in _FALLBACK_LIB_DIRS):
        if elf.is_elf(folder / name):
            return folder / name
    return None


def _host_libraries() -> dict[str, Path]:
    try:
        data = HOST_LD_CACHE.read_bytes()
    except OSError:
        return {}
    flags = ldcache.FLAGS[os.uname().machine]
    return {name: Path(path) for name, path in ldcache.read_cache(data, flags).items()}


def _copy_loader(source: Path, target: Path) -> None:
    data = source.read_bytes()
    try:
        data = attach.with_hook(data, attach.linker_hook().read_bytes())
    except ValueError:
        # An ld.so that is laid out otherwise works as well, but reports neither crashes nor missing
        # libraries as Android does.
        pass
    target.write_bytes(elf.with_own_build_id(data))
    target.chmod(0o755)


def _copy_library(source: Path, target: Path) -> None:
    target.write_bytes(elf.with_own_build_id(source.read_bytes()))
    target.chmod(0o755)


def _hash(sources: list[Path]) -> str:
    digest = hashlib.sha256(f"{GENERATOR_VERSION}\0{os.uname().machine}\0".encode())
    for path in sources:
        facts = path.stat()
        digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
