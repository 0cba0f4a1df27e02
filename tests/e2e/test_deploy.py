"""`devkit deploy` with files as people have them: odd names, links, thousands of them, things in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Sim, TinyApp

PLACE = "/data/local/tmp/my 放 place"


@pytest.fixture
def deploy(workdir: Path, devkit: Cli, tiny: TinyApp, sim: Sim) -> Cli:
    """Deploys `files:` of an app called chat."""

    def run(files: str, *args: str) -> object:
        (workdir / "devkit.yaml").write_text(
            f"device: {{dir: '{PLACE}'}}\napps: {{chat: {{target: '{tiny.program}', files: {files}}}}}\n"
        )
        return devkit("deploy", "chat", *args)

    return run


def test_odd_names_arrive_as_they_are(deploy: Cli, workdir: Path, device: Device) -> None:
    names = [b"caf\xe9", b"-dash", b" lead", b"qu'ote\"", b"$HOME `id`", b"*", b"back\\slash", "中".encode()]
    (workdir / "odd").mkdir()
    for name in names:
        (workdir / "odd" / os.fsdecode(name)).write_bytes(name)
    (workdir / "odd" / "dead").symlink_to("nowhere")
    ran = deploy("[odd]")
    assert ran.code == 0 and "dead (a link to nothing)" in ran.err
    there = device.list_dir(f"{PLACE}/chat/odd")
    assert {os.fsencode(name) for name in there} == set(names)
    assert device.read_bytes(f"{PLACE}/chat/odd/-dash") == b"-dash"
    assert "nothing to push" in deploy("[odd]").out


def test_more_files_and_folders_than_a_command_line_holds(deploy: Cli, workdir: Path, device: Device) -> None:
    for number in range(600):
        folder = workdir / "many" / f"{'long name ' * 12}{number}"
        folder.mkdir(parents=True)
        (folder / "f").write_text(str(number))
    for number in range(400):
        (workdir / "many" / f"file {number}").write_text("x")
    ran = deploy("[many]")
    assert ran.code == 0, ran.err
    found = device.shell(f"find '{PLACE}/chat/many' -type f | wc -l").text
    assert int(found) == 1000
    # Starting a program for each file takes milliseconds on a phone; so few are started for all.
    assert "nothing to push" in deploy("[many]").out


def test_a_folder_in_a_files_place_is_left_alone(deploy: Cli, workdir: Path, device: Device) -> None:
    (workdir / "notes").write_text("text")
    device.shell(["mkdir", "-p", f"{PLACE}/chat/out"], check=True)
    device.push_bytes(b"results", f"{PLACE}/chat/out/result")
    ran = deploy("[{local: notes, remote: out}]")
    assert ran.code == 125 and f"a folder is where a file is to be: {PLACE}/chat/out" in ran.err
    assert f"try: devkit device shell -- rm -r '{PLACE}/chat/out'" in ran.err
    assert device.read_bytes(f"{PLACE}/chat/out/result") == b"results"
    assert not [name for name in device.list_dir(f"{PLACE}/chat") if "staging" in name]
    # The other way round: a file where a folder is to be.
    device.shell(["rm", "-r", f"{PLACE}/chat/out"], check=True)
    assert deploy("[{local: notes, remote: out}]").code == 0
    (workdir / "folder").mkdir()
    (workdir / "folder" / "f").write_text("x")
    ran = deploy("[{local: folder, remote: out}]")
    assert ran.code == 125 and "cannot be made" in ran.err and "chat/out" in ran.err
    assert device.read_bytes(f"{PLACE}/chat/out") == b"text"
    device.shell(["rm", "-rf", f"{PLACE}/chat"], check=True)


def test_only_what_an_interrupted_deployment_left_is_swept(
    deploy: Cli, workdir: Path, device: Device
) -> None:
    """The name of the folder must not be split at its blanks: the parts are other folders."""
    first = PLACE.partition(" ")[0]
    for folder in (f"{first}/of somebody else", f"{PLACE}/chat/.devkit-staging-0123"):
        device.shell(["mkdir", "-p", folder], check=True)
        device.push_bytes(b"x", folder + "/file")
    device.shell(["touch", "-d", "2020-01-01T00:00:00", f"{PLACE}/chat/.devkit-staging-0123"], check=True)
    (workdir / "notes").write_text("text")
    assert deploy("[notes]").code == 0
    assert device.read_bytes(f"{first}/of somebody else/file") == b"x"
    assert ".devkit-staging-0123" not in device.list_dir(f"{PLACE}/chat")


def test_what_is_no_file(deploy: Cli, workdir: Path) -> None:
    os.mkfifo(workdir / "pipe")
    ran = deploy("[pipe]")
    assert ran.code == 125 and f"{workdir / 'pipe'} is neither a file nor a folder" in ran.err
