"""Fixtures for the tests of an engine: `phone` and `deployed_app`, on a virtual phone or on a real one.

pytest loads this file wherever devkit is installed, so everything else is imported by the fixtures.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.testing import DeployedApp
    from devkit.virtual_device import VirtualDevice

MARKER = "devkit_phone"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**options): a virtual phone for this test alone, with the options of `devkit sim start`:"
        " model, android, rate, delay, storage, confinement…",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("devkit")
    group.addoption(
        "--devkit-serial",
        metavar="SERIAL",
        help="run tests of the fixture `phone` on this phone instead of a virtual one"
        f" (those with the marker {MARKER} are skipped)",
    )


@pytest.fixture(scope="session")
def devkit_session_phone(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The phone that all tests without a marker share."""
    serial = request.config.getoption("--devkit-serial")
    if serial:
        from devkit.device import select_device

        yield select_device(serial, asked_by="--devkit-serial")
        return
    with _start({}) as device:
        yield device


@pytest.fixture
def phone(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A phone: its own for a test with the marker `devkit_phone`, else the session's.

    It is a `devkit.device.Device`; a virtual one also has break_(fault), heal() and slow(). What a
    test breaks is healed after it.
    """
    marker = request.node.get_closest_marker(MARKER)
    if marker is not None:
        if request.config.getoption("--devkit-serial"):
            pytest.skip(f"the marker {MARKER} asks for a virtual phone")
        with _start(dict(marker.kwargs)) as device:
            yield device
        return
    shared = request.getfixturevalue("devkit_session_phone")
    yield shared
    if hasattr(shared, "heal"):
        shared.heal()


@pytest.fixture
def deployed_app(phone: Device, request: pytest.FixtureRequest) -> Callable[..., DeployedApp]:
    """A function: deployed_app("llm_demo") builds an app of devkit.yaml and puts it on the phone.

    It takes `profile` (a build profile) and `root` (where to look for devkit.yaml; default: pytest's
    rootdir), and returns an object with run(*args, stdin=b"", timeout_s=60).
    """
    from devkit.testing import deploy

    def factory(name: str, *, profile: str | None = None, root: Path | None = None) -> DeployedApp:
        return deploy(phone, name, root=root or request.config.rootpath, profile=profile)

    return factory


def _start(options: dict[str, Any]) -> VirtualDevice:
    from devkit.virtual_device import start_virtual_device

    return start_virtual_device(f"pytest-{os.getpid()}-{next(_numbers)}", **options)
