"""A phone without namespaces, for machines that refuse them: a plain folder and this machine's programs.

What then differs is in docs/virtual-phone.md. The keeper takes the place of the warden and of init: it
adopts every process of the phone that loses its parent, and ends all of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from devkit.errors import SimError
from devkit.sim import clock, image, landlock, models, namespaces, places
from devkit.sim.adbd import control, daemon, shell
from devkit.sim.adbd.auth import Keyring
from devkit.sim.adbd.faults import FaultBoard, Places
from devkit.sim.adbd.handover import Handover
from devkit.sim.adbd.log import log
from devkit.sim.adbd.release import WireRelease
from devkit.sim.family import end_descendants
from devkit.sim.init import redirect_output, report_to, run_child
from devkit.sim.logs.read import log_reboot
from devkit.sim.native import attach
from devkit.sim.power import boot_seconds, forget_properties, reboot_is_wanted
from devkit.sim.releases import find_release
from devkit.sim.request import REDUCED, PhoneRequest
from devkit.sim.service_list import services_of
from devkit.sim.services import PhoneFacts, Services
from devkit.sim.users import ShellWorld

# Of the phone's scripts those that work anywhere; everything else is this machine's.
SCRIPTS = ("date", "getprop", "setprop", "ps", "pgrep", "pidof", "uptime", "which")
# Programs of the phone whose work its services do.
APPLETS = ("logcat", "log", "simpleperf")
CRASH_LIBRARY = "libdevkit_crash.so"
SHELL = "/bin/sh"
PROPERTY = "ro.devkit.confinement"
_RESTART_PAUSE_S = 0.2
# Those that are the user's own come first; what holds blanks or colons cannot be preloaded from.
_SHORT_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class ReducedSetup:
    """All that such a phone's processes need to know.

    Args:
        folder: of the phone; `data` in it is what programs may write.
        control: where the supervisor says what is wrong with the phone.
        short: a folder with a short name: those of sockets must not be long.
        memory_limit_bytes: what its programs may use together, None without a limit.
    """

    folder: Path
    control: Path
    short: Path
    properties: Mapping[str, str]
    release: WireRelease
    auth: bool
    log_file: Path
    memory_limit_bytes: int | None = None

    @property
    def data(self) -> Path:
        """The writable folder."""
        return self.folder / "data"

    @property
    def property_folder(self) -> Path:
        """What /dev/__properties__ is elsewhere."""
        return self.folder / "properties"

    @property
    def scripts(self) -> Path:
        """The folder that comes first on PATH."""
        return self.folder / "bin"

    @property
    def tombstones(self) -> Path:
        """Where reports of crashes go. Not below `data`: the shell must not write there."""
        return self.folder / "tombstones"

    @property
    def places(self) -> dict[str, str]:
        """The variables that lead to all this."""
        return {
            places.SOCKETS_VARIABLE: str(self.short),
            places.CONTROL_VARIABLE: str(self.control),
            places.TOMBSTONES_VARIABLE: str(self.tombstones),
            "DEVKIT_PROPERTIES": str(self.property_folder),
        }

    @property
    def environment(self) -> dict[str, str]:
        """What its programs get."""
        return self.places | {
            "PATH": f"{self.scripts}:{os.environ.get('PATH') or _HOST_PATH}",
            "HOME": str(self.data),
            "TMPDIR": str(self.data),
            "SHELL": SHELL,
            "USER": "shell",
            "LOGNAME": "shell",
            # A C library built into AddressSanitizer would not stand behind another.
            "LD_PRELOAD": str(self.short / CRASH_LIBRARY),
            "ASAN_OPTIONS": "verify_asan_link_order=0",
            "HOSTNAME": self.properties.get("ro.product.device", "localhost"),
        }


def fingerprint_part() -> str:
    """What tells this machine's C library from another's, for ro.build.fingerprint."""
    loader = image.LOADER_PATHS[os.uname().machine]
    try:
        facts = loader.stat()
        text = f"{loader}\0{facts.st_size}\0{facts.st_mtime_ns}"
    except OSError:
        text = str(loader)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def plan_reduced(request: PhoneRequest, folder: Path, control: Path) -> ReducedSetup:
    """The phone that was asked for, as far as it can be had without namespaces."""
    release = find_release(request.android or models.default_release(request.model))
    properties = models.phone_properties(
        request.model,
        release,
        abi=models.host_abi(),
        serial="SIM" + secrets.token_hex(5).upper(),
        image="r" + fingerprint_part(),
    )
    properties[PROPERTY] = REDUCED
    return ReducedSetup(
        *(folder, control, make_short_folder(), properties, release.wire, request.auth, folder / "adbd.log"),
        request.memory_limit_bytes,
    )


def make_short_folder() -> Path:
    """A new folder of this user, with a name that leaves room for sockets.

    Raises:
        SimError: there is no place for one.
    """
    for base in _SHORT_PLACES:
        try:
            return Path(tempfile.mkdtemp(prefix="devkit-", dir=base))
        except OSError:
            continue
    raise SimError(
        "there is no place for the sockets of a reduced phone",
        evidence="nothing can be written to " + " or ".join(map(str, _SHORT_PLACES)),
        hints=["make /tmp writable: sockets have no room for long paths"],
    )


def prepare(setup: ReducedSetup) -> None:
    """Make the phone's folders, properties and scripts.

    Raises:
        OSError: a file cannot be written.
    """
    needed = (setup.data, setup.scripts, setup.property_folder / "changed", setup.folder / "adb")
    for folder in (*needed, setup.tombstones):
        folder.mkdir(parents=True, exist_ok=True)
    for name in APPLETS:
        shutil.copyfile(attach.applet(), setup.scripts / name)
        (setup.scripts / name).chmod(0o755)
    for name, library in ((CRASH_LIBRARY, attach.crash_library()), (clock.LIBRARY, attach.clock_library())):
        shutil.copyfile(library, setup.short / name)
    text = "".join(f"{key}={value}\n" for key, value in sorted(setup.properties.items()))
    (setup.property_folder / "build.prop").write_text(text, encoding="utf-8")
    for name in SCRIPTS:
        source = image.SCRIPTS_DIR / name
        if not source.exists():
            continue
        script = source.read_text(encoding="utf-8").removeprefix("#!/system/bin/sh")
        (setup.scripts / name).write_text(f"#!{SHELL}{script}", encoding="utf-8")
        (setup.scripts / name).chmod(0o755)


def start_keeper(setup: ReducedSetup, channel: socket.socket, keep_fds: set[int]) -> tuple[int, int]:
    """As `devkit.sim.init.start_warden`."""
    codecs = daemon.preload()
    report_read, report_write = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_child(lambda: _keeper(setup, channel, codecs, supervisor, report_write, keep_fds))
    os.close(report_write)
    return pid, report_read


def _keeper(
    setup: ReducedSetup,
    channel: socket.socket,
    codecs: dict[int, Any],
    supervisor: int,
    report: int,
    keep_fds: set[int],
) -> None:
    ending: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        ending.append(number)

    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, end)
    redirect_output(setup.log_file)
    namespaces.close_fds_except({0, 1, 2, channel.fileno(), report} | keep_fds)
    namespaces.adopt_orphans()
    # Not SIGKILL: who dies at once leaves the phone's programs behind.
    namespaces.die_with_parent(signal.SIGTERM)
    if os.getppid() != supervisor:
        os._exit(1)
    namespaces.set_process_title("devkit-phone")
    control.CHANGED_PROPERTIES = setup.property_folder / "changed"
    os.environ.update(setup.places)
    report_to(report, ok=True)
    services = _start_services(setup)
    adbd = 0
    # A signal that comes just before a wait would be seen only after it: take it there.
    waited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        while not ending:
            if not adbd:
                adbd = os.fork()
                if adbd == 0:
                    run_child(lambda: _adbd(setup, channel, codecs))
            if signal.sigwait(waited) == signal.SIGTERM:
                ending.append(signal.SIGTERM)
            for pid, status in _reap_all():
                if pid == adbd:
                    log("adbd ended, starting it again")
                    adbd = 0
                elif not ending:
                    services.handle_end(pid, status)
            if not adbd and not ending:
                end_descendants(os.getpid(), services.pids)
                _pause(setup, channel)
    finally:
        end_descendants(os.getpid(), set())
        shutil.rmtree(setup.short, ignore_errors=True)


def _start_services(setup: ReducedSetup) -> Services:
    facts = PhoneFacts(
        setup.properties, setup.environment, su=False, memory_limit_bytes=setup.memory_limit_bytes
    )
    keeper = os.getpid()

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        namespaces.die_with_parent()
        if os.getppid() != keeper:
            os._exit(1)

    return Services(facts, ShellWorld(), services_of(facts, ShellWorld()), prepare)


def _pause(setup: ReducedSetup, channel: socket.socket) -> None:
    if not reboot_is_wanted():
        time.sleep(_RESTART_PAUSE_S)
        return
    log_reboot()
    deadline = time.monotonic() + boot_seconds()
    handover = Handover(channel)
    while (left := deadline - time.monotonic()) > 0 and signal.SIGTERM not in signal.sigpending():
        handover.turn_away(min(left, 0.2))
    forget_properties(setup.property_folder / "changed")


def _adbd(setup: ReducedSetup, channel: socket.socket, codecs: dict[int, Any]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keeper = os.getppid()
    namespaces.die_with_parent()
    if os.getppid() != keeper:
        os._exit(1)
    namespaces.set_process_title("adbd")
    os.umask(0o022)
    _confine(setup)
    shell.SHELL = SHELL
    config = daemon.DaemonConfig(setup.properties, setup.environment, setup.release, codecs)
    if setup.auth:
        config = dataclasses.replace(config, keyring=Keyring(setup.folder / "adb"))
    library = setup.short / clock.LIBRARY if clock.can_preload() else None
    faults = FaultBoard(Places(setup.control, setup.data, setup.property_folder / "changed", library))
    faults.refresh()
    config = dataclasses.replace(config, faults=faults)
    log("adbd is up (reduced): " + daemon.Daemon(config).banner().decode())
    daemon.Daemon(config).serve_forever(Handover(channel, faults.refresh))


def _confine(setup: ReducedSetup) -> None:
    """Programs write below the phone's folder and nowhere else of this machine, if the kernel can do that."""
    writable = {setup.data: landlock.EVERYTHING, setup.property_folder: landlock.EVERYTHING}
    writable |= {setup.folder / "adb": landlock.EVERYTHING, Path("/dev/shm"): landlock.EVERYTHING}
    # Terminals and null; a debugger writes /proc/PID/mem.
    writable |= {Path("/dev"): landlock.WRITE_FILE, Path("/proc"): landlock.WRITE_FILE}
    try:
        confined = landlock.restrict_writing(writable)
    except OSError as error:
        log(f"{error}")
        confined = False
    if not confined:
        log("no Landlock here: programs of the phone can write wherever this user can")


def _reap_all() -> list[tuple[int, int]]:
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))
