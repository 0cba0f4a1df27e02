"""Which logins outlive a broken link, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from devkit.errors import TunnelError
from devkit.tunnels import near_hops
from devkit.tunnels.near_hops import NearHops

PLANS = cast(Any, ["plan of j", "plan of k", "plan of s"])


class Hop:
    def __init__(self, plan: str, *, answers: bool = True, active: bool = True) -> None:
        self.plan, self.latency_s, self.closed = plan, 0.01, False
        request = SimpleNamespace(wait=lambda _seconds: answers, lost=False)
        self.transport = SimpleNamespace(is_active=lambda: active, ask=lambda _kind: request)

    def close(self) -> None:
        self.closed = True


def hops(**options: bool) -> Any:
    return [Hop(plan, **options) for plan in PLANS]


def failed(link: int, reason: str = "lost") -> TunnelError:
    return TunnelError("it broke", reason=reason, route=("here", "j", "k", "s"), link=link)


@pytest.mark.parametrize("link", [0, 1, 2])
def test_those_before_the_broken_one(link: int) -> None:
    near, all_ = NearHops(), hops()
    near.keep(all_, failed(link))
    assert [hop.closed for hop in all_] == [index >= link for index in range(3)]
    assert near.take(PLANS) == all_[:link]
    assert near.take(PLANS) == []


def test_ended_on_purpose_nothing_stays() -> None:
    near, all_ = NearHops(), hops()
    near.keep(all_, None)
    assert all(hop.closed for hop in all_) and near.take(PLANS) == []


@pytest.mark.parametrize("reason", ["forward-denied", "auth", "host-key-changed", "dns", "config"])
def test_what_an_old_session_might_be_the_cause_of(reason: str) -> None:
    near, all_ = NearHops(), hops()
    near.keep(all_, failed(2, reason))
    assert all(hop.closed for hop in all_)


def test_one_that_does_not_answer_or_has_ended() -> None:
    near, deaf = NearHops(), hops(answers=False)
    near.keep(deaf, failed(2))
    assert near.take(PLANS) == [] and all(hop.closed for hop in deaf)
    ended = hops(active=False)
    near.keep(ended, failed(2))
    assert all(hop.closed for hop in ended) and near.take(PLANS) == []


def test_another_configuration_now() -> None:
    near, all_ = NearHops(), hops()
    near.keep(all_, failed(2))
    assert near.take(cast(Any, ["plan of j", "another", "plan of s"])) == all_[:1]
    assert all_[1].closed


def test_the_server_itself_is_no_jump_host() -> None:
    near, all_ = NearHops(), hops()
    near.keep(all_, failed(2))
    assert near.take(PLANS[:1]) == [] and all(hop.closed for hop in all_)


def test_at_last_all_is_made_anew() -> None:
    near, all_ = NearHops(), hops()
    for _ in range(near_hops._MOST_USES):
        near.keep(all_, failed(2, "timeout"))
        assert near.take(PLANS) == all_[:2]
    near.keep(all_, failed(2, "timeout"))
    assert near.take(PLANS) == []
    near.keep(all_, failed(2))
    assert near.take(PLANS) == all_[:2]
    near.close()
