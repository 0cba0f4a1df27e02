"""Apps on a phone as tests want them: built and deployed by one call, run by another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devkit import config as configuration
from devkit import runtime
from devkit.device import Device
from devkit.runtime.guard import Guard

RUN_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class AppResult:
    """How a run ended. A signal n ended it when `exit_code` is 128 + n."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def output(self) -> str:
        """stdout and then stderr, decoded; bytes that are not UTF-8 become U+FFFD."""
        return (self.stdout + self.stderr).decode("utf-8", "replace")


class DeployedApp:
    """An app that stands on a phone, with everything it needs."""

    def __init__(self, device: Device, prepared: runtime.PreparedApp) -> None:
        self.device = device
        self.prepared = prepared

    @property
    def folder(self) -> str:
        """Its folder on the phone, which is its working directory too."""
        return self.prepared.plan.folder

    def run(self, *args: str, stdin: bytes = b"", timeout_s: float | None = RUN_TIMEOUT_S) -> AppResult:
        """Run it to its end.

        Args:
            args: instead of those of devkit.yaml, if there are any.
            timeout_s: None for as long as it takes.

        Raises:
            OperationTimeout: it was still running then; it has been ended.
            DeviceError: the phone went away.
        """
        launch = self.prepared.launch(args)
        guard = Guard(self.device, launch.folder)
        try:
            done = self.device.shell(guard.prefix + launch.shell_text(), stdin=stdin, timeout_s=timeout_s)
        except BaseException:
            guard.kill()
            raise
        guard.release()
        return AppResult(done.exit_code, done.stdout, done.stderr)


def deploy(device: Device, name: str, *, root: Path, profile: str | None = None) -> DeployedApp:
    """Build an app for a phone and deploy it; a second time only what changed is built and travels.

    Args:
        name: an app of devkit.yaml, a CMake target, or an executable's path.
        root: where the search for devkit.yaml begins.

    Raises:
        DevkitError: it cannot be built or deployed.
    """
    settings = configuration.load(root)
    local = runtime.build_app(settings, device, name, profile=profile)
    prepared = runtime.prepare_app(settings, device, local)
    runtime.deploy_app(device, prepared)
    return DeployedApp(device, prepared)
