"""The phone's processes outside of adbd: the warden on the host and `init`, pid 1 of the phone.

The warden is forked by the supervisor and makes the namespaces; its child is the first process in
them. Each dies with its parent, and with pid 1 the kernel ends everything in the phone.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from devkit.sim import namespaces, power
from devkit.sim.adbd import daemon
from devkit.sim.adbd.auth import Keyring
from devkit.sim.adbd.control import ROOT_PROPERTY, changed_property
from devkit.sim.adbd.faults import FaultBoard, Places
from devkit.sim.adbd.handover import Handover
from devkit.sim.adbd.log import log
from devkit.sim.adbd.release import WireRelease
from devkit.sim.logs.read import log_reboot
from devkit.sim.rootfs import BOOT_ID, PRIVATE_MOUNT, RootPlan, build_root
from devkit.sim.service_list import services_of
from devkit.sim.services import PhoneFacts, Services
from devkit.sim.users import ROOT_ID, ShellWorld, become_shell, check_shell_user, make_shell_world

HOST_NAME = "localhost"
_RESTART_PAUSE_S = 0.2

# What adbd inherits from Android's init, and what it sets for its programs (shell_service.cpp).
ENVIRONMENT = {
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
    "ANDROID_STORAGE": "/storage",
    "EXTERNAL_STORAGE": "/sdcard",
    "HOME": "/",
    "LOGNAME": "shell",
    "PATH": "/product/bin:/system/bin:/vendor/bin",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "USER": "shell",
}


@dataclass(frozen=True)
class PhoneSetup:
    """All that the phone's processes need to know. Made before the fork.

    Args:
        release: the adbd it runs.
        auth: hosts have to be allowed.
        su: there is a `su`.
        memory_limit_bytes: what its programs may use together, None without a limit.
        own_users: it has a user namespace. Without, its root and shell are this machine's users.
    """

    root: RootPlan
    release: WireRelease
    auth: bool
    log_file: Path
    su: bool = False
    memory_limit_bytes: int | None = None
    own_users: bool = True


class SetupFailed(Exception):
    """A step of making the phone failed.

    Args:
        step: what was tried.
        number: the errno.
    """

    def __init__(self, step: str, number: int, text: str) -> None:
        super().__init__(text)
        self.step = step
        self.number = number


def start_warden(setup: PhoneSetup, channel: socket.socket, keep_fds: set[int]) -> tuple[int, int]:
    """Fork the warden. To be called from the supervisor's main thread, before it has others.

    Args:
        channel: where adbd gets its connections from.
        keep_fds: descriptors the phone's own processes inherit on purpose (the lock).

    Returns:
        the warden's pid and a descriptor that yields one report: see `read_report`.
    """
    codecs = daemon.preload()
    report_read, report_write = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_child(lambda: _warden(setup, channel, codecs, supervisor, report_write, keep_fds))
    os.close(report_write)
    return pid, report_read


def read_report(fd: int, timeout_s: float) -> None:
    """Wait until the phone is up.

    Raises:
        SetupFailed: it is not.
    """
    chunks = []
    deadline = time.monotonic() + timeout_s
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise SetupFailed("waiting for the phone's init", errno.ETIMEDOUT, "it did not report in time")
        data = os.read(fd, 4096)
        if not data:
            break
        chunks.append(data)
    os.close(fd)
    if not chunks:
        raise SetupFailed("waiting for the phone's init", errno.EPIPE, "it ended without a word")
    report: dict[str, Any] = json.loads(b"".join(chunks))
    if not report["ok"]:
        raise SetupFailed(report["step"], report["errno"], report["text"])


def run_child(body: Callable[[], object]) -> NoReturn:
    """Run the body of a forked child; never return into the parent's code."""
    try:
        body()
        os._exit(0)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException:
        log(traceback.format_exc())
        os._exit(70)


def report_to(fd: int, **content: object) -> None:
    """Tell whoever waits in `read_report`."""
    os.write(fd, json.dumps(content).encode())
    os.close(fd)


# ---- the warden


def _warden(
    setup: PhoneSetup,
    channel: socket.socket,
    codecs: dict[int, Any],
    supervisor: int,
    report: int,
    keep_fds: set[int],
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    redirect_output(setup.log_file)
    _close_fds({0, 1, 2, channel.fileno(), report} | keep_fds)
    uid, gid = os.geteuid(), os.getegid()
    step = "user namespace" if setup.own_users else "namespaces"
    try:
        namespaces.unshare(namespaces.PHONE_NAMESPACES if setup.own_users else namespaces.ROOT_NAMESPACES)
        if setup.own_users:
            step = "uid map"
            namespaces.map_ids(uid, gid, ROOT_ID)
        # After the change of credentials, which clears it.
        namespaces.die_with_parent()
    except OSError as error:
        report_to(report, ok=False, step=step, errno=error.errno or 0, text=str(error))
        os._exit(1)
    if os.getppid() != supervisor:
        os._exit(1)
    alive_read, alive_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(alive_write)
        run_child(lambda: _init(setup, channel, codecs, report, alive_read))
    os.close(report)
    os.close(alive_read)
    channel.close()
    namespaces.set_process_title("devkit-phone")

    def end_phone(_: int, __: FrameType | None) -> None:
        os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_phone)
    # Returns only after everything in the pid namespace is gone.
    os.waitpid(pid, 0)


