"""Compiles the graphs of one export: stands in the staging folder where the script seeks npu_convert.py.

It runs alone, with the standard library of whatever python3 the script finds: 3.8 with older SDKs. Each graph
is given to the checkout's own npu_convert.py, in a folder of its own: several at a time within a bound of
memory, none that an earlier export has compiled. What it needs to know is in `graphs.json` at the head of the
staging folder; what it did goes line by line into the file that is named there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# npu_convert.py → qnn → backend → source → mnn → the staging folder
_LEVELS = 4
# Memory that a graph takes, as a multiple of its weights, until one of this export has been measured.
FIRST_RATIO = 6.0
BASE_BYTES = 300 << 20
_CHUNK = 1 << 20
_SHOWN_LINES = 40


def main(argv: list[str]) -> int:
    stage = Path(__file__).resolve().parents[_LEVELS]
    settings = json.loads((stage / "graphs.json").read_text("utf-8"))
    work = Path.cwd()
    report = Report(Path(settings["events"]))
    merges, cache_dir, wrong = read_plan(work, argv[0])
    report.say("inputs", files=inputs_of(work))
    report.say("graphs", keys=sorted(merges), wrong=wrong)
    if wrong:
        say(f"npu_postreat.json: {wrong}")
        return 1
    jobs = [Job(key, srcs, cache_dir, settings, argv[1:], work) for key, srcs in merges.items()]
    unfinished = [job for job in jobs if job.problem]
    for job in unfinished:
        report.say("failed", key=job.key, why=job.problem, step="2")
        say(f"{job.key}: {job.problem}")
    if unfinished:
        return 1
    return 0 if compile_all(jobs, settings, report, stage / "graphs") else 1


def read_plan(work: Path, name: str) -> tuple[dict[str, list[str]], str, str | None]:
    """What npu_postreat.json asks for: merges, their folder, what is wrong."""
    try:
        plan = json.loads((work / name).read_text("utf-8"))
        merges = {str(key): [str(src) for src in srcs] for key, srcs in plan["merge"].items()}
        return merges, str(plan.get("cache", "res")), None if merges else "it names no graph"
    except OSError as error:
        return {}, "", os.strerror(error.errno or 0)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        return {}, "", f"{type(error).__name__}: {error}"


def inputs_of(work: Path) -> list[str]:
    """What step 1 left, where it is of sensible size."""
    return [
        str(file.relative_to(work)) for file in sorted(work.glob("testdir/*/*.mnn")) if file.stat().st_size
    ]


class Report:
    """One JSON object a line; the reader sees whole lines."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def say(self, event: str, **facts: Any) -> None:
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"event": event, "at": time.time(), **facts}) + "\n")


