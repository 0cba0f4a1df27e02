"""known_hosts, against the real ssh-keygen: which line counts, and that adding loses nothing."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from devkit.errors import FileError
from devkit.tunnels import known_hosts
from tests.support.sshd import fingerprint, public

CASES = Path(__file__).parents[2] / "data" / "cases"


def blob_of(key: Path) -> bytes:
    return base64.b64decode(public(key).split()[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of case E5 for port 2222, made by its own script."""
    folder = tmp_path_factory.mktemp("E5")
    subprocess.run(["bash", str(CASES / "E5/make_known_hosts.sh"), str(folder), "2222"], check=True)
    return folder


def judge(made: Path, file: str, key: str) -> tuple[known_hosts.KnownHosts, known_hosts.Verdict]:
    known = known_hosts.load(known_hosts.known_as("127.0.0.1", 2222), [made / file])
    return known, known.judge(public(made / key).split()[0], blob_of(made / key))


@pytest.mark.parametrize(
    ("file", "key", "state"),
    [
        ("kh_ecdsa_only", "hk_ecdsa", "known"),
        ("kh_hashed", "hk_ecdsa", "known"),
        ("kh_no_port", "hk_ed25519", "unknown"),
        ("kh_changed", "hk_ed25519", "changed"),
        ("kh_revoked", "hk_ecdsa", "revoked"),
        ("kh_with_bad_line", "hk_ecdsa", "known"),
    ],
)
def test_case_e5(made: Path, file: str, key: str, state: str) -> None:
    assert file in json.loads((CASES / "E5/expected.json").read_text("utf-8"))
    assert judge(made, file, key)[1].state == state


def test_case_e5_details(made: Path) -> None:
    known, _ = judge(made, "kh_ecdsa_only", "hk_ecdsa")
    assert known.key_types == ("ecdsa-sha2-nistp256",)
    _, verdict = judge(made, "kh_changed", "hk_ed25519")
    assert verdict.entries[0].place == f"{made / 'kh_changed'}:1"
    assert verdict.entries[0].fingerprint == fingerprint(made / "hk_other")
    known, _ = judge(made, "kh_with_bad_line", "hk_ecdsa")
    assert len(known.warnings) == 1 and f"{made / 'kh_with_bad_line'}:3" in known.warnings[0]


@pytest.mark.parametrize(
    ("line", "host", "port", "fits"),
    [
        ("host", "host", 22, True),
        ("HOST", "Host", 22, True),
        ("host", "host", 2222, False),
        ("[host]:2222", "host", 2222, True),
        ("[host]:2222", "host", 22, False),
        ("a,host,b", "host", 22, True),
        ("*.lab,!bad.lab", "good.lab", 22, True),
        ("*.lab,!bad.lab", "bad.lab", 22, False),
        ("ho?t", "host", 22, True),
        ("2001:db8::1", "2001:db8::1", 22, True),
        ("@cert-authority *", "host", 22, False),
    ],
)
def test_names(tmp_path: Path, made: Path, line: str, host: str, port: int, fits: bool) -> None:
    file = tmp_path / "known"
    file.write_text(f"{line} {public(made / 'hk_ed25519')} comment\n", "utf-8")
    known = known_hosts.load(known_hosts.known_as(host, port), [file])
    state = known.judge("ssh-ed25519", blob_of(made / "hk_ed25519")).state
    assert (state == "known") is fits and not known.warnings


@pytest.mark.parametrize("hashed", [False, True])
def test_what_is_added_is_found_by_ssh_keygen_and_the_rest_stays(
    tmp_path: Path, made: Path, hashed: bool
) -> None:
    real = tmp_path / "dotfiles"
    before = "# mine \xff\n|1|broken\r\n\nlast ssh-rsa AAAA".encode("latin-1")
    real.write_bytes(before)
    real.chmod(0o640)
    file = tmp_path / "known hosts"
    file.symlink_to(real)
    name, blob = "[host.example]:2222", blob_of(made / "hk_rsa")
    known_hosts.add(file, name, "ssh-rsa", blob, hashed=hashed)
    assert file.is_symlink() and real.read_bytes().startswith(before + b"\n")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    found = subprocess.run(
        ["ssh-keygen", "-lF", name, "-f", str(real)], capture_output=True, text=True, check=True
    )
    assert fingerprint(made / "hk_rsa") in found.stdout
    assert known_hosts.load(name, [file]).judge("ssh-rsa", blob).state == "known"
    assert (b"host.example" in real.read_bytes()) is not hashed


def test_a_new_file_is_private(tmp_path: Path, made: Path) -> None:
    file = tmp_path / "new" / "known_hosts"
    known_hosts.add(file, "host", "ssh-rsa", blob_of(made / "hk_rsa"), hashed=False)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert file.read_text("utf-8").count("\n") == 1


def test_adding_at_the_same_time_loses_no_line(tmp_path: Path, made: Path) -> None:
    file = tmp_path / "known_hosts"
    blob = blob_of(made / "hk_ed25519")
    work = [
        threading.Thread(
            target=known_hosts.add, args=(file, f"h{n}", "ssh-ed25519", blob), kwargs={"hashed": False}
        )
        for n in range(40)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert all(
        known_hosts.load(f"h{n}", [file]).judge("ssh-ed25519", blob).state == "known" for n in range(40)
    )


def test_a_full_disk_leaves_the_file_as_it_was(made: Path) -> None:
    with pytest.raises(FileError):
        known_hosts.add(Path("/dev/full"), "host", "ssh-rsa", blob_of(made / "hk_rsa"), hashed=False)


@pytest.mark.parametrize(
    "line",
    [
        "host ssh-ed25519 !!!",
        "host ssh-rsa {ed25519}",
        "host",
        "|1|eA==|bad!|x ssh-rsa AAAA",
        "@revoked host",
    ],
)
def test_damaged_lines_are_skipped_with_their_place(tmp_path: Path, made: Path, line: str) -> None:
    file = tmp_path / "known"
    file.write_text(line.replace("{ed25519}", public(made / "hk_ed25519").split()[1]) + "\n", "utf-8")
    known = known_hosts.load("host", [file])
    assert not known.entries and f"{file}:1" in known.warnings[0]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        known_hosts.load("host", [tmp_path])
    assert known_hosts.load("host", [tmp_path / "none", Path(os.devnull)]).entries == ()