def redirect_output(log_file: Path) -> None:
    """Let this process read nothing and write to a log."""
    null = os.open(os.devnull, os.O_RDWR)
    # O_APPEND, so that the log may be cut while it is written.
    log_fd = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(null)
    os.close(log_fd)


def _close_fds(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass


# ---- init


def _init(setup: PhoneSetup, channel: socket.socket, codecs: dict[int, Any], report: int, alive: int) -> None:
    step = "start"
    try:
        namespaces.die_with_parent()
        # getppid says 0 here whether the warden lives or not; its end of this pipe does not lie.
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)
        os.close(alive)
        os.umask(0)
        step = "host name"
        namespaces.set_host_name(HOST_NAME)
        step = "loopback"
        namespaces.bring_loopback_up()
        step = "boot"
        boot = power.Boot(setup.root.control / BOOT_ID)
        boot.begin()
        step = "file tree"
        build_root(setup.root)
        step = "change of root"
        namespaces.change_root(setup.root.root)
        step = "shell user"
        if setup.own_users:
            world = make_shell_world([Path("/") / PRIVATE_MOUNT])
        else:
            namespaces.limit_root()
            world = check_shell_user()
        _forbid_core_files()
        step = "first program"
        _check_programs()
    except OSError as error:
        report_to(report, ok=False, step=step, errno=error.errno or 0, text=str(error))
        os._exit(1)
    namespaces.set_process_title("init")
    environment = {**ENVIRONMENT, "HOSTNAME": setup.root.properties.get("ro.product.device", HOST_NAME)}
    config = daemon.DaemonConfig(setup.root.properties, environment, setup.release, codecs, own_network=True)
    facts = PhoneFacts(setup.root.properties, environment, setup.su, setup.memory_limit_bytes)
    # Connections wait in the channel until adbd takes them, so the phone is up already.
    report_to(report, ok=True)
    services = Services(facts, world, services_of(facts, world))
    adbd = _start_adbd(config, channel, world, auth=setup.auth)
    while True:
        pid, status = os.wait()
        if pid == adbd:
            log(f"adbd ended (status {status:#x}), starting it again")
            # Android's init ends a service's whole control group with it.
            services.end_programs()
            if power.reboot_is_wanted():
                log_reboot()
                power.reboot(Handover(channel))
                boot.begin()
            else:
                time.sleep(_RESTART_PAUSE_S)
            adbd = _start_adbd(config, channel, world, auth=setup.auth)
        else:
            services.handle_end(pid, status)


def _start_adbd(config: daemon.DaemonConfig, channel: socket.socket, world: ShellWorld, *, auth: bool) -> int:
    pid = os.fork()
    if pid == 0:
        run_child(lambda: _adbd(config, channel, world, auth=auth))
    return pid


def _adbd(config: daemon.DaemonConfig, channel: socket.socket, world: ShellWorld, *, auth: bool) -> None:
    namespaces.set_process_title("adbd")
    # As in Android: adbd starts as root and stays so only if it was asked to on a debuggable build.
    if changed_property(ROOT_PROPERTY) != "1" or config.properties.get("ro.debuggable") != "1":
        become_shell(world)
    if auth:
        config = dataclasses.replace(config, keyring=Keyring(Path("/data/misc/adb")))
    faults = FaultBoard(Places())
    faults.refresh()
    config = dataclasses.replace(config, faults=faults)
    daemon.forbid_late_imports()
    log("adbd is up: " + daemon.Daemon(config).banner().decode())
    daemon.Daemon(config).serve_forever(Handover(channel, faults.refresh))


def _forbid_core_files() -> None:
    # At 1 byte the kernel neither writes a core file nor starts the host's core handler.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 1 if hard == resource.RLIM_INFINITY or hard >= 1 else 0
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def _check_programs() -> None:
    """Raises:
    OSError: the phone's own shell does not run.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.execve("/system/bin/sh", ["sh", "-c", "/system/bin/cat </dev/null"], ENVIRONMENT)
        except OSError as error:
            os._exit(error.errno if error.errno and error.errno < 126 else 126)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise OSError(errno.ENOEXEC, f"/system/bin/sh does not run here (wait status {status:#x})")


if sys.platform != "linux":
    raise ImportError("the virtual phone needs Linux namespaces")
