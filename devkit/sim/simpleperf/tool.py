"""`simpleperf record | list | stat | report-sample | --version`."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from devkit.sim.adbd.control import changed_property, set_property
from devkit.sim.simpleperf import kernel, offcpu, stopping, writer
from devkit.sim.simpleperf.kernel import EventAttr
from devkit.sim.simpleperf.log import Refused, say
from devkit.sim.simpleperf.options import Record, parse_record
from devkit.sim.simpleperf.sampling import KernelSampler, Stream
from devkit.sim.simpleperf.spaces import name_of, threads_of

if TYPE_CHECKING:
    from devkit.sim.applets import Call

HARDEN, LOCKED, NO_COUNTERS = "security.perf_harden", "debug.devkit.perf_locked", "debug.devkit.perf_refused"
_VERSIONS = {29: "1.build.5700000", 30: "1.build.6859468", 33: "1.build.9222001", 34: "1.build.10786093"}
_NEW_FILES_API = 33
_ROUND_S = 0.02
_ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64"}
_END = 1000


def main(call: Call, properties: Mapping[str, str]) -> int:
    """Do what the command line says; the exit code."""
    words = call.arguments
    try:
        # `simpleperf --log LEVEL record …` is the same as `simpleperf record --log LEVEL …`.
        while words and words[0] in ("--log", "--log-to-android-buffer"):
            words = words[2 if words[0] == "--log" else 1 :]
        if not words or words[0] in ("help", "-h", "--help"):
            _out("Usage: simpleperf [common options] subcommand [args_for_subcommand]\n")
            return 0
        if words[0] in ("--version", "version"):
            _out(f"Simpleperf version {_version(properties)}\n")
            return 0
        if words[0] == "list":
            return _list()
        if words[0] == "record":
            return _Recording(call, properties, parse_record(words[1:])).run()
        raise Refused("command.cpp:209", f"malformed command line: unknown command {words[0]}")
    except Refused as refused:
        say("E", refused.place, str(refused))
        return 1


def _out(text: str) -> None:
    os.write(1, text.encode())


def _version(properties: Mapping[str, str]) -> str:
    api = int(properties.get("ro.build.version.sdk", "34"))
    return next((text for since, text in sorted(_VERSIONS.items(), reverse=True) if api >= since), "1.0")


def _list() -> int:
    works = _opens(EventAttr(0, 0, 1000, kernel.IP, kernel.DISABLED | kernel.EXCLUDE_KERNEL))
    _out("List of hardware events:\n" + "".join(f"  {n}\n" for n in kernel.HARDWARE if works) + "\n")
    _out("List of software events:\n" + "".join(f"  {n}\n" for n in kernel.SOFTWARE) + "\n")
    return 0


def _opens(attr: EventAttr) -> bool:
    try:
        os.close(kernel.open_event(attr, 0, -1))
    except OSError:
        return False
    return True


class _Recording:
    def __init__(self, call: Call, properties: Mapping[str, str], request: Record) -> None:
        self._call = call
        self._properties = properties
        self._request = request
        self._is_root = os.geteuid() == 0
        self._ending = False
        self._child: int | None = None

    def run(self) -> int:
        """Record until the end."""
        request = self._request
        self._check_allowed()
        if request.app:
            raise Refused(
                "cmd_record.cpp:702", f"package {request.app} isn't debuggable or profileable from shell"
            )
        if request.system_wide:
            if not self._is_root:
                raise Refused("cmd_record.cpp:1256", "System wide profiling needs root privilege.")
            request.pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > 1]
        if not (request.pids or request.tids or request.command):
            raise Refused(
                "cmd_record.cpp:560", "No threads to monitor. Try `simpleperf help record` for help"
            )
        for number in (*request.pids, *request.tids):
            if not os.path.exists(f"/proc/{number}"):
                raise Refused("cmd_record.cpp:1247", f"Invalid argument: no thread {number}")
        self._call.on_signal = lambda number: self._end()
        self._call.at_end = self._killed
        event, attr = self._event()
        stream = Stream(attr, dwarf=request.call_graph == "dwarf")
        try:
            output = open(request.output, "wb")
        except OSError as error:
            raise Refused(
                "record_file_writer.cpp:48",
                f"failed to open record file '{request.output}': {error.strerror}",
            ) from None
        with output:
            sampler, ids = self._sample(stream, event)
            events = [writer.Event(event, attr, ids)]
            events += sampler.more_events
            data = self._data(stream, events)
            output.write(data)
        rate = stream.lost / (stream.samples + stream.lost) if stream.lost else 0
        say("I", "cmd_record.cpp:893", f"Samples recorded: {stream.samples}. Samples lost: {stream.lost}.")
        if rate >= 0.1:
            say(
                "W",
                "cmd_record.cpp:900",
                f"Lost {rate:.0%} of samples, consider increasing mmap_pages(-m), "
                f"or decreasing sample frequency(-f)",
            )
        return 0

    def _end(self) -> None:
        self._ending = True

    def _killed(self) -> None:
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)

    # ---- what is allowed

    def _check_allowed(self) -> None:
        if self._is_root or self._hardened() <= 1:
            return
        # The real tool tries that by itself.
        if changed_property(LOCKED) != "1":
            set_property(HARDEN, "0")
            return
        say("W", "environment.cpp:412", f"/proc/sys/kernel/perf_event_paranoid is {self._hardened()}")
        raise Refused(
            "environment.cpp:416", "Try `adb shell setprop security.perf_harden 0` to allow profiling."
        )

    def _hardened(self) -> int:
        value = changed_property(HARDEN) or self._properties.get(HARDEN, "0")
        return 1 if value == "0" else 3

    def _event(self) -> tuple[str, EventAttr]:
        request = self._request
        name = request.events[0] if request.events else "cpu-cycles"
        plain, _, modifier = name.partition(":")
        found = kernel.event_of(plain)
        if found is None:
            raise Refused(
                "event_type.cpp:501",
                f"Unknown event_type '{plain}', try `simpleperf list` to list all possible event type names",
            )
        if plain in kernel.HARDWARE and not _opens(
            EventAttr(*found, 1000, kernel.IP, kernel.DISABLED | kernel.EXCLUDE_KERNEL)
        ):
            if request.events:
                raise Refused(
                    "event_selection_set.cpp:322", f"Event type '{name}' is not supported on the device"
                )
            say("I", "cmd_record.cpp:585", "Hardware events are not available, switch to cpu-clock.")
            plain, found = "cpu-clock", kernel.event_of("cpu-clock") or found
        sample_type = kernel.IP | kernel.TID | kernel.TIME | kernel.ID | kernel.CPU | kernel.PERIOD
        flags = kernel.DISABLED | kernel.MMAP_FLAG | kernel.COMM_FLAG | kernel.TASK | kernel.SAMPLE_ID_ALL
        flags |= kernel.MMAP2_FLAG | kernel.COMM_EXEC | kernel.EXCLUDE_HV
        flags |= kernel.INHERIT if request.inherit else 0
        flags |= 0 if request.period else kernel.FREQ
        flags |= kernel.ENABLE_ON_EXEC if request.command else 0
        flags |= kernel.CONTEXT_SWITCH if request.off_cpu else 0
        registers = stack = 0
        if request.call_graph:
            sample_type |= kernel.CALLCHAIN
        if request.call_graph == "dwarf":
            sample_type |= kernel.REGS_USER | kernel.STACK_USER
            flags |= kernel.EXCLUDE_CALLCHAIN_USER
            registers, stack = kernel.REGISTERS[os.uname().machine][0], request.stack_bytes
        attr = EventAttr(*found, request.period or request.frequency, sample_type, flags, registers, stack)
        # The virtual phone's user may not look into this machine's kernel.
        user_only = EventAttr(
            *found, attr.value, sample_type, flags | kernel.EXCLUDE_KERNEL, registers, stack
        )
        if modifier == "u" or not _opens(attr):
            if modifier != "u":
                say("I", "cmd_record.cpp:598", f"Can't record kernel samples, switch to {plain}:u")
            return f"{plain}:u", user_only
        return plain, attr

    # ---- sampling

    def _sample(self, stream: Stream, event: str) -> tuple[_Sampler, tuple[int, ...]]:
        request = self._request
        go = -1
        pids = list(request.pids)
        if request.command:
            self._child, go = self._start()
            pids = [self._child]
        tids = [tid for pid in pids for tid in threads_of(pid)] + request.tids
        sampler = self._sampler(stream, pids, tids)
        watched = pids or request.tids
        waits = offcpu.Waits(stream, event) if request.off_cpu else None
        try:
            for pid in {*pids, *(_process_of(tid) for tid in request.tids)}:
                stream.describe(pid, [t for t in tids if t in threads_of(pid)], name_of, sampler.ids[0])
            if request.fd >= 0:
                _tell_started(request.fd if request.fd <= 2 else self._call.told_fd)
            if go >= 0:
                os.write(go, b"g")
                os.close(go)
            self._loop(sampler, watched, waits)
            sampler.drain()
        finally:
            sampler.close()
            if self._child is not None and not self._has_ended(self._child):
                os.kill(self._child, signal.SIGTERM)
        made = _Sampler(waits.events() if waits is not None else [])
        return made, tuple(sampler.ids)

    def _sampler(
        self, stream: Stream, pids: list[int], tids: list[int]
    ) -> KernelSampler | stopping.StoppingSampler:
        request = self._request
        try:
            if changed_property(NO_COUNTERS) == "1":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return KernelSampler(stream, tids, on_exec=bool(request.command))
        except OSError as error:
            if not stopping.may_fall_back(error):
                raise Refused(*_refusal(error, self._request, tids)) from None
        frequency = request.frequency or 1000
        try:
            return stopping.StoppingSampler(
                stream, pids or [_process_of(tid) for tid in request.tids], frequency,
                dwarf=request.call_graph == "dwarf", chains=bool(request.call_graph), tids=request.tids,
            )  # fmt: skip
        except OSError as error:
            raise Refused(*_refusal(error, self._request, tids)) from None

    def _loop(
        self,
        sampler: KernelSampler | stopping.StoppingSampler,
        watched: Sequence[int],
        waits: offcpu.Waits | None,
    ) -> None:
        until = time.monotonic() + self._request.duration_s if self._request.duration_s else None
        parent = _parent_of(self._call.pid)
        while not self._ending:
            sampler.wait(_ROUND_S)
            if waits is not None:
                waits.look()
            if until is not None and time.monotonic() >= until:
                return
            if self._request.command:
                if self._child is None or self._has_ended(self._child):
                    return
            elif not any(_lives(number) for number in watched):
                return
            if self._request.exit_with_parent and _parent_of(self._call.pid) != parent:
                return

    def _start(self) -> tuple[int, int]:
        """The program, which waits until it is watched: its pid, and where to write that it may go."""
        command = self._request.command
        path = shutil.which(command[0], path=self._call.environment.get("PATH"))
        if path is None:
            raise Refused(
                "workload.cpp:126", f"child process failed to execvp({command[0]}): No such file or directory"
            )
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(write)
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                if os.read(read, 1):
                    os.execve(path, command, dict(self._call.environment))
            finally:
                os._exit(127)
        os.close(read)
        return pid, write

    def _has_ended(self, pid: int) -> bool:
        if self._child == pid and not _lives(pid):
            self._child = None
        return self._child != pid

    # ---- the file

    def _data(self, stream: Stream, events: list[writer.Event]) -> bytes:
        properties = self._properties
        api = int(properties.get("ro.build.version.sdk", "34"))
        files = []
        for path in sorted(stream.hit):
            elf = stream.files.get(path)
            address, offset = elf.first_code
            files.append(writer.SeenFile(path, elf.build_id, address, offset))
        uname = os.uname()
        product = ":".join(
            properties.get(f"ro.product.{name}", "") for name in ("manufacturer", "model", "name")
        )
        meta = {
            "simpleperf_version": _version(properties),
            "system_wide_collection": "true" if self._request.system_wide else "false",
            "trace_offcpu": "true" if self._request.off_cpu else "false",
            "event_type_info": "\n".join(f"{e.name},{e.attr.kind},{e.attr.config}" for e in events),
            "clockid": "perf",
            "timestamp": str(int(time.time())),
            "product_props": product,
            "android_version": properties.get("ro.build.version.release", ""),
            "android_sdk_version": str(api),
            "android_build_type": properties.get("ro.build.type", ""),
            "android_build_fingerprint": properties.get("ro.build.fingerprint", ""),
            "kernel_symbols_available": "false",
            "recording_process": str(self._call.pid),
        }
        return writer.perf_data(
            events, (record for _, record in sorted(stream.records, key=lambda row: row[0])), files, meta,
            command=["/system/bin/simpleperf", *self._call.arguments], release=uname.release,
            arch=_ARCHES[uname.machine], new_files=api >= _NEW_FILES_API,
        )  # fmt: skip


class _Sampler:
    def __init__(self, more_events: list[writer.Event]) -> None:
        self.more_events = more_events


def _refusal(error: OSError, request: Record, tids: list[int]) -> tuple[str, str]:
    name = request.events[0] if request.events else "cpu-cycles"
    tid = tids[0] if tids else -1
    text = f"open perf_event_file (event {name}, tid {tid}, cpu 0, group_fd -1) failed: {error.strerror}"
    return "event_fd.cpp:91", text


def _tell_started(fd: int) -> None:
    try:
        os.write(fd, b"STARTED")
    except OSError as error:
        raise Refused(
            "cmd_record.cpp:758", f"failed to write to start_profiling_fd: {error.strerror}"
        ) from None
    finally:
        os.close(fd)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, struct.error):
        return 0


def _process_of(tid: int) -> int:
    try:
        with open(f"/proc/{tid}/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))
    except (OSError, StopIteration):
        return tid
