"""Exports are right in real shells; rc files keep every other byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from devkit.errors import FileError, UsageError
from devkit.ndk import environment
from devkit.ndk.environment import BACKUP_SUFFIX, BEGIN, END, Exports, install_block, uninstall_block

NASTY = '/opt/n d k/it\'s "$HOME" `id` \\ 中'
EXPORTS = Exports(
    (("ANDROID_NDK", NASTY), ("B", "plain")),
    (("PATH", "/opt/x y/bin"), ("PATH", "/usr/bin"), ("PYTHONPATH", "/py it's")),
)


@pytest.mark.parametrize("shell", environment.SHELLS)
def test_a_real_shell_reads_exactly_the_values(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    assert program, f"script/test installs {shell}"
    script = tmp_path / "e"
    script.write_text(environment.render(EXPORTS, shell), "utf-8")
    source = f"source '{script}'; source '{script}'; env -0"
    done = subprocess.run(
        [program, "-c", source],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True, check=True,
    )  # fmt: skip
    got = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if "=" in item)
    assert got["ANDROID_NDK"] == NASTY and got["B"] == "plain"
    # Last, and once, although it was read twice; /usr/bin was there already.
    assert got["PATH"] == "/usr/bin:/bin:/opt/x y/bin"
    assert got["PYTHONPATH"] == "/py it's"


def test_apply_is_what_the_shells_do() -> None:
    got = EXPORTS.apply({"PATH": "/usr/bin:/bin", "B": "old"})
    path = "/usr/bin:/bin:/opt/x y/bin"
    assert got == {"ANDROID_NDK": NASTY, "B": "plain", "PATH": path, "PYTHONPATH": "/py it's"}


def test_an_unknown_shell_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="csh"):
        environment.render(EXPORTS, "csh")


@pytest.mark.parametrize(
    ("ancestors", "variable", "expected"),
    [
        (["python3", "fish", "bash"], "/bin/zsh", "fish"),
        (["-zsh"], "/bin/bash", "zsh"),
        (["make"], "/usr/bin/zsh", "zsh"),
        ([], "/bin/tcsh", "bash"),
    ],
)
def test_the_shell_in_use(ancestors: list[str], variable: str, expected: str) -> None:
    assert environment.detect_shell({"SHELL": variable}, ancestors) == expected


def test_ancestors_are_real() -> None:
    assert environment.ancestor_names(os.getpid())[0]


def test_rc_files() -> None:
    home = {"HOME": "/h"}
    assert environment.rc_file("bash", home) == Path("/h/.bashrc")
    assert environment.rc_file("zsh", home | {"ZDOTDIR": "/z"}) == Path("/z/.zshrc")
    assert environment.rc_file("fish", home) == Path("/h/.config/fish/config.fish")


line = st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))


@example(lines=[], newline=b"\n", ends=False, later=b"\r\n")
@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(line, max_size=6),
    newline=st.sampled_from([b"\n", b"\r\n"]),
    ends=st.booleans(),
    later=st.binary(max_size=8),
)
def test_every_other_byte_stays(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], newline: bytes, ends: bool, later: bytes
) -> None:
    file = tmp_path_factory.mktemp("rc") / ".bashrc"
    content = newline.join(lines) + (newline if ends and lines else b"")
    file.write_bytes(content)
    assert install_block(file, "export A=1\n")
    once = file.read_bytes()
    assert once.startswith(content) and once.count(BEGIN.encode()) == 1
    assert not install_block(file, "export A=1\n") and file.read_bytes() == once
    assert install_block(file, "export A=2\nexport B=3\n")
    assert file.read_bytes().count(BEGIN.encode()) == 1 and b"A=2" in file.read_bytes()
    assert uninstall_block(file) and file.read_bytes() == content
    assert not uninstall_block(file)
    # What the user wrote behind it meanwhile stays, too.
    install_block(file, "export A=1\n")
    file.write_bytes(file.read_bytes() + later)
    install_block(file, "export A=9\n")
    uninstall_block(file)
    left = file.read_bytes()
    assert left.startswith(content) and left.endswith(later)


def test_links_modes_and_the_backup_stay(tmp_path: Path) -> None:
    real = tmp_path / "dot files" / "bashrc"
    real.parent.mkdir()
    real.write_text("mine\n")
    real.chmod(0o600)
    link = tmp_path / ".bashrc"
    link.symlink_to(real)
    install_block(link, "export A=1\n")
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600
    assert "export A=1" in real.read_text()
    backup = real.with_name("bashrc" + BACKUP_SUFFIX)
    assert backup.read_text() == "mine\n"
    install_block(link, "export A=2\n")
    assert backup.read_text() == "mine\n"
    # What is kept is the file as it was before the block came, not as it was years ago.
    uninstall_block(link)
    real.write_text("mine, later\n")
    install_block(link, "export A=3\n")
    assert backup.read_text() == "mine, later\n"


def test_a_file_that_holds_only_the_block_is_no_backup(tmp_path: Path) -> None:
    file = tmp_path / ".bashrc"
    install_block(file, "export A=1\n")
    install_block(file, "export A=2\n")
    assert [p.name for p in tmp_path.iterdir()] == [".bashrc"]


def test_a_shell_reads_the_block_of_a_file_with_crlf(tmp_path: Path) -> None:
    file = tmp_path / ".bashrc"
    file.write_bytes(b"# from Windows\r\n# no newline at the end")
    install_block(file, "export A='x y'\n")
    done = subprocess.run(
        ["bash", "-c", f"source '{file}'; printf '%s' \"$A\""], capture_output=True, check=True
    )
    assert done.stdout == b"x y"
    assert uninstall_block(file)
    assert file.read_bytes() == b"# from Windows\r\n# no newline at the end"


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / ".zshrc"
    file.write_text("made by a program\n")
    file.chmod(0o444)
    with pytest.raises(FileError, match="it is unchanged") as caught:
        install_block(file, "export A=1\n")
    assert "is read-only" in str(caught.value.evidence) and "devkit env" in caught.value.hints[0]
    assert file.read_text() == "made by a program\n" and len(list(tmp_path.iterdir())) == 1


def test_what_would_change_is_said_and_not_done(tmp_path: Path) -> None:
    file = tmp_path / ".bashrc"
    file.write_text("mine\n")
    assert install_block(file, "export A=1\n", dry_run=True)
    assert file.read_text() == "mine\n" and len(list(tmp_path.iterdir())) == 1
    install_block(file, "export A=1\n")
    assert not install_block(file, "export A=1\n", dry_run=True)
    assert uninstall_block(file, dry_run=True) and "A=1" in file.read_text()


@pytest.mark.parametrize("shell", environment.SHELLS)
def test_the_block_is_read_back(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "rc"
    file.write_text("export MINE=1\n")
    assert environment.read_block(file) is None
    install_block(file, environment.render(EXPORTS, shell))
    assert environment.read_block(file) == {"ANDROID_NDK": NASTY, "B": "plain"}


def test_a_new_file_is_made_and_emptied_again(tmp_path: Path) -> None:
    file = tmp_path / "fish" / "config.fish"
    assert install_block(file, "set -gx A 1\n")
    assert file.read_text() == f"{BEGIN}\nset -gx A 1\n{END}\n"
    assert uninstall_block(file) and file.read_text() == ""


@pytest.mark.parametrize(
    "broken", [f"{BEGIN}\nx\n", f"{END}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n" * 2]
)
def test_damaged_markers_change_nothing(tmp_path: Path, broken: str) -> None:
    file = tmp_path / ".bashrc"
    file.write_text(broken)
    for act in (lambda: install_block(file, "x\n"), lambda: uninstall_block(file)):
        with pytest.raises(FileError, match="damaged"):
            act()
    assert file.read_text() == broken and list(tmp_path.iterdir()) == [file]
