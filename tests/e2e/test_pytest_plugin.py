"""The fixtures that engine teams import: pytest in a process of its own, with a project of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import REPO, TinyApp

# An installed devkit brings its entry point; a source tree alone does not.
LOADED = any(
    entry.value == "devkit.pytest_plugin" for entry in importlib.metadata.entry_points(group="pytest11")
)


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugin = [] if LOADED else ["-p", "devkit.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *plugin, *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(REPO), os.environ.get("PYTHONPATH")])),
        },
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def test_an_engine_is_tested_on_a_phone(workdir: Path, tiny: TinyApp) -> None:
    (workdir / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (workdir / "devkit.yaml").write_text(
        f"apps:\n  tiny:\n    target: '{tiny.program}'\n    args: [exit, '4']\n"
    )
    (workdir / "test_engine.py").write_text(
        """
import pytest

seen = []

def test_the_app(phone, deployed_app):
    app = deployed_app("tiny")
    assert app.run().exit_code == 4
    done = app.run("cat", stdin=b"hello")
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"hello", b"eof\\n")
    assert "total 6" in app.run("normal").output
    seen.append(phone.serial)

def test_what_is_broken(phone):
    phone.break_("slow", delay="50ms")
    assert phone.faults == ["slow"]

def test_is_healed_and_the_phone_is_the_same(phone):
    assert phone.faults == [] and phone.serial == seen[0]

@pytest.mark.devkit_phone(android="8", rate="50mbit")
def test_with_a_phone_of_its_own(phone, deployed_app):
    assert phone.serial != seen[0] and phone.api_level == 26
    assert deployed_app("tiny").run().exit_code == 4

@pytest.mark.devkit_phone(colour="red")
def test_with_a_wrong_option(phone):
    pass
"""
    )
    done = run_pytest(workdir)
    assert "4 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "a virtual phone has no option 'colour'" in done.stdout


def test_a_real_phone_can_take_its_place(sim: object, device, workdir: Path) -> None:  # type: ignore[no-untyped-def]
    (workdir / "test_it.py").write_text(
        f"""
import pytest

def test_serial(phone):
    assert phone.serial == {device.serial!r}

@pytest.mark.devkit_phone(rate="1mbit")
def test_skipped(phone):
    pass
"""
    )
    done = run_pytest(workdir, "--devkit-serial", "sim:shared")
    assert "1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr


def test_it_costs_nothing_when_it_is_not_used(workdir: Path) -> None:
    code = (
        "import sys, pytest, devkit.pytest_plugin; "
        "print([m for m in sys.modules if m.startswith('devkit.') and m != 'devkit.pytest_plugin'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("fixture", ["phone", "deployed_app", "devkit_session_phone"])
def test_fixtures_explain_themselves(workdir: Path, fixture: str) -> None:
    (workdir / "test_none.py").write_text("")
    done = run_pytest(workdir, "--fixtures", "-v")
    assert fixture in done.stdout and "-- ../" not in fixture
