"""Links on this machine: settings, engine, build tools, SDKs, debugger."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit import engine
from devkit.doctor.report import BROKEN, NOT_NEEDED, OK, WARNING, Repair, Section, Wishes
from devkit.errors import DevkitError, FileError, ToolMissing, UsageError
from devkit.tunnels.vpn import missing_tun

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.device import Device

MIN_PYTHON = (3, 10)


def examine_machine(
    section: Section, config: Config, device: Device | None, *, environ: Mapping[str, str], wishes: Wishes
) -> None:
    """All links up to the debugger. Without an engine here this is a laptop: no toolchain is needed."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info[:2] >= MIN_PYTHON
    section.add("python", "Python", OK if good else BROKEN, f"{version} ({sys.executable})")
    source = str(config.project_file) if config.project_file else "no devkit.yaml (built-in settings)"
    section.add("config", "settings", OK, source)
    has_engine = _engine(section, config)
    virtual = device is not None and device.is_virtual
    _build_tools(section, environ, needed=has_engine)
    _compiler(section, environ, needed=has_engine and virtual)
    _ndk(section, config, device, environ, has_engine=has_engine, wish=wishes.ndk)
    _qnn_sdk(section, config, environ)
    _apps(section, config, device)
    _debugger(section, config, device, needed=has_engine)
    _optional_tools(section, environ)
    _vpn(section)


def _engine(section: Section, config: Config) -> bool:
    found = config.engine or engine.detect_engine(config.source)
    if (config.source / "CMakeLists.txt").is_file():
        section.add("engine", "engine", OK, f"{found} in {config.source}")
        return True
    if config.project_file is None:
        section.add("engine", "engine", NOT_NEEDED, "no engine checkout here: only phone and tunnel matter")
        return False
    section.add(
        "engine", "engine", BROKEN, f"{config.source} holds no CMakeLists.txt",
        [f"correct `source:` in {config.project_file}"],
    )  # fmt: skip
    return True


def _build_tools(section: Section, environ: Mapping[str, str], *, needed: bool) -> None:
    from devkit.engine.cmake_tools import find_cmake, find_make_program

    try:
        path, version = find_cmake(environ)
        section.add("cmake", "cmake", OK, f"{version} ({path})")
    except ToolMissing as missing:
        section.broken("cmake", "cmake", missing, needed=needed)
    try:
        generator, program = find_make_program(environ)
        section.add("make", "ninja or make", OK, f"{generator} ({program})")
    except ToolMissing as missing:
        section.broken("make", "ninja or make", missing, needed=needed)


def _compiler(section: Section, environ: Mapping[str, str], *, needed: bool) -> None:
    from devkit.engine.host_compilers import find_host_compilers

    try:
        section.add("compiler", "host compiler", OK, find_host_compilers(environ).description)
    except ToolMissing as missing:
        if needed:
            section.broken("compiler", "host compiler", missing)
        else:
            section.add("compiler", "host compiler", NOT_NEEDED, missing.what, missing.hints)


def _ndk(
    section: Section,
    config: Config,
    device: Device | None,
    environ: Mapping[str, str],
    *,
    has_engine: bool,
    wish: str | None,
) -> None:
    from devkit.ndk import ndk_for

    repair = _install_ndk(config, wish) if wish else None
    try:
        ndk = ndk_for(config, environ)
        where = f"{ndk.release} ({ndk.revision}) in {ndk.path} ({ndk.origin})"
        if ndk.missing:
            raise ToolMissing(
                f"this NDK is not complete: {where}",
                evidence="missing: " + ", ".join(ndk.missing),
                hints=[f"devkit ndk install {ndk.release}", "devkit ndk list"],
            )
        ndk.lldb_server("arm64-v8a")  # what a debug session will ask for
    except ToolMissing as missing:
        if config.ndk.path is not None or (has_engine and device is not None and not device.is_virtual):
            section.broken("ndk", "Android NDK", missing, repair=repair)
        elif has_engine and device is None:
            text = f"{missing.what}\nneeded for every phone but a virtual one"
            section.add("ndk", "Android NDK", WARNING, text, missing.hints, repair)
        else:
            why = "the virtual phone needs none" if has_engine else "no engine is built here"
            text = f"{why}: {missing.what}"
            section.add("ndk", "Android NDK", NOT_NEEDED, text, missing.hints, repair)
        return
    if ndk.conflicts:
        others = "; ".join(ndk.conflicts)
        section.add(
            "ndk", "Android NDK", WARNING, f"{where}\nothers are named, too: {others}",
            ["let ANDROID_NDK, ANDROID_NDK_ROOT and ANDROID_NDK_HOME agree: devkit env --install"]
            if "ANDROID" in others else [f"devkit ndk use {ndk.release}   or another one"],
        )  # fmt: skip
    else:
        section.add("ndk", "Android NDK", OK, where)


def _install_ndk(config: Config, release: str) -> Repair:
    def apply() -> str:
        from devkit.ndk.store import apply_install, plan_install, use

        ndk = apply_install(plan_install(release, mirror=config.ndk.mirror))
        text = f"NDK {ndk.release} is in {ndk.path}"
        if config.ndk.path is not None or config.ndk.version is not None:
            # Somebody's setting names another one; which of the two is right only they can say.
            return f"{text}; devkit ndk use {ndk.release}   builds with it"
        use(ndk)
        return f"{text} and used from now on"

    return Repair(f"install NDK {release}", apply)


