"""Several devkits change one file of the user's at the same time: every change survives."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from devkit import paths
from devkit.device.network_memory import remembered_phones
from devkit.ndk.environment import BACKUP_SUFFIX, BEGIN
from devkit.ndk.lock import changing
from devkit.ndk.user_config import user_file

PROCESSES, ROUNDS = 5, 4


def side_by_side(body: str, *words: str) -> None:
    """Run `body` in several processes that start together; each knows its number as `me`."""
    start_at = time.time() + 1.5
    script = (
        "import sys, time\n"
        "me, start_at, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]\n"
        "from devkit import output\n"
        f"{body}\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(number), str(start_at), *words],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for child in started:
        _, said = child.communicate(timeout=100)
        assert child.returncode == 0, said
        others: Sequence[str] = [line for line in said.splitlines() if "waiting for it" not in line]
        assert not others, said


def test_every_key_of_the_settings_survives() -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("# mine\nbuild: {type: debug}\n")
    side_by_side(
        "from devkit.ndk.user_config import set_user_value\n"
        "time.sleep(max(0, start_at - time.time()))\n"
        f"for turn in range({ROUNDS}):\n"
        "    set_user_value(f's{me}.k{turn}', f'/v{me}')\n"
        "    set_user_value(f'shared.k{me}', f'/v{turn}')\n"
    )
    text = user_file().read_text()
    loaded = yaml.safe_load(text)
    assert text.startswith("# mine\nbuild: {type: debug}\n")
    for me in range(PROCESSES):
        assert loaded[f"s{me}"] == {f"k{turn}": f"/v{me}" for turn in range(ROUNDS)}
    assert loaded["shared"] == {f"k{me}": f"/v{ROUNDS - 1}" for me in range(PROCESSES)}


def test_a_setting_removed_beside_one_that_is_written() -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("".join(f"s{me}:\n  old: 1\n" for me in range(PROCESSES)))
    side_by_side(
        "from devkit.ndk.user_config import set_user_value\n"
        "time.sleep(max(0, start_at - time.time()))\n"
        "set_user_value(f's{me}.old', None)\n"
        "set_user_value(f's{me}.new', '/n')\n"
    )
    assert yaml.safe_load(user_file().read_text()) == {f"s{me}": {"new": "/n"} for me in range(PROCESSES)}


def test_an_rc_file_with_one_block_and_every_line_of_others(tmp_path: Path) -> None:
    rc = tmp_path / "rc of 我"
    rc.write_bytes(b"alias ll='ls -l'\n")
    side_by_side(
        "from pathlib import Path\n"
        "from devkit.ndk.environment import install_block, uninstall_block\n"
        "from devkit.ndk.lock import changing\n"
        "rc = Path(words[0])\n"
        "time.sleep(max(0, start_at - time.time()))\n"
        "for turn in range(20):\n"
        "    if me % 2:\n"
        "        install_block(rc, f'export ME={me}\\n')\n"
        "        uninstall_block(rc)\n"
        "    else:\n"
        "        with changing(rc):\n"
        "            rc.write_text(f'# {me} {turn}\\n' + rc.read_text())\n"
        "install_block(rc, f'export ME={me}\\n')\n",
        str(rc),
    )
    lines = rc.read_text().splitlines()
    assert lines.count(BEGIN) == 1 and lines.count("alias ll='ls -l'") == 1
    assert {f"# {me} {turn}" for me in range(0, PROCESSES, 2) for turn in range(20)} < set(lines)
    assert BEGIN not in rc.with_name(rc.name + BACKUP_SUFFIX).read_text()


def test_what_others_append_by_turns_stays(tmp_path: Path) -> None:
    """Two rc files of one folder and one name in two folders are different files; a link is its target."""
    real = tmp_path / "dotfiles" / "rc"
    real.parent.mkdir()
    real.write_text("0")
    (tmp_path / "rc").symlink_to(real)
    side_by_side(
        "from pathlib import Path\n"
        "from devkit.ndk.lock import changing\n"
        "file = Path(words[me % 2])\n"
        "time.sleep(max(0, start_at - time.time()))\n"
        "for turn in range(20):\n"
        "    with changing(file):\n"
        "        value = int(file.read_text())\n"
        "        file.resolve().write_text(str(value + 1))\n",
        str(real),
        str(tmp_path / "rc"),
    )
    assert real.read_text() == str(20 * PROCESSES)


def test_phones_on_networks_are_all_remembered() -> None:
    side_by_side(
        "from devkit.device.network_memory import NetworkPhone, remember_phone\n"
        "time.sleep(max(0, start_at - time.time()))\n"
        f"for turn in range({ROUNDS}):\n"
        "    remember_phone(NetworkPhone(f'192.0.2.{me}:{5000 + turn}'))\n"
    )
    assert len(remembered_phones()) == PROCESSES * ROUNDS


def test_without_a_place_for_the_lock_the_file_is_still_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file in the way").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file in the way"))
    with changing(tmp_path / "rc"):
        (tmp_path / "rc").write_text("x")
    assert (tmp_path / "rc").read_text() == "x"


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    with changing(tmp_path / ".bashrc"):
        assert os.listdir(tmp_path) == []
    assert [file.name.partition("-")[0] for file in (paths.state_dir() / "locks").iterdir()] == ["bashrc"]
