"""Options, and the rule that a skip is a failure unless it is announced in EXPECTED_SKIPS."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

# Reasons of skips that are right on some machines; anything else fails a CI run.
EXPECTED_SKIPS: tuple[str, ...] = (
    "slow: runs with script/test --all",
    "only root can start a server for another user",
    "this machine has no address but loopback",
    "Linux perf is not here",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C reaches the programs that tests start, also when the tests were started with `&`.

    A script's shell has SIGINT ignored in what it starts in the background, and that is inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("CI"):
        # A CI run judges a change: the same examples each time. Everybody else's runs look for new ones.
        from hypothesis import settings

        settings.register_profile("ci", derandomize=True)
        settings.load_profile("ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    kept = [item for item in items if "slow" not in item.keywords]
    dropped = [item for item in items if "slow" in item.keywords]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(expected in reason for expected in EXPECTED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"unexpected skip: {reason}"


@pytest.fixture(autouse=True)
def _private_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """State and config of the user who runs the tests are neither read nor written.

    The cache stays shared: phone images and hashes are keyed by content.
    """
    base = tmp_path_factory.mktemp("xdg")
    for name in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(base / name.lower()))
    for name in list(os.environ):
        if name.startswith(("DEVKIT_", "ANDROID_", "ADB_")):
            monkeypatch.delenv(name)
