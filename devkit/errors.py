"""The one error hierarchy of devkit. Nothing here prints; `devkit.__main__` does, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_TIMEOUT = 124
EXIT_DEVKIT_FAILED = 125
EXIT_INTERRUPTED = 130

LAPTOP = "laptop"
SERVER = "server"
PHONE = "phone"
HERE = "this machine"


class DevkitError(Exception):
    """A failure that a user can act on.

    Args:
        what: one sentence that says what failed.
        where: the machine on which it failed: HERE, LAPTOP, SERVER or PHONE.
        evidence: what was seen (tool output, a path, a state), shown verbatim.
        hints: the next commands or actions to try, best first.
        exit_code: overrides the class's exit code.

    Attributes:
        details: what is known all the same, for `--json`: results read until then.
    """

    exit_code: int = EXIT_DEVKIT_FAILED
    details: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self,
        what: str,
        *,
        where: str = HERE,
        evidence: str | None = None,
        hints: Sequence[str] = (),
        exit_code: int | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.evidence = evidence.strip() if evidence else None
        self.hints = tuple(hints)
        if exit_code is not None:
            self.exit_code = exit_code

    def as_dict(self) -> dict[str, object]:
        """The error as `--json` prints it."""
        return {
            "error": self.what,
            "kind": type(self).__name__,
            "where": self.where,
            "evidence": self.evidence,
            "hints": list(self.hints),
            "exit_code": self.exit_code,
            **self.details,
        }


class UsageError(DevkitError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = EXIT_USAGE


class ConfigError(DevkitError):
    """devkit.yaml, the user's config or a DEVKIT_* variable cannot be used."""

    exit_code = EXIT_USAGE


class CheckFailed(DevkitError):
    """A check gave a clear no (doctor, a program whose output contradicts its exit 0)."""

    exit_code = EXIT_CHECK_FAILED


class OperationTimeout(DevkitError):
    """Something did not answer in the time it had."""

    exit_code = EXIT_TIMEOUT


class ToolMissing(DevkitError):
    """A program or SDK that devkit drives was not found or does not run."""


class ToolFailed(DevkitError):
    """A program that devkit drives ended with an error."""


class FileError(DevkitError):
    """A file on this machine is missing, unreadable, or not what its name promises."""


class DeviceError(DevkitError):
    """The phone, or the adb server on the way to it, refused or broke off."""


class BuildError(DevkitError):
    """Configuring or compiling the engine failed."""


class DeployError(DevkitError):
    """A file cannot travel to the phone, or did not arrive."""


class DebugError(DevkitError):
    """The debug session could not be set up or ended badly."""


class TunnelError(DevkitError):
    """A link of the way to another machine could not be made, was refused, or broke.

    Args:
        reason: one word a program can branch on: "config", "dns", "refused", "unreachable", "timeout",
            "not-ssh", "proxy-command", "protocol", "host-key-unknown", "host-key-changed",
            "host-key-revoked", "auth", "forward-denied", "address-in-use", "target", "lost", "closed".
        route: the machines of the chain as the user names them, first this one.
        link: index in `route` of the machine at the near end of the link that failed, if one did.
    """

    def __init__(
        self,
        what: str,
        *,
        reason: str,
        route: Sequence[str] = (),
        link: int | None = None,
        where: str = HERE,
        evidence: str | None = None,
        hints: Sequence[str] = (),
    ) -> None:
        self.reason = reason
        self.route = tuple(route)
        self.link = link
        shown = [evidence.strip()] if evidence and evidence.strip() else []
        if link is not None and len(self.route) > 2:
            shown.insert(0, f"{' → '.join(self.route)} (broken: {self.route[link]} → {self.route[link + 1]})")
        super().__init__(
            what,
            where=where,
            evidence="\n".join(shown),
            hints=hints,
            exit_code=EXIT_USAGE if reason == "config" else None,
        )

    def as_dict(self) -> dict[str, object]:
        """The error as `--json` prints it."""
        return {**super().as_dict(), "reason": self.reason, "route": list(self.route), "link": self.link}


class SimError(DevkitError):
    """The virtual phone could not be started, stopped or reached."""
