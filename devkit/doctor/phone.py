"""Links from here to the phone and on it: adb, selection, shell, folder, space, lldb-server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import find_adb, list_devices, select_device
from devkit.device.adb_program import find_version_clash
from devkit.device.connection import server_version
from devkit.device.failures import ServerUnreachable
from devkit.device.listing import start_default_server
from devkit.doctor.report import BROKEN, NOT_NEEDED, OK, WARNING, Link, Repair, Section
from devkit.doctor.roles import PHONE, Roles
from devkit.errors import DeviceError, DevkitError, OperationTimeout, ToolMissing

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import AdbProgram, AdbServer, Device, Inventory

LITTLE_SPACE_BYTES = 500_000_000
NO_SPACE_BYTES = 30_000_000  # an lldb-server has 13 MB, and programs want to be pushed, too
LARGE_PAGE_BYTES = 16384
LARGE_PAGE_NDK = 28  # aligns for 16 KiB pages by itself from this release on


def choose_phone(
    links: list[Link], roles: Roles, config: Config, serial: str | None, *, environ: Mapping[str, str]
) -> Device | None:
    """The adb links, each of the machine it is on. Starts no adb server: looking changes nothing."""
    own, phone = Section(roles.own_adb, links), Section(PHONE, links)
    try:
        adb = find_adb(config.adb.path, environ)
        own.add("adb", "adb program", OK, f"{adb.version_string}, {adb.origin} ({adb.path})")
    except ToolMissing as missing:
        own.broken("adb", "adb program", missing)
        own.skip([("adb-server", "adb server")], "needs the adb program")
        phone.skip([("phone", "phone")], "needs the adb program")
        return None
    inventory = _inventory(config, environ)
    problem = inventory.effective_problem
    if problem is not None and not inventory.servers:
        there = Section(roles.adb_of(inventory.effective), links)
        refused = isinstance(problem, ServerUnreachable) and problem.refused
        if refused and inventory.effective.is_default:
            there.add(
                "adb-server", "adb server", BROKEN, f"nothing listens at {inventory.effective.address}",
                ["devkit sim start   brings one of its own"],
                _start_server(adb, inventory.effective, environ),
            )  # fmt: skip
        else:
            there.broken("adb-server", "adb server", problem)
        phone.skip([("phone", "phone")], "needs the adb server")
        return None
    device: Device | None = None
    failure: DevkitError | None = None
    try:
        device = select_device(serial, environ=environ, config=config, may_start=False)
        # A phone that is listed may still not answer; everything behind this line asks it.
        assert device.properties
    except (DeviceError, OperationTimeout) as error:
        failure = error
    used = device.server if device is not None else _used_server(inventory)
    _servers(Section(roles.adb_of(used), links), inventory, adb)
    if device is None or failure is not None:
        assert failure is not None
        phone.broken("phone", "phone", failure)
        return None
    phone.add("phone", "phone", OK, f"{device.serial} behind {device.server.name}")
    return device


def _used_server(inventory: Inventory) -> AdbServer:
    """The one that a command would ask first: the user's own if it answers."""
    answers = inventory.effective in inventory.servers
    return inventory.effective if answers else inventory.servers[0]


def examine_phone(section: Section, config: Config, device: Device) -> None:
    """The links on the phone itself."""
    rest = [
        ("folder", "folder"),
        ("space", "free space"),
        ("pages", "page size"),
        ("server", "lldb-server"),
        ("phone-leftovers", "leftovers"),
        ("forwards", "forwards"),
    ]
    try:
        answer = device.shell("echo alive")
        if answer.text.strip() != "alive":
            raise DeviceError("the phone's shell does not answer", evidence=repr(answer.stdout[:200]))
        release = device.properties.get("ro.build.version.release", "?")
        section.add(
            "shell", "shell", OK,
            f"{device.model}, Android {release} (API {device.api_level}), {device.abi}",
        )  # fmt: skip
        wanted = config.device.dir
        folder = device.writable_dir(wanted)
        facts = device.facts(folder)
    except DevkitError as error:
        section.broken("shell", "shell", error)
        section.skip(rest, "needs the shell")
        return
    if folder == wanted:
        section.add("folder", "folder", OK, f"{folder} can be written and runs programs")
    else:
        section.add(
            "folder", "folder", WARNING, f"{wanted} cannot be used; {folder} is taken instead",
            ["correct device.dir in devkit.yaml"],
        )  # fmt: skip
    free = facts.free_bytes
    if free is None:
        section.add("space", "free space", WARNING, "the phone does not tell")
    else:
        state = BROKEN if free < NO_SPACE_BYTES else WARNING if free < LITTLE_SPACE_BYTES else OK
        section.add(
            "space", "free space", state, f"{output.human_bytes(free)} in {folder}",
            [f"devkit device shell -- du -sh {folder}/*"],
        )  # fmt: skip
    _page_size(section, config, device, facts.page_bytes)
    _lldb_server(section, config, device, folder)
    _leftovers(section, config, device, folder)
    _forwards(section, device)


def _inventory(config: Config, environ: Mapping[str, str]) -> Inventory:
    return list_devices(
        environ=environ,
        configured_server=config.adb.server,
        configured_adb=config.adb.path,
        may_start=False,
    )


def _start_server(adb: AdbProgram, server: AdbServer, environ: Mapping[str, str]) -> Repair:
    def apply() -> str:
        start_default_server(server, adb.path, environ)
        return f"started the adb server at {server.address} (platform-tools {adb.version_string})"

    return Repair(f"start {adb.path} at {server.address}", apply)


