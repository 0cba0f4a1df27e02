"""`devkit profile APP` while the program runs: the same run as `devkit run`, with the recorder beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.cli import profile_record
from devkit.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, DeviceError, FileError, OperationTimeout

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.profiling import Profile
    from devkit.results import Report
    from devkit.runtime import PreparedApp
    from devkit.runtime.request import RunRequest


@dataclass(frozen=True)
class RecordedRun:
    """What came of it.

    Attributes:
        code: devkit's exit code, as that of `devkit run`.
        results: what `devkit run --json` prints.
    """

    profile: Profile
    code: int
    results: dict[str, Any]


def record_app(
    config: Config,
    device: Device,
    prepared: PreparedApp,
    args: Sequence[str],
    request: RunRequest,
    wanted: profile_record.Wanted,
    *,
    logcat: bool = False,
) -> RecordedRun:
    """Run a deployed app and record it. Ctrl-C and a timeout end the program and keep the recording.

    Args:
        logcat: show its lines of the phone's log, and read results from them.

    Raises:
        DeviceError: the phone does not let us record, or went away.
        FileError: the recording is damaged or empty.
        KeyboardInterrupt, OperationTimeout: and there was nothing recorded yet.
    """
    from devkit import runtime
    from devkit.cli import run_results
    from devkit.cli.run_crashes import RunCrashes
    from devkit.cli.run_logcat import LogBeside
    from devkit.cli.run_outputs import fetch
    from devkit.profiling.engine_times import with_report
    from devkit.runtime.pulls import Outputs
    from devkit.runtime.request import plan_launch, stdin_end_for

    launch = plan_launch(device, prepared, args, request)
    app, program = prepared.local.app, prepared.plan.program
    outputs = Outputs(launch, request.patterns(app))
    beside = LogBeside(device) if logcat else None
    crashes = RunCrashes(config, device, prepared)
    early: KeyboardInterrupt | OperationTimeout | None = None
    with profile_record.ready(config, device, wanted, prepared.device_dir, launch.root) as recording:
        with run_results.reading(config, app, program, launch.args) as reader, crashes:

            def read(data: bytes, stderr: bool = False) -> None:
                reader.feed(data, stderr)
                crashes.output(data, stderr)

            try:
                with beside or contextlib.nullcontext(), recording.sampling():
                    code = crashes.exit_code = runtime.run_program(
                        device,
                        launch,
                        timeout_s=request.timeout_s,
                        stdin=request.stdin,
                        stdin_end=stdin_end_for(prepared),
                        tty=request.tty,
                        live=request.live,
                        # What prepares the run is not recorded.
                        first=(beside.first if beside else "") + outputs.first + recording.first,
                        on_output=read,
                    )
            except (KeyboardInterrupt, OperationTimeout) as error:
                early = error
                outputs.forget(device)
                code = _say_early_end(error)
            if beside is not None:
                reader.feed(beside.written())
                crashes.logged(beside.written())
        command = (program, *launch.args)
        files = [file.local for file in prepared.plan.files]
        try:
            profile = profile_record.finish(config, device, recording, wanted, command, files)
        except (DeviceError, FileError) as error:
            if early is None:
                raise
            output.current().warn(f"there is no recording: {error.what}")
            raise early from None
    pulled = None if early else fetch(config, device, app.name, outputs, request)
    report = _without_gaps(reader.finish()) if early else reader.finish(code)
    run_results.warn_of(report.findings)
    results = run_results.as_data(report, prepared, code, pulled, crashes.as_list())
    if early is None:
        code = run_results.judged(report, code)
        if code == 0 and pulled is not None and not pulled.is_complete:
            code = EXIT_CHECK_FAILED
    return RecordedRun(with_report(profile, report, app.name), code, results)


def _say_early_end(error: KeyboardInterrupt | OperationTimeout) -> int:
    """The exit code that tells of it."""
    if isinstance(error, OperationTimeout):
        output.current().warn(error.what)
        return error.exit_code
    output.current().note("interrupted; what was recorded is kept (Ctrl-C again drops it)")
    return EXIT_INTERRUPTED


def _without_gaps(report: Report) -> Report:
    """A program that was ended need not have printed results."""
    return replace(report, findings=tuple(f for f in report.findings if f.kind != "no-results"))
