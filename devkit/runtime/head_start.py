"""What begins while devkit still loads itself: the phone is asked, a finished program made ready."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.runtime.app_folder import AppFolder, survey
from devkit.runtime.warmup import WarmUp, libc_of, stripper_for

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.device import Device


class HeadStart:
    """The first look at a phone (see `app_folder.survey`), under way in a thread from the moment it is made.

    Nobody else asks the phone anything until `wait` has returned.

    Args:
        path: the program, of an app that is one.

    Attributes:
        warm_up: the same for its files.
    """

    def __init__(self, config: Config, device: Device, app: AppConfig, path: Path | None) -> None:
        self._seen: AppFolder | None = None
        self._error: BaseException | None = None

        def ask() -> None:
            try:
                self._seen = survey(device, config.device.dir, app.name)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=ask, name="devkit survey", daemon=True)
        self._thread.start()
        self.warm_up = None
        if path is not None:
            self.warm_up = WarmUp(path, (), (), lambda program: stripper_for(config, libc_of(program)))

    def wait(self) -> AppFolder | None:
        """What the app's folder holds. Result and errors are those of `survey`."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._seen
