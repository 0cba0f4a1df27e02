"""What a tunnel may be asked for, before anybody is logged in to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devkit.errors import UsageError
from devkit.tunnels.report import render_exports
from devkit.tunnels.spec import ADBD, SERVER_SIDE, ExtraPort, TunnelSpec, check_spec, name_for, refuse_other


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"extra": (ExtraPort(5039, 5039), ExtraPort(5039, 5040))}, "port 5039 of the server"),
        ({"port": 5039, "extra": (ExtraPort(5039, 5040),)}, "port 5039 of the server"),
        ({"mode": ADBD, "side": SERVER_SIDE}, "adb-server mode only"),
        # The adb server there would take it for an emulator.
        ({"mode": ADBD, "port": 5557}, "cannot be the phone's"),
        ({"bind": "everywhere"}, "no address"),
        ({"bind": ""}, "no address"),
        ({"serial": ""}, "needs a phone's serial"),
    ],
)
def test_what_contradicts_itself(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check_spec(TunnelSpec("server", "server", **wrong))


@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "0.0.0.0", "::", "*", "192.0.2.7"])
def test_what_does_not(bind: str) -> None:
    extra = (ExtraPort(5039, 5039), ExtraPort(5040, 5040))
    spec = TunnelSpec("server", "server", bind=bind, extra=extra)
    assert check_spec(spec) is spec
    assert TunnelSpec.from_dict(spec.as_dict()) == spec
    assert name_for("ssh://dev@build.example.com:2222") == "build.example.com"


def test_shells() -> None:
    assert render_exports({"A": "b c"}, "fish") == "set -gx A 'b c'"
    with pytest.raises(UsageError, match="tcsh"):
        render_exports({"A": "b"}, "tcsh")


def test_a_running_tunnel_that_does_what_is_asked() -> None:
    running = TunnelSpec("s", "s", port=0, extra=(ExtraPort(31313, 31313),))
    for same in (TunnelSpec("s", "s"), running, replace(running, accept_new=True, label="other", port=40123)):
        refuse_other(same, running, 40123)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"mode": ADBD}, "--mode: asked adbd, it has adb-server"),
        ({"extra": (ExtraPort(5039, 5039),)}, "--forward: asked 5039:5039, it has 31313:31313"),
        ({"port": 16000}, "--port: asked 16000, it has any"),
        ({"serial": "X"}, "-s: asked X, it has none"),
        ({"host": "t"}, "HOST: asked t, it has s"),
        ({"bind": "0.0.0.0"}, "--bind: asked 0.0.0.0, it has 127.0.0.1"),
    ],
)
def test_a_running_tunnel_that_does_something_else(other: dict[str, Any], said: str) -> None:
    running = TunnelSpec("s", "s", extra=(ExtraPort(31313, 31313),))
    with pytest.raises(UsageError) as caught:
        refuse_other(replace(TunnelSpec("s", "s"), **other), running, 40123)
    assert caught.value.evidence == said
    assert "devkit tunnel down s" in caught.value.hints[0]
