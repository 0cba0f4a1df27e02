"""Answers before the question: what reaches each side, packet by packet."""

from __future__ import annotations

import pytest

from devkit.tunnels.ahead import AnswersAhead, _framed


@pytest.fixture
def agreed() -> AnswersAhead:
    """Both sides have agreed; the server has not yet said anything of what it was asked ahead."""
    ahead = AnswersAhead()
    assert ahead.up(b"+") == (b"+", b"")
    assert ahead.up(_framed(b"QStartNoAckMode")) == (_framed(b"QStartNoAckMode"), b"")
    assert ahead.down(b"+" + _framed(b"OK")) == b"+" + _framed(b"OK")
    to_server, to_client = ahead.up(b"+" + _framed(b"qSupported:xmlRegisters=i386"))
    assert to_server.startswith(b"+$qSupported") and _framed(b"qHostInfo") in to_server and to_client == b""
    assert ahead.down(_framed(b"PacketSize=20000")) == _framed(b"PacketSize=20000")
    return ahead


def test_an_answer_that_is_here_costs_nothing(agreed: AnswersAhead) -> None:
    # Also in pieces, and with bytes that look like the frame of a packet.
    assert agreed.down(_framed(b"OK") + _framed(b"OK") + b"$triple:7d") == b""
    assert agreed.down(b"}\x03;#00" + _framed(b"vCont;c;s")) == b""
    assert agreed.up(_framed(b"QThreadSuffixSupported")) == (b"", _framed(b"OK"))
    assert agreed.up(_framed(b"qHostInfo")) == (b"", b"$triple:7d}\x03;#00")
    assert agreed.up(_framed(b"qHostInfo")) == (b"", b"$triple:7d}\x03;#00")
    assert agreed.saved == 3


def test_an_answer_on_its_way_is_waited_for(agreed: AnswersAhead) -> None:
    assert agreed.down(_framed(b"OK")) == b""
    assert agreed.up(_framed(b"QListThreadsInStopReply")) == (b"", b"")
    assert agreed.down(_framed(b"OK")) == _framed(b"OK")
    assert agreed.down(_framed(b"triple:00")) == b""


def test_other_questions_are_passed_on_and_answered_in_their_place(agreed: AnswersAhead) -> None:
    memory = _framed(b"x7f00,200")
    assert agreed.up(memory) == (memory, b"")
    for _ in range(14):
        assert agreed.down(_framed(b"ahead")) == b""
    assert agreed.down(_framed(b"memory")) == _framed(b"memory")
    assert agreed.up(_framed(b"qProcessInfo")) == (b"", _framed(b"ahead"))


def test_what_changes_something_ends_it(agreed: AnswersAhead) -> None:
    for _ in range(13):
        agreed.down(_framed(b"ahead"))
    go = _framed(b"vCont;c:p1.-1")
    assert agreed.up(go) == (go, b"")
    assert agreed.down(_framed(b"ahead") + _framed(b"O6869")) == _framed(b"O6869")
    assert agreed.down(_framed(b"T05thread:1;")) == _framed(b"T05thread:1;")
    # Old answers are not true any more.
    assert agreed.up(_framed(b"qProcessInfo")) == (_framed(b"qProcessInfo"), b"")
    assert agreed.up(b"\x03") == (b"\x03", b"")
    assert agreed.down(_framed(b"pid:1")) == _framed(b"pid:1")


def test_with_acknowledgements_nothing_is_asked_ahead() -> None:
    ahead = AnswersAhead()
    question = _framed(b"qSupported:multiprocess+")
    assert ahead.up(b"+" + question) == (b"+" + question, b"")
    assert ahead.down(b"+" + _framed(b"x")) == b"+" + _framed(b"x")
    assert ahead.up(b"+" + _framed(b"qHostInfo")) == (b"+" + _framed(b"qHostInfo"), b"")
