"""The one process behind a phone: `python -m devkit.sim.supervisor JSON`, started by `start_phone`.

It binds the phone's port, starts the phone and its adb server, keeps the two connected, and ends
everything on SIGTERM or when its owner is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.errors import DevkitError, SimError
from devkit.sim import clock, family, image, models, places, state
from devkit.sim.adbserver import LOCALHOST
from devkit.sim.control import ControlServer
from devkit.sim.desk import Desk
from devkit.sim.hardware import REFRESH_S
from devkit.sim.link import Link, bind_listener, start_link
from devkit.sim.links import LinkSettings
from devkit.sim.making import CONTROL_DIR, PhoneMaker
from devkit.sim.request import REDUCED, PhoneRequest
from devkit.sim.rootfs import BOOT_ID
from devkit.sim.upkeep import AdbUpkeep
from devkit.sim.wifi import own_address

# An adb server takes whatever listens on an odd port of this range for an emulator.
EMULATOR_PORTS = range(5555, 5586, 2)


def main(arguments: list[str]) -> int:
    """Run a phone until it is to end; the exit code only matters when it did not start."""
    request = PhoneRequest.from_json(arguments[0])
    for fd in (request.lock_fd, request.ready_fd, request.lifeline_fd):
        if fd is not None:
            os.set_inheritable(fd, False)
    # Those of another phone, in whose shell this was started.
    for variable in places.VARIABLES:
        os.environ.pop(variable, None)
    # What the phone's users have to see must not depend on the umask of whoever starts it.
    os.umask(0o022)
    supervisor = Supervisor(request)
    try:
        supervisor.start()
    except DevkitError as error:
        supervisor.end()
        _answer(request.ready_fd, error)
        return 1
    except BaseException as error:
        _log(traceback.format_exc())
        supervisor.end()
        _answer(request.ready_fd, SimError("the virtual phone does not start", evidence=repr(error)))
        return 1
    try:
        if _answer(request.ready_fd, None, supervisor.notice):
            supervisor.watch()
    except BaseException:
        _log(traceback.format_exc())
    finally:
        supervisor.end()
    return 0


class Supervisor:
    """A phone and what belongs to it."""

    def __init__(self, request: PhoneRequest) -> None:
        self._request = request
        self._dir = state.phone_dir(request.name)
        self._maker = PhoneMaker(request, self._dir)
        self._link: Link | None = None
        self._desk: Desk | None = None
        self._control: ControlServer | None = None
        self._adb: AdbUpkeep | None = None
        self._serial = ""
        self._moves_at = 0.0
        self._wakeup, self._signals = os.pipe()
        os.set_blocking(self._signals, False)

    def start(self) -> None:
        """Bring everything up.

        Raises:
            SimError: some part of it does not come up.
        """
        signal.set_wakeup_fd(self._signals)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        started_at = time.time()
        # Both are sequences of messages: a connection must not be torn from what is said about it.
        channel, phones_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with channel, phones_end:
            with _bind(self._request.port) as listener:
                port = listener.getsockname()[1]
                self._serial = f"{LOCALHOST}:{port}"
                self._start_link(listener, channel)
            self._start_phone(phones_end)
        self._adb = AdbUpkeep(
            self._serial, auth=self._request.auth, address=self._request.connect_to, log=_log
        )
        if self._request.adb is not None:
            self._adb.start_server(Path(self._request.adb), self._dir / "android")
        self._adb.connect()
        assert self._desk is not None
        self._control = ControlServer(self._dir, self._desk.handle)
        self._announce(port, started_at)

    @property
    def notice(self) -> str | None:
        """What the user should know about the phone that was started."""
        return self._maker.notice

    def watch(self) -> None:
        """Return when the phone is to end."""
        assert self._adb is not None and self._desk is not None
        while True:
            ready, _, _ = select.select(self._watched(), [], [], self._patience())
            self._move_hardware()
            if self._wakeup in ready and self._handle_signals():
                return
            if self._request.lifeline_fd in ready and not os.read(self._request.lifeline_fd or 0, 512):
                _log("the owner is gone")
                return
            if self._warden_ended():
                _log("the phone has ended by itself")
                return
            if self._link_ended():
                _log("the link has ended")
                return
            if self._control is not None and self._control.listener in ready:
                self._control.serve_one()
                continue
            self._adb.keep(news=self._adb.tracker in ready, reachable=self._desk.is_reachable)

    def end(self) -> None:
        """End everything and remove its traces. Can be called at any stage of `start`."""
        if self._control is not None:
            self._control.close()
        if self._adb is not None:
            self._adb.end()
        if self._maker.warden:
            try:
                # It kills pid 1 of the phone and ends when the kernel has cleared the namespace.
                os.kill(self._maker.warden, signal.SIGTERM)
                os.waitpid(self._maker.warden, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        if self._link is not None:
            self._link.end()
        if self._maker.confinement == REDUCED:
            family.end_descendants(os.getpid(), set())
            self._maker.clean_up()
        state.remove_phone(self._request.name)

    # ---- parts of start

    def _start_link(self, listener: socket.socket, channel: socket.socket) -> None:
        control = self._dir / CONTROL_DIR
        control.mkdir(parents=True, exist_ok=True)
        (control / BOOT_ID).touch()
        self._link = start_link(listener, channel, {self._request.lock_fd})
        settings = LinkSettings.from_dict(self._request.link or {})
        wifi = own_address(listener.getsockname()[1])
        self._desk = Desk(
            *(self._link, control, settings),
            wifi=wifi,
            preload=self._preload(),
            reconnect=self._link_changed,
        )
        self._desk.begin()

    def _preload(self) -> str | None:
        # A library of this processor is not for programs of another.
        if self._request.abi not in (None, models.host_abi()) or not clock.can_preload():
            return None
        return f"/system/{image.LIB_DIR}/{clock.LIBRARY}"

    def _start_phone(self, channel: socket.socket) -> None:
        # What was made stays known when a later step fails: `end` ends it.
        self._maker.make(channel)

    def _announce(self, port: int, started_at: float) -> None:
        assert self._adb is not None
        host, adb_port = self._adb.address or (None, None)
        name = self._request.name
        if self._adb.has_own_server:
            entry = {
                "host": host,
                "port": adb_port,
                "origin": "sim",
                "label": name,
                "pid": os.getpid(),
                "serials": [self._serial],
            }
            paths.write_atomically(state.registry_file(name), json.dumps(entry, indent=2) + "\n")
        state.write_record(
            state.PhoneRecord(
                name=name,
                serial=self._serial,
                port=port,
                pid=os.getpid(),
                adb_host=host,
                adb_port=adb_port,
                model=self._request.model,
                started_at=started_at,
                state_dir=self._dir,
                confinement=self._maker.confinement,
            )
        )

    # ---- parts of watch

    def _watched(self) -> list[Any]:
        watched: list[Any] = [self._wakeup]
        if self._request.lifeline_fd is not None:
            watched.append(self._request.lifeline_fd)
        if self._adb is not None and self._adb.tracker is not None:
            watched.append(self._adb.tracker)
        if self._control is not None:
            watched.append(self._control.listener)
        return watched

    def _patience(self) -> float | None:
        assert self._adb is not None and self._desk is not None
        times = [self._adb.patience_s(reachable=self._desk.is_reachable)]
        times += [REFRESH_S] if self._maker.hardware is not None else []
        return min((each for each in times if each is not None), default=None)

    def _move_hardware(self) -> None:
        now = time.monotonic()
        if self._maker.hardware is None or now < self._moves_at:
            return
        self._moves_at = now + REFRESH_S
        try:
            self._maker.hardware.move(now)
        except OSError as error:
            _log(f"the hardware stands still: {error}")
            self._maker.hardware = None

    def _handle_signals(self) -> bool:
        numbers = os.read(self._wakeup, 512)
        ending = [n for n in numbers if n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        if ending:
            _log(f"asked to end (signal {ending[0]})")
        return bool(ending)

    def _warden_ended(self) -> bool:
        pid, status = os.waitpid(self._maker.warden, os.WNOHANG)
        if pid:
            self._maker.warden = 0
            _log(f"warden ended with status {status:#x}")
        return bool(pid)

    def _link_ended(self) -> bool:
        assert self._link is not None
        return os.waitpid(self._link.pid, os.WNOHANG)[0] != 0

    def _link_changed(self, listed: bool) -> None:
        """The phone was unplugged, went silent or came back; `listed`: adb may go on naming it."""
        assert self._desk is not None and self._adb is not None
        self._adb.drop()
        if self._desk.is_reachable:
            self._adb.reconnect()
        elif not listed:
            self._adb.forget()


def _bind(port: int) -> socket.socket:
    if port in EMULATOR_PORTS:
        raise SimError(
            f"port {port} cannot be a virtual phone's",
            evidence="adb servers take odd ports from 5555 to 5585 for emulators and adopt them",
            hints=[f"--port {port + 1}", "--port 0 takes a free one"],
        )
    while True:
        try:
            listener = bind_listener(LOCALHOST, port)
        except (OSError, OverflowError) as error:
            raise SimError(
                f"port {port} cannot be used for the virtual phone",
                evidence=str(error),
                hints=["--port 0 takes a free one", f"ss -ltnp 'sport = :{port}' shows who has it"],
            ) from None
        if listener.getsockname()[1] not in EMULATOR_PORTS:
            return listener
        listener.close()


def _answer(fd: int, error: DevkitError | None, notice: str | None = None) -> bool:
    """Tell the starter the outcome; False when it is not there any more."""
    report = None if error is None else error.as_dict()
    try:
        os.write(fd, json.dumps({"error": report, "notice": notice}).encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _log(text: str) -> None:
    # Where the log cannot be written (disk full), the starter must still be answered.
    with contextlib.suppress(OSError):
        sys.stderr.write(time.strftime("%m-%d %H:%M:%S ") + text.rstrip() + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
