"""One recording on the phone: simpleperf beside a program or a process, and its file here.

The recorder is attached to the shell that then becomes the program: so the program keeps its input, terminal,
environment, exit code and guard, exactly as `devkit run` gives them. simpleperf says when it has begun
(`--start_profiling_fd`); only then does the shell go on.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import secrets
import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import quote, quote_word
from devkit.errors import EXIT_DEVKIT_FAILED, PHONE, DeviceError, DevkitError
from devkit.profiling.fetching import fetch_recording
from devkit.profiling.model import NUMBER, Series
from devkit.profiling.phone_prepare import meaning_of
from devkit.profiling.phone_recorder import FOLDER, Recorder
from devkit.profiling.sampler import PhoneSampler

if TYPE_CHECKING:
    from devkit.device import Device

CALL_GRAPHS = ("dwarf", "fp", "none")
HARDWARE, SOFTWARE = "cpu-cycles", "cpu-clock"
_TRIAL_S = 0.05
_TRIAL_TIMEOUT_S = 60.0
_FINISH_STEPS = 1200  # tenths of a second: unwinding may go on long after the program has ended
_PID_STEPS = 300
# The process, and when by the clock of `PhoneSampler`. The recorder's is another one, which stands still
# while the phone sleeps.
_BEGUN = 'read -r devkit_up devkit_rest </proc/uptime; echo "{pid} $devkit_up" >{file}'


@dataclass(frozen=True)
class RecordOptions:
    """How to record.

    Attributes:
        frequency: samples a second and processor.
        call_graph: one of CALL_GRAPHS.
        counter: the event; empty: cpu-cycles, else cpu-clock.
        off_cpu: also where threads wait.
    """

    frequency: int = 1000
    call_graph: str = "dwarf"
    counter: str = ""
    off_cpu: bool = False

    def words(self, counter: str) -> list[str]:
        """Options for `simpleperf record`."""
        found = ["-e", counter, "-f", str(self.frequency)]
        if self.call_graph != "none":
            found += ["--call-graph", self.call_graph]
        return found + (["--trace-offcpu"] if self.off_cpu else [])


@dataclass
class Recording:
    """What is known of a recording that runs, and then of its file.

    Attributes:
        counter: the event that is counted.
        notes: what a reader of the profile has to know.
        series: what was measured beside the samples, by the phone's uptime.
        began_ns: when it began, by that clock; None before `collect`.
    """

    device: Device
    recorder: Recorder
    options: RecordOptions
    folder: str
    counter: str = ""
    notes: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    began_ns: int | None = None

    @property
    def _data(self) -> str:
        return f"{self.folder}/perf.data"

    def command(self, target: str) -> str:
        """simpleperf as shell text.

        Args:
            target: shell text that yields the process's id.
        """
        words = quote([self.recorder.path, "record", *self.options.words(self.counter), "-o", self._data])
        return f"{words} -p {target}"

    @property
    def first(self) -> str:
        """Shell text to put before a program: from its first instruction on it is recorded.

        It has a session of its own: Ctrl-C in the program's terminal and the guard, which end the program,
        must not keep the recorder from finishing its file. With the program it ends by itself.
        """
        log, pid, target = (quote_word(f"{self.folder}/{name}") for name in ("log", "recorder", "target"))
        own = "$(command -v setsid)"  # where there is none, only a hang-up is kept from it
        start = f"( trap '' HUP; exec {own} {self.command('$$')} --start_profiling_fd 3 )"
        return (
            f"devkit_said=$( {{ {start} 3>&1 >{log} 2>&1 </dev/null & echo $! >{pid}; }} ); "
            f'[ "$devkit_said" = STARTED ] || {{ cat {log} >&2; exit {EXIT_DEVKIT_FAILED}; }}; '
            f"{_BEGUN.format(pid='$$', file=target)}; "
        )

    def attach(self, pid: int, seconds: float) -> None:
        """Record a running process for a while. Ctrl-C ends the recording early; what was recorded is kept.

        Raises:
            DeviceError: simpleperf refuses, or the phone is gone.
        """
        log, own = (quote_word(f"{self.folder}/{name}") for name in ("log", "recorder"))
        script = (
            f"{_BEGUN.format(pid=pid, file=quote_word(f'{self.folder}/target'))}; "
            f"( trap '' HUP; exec {self.command(str(pid))} --duration {seconds:g} ) "
            f">{log} 2>&1 </dev/null & echo $! >{own}; wait $!"
        )
        with contextlib.suppress(KeyboardInterrupt), self.sampling(pid):
            done = self.device.shell(script, timeout_s=seconds + _FINISH_STEPS / 10)
            if done.exit_code != 0:
                raise self._failed(self._log())

    @contextlib.contextmanager
    def sampling(self, pid: int | None = None) -> Iterator[None]:
        """Memory, clocks and heat beside the recording; without a pid of the program that is to start."""
        if pid is not None:
            with PhoneSampler(self.device, pid) as sampler:
                yield
            self.series = sampler.series()
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._sample_when_there, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(_TRIAL_TIMEOUT_S)

    def _sample_when_there(self, ended: threading.Event) -> None:
        target = quote_word(f"{self.folder}/target")
        script = (
            f"i=0; while [ ! -s {target} ] && [ -d {quote_word(self.folder)} ] && [ $i -lt {_PID_STEPS} ]; "
            f"do sleep 0.1; i=$((i+1)); done; cat {target}"
        )
        try:
            said = self.device.shell(script, timeout_s=_PID_STEPS / 10 + _TRIAL_TIMEOUT_S).text.split()
            if not said or not said[0].isdigit():
                return
            with PhoneSampler(self.device, int(said[0])) as sampler:
                ended.wait()
            self.series = sampler.series()
        except DevkitError as error:
            output.current().detail(f"no memory and clocks beside the samples: {error.what}")

    def choose_counter(self) -> None:
        """Try for a moment what can be recorded: hardware counters, else cpu-clock. One round trip or two.

        Raises:
            DeviceError: neither can; says why and what helps.
        """
        wanted = [self.options.counter] if self.options.counter else [HARDWARE, SOFTWARE]
        folder = quote_word(self.folder)
        said = ""
        for counter in wanted:
            self.counter = counter
            script = f"mkdir -p {folder} && {self.command('$$')} --duration {_TRIAL_S} 2>&1"
            done = self.device.shell(script, timeout_s=_TRIAL_TIMEOUT_S)
            said = done.text
            if done.exit_code == 0:
                if counter == SOFTWARE and not self.options.counter:
                    self.notes.append("no hardware counters here: sampled by time (cpu-clock)")
                return
            if "not supported" not in said and "isn't supported" not in said:
                break
        raise self._failed(said)

    def collect(self, local: Path) -> None:
        """End the recorder, wait for its file, and bring it here.

        Raises:
            DeviceError: there is no file, or the phone is gone.
        """
        pid, log, data, target = (
            quote_word(f"{self.folder}/{name}") for name in ("recorder", "log", "perf.data", "target")
        )
        script = (
            f'p=$(cat {pid} 2>/dev/null); [ -n "$p" ] && kill -TERM $p 2>/dev/null; i=0; '
            f'while [ -n "$p" ] && kill -0 $p 2>/dev/null && [ $i -lt {_FINISH_STEPS} ]; '
            f"do sleep 0.1; i=$((i+1)); done; cat {log} {target} 2>/dev/null; [ -s {data} ]"
        )
        with output.current().progress("the recorder is finishing its file", None):
            done = self.device.shell(script, timeout_s=_FINISH_STEPS / 10 + _TRIAL_TIMEOUT_S)
        if done.exit_code != 0:
            raise self._failed(done.text)
        words = done.text.split()
        if words and re.fullmatch(r"\d+\.\d+", words[-1]):
            self.began_ns = round(float(words[-1]) * 1e9)
        fetch_recording(self.device, self._data, local)

    def series_by_samples(self, first_ns: int) -> list[Series]:
        """The series on the clock of the samples, of which the first was taken at `first_ns`."""
        if self.began_ns is None or not first_ns:
            return self.series
        ahead = first_ns - self.began_ns
        return [replace(s, times_ns=array(NUMBER, (t + ahead for t in s.times_ns))) for s in self.series]

    def forget(self) -> None:
        """Remove what is left on the phone."""
        with contextlib.suppress(Exception):  # the doctor finds leftovers as well
            self.device.shell(quote(["rm", "-rf", self.folder]))

    def _log(self) -> str:
        return self.device.shell(f"cat {quote_word(f'{self.folder}/log')} 2>/dev/null").text

    def _failed(self, said: str) -> DeviceError:
        meaning, hints = meaning_of(said)
        return DeviceError(
            f"the phone {self.device.serial} recorded nothing: {meaning}",
            where=PHONE,
            evidence=said.strip()[-2000:] or None,
            hints=hints,
        )


def new_recording(device: Device, recorder: Recorder, options: RecordOptions, device_dir: str) -> Recording:
    """A recording with a folder of its own on the phone."""
    folder = posixpath.join(device_dir, FOLDER, f"run-{secrets.token_hex(6)}")
    return Recording(device, recorder, options, folder)
