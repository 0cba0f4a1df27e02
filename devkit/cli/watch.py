"""`devkit watch APP`: save → build → deploy → rerun."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from devkit import output
from devkit.cli import common, run_options
from devkit.errors import EXIT_INTERRUPTED, ConfigError, DevkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime.request import RunRequest
    from devkit.runtime.sources import Snapshot, Sources

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit watch llm_demo -- model/config.json prompt.txt 32")
def watch(
    name: common.App,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    env: run_options.Env = None,
    cwd: run_options.Cwd = None,
    stdin: run_options.Stdin = None,
    tty: run_options.Tty = None,
    live: run_options.Live = False,
    timeout: run_options.Timeout = None,
    taskset: run_options.Taskset = None,
    root: run_options.Root = False,
    pull: run_options.Pull = None,
    pull_to: run_options.PullTo = None,
) -> None:
    """Run APP again after each save: build, deploy, rerun. Ctrl-C ends it, and the program on the phone."""
    request = run_options.make_request(
        env=env, cwd=cwd, stdin=stdin, tty=tty, live=live, timeout=timeout, taskset=taskset, root=root,
        pull=pull, pull_to=pull_to,
    )  # fmt: skip

    def one_round(round_: _Round) -> int:
        config = common.load_config(serial=serial, device_dir=device_dir, ndk=ndk)
        device = round_.device or common.pick_device(config, serial)
        return round_.build_and_run(config, device, name, args or [], profile, request)

    _watch(lambda: common.load_config(serial=serial, device_dir=device_dir, ndk=ndk), name, one_round)


def _watch(load: Callable[[], Config], name: str, one_round: Callable[[_Round], int]) -> None:
    """Rounds for ever: one, then a wait for the next change."""
    sink = output.current()
    sources = _sources(load(), name)
    device: Device | None = None
    first = True
    while True:
        # Before the build: what is saved while it runs belongs to the next round.
        round_ = _Round(sources, sources.snapshot(), device)
        try:
            code = one_round(round_)
            if code == EXIT_INTERRUPTED and os.isatty(0):
                raise KeyboardInterrupt  # the phone's terminal took the key
            sink.note(
                sink.style(f"{name} ended with exit code {code}; waiting for a change (Ctrl-C ends)", "dim")
            )
            device = round_.device
        except DevkitError as error:
            if first and isinstance(error, (UsageError, ConfigError)):
                raise
            sink.error(error)
            device = None  # it may have gone, or come back by another name
            sink.note(sink.style("waiting for a change (Ctrl-C ends)", "dim"))
        except round_.stopped:
            device = round_.device
        first = False
        changed = sources.wait_for_change(round_.seen)
        sink.note(sink.style(f"changed: {_shown(changed)}", "bold"))
        if any(os.path.basename(file) == "devkit.yaml" for file in changed):
            try:
                sources = _sources(load(), name)
            except DevkitError:
                pass  # the round says it


class _Round:
    """One build and run, and what was seen of the sources before it.

    `device` is kept for the next one, so that the phone is not asked again what cannot change.
    """

    def __init__(self, sources: Sources, seen: Snapshot, device: Device | None) -> None:
        from devkit.device.terminal import StreamStopped

        self._sources = sources
        self.seen = seen
        self.device = device
        self.stopped = StreamStopped

    def build_and_run(
        self,
        config: Config,
        device: Device,
        name: str,
        args: list[str],
        profile: str | None,
        request: RunRequest,
    ) -> int:
        """The program's exit code; raises `stopped` when a source changed while it ran."""
        from devkit import runtime
        from devkit.cli.run import run_foreground

        request.check(runtime.find_app(config, name)[0])
        local = runtime.build_app(config, device, name, profile=profile)
        self.seen = self._sources.learn(local.build, self.seen)
        prepared = runtime.prepare_app(config, device, local)
        runtime.deploy_app(device, prepared)
        self.device = device
        return run_foreground(
            config, device, prepared, args, request, ended=lambda: self._sources.changed(self.seen)
        )


def _sources(config: Config, name: str) -> Sources:
    from devkit import runtime
    from devkit.runtime.sources import sources_of

    found, program = runtime.find_app(config, name)
    own = [config.project_file] if config.project_file is not None else []
    return sources_of(own, found, None if program is not None else config.source, program)


def _shown(files: list[str]) -> str:
    here = str(Path.cwd()) + os.sep
    names = [file.removeprefix(here) for file in files]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (", ".join(names[:3]) or "and changed back") + more