def _qnn_sdk(section: Section, config: Config, environ: Mapping[str, str]) -> None:
    """Needed when an app wants QNN libraries along, or its profile builds the QNN backend."""
    from devkit.ndk.qnn_check import check_sdk, first_broken
    from devkit.ndk.qnn_sdk import qnn_sdk_for

    users = [name for name, app in config.apps.items() if app.backend != "none" or _builds_qnn(config, app)]
    named = config.qnn.path is not None or config.qnn.version is not None
    try:
        sdk = qnn_sdk_for(config, environ)
    except DevkitError as error:
        if users or named:
            section.broken("qnn", "QNN SDK", error)
        else:
            section.add("qnn", "QNN SDK", NOT_NEEDED, "no app uses QNN")
        return
    where = f"{sdk.version} in {sdk.path} ({sdk.origin})"
    problem = first_broken(check_sdk(sdk, scripts=False))
    if problem is not None:
        state = BROKEN if users or named else WARNING
        text = "\n".join(part for part in (where, problem.text, problem.evidence) if part)
        section.add("qnn", "QNN SDK", state, text, [problem.hint] if problem.hint else ())
    elif sdk.conflicts:
        section.add("qnn", "QNN SDK", WARNING, f"{where}\nother variables name: {'; '.join(sdk.conflicts)}",
                    ["let QNN_SDK_ROOT and QAIRT_SDK_ROOT agree: devkit env --install"])  # fmt: skip
    else:
        section.add("qnn", "QNN SDK", OK, where)


def _builds_qnn(config: Config, app: AppConfig) -> bool:
    profile = engine.profiles_for(config).get(app.profile)
    return profile is not None and profile.options.get("MNN_QNN", "OFF") == "ON"


def _apps(section: Section, config: Config, device: Device | None) -> None:
    """What devkit.yaml names must be there, and a ready-made program must fit the phone."""
    from devkit.runtime import find_app
    from devkit.symbols import read_elf

    if not config.apps:
        section.add("apps", "apps", NOT_NEEDED, "devkit.yaml names none")
        return
    try:
        for name, app in config.apps.items():
            for mapping in app.files:
                if not mapping.local.exists():
                    raise FileError(f"app {name}: {mapping.local} does not exist")
            path = find_app(config, name)[1]
            if path is not None and device is not None and (abi := read_elf(path).abi) != device.abi:
                raise FileError(f"app {name}: {path} is for {abi}, the phone wants {device.abi}")
            engine.get_profile(engine.profiles_for(config), app.profile)
    except (FileError, UsageError) as error:
        section.broken("apps", "apps", error)
        return
    section.add("apps", "apps", OK, ", ".join(config.apps))


def _debugger(section: Section, config: Config, device: Device | None, *, needed: bool) -> None:
    from devkit import lldb, process
    from devkit.symbols import read_elf

    if device is None:
        section.add("lldb", "LLDB", NOT_NEEDED, "without a phone its ABI is not known")
        return
    try:
        tools = lldb.find_tools(config, device)
        version = process.run([tools.lldb, "--version"], timeout_s=30).text.strip().splitlines()[0]
        info = read_elf(tools.server)
        if info.abi != device.abi:
            raise FileError(
                f"the lldb-server is for {info.describe}, the phone wants {device.abi}",
                evidence=str(tools.server),
                hints=["correct lldb.server in devkit.yaml, or remove it"],
            )
    except DevkitError as error:
        section.broken("lldb", "LLDB", error, needed=needed)
        return
    section.add("lldb", "LLDB", OK, f"{version}, {tools.origin} ({tools.lldb})")


@dataclass(frozen=True)
class _Tool:
    """A program that is good to have: any of `programs`, the Debian package, what it is good for."""

    programs: tuple[str, ...]
    package: str
    gain: str


_OPTIONAL_TOOLS = (
    _Tool(("ccache",), "ccache", "rebuilds compile only what is new"),
    _Tool(("git",), "git", "engine checkouts"),
    _Tool(("ssh",), "openssh-client", "tunnels follow ~/.ssh/config"),
    _Tool(("gdb", "lldb", "lldb-19"), "gdb", "debugging programs of the host profile"),
)


def _optional_tools(section: Section, environ: Mapping[str, str]) -> None:
    path = environ.get("PATH", "")
    there, missing = [], []
    for tool in _OPTIONAL_TOOLS:
        found = next((name for name in tool.programs if shutil.which(name, path=path)), None)
        if found:
            there.append(found)
        else:
            missing.append(tool)
    text = ", ".join(there) + " are there" if there else ""
    for tool in missing:
        text += f"\n{tool.programs[0]} is not: {tool.gain}"
    hints = ["sudo apt install " + " ".join(tool.package for tool in missing)] if missing else []
    section.add("tools", "other tools", WARNING if missing else OK, text.strip(), hints)


def _vpn(section: Section) -> None:
    """A VPN (Tailscale, EasyTier) needs a TUN device, which containers usually lack."""
    if platform.system() != "Linux":
        return
    missing = missing_tun()
    if missing is None:
        section.add("vpn", "TUN device", OK, "a VPN to the laptop or phone is possible")
    else:
        text = f"{missing}: no VPN from here; SSH reaches the phone as well"
        section.add("vpn", "TUN device", NOT_NEEDED, text)