def _servers(section: Section, inventory: Inventory, adb: AdbProgram) -> None:
    names: list[str] = []
    # A server that does not answer is somebody's concern only when it was meant to.
    problems = [problem.what for problem in inventory.problems]
    for server in inventory.servers:
        name = f"{server.name} ({server.address})" if server.label else server.address
        try:
            protocol = server_version(server)
        except DevkitError as error:
            problems.append(error.what)
            names.append(name)
            continue
        names.append(f"{name} speaks version {protocol}")
        clash = find_version_clash(protocol, adb)
        if clash is not None:
            problems.append(clash.explain(adb, server))
    text = "\n".join([", ".join(names), *problems])
    hints = ["install the same platform-tools on both ends", "devkit sim list"] if problems else []
    section.add("adb-server", "adb server", WARNING if problems else OK, text, hints)


def _page_size(section: Section, config: Config, device: Device, page_bytes: int | None) -> None:
    if page_bytes is None or page_bytes < LARGE_PAGE_BYTES or device.libc == "glibc":
        section.add("pages", "page size", OK, f"{page_bytes or '?'} bytes")
        return
    from devkit.ndk import ndk_for

    try:
        ndk = ndk_for(config)
    except ToolMissing:
        section.add("pages", "page size", OK, f"{page_bytes} bytes")
        return
    if ndk.major >= LARGE_PAGE_NDK:
        section.add("pages", "page size", OK, f"{page_bytes} bytes, and {ndk.release} aligns for it")
    else:
        option = "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON" if ndk.major == LARGE_PAGE_NDK - 1 else (
            '-DCMAKE_SHARED_LINKER_FLAGS="-Wl,-z,max-page-size=16384"'
        )  # fmt: skip
        section.add(
            "pages", "page size", WARNING, f"{page_bytes} bytes, but {ndk.release} aligns for 4096",
            [f"devkit build {option}", "or an NDK from r28 on: devkit ndk install r29"],
        )  # fmt: skip


def _lldb_server(section: Section, config: Config, device: Device, folder: str) -> None:
    from devkit import lldb
    from devkit.lldb.server import pushed_server
    from devkit.lldb.version import local_major, remote_major

    try:
        tools = lldb.find_tools(config, device)
        remote = pushed_server(device, tools, folder)
        if remote is None:
            section.add("server", "lldb-server", NOT_NEEDED, "not pushed yet: the first debug session does")
            return
        theirs, ours = remote_major(device, remote), local_major(tools)
    except DevkitError as error:
        section.broken("server", "lldb-server", error, needed=False)
        return
    if theirs is None:
        section.add(
            "server", "lldb-server", BROKEN, f"{remote} does not run there",
            [f"devkit device shell -- {remote} version"],
            Repair(f"remove {remote}", lambda: _remove_server(device, remote)),
        )  # fmt: skip
    elif theirs != ours:
        section.add("server", "lldb-server", WARNING, f"lldb is {ours}, lldb-server is {theirs}",
                    ["lldb.path and lldb.server in devkit.yaml pin a pair"])  # fmt: skip
    else:
        section.add("server", "lldb-server", OK, f"version {theirs}, as lldb")


def _remove_server(device: Device, remote: str) -> str:
    from devkit.device import quote

    device.shell(quote(["rm", "-f", remote]), check=True)
    return f"removed {remote}; the next debug session pushes it anew"


def _leftovers(section: Section, config: Config, device: Device, folder: str) -> None:
    """What killed devkits left there, and lldb-servers of other versions: all of it is pushed anew."""
    from devkit import lldb
    from devkit.lldb.server import old_servers
    from devkit.runtime.leftovers import find_leftovers, measure, remove_leftovers

    try:
        left = find_leftovers(device, folder)
        try:
            left += measure(device, old_servers(device, lldb.find_tools(config, device), folder))
        except ToolMissing:
            pass  # the link of the debugger says so
    except DevkitError as error:
        section.broken("phone-leftovers", "leftovers", error, needed=False)
        return
    if not left:
        section.add("phone-leftovers", "leftovers", OK, "none")
        return
    size = output.human_bytes(sum(one.size_bytes for one in left))
    text = f"{len(left)} file(s) or folder(s) that nobody uses, {size}"

    def apply() -> str:
        remove_leftovers(device, left)
        return f"removed {', '.join(one.path for one in left)} ({size})"

    section.add(
        "phone-leftovers", "leftovers", WARNING, "\n".join([text, *(one.path for one in left)]),
        repair=Repair(f"remove {text}", apply),
    )  # fmt: skip


def _forwards(section: Section, device: Device) -> None:
    """Forwards to sockets of devkit, from lines that somebody has pasted."""
    from devkit.device.forwards import dead_forwards, own_forwards, remove_forward

    try:
        ours = own_forwards(device)
        dead = dead_forwards(device, ours)
    except DevkitError as error:
        section.broken("forwards", "forwards", error, needed=False)
        return
    names = ", ".join(map(str, ours))
    if not ours:
        section.add("forwards", "forwards", OK, "none of devkit: it needs none")
    elif dead is None:
        section.add("forwards", "forwards", OK, f"{names}; the phone does not tell who listens")
    elif not dead:
        section.add("forwards", "forwards", OK, f"{names}: in use")
    else:
        text = ", ".join(map(str, dead))

        def apply() -> str:
            for forward in dead:
                remove_forward(device, forward)
            return f"removed {text}"

        section.add(
            "forwards", "forwards", WARNING, f"nobody listens any more at the end of {text}",
            [f"adb -s {forward.serial} forward --remove {forward.local}" for forward in dead],
            Repair(f"remove {text}", apply),
        )  # fmt: skip
