"""Users, the linker's refusals, and signals on the virtual phone, through the real adb."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import adbutils
import pytest

from devkit import sim
from devkit.sim import Phone

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
DEVICE_DIR = "/data/local/tmp/kette"


class Shell:
    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.base = [str(ADB), "-P", str(phone.record.adb_port), "-s", phone.record.serial]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.adb("shell", "-T", command)

    def adb(self, *words: str) -> subprocess.CompletedProcess[str]:
        words_ = [*self.base, *words]
        return subprocess.run(
            words_, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )

    def __call__(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout


Start = Callable[..., Shell]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Phones, each started once per release."""
    running: dict[str, Phone] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 进程"))

        def begin(android: str = "14", *, su: bool = True) -> Shell:
            name = f"procs-{android}-{su}".lower()
            if name not in running:
                running[name] = sim.start_phone(name, adb=ADB, lifeline=True, android=android, su=su)
            return Shell(running[name])

        yield begin
        logs = [phone.record.state_dir / "adbd.log" for phone in running.values()]
        texts = [log.read_text() for log in logs]
        for phone in running.values():
            phone.stop()
    assert not any("Traceback" in text or "late import" in text for text in texts), texts


@pytest.fixture
def shell(start: Start) -> Shell:
    return start()


# ---- root


@pytest.mark.parametrize(
    ("command", "code", "out"),
    [
        ("su -c id", 0, "uid=0(root) gid=0(root) groups=0(root)\n"),
        ("su 0 id -u", 0, "0\n"),
        ("su root -c 'id -u; exit 7'", 7, "0\n"),
        ("su 2000 -c 'id -u'", 0, "2000\n"),
        ("su shell id -un", 0, "shell\n"),
        ("echo text | su -c cat", 0, "text\n"),
        ("su -c 'kill -9 $$'", 137, ""),
        ("su -c 'echo $HOME $USER; pwd'", 0, "/ root\n/\n"),
        ("cd /data/local/tmp; su -c pwd", 0, "/data/local/tmp\n"),
        ("su -c /no/such/program", 127, ""),
        ("su nobody id", 1, ""),
        ("echo 'id -u; exit 3' | su", 3, "0\n"),
    ],
)
def test_su(shell: Shell, command: str, code: int, out: str) -> None:
    done = shell.run(command)
    assert (done.returncode, done.stdout) == (code, out), done.stderr


def test_root_sees_and_may_what_the_shell_may_not(shell: Shell) -> None:
    for command in ("ls /data", "ls /data/data", "ls /data/tombstones", "cat /proc/1/environ"):
        assert shell.run(command).returncode != 0, command
        assert shell.run(f"su -c '{command}'").returncode == 0, command
    shell("su -c 'echo x >/data/tombstones/own && rm /data/tombstones/own'")
    shell("su -c 'mount -o remount,rw / && touch /root-was-here && rm /root-was-here; mount -o remount,ro /'")
    # Files of both are one user's for the host: each sees them as its own.
    shell("rm -rf /data/local/tmp/f; su -c 'touch /data/local/tmp/f'")
    assert "shell" in shell("ls -l /data/local/tmp/f") and "root" in shell("su -c 'ls -l /data/local/tmp/f'")


def test_root_may_trace_the_shells_programs(shell: Shell) -> None:
    memory = "sleep 20 & pid=$!; {0} cat /proc/$pid/maps {1} | grep -c linker64; kill $pid"
    assert int(shell(memory.format("su 0", "")).strip()) > 0


def test_the_end_of_su_ends_its_command(shell: Shell) -> None:
    shell("su -c 'sleep 77.7' & sleep 0.3; kill -9 $(pidof su); sleep 0.3; true")
    assert shell.run("pgrep -f 'sleep 77[.]7'").stdout == ""


def test_a_phone_without_su(start: Start) -> None:
    done = start(su=False).run("su -c id")
    assert done.returncode == 127 and "not found" in done.stderr
    assert start(su=False).run("which su").returncode == 1


def test_adb_root_and_back(shell: Shell) -> None:
    def user_becomes(name: str) -> bool:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if shell.run("id -un").stdout.strip() == name:
                return True
            time.sleep(0.1)
        return False

    shell.adb("root")
    try:
        assert user_becomes("root")
        assert shell("ls /data/tombstones; log from root; logcat -d -v raw | tail -n 1") == "from root\n"
    finally:
        shell.adb("unroot")
    assert user_becomes("shell")


# ---- services


def test_services_are_started_again(shell: Shell) -> None:
    for name in ("logd", "tombstoned", "toolbox", "magiskd"):
        old = shell(f"pidof {name}").strip()
        # Only root's services are beyond the shell's reach, as far as one user for both allows.
        shell(f"su -c 'kill -9 {old}'")
        deadline = time.monotonic() + 5
        while (new := shell.run(f"pidof {name}").stdout.strip()) in ("", old):
            assert time.monotonic() < deadline, name
            time.sleep(0.05)
        assert shell("su -c 'id -u'; log again; logcat -d -t 1 -v raw | tail -n 1") == "0\nagain\n"
        assert new