class Job:
    """One context binary to make."""

    def __init__(
        self, key: str, srcs: list[str], cache_dir: str, settings: dict[str, Any], more: list[str], work: Path
    ) -> None:
        self.key, self.srcs, self.cache_dir, self.more, self.work = key, srcs, cache_dir, more, work
        self.name = key.rpartition("/")[2].replace(".bin", "")  # as npu_convert.py does
        self.target = work / cache_dir / f"{self.name}.bin"
        self.problem = next(
            filter(None, (self._wrong(src) for src in srcs)), None if srcs else "it has no source"
        )
        self.size = 0 if self.problem else sum(f.stat().st_size for src in srcs for f in files_of(work / src))
        self.settings = settings
        self.started = 0.0

    def _wrong(self, src: str) -> str | None:
        folder = self.work / src
        name = src.rpartition("/")[2]
        if not folder.is_dir():
            return f"compilefornpu left no folder {src}"
        code = folder / f"{name}.cpp"
        if not code.is_file() or not code.stat().st_size:
            return f"compilefornpu left no {src}/{name}.cpp"
        return None

    def content_key(self) -> str:
        """Changes with everything that the binary depends on."""
        whole = hashlib.sha256()
        for word in (self.settings["tools"], self.name, *self.more):
            whole.update(word.encode() + b"\0")
        for src in self.srcs:
            for file in files_of(self.work / src):
                whole.update(f"{file.relative_to(self.work)}\0{file.stat().st_size}\0".encode())
                with file.open("rb") as stream:
                    while chunk := stream.read(_CHUNK):
                        whole.update(chunk)
        return whole.hexdigest()

    def start(self, folder: Path, log: Path) -> subprocess.Popen[bytes]:
        """Give the graph to the checkout's npu_convert.py, which deletes what it reads: it gets links."""
        shutil.rmtree(folder, ignore_errors=True)
        for src in self.srcs:
            for file in files_of(self.work / src):
                place = folder / file.relative_to(self.work)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, place)
        (folder / self.cache_dir).mkdir(parents=True, exist_ok=True)
        plan = {"type": "QNN", "merge": {self.key: self.srcs}, "cache": self.cache_dir}
        (folder / "npu_postreat.json").write_text(json.dumps(plan), "utf-8")
        self.started = time.monotonic()
        command = [sys.executable, self.settings["convert"], "npu_postreat.json", *self.more]
        with log.open("wb") as out:
            return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def compile_all(jobs: list[Job], settings: dict[str, Any], report: Report, scratch: Path) -> bool:
    """Compile what no earlier export has; the first failure lets the running ones end and starts no other."""
    cache = Path(settings["cache"]) if settings["cache"] else None
    keys: dict[str, str] = {}
    waiting: list[Job] = []
    total = len(jobs)
    for job in sorted(jobs, key=lambda job: -job.size):
        keys[job.key] = job.content_key()
        if cache is not None and take_cached(cache / f"{keys[job.key]}.bin", job):
            report.say("made", key=job.key, size=job.target.stat().st_size, cached=True, of=total)
            drop_sources(job)
        else:
            waiting.append(job)
    running: dict[int, tuple[Job, subprocess.Popen[bytes], float]] = {}
    ratio, measured, failed = FIRST_RATIO, 0.0, False
    scratch.mkdir(exist_ok=True)
    while waiting or running:
        taken = sum(estimate for _, _, estimate in running.values())
        while waiting and not failed and len(running) < settings["jobs"]:
            # The largest that still fits; alone, one always does.
            fitting = [j for j in waiting if taken + estimated(j, ratio) <= settings["memory_bytes"]]
            job = fitting[0] if fitting else waiting[0]
            if not fitting and running:
                break
            waiting.remove(job)
            child = job.start(scratch / job.name, scratch / f"{job.name}.log")
            running[child.pid] = (job, child, estimated(job, ratio))
            taken += estimated(job, ratio)
            report.say("started", key=job.key, running=len(running))
        if not running:
            break
        pid, status, used = os.wait4(-1, 0)
        if pid not in running:
            continue
        job, child, _ = running.pop(pid)
        child.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        why = finish(job, child.returncode, scratch, cache / f"{keys[job.key]}.bin" if cache else None)
        if why is not None:
            failed = True
            report.say("failed", key=job.key, why=why, step="3")
            say(f"{job.key}: {why}")
            continue
        peak = used.ru_maxrss * 1024  # of its largest process
        if job.size:
            measured = max(measured, (peak - BASE_BYTES) / job.size)
            ratio = max(measured, 1.0)
        report.say("made", key=job.key, size=job.target.stat().st_size, cached=False, of=total,
                   seconds=round(time.monotonic() - job.started, 3), peak_bytes=peak)  # fmt: skip
        drop_sources(job)
    return not failed


def estimated(job: Job, ratio: float) -> float:
    return BASE_BYTES + ratio * job.size


def take_cached(file: Path, job: Job) -> bool:
    """Whether an earlier export's binary is there, as it was: it shares its blocks with a model's folder."""
    stamp = file.with_suffix(".json")
    try:
        status = file.stat()
        if json.loads(stamp.read_text("utf-8")) != [status.st_size, status.st_mtime_ns]:
            return False
        link_or_copy(file, job.target)
        os.utime(stamp)  # what was not used for long goes first
    except (OSError, ValueError):
        return False
    return True


def finish(job: Job, exit_code: int, scratch: Path, keep: Path | None) -> str | None:
    """Take a graph's binary over; why there is none."""
    folder, log = scratch / job.name, scratch / f"{job.name}.log"
    made = folder / job.cache_dir / f"{job.name}.bin"
    text = log.read_text("utf-8", "replace").splitlines()
    for line in text if exit_code == 0 else text[-_SHOWN_LINES:]:
        say(line)
    if exit_code != 0:
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        return f"npu_convert.py failed ({how})"
    if not made.is_file() or not made.stat().st_size:
        return "npu_convert.py ended with 0 and made no context binary"
    os.replace(made, job.target)
    if keep is not None:
        keep_copy(job.target, keep)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def keep_copy(file: Path, keep: Path) -> None:
    # The cache only saves time: a full disk is no failure.
    temporary = keep.with_name(f".{keep.name}.{os.getpid()}")
    try:
        keep.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(file, temporary)
        status = temporary.stat()
        os.replace(temporary, keep)
        keep.with_suffix(".json").write_text(json.dumps([status.st_size, status.st_mtime_ns]), "utf-8")
    except OSError:
        temporary.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def drop_sources(job: Job) -> None:
    """As npu_convert.py does: they would travel with the graphs."""
    for src in job.srcs:
        shutil.rmtree(job.work / src, ignore_errors=True)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
