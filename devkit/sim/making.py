"""Making a phone, in the best way this machine allows: namespaces of a user, of root, or a plain folder."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from pathlib import Path

from devkit import process
from devkit.errors import SimError
from devkit.sim import image, models, namespaces, reduced, refusals, state
from devkit.sim.foreign import plan_foreign, write_libraries
from devkit.sim.hardware import Hardware, plan_files, processors
from devkit.sim.init import PhoneSetup, SetupFailed, read_report, start_warden
from devkit.sim.releases import find_release
from devkit.sim.request import AUTO, NAMESPACES, REDUCED, ROOT_NAMESPACES, PhoneRequest
from devkit.sim.rootfs import RootPlan
from devkit.sim.users import SHELL_ID

CONTROL_DIR = "control.d"
PHONE_START_TIMEOUT_S = 10.0


class PhoneMaker:
    """Makes one phone.

    Attributes:
        warden: the process whose end is the phone's, 0 while there is none.
        confinement: how it was made.
        notice: what the user should know about it.
        hardware: the model's, None when it shows this machine's.
    """

    def __init__(self, request: PhoneRequest, folder: Path) -> None:
        self._request = request
        self._dir = folder
        self._image_fd = -1
        self._short: Path | None = None
        self.warden = 0
        self.confinement = NAMESPACES
        self.notice: str | None = None
        self.hardware: Hardware | None = None

    def make(self, channel: socket.socket) -> None:
        """Start the phone.

        Args:
            channel: where its adbd gets its connections from.

        Raises:
            SimError: it cannot be had; what is left of it is ended by `end` of the supervisor.
        """
        wanted = self._request.confinement
        if wanted == REDUCED and self._is_foreign():
            raise refusals.foreign_needs_users()
        refusal = None
        for kind in (NAMESPACES, ROOT_NAMESPACES):
            if not self._may_try(kind, refusal):
                continue
            try:
                self._start_in_namespaces(channel, own_users=kind == NAMESPACES)
                self.confinement = kind
                return
            except refusals.Refused as error:
                refusal = refusal or error
                if self.warden:
                    os.waitpid(self.warden, 0)
                    self.warden = 0
        if refusal is not None:
            if wanted != AUTO or self._is_foreign():
                raise refusal
            self.notice = refusals.reduced_notice(refusal)
        missing = [
            option
            for option, asked in (("--su", self._request.su), ("--storage", self._request.data_limit_bytes))
            if asked
        ]
        if missing:
            text = f"on a reduced phone cannot be had: {', '.join(missing)}"
            self.notice = f"{self.notice}\n{text}" if self.notice else text
        self.confinement = REDUCED
        # Whatever its keeper leaves behind becomes ours, and ends in `end`.
        namespaces.adopt_orphans()
        setup = reduced.plan_reduced(self._request, self._dir, self._dir / CONTROL_DIR)
        self._short = setup.short
        try:
            reduced.prepare(setup)
            self.warden, report = reduced.start_keeper(setup, channel, {self._request.lock_fd})
            read_report(report, PHONE_START_TIMEOUT_S)
        except (OSError, SetupFailed) as error:
            raise SimError("the virtual phone does not start", evidence=str(error)) from None

    def clean_up(self) -> None:
        """Remove what a reduced phone has outside of its folder, if its keeper could not."""
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)

    def _may_try(self, kind: str, refusal: refusals.Refused | None) -> bool:
        wanted = self._request.confinement
        if kind == NAMESPACES:
            return wanted in (AUTO, NAMESPACES)
        if wanted == ROOT_NAMESPACES:
            if self._is_foreign():
                raise refusals.foreign_needs_users()
            return True
        # Without a user namespace there is no binfmt_misc of the phone's own.
        return refusal is not None and namespaces.is_privileged() and not self._is_foreign()

    def _is_foreign(self) -> bool:
        return self._request.abi not in (None, models.host_abi())

    def _start_in_namespaces(self, channel: socket.socket, *, own_users: bool) -> None:
        release = find_release(self._request.android or models.default_release(self._request.model))
        abi = self._request.abi or models.host_abi()
        needed = plan_foreign(abi)
        if self._image_fd >= 0:
            os.close(self._image_fd)
        system, key, self._image_fd = image.acquire_system(release)
        properties = models.phone_properties(
            self._request.model,
            release,
            abi=abi,
            serial="SIM" + secrets.token_hex(5).upper(),
            image=key[:8],
        )
        folders = [self._dir / name for name in ("root", "data", "shared", "adb", "hardware", "foreign")]
        for folder in folders:
            state.remove_tree(folder)
            folder.mkdir(parents=True)
            folder.chmod(0o771)
        root, data, shared, keys, hardware, foreign = folders
        if not own_users:
            self._give_to_shell(data, shared, keys)
        if needed is not None:
            write_libraries(needed, foreign)
        files = plan_files(models.hardware_row(self._request.model), processors())
        if files:
            self.hardware = Hardware(hardware, files)
            self.hardware.write()
        limit = self._request.data_limit_bytes
        control = self._dir / CONTROL_DIR
        plan = RootPlan(
            root,
            system,
            data if limit is None else None,
            limit,
            shared,
            keys,
            hardware,
            control,
            properties,
            self._request.su,
            (foreign, needed.qemu) if needed is not None else None,
            None if own_users else SHELL_ID,
        )
        setup = PhoneSetup(
            plan,
            release.wire,
            self._request.auth,
            self._dir / "adbd.log",
            self._request.su,
            self._request.memory_limit_bytes,
            own_users,
        )
        try:
            self.warden, report = start_warden(setup, channel, {self._request.lock_fd})
            read_report(report, PHONE_START_TIMEOUT_S)
        except SetupFailed as error:
            raise refusals.explain(error, log=_tail(setup.log_file), own_users=own_users) from None

    def _give_to_shell(self, *folders: Path) -> None:
        try:
            for folder in folders:
                os.chown(folder, SHELL_ID, SHELL_ID)
        except OSError as error:
            # In a user namespace with a single user there is nobody to give them to.
            failed = SetupFailed("shell user", error.errno or 0, str(error))
            raise refusals.explain(failed, own_users=False) from None


def _tail(path: Path) -> str:
    try:
        return process.tail(path.read_bytes())
    except OSError:
        return ""