def test_a_killed_adbd_takes_programs_but_no_service_along(shell: Shell) -> None:
    services = {name: shell(f"pidof {name}") for name in ("logd", "tombstoned", "toolbox", "magiskd")}
    shell("setsid sleep 66.6 >/dev/null 2>&1 </dev/null &")
    shell("setsid su -c 'sleep 66.7' >/dev/null 2>&1 </dev/null &")
    time.sleep(0.3)
    shell.run("kill -9 $(pidof adbd)")
    deadline = time.monotonic() + 15
    while shell.run("true").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert shell.run("pgrep -f 'sleep 66[.]'").stdout == ""
    assert {name: shell(f"pidof {name}") for name in services} == services


# ---- the linker


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """prog → liba.so → libb.so."""
    folder = tmp_path_factory.mktemp("kette 链")
    sources = {
        "libb.so": ("int b(void) { return 0; }", ["-shared", "-fPIC"]),
        "liba.so": ("int b(void); int a(void) { return b(); }", ["-shared", "-fPIC", "-L.", "-l:libb.so"]),
        "prog": ("int a(void); int main(void) { return a(); }", ["-L.", "-l:liba.so", "-Wl,-rpath-link,."]),
    }
    for name, (source, options) in sources.items():
        (folder / "source.c").write_text(source)
        subprocess.run(["gcc", "source.c", "-o", name, *options], cwd=folder, check=True)
    return folder


def deploy(shell: Shell, chain: Path, **replaced: Path | None) -> None:
    shell(f"rm -rf {DEVICE_DIR}; mkdir -p {DEVICE_DIR}")
    for name in ("prog", "liba.so", "libb.so"):
        source = replaced.get(name.partition(".")[0], chain / name)
        if source is not None:
            assert shell.adb("push", str(source), f"{DEVICE_DIR}/{name}").returncode == 0


RUN = f"cd {DEVICE_DIR}; LD_LIBRARY_PATH=. exec ./prog"
MISSING = 'CANNOT LINK EXECUTABLE "./prog": library "libb.so" not found'


@pytest.mark.parametrize(
    ("android", "text", "code"),
    [
        ("14", f"{MISSING}: needed by {DEVICE_DIR}/liba.so in namespace (default)\n", 1),
        ("11", f"{MISSING}: needed by {DEVICE_DIR}/liba.so in namespace (default)\n", 1),
        ("8", f"{MISSING}\n", 134),
    ],
)
def test_a_missing_library_in_the_words_of_each_release(
    start: Start, chain: Path, android: str, text: str, code: int
) -> None:
    shell = start(android)
    deploy(shell, chain, libb=None)
    shell("logcat -b all -c")
    done = shell.run(RUN)
    assert (done.returncode, done.stderr, done.stdout) == (code, text, "")
    logged = shell("logcat -d -b crash -v raw -s linker").splitlines()
    assert logged[1:] == [text.strip()]
    if code == 134:
        assert f"Abort message: '{text.strip()}'" in shell("logcat -d -b crash -v raw")


def test_other_refusals(shell: Shell, chain: Path, tmp_path: Path) -> None:
    deploy(shell, chain)
    assert shell.run(RUN).returncode == 0
    done = shell.run(RUN.replace("LD_LIBRARY_PATH=. ", ""))
    assert done.stderr.endswith('library "liba.so" not found: needed by main executable\n')
    thirty_two = tmp_path / "libb.so"
    data = bytearray((chain / "libb.so").read_bytes())
    data[4] = 1
    thirty_two.write_bytes(data)
    deploy(shell, chain, libb=thirty_two)
    assert shell.run(RUN).stderr.endswith('"./libb.so" is 32-bit instead of 64-bit\n') or re.search(
        rf'"{DEVICE_DIR}/libb.so" is 32-bit instead of 64-bit\n$', shell.run(RUN).stderr
    )
    deploy(shell, chain, libb=chain / "liba.so")
    assert f'cannot locate symbol "b" referenced by "{DEVICE_DIR}/liba.so"...\n' in shell.run(RUN).stderr


def test_a_programs_own_words_are_untouched(shell: Shell) -> None:
    text = "error while loading shared libraries: libx.so: cannot open shared object file"
    done = shell.run(f"echo 'echo \"{text}\" >&2; exit 127' >/data/local/tmp/s; sh /data/local/tmp/s")
    assert (done.returncode, done.stderr) == (127, text + "\n")


def test_shared_storage_runs_nothing(shell: Shell, chain: Path) -> None:
    shell.adb("push", str(chain / "prog"), "/sdcard/prog")
    done = shell.run("/sdcard/prog")
    assert done.returncode == 126 and "ermission denied" in done.stderr


@pytest.mark.parametrize(("number", "code"), [("KILL", 137), ("SEGV", 139), ("ABRT", 134), ("TERM", 143)])
def test_exit_codes_of_signals(shell: Shell, number: str, code: int) -> None:
    assert shell.run(f"exec sh -c 'kill -{number} $$'").returncode == code
    assert shell.run(f"sh -c 'kill -{number} $$'; exit $?").returncode == code


@pytest.mark.slow  # script/test --all installs mksh, Android's shell
@pytest.mark.parametrize(
    ("number", "text"), [("KILL", "Killed"), ("SEGV", "Segmentation fault"), ("ABRT", "Aborted")]
)
def test_what_androids_shell_says_of_signals(shell: Shell, number: str, text: str) -> None:
    done = shell.run(f"sh -c 'kill -{number} $$'; true")
    assert done.stderr.strip() == text
