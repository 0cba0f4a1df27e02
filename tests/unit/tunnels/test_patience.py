"""How long a tunnel waits: the policy, and connections that are tried anew beside silent ones."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devkit.tunnels import keepalive, patience, redial
from devkit.tunnels.patience import Patience, Waits, pause_s
from devkit.tunnels.read_ahead import Wire


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def test_a_young_outage_is_never_left_alone_for_long() -> None:
    for attempt in range(50):
        for reason in ("timeout", "refused", "lost", "dns", "unreachable"):
            assert pause_s(reason, attempt, 100.0) <= 0.8
    assert pause_s("lost", 0, 0.0) == 0.0
    # It is scattered, so that many laptops do not come at once.
    assert len({pause_s("timeout", 9, 10.0) for _ in range(20)}) > 10


def test_an_old_outage_costs_less() -> None:
    assert 1.0 < pause_s("timeout", 500, 3600.0, middle) <= 2.0


def test_a_server_that_fends_us_off_is_asked_rarely() -> None:
    assert pause_s("closed", 2, 2.0, middle) < 1
    assert pause_s("closed", 6, 5.0, middle) >= 4
    assert pause_s("refused", 6, 5.0, middle) < 1


def test_silence_is_borne_longer_where_the_machine_was_slow() -> None:
    kept = Patience()
    assert kept.waits("s").silence_s == patience.SILENCE_S
    kept.spoke("s", 4.0)
    assert kept.waits("s").silence_s == 12.0
    assert kept.waits("j").silence_s == patience.SILENCE_S
    kept.was_silent("s")
    assert kept.waits("s").silence_s == 24.0
    kept.was_silent("s")
    assert kept.waits("s").silence_s == patience.MAX_SILENCE_S
    kept.spoke("s", 0.1)
    assert kept.waits("s").silence_s == patience.SILENCE_S


class FullListener:
    """A port whose queue is full: what dials it hears nothing, as of a host that is away."""

    def __enter__(self) -> FullListener:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.address = self.listener.getsockname()
        self.first = socket.create_connection(self.address)
        return self

    def empty(self) -> None:
        self.listener.listen(16)
        self.listener.accept()[0].close()

    def __exit__(self, *_error: object) -> None:
        self.first.close()
        self.listener.close()


def test_a_host_that_comes_back_is_reached_at_once() -> None:
    """Just after the system has repeated its first packet it would not do so again for two seconds."""
    with FullListener() as away:
        began = time.monotonic()
        threading.Timer(1.2, away.empty).start()
        with redial.connect(away.address, Waits(8.0, 1.0, 0.2)) as sock:
            took = time.monotonic() - began
            assert sock.getblocking() and sock.getpeername() == away.address
        # Alone, the first connection's packet is repeated after 1 s and 3 s.
        assert 1.1 < took < 2.0, took


def test_a_host_that_stays_away() -> None:
    with FullListener() as away:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            redial.connect(away.address, Waits(0.7, 1.0, 0.2))
        assert 0.6 < time.monotonic() - began < 1.5


def test_a_refusal_is_an_answer() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    began = time.monotonic()
    with pytest.raises(ConnectionRefusedError):
        redial.connect(address, Waits(5.0, 1.0, 0.2))
    assert time.monotonic() - began < 1


class Opened:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_channel_that_is_asked_for_again() -> None:
    """The first request is lost; the third is answered, and what comes late is closed."""
    made: list[Opened] = []
    asked = []
    late = threading.Event()

    def ask(timeout_s: float) -> Any:
        asked.append(timeout_s)
        if len(asked) < 3:
            late.wait(5)
        made.append(Opened())
        return made[-1]

    got = redial.open_channel(ask, Waits(5.0, 1.0, 0.1))
    assert got is cast(Any, made[0]) and not made[0].closed and len(asked) == 3
    late.set()
    deadline = time.monotonic() + 5
    while (len(made) < 3 or not all(each.closed for each in made[1:])) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [each.closed for each in made] == [False, True, True]


def test_a_channel_that_is_refused() -> None:
    def ask(_timeout_s: float) -> Any:
        raise ValueError("administratively prohibited")

    with pytest.raises(ValueError, match="prohibited"):
        redial.open_channel(ask, Waits(5.0, 1.0, 0.1))


class Sink:
    """A channel that takes nothing, until it does."""

    taking = False

    def send(self, data: bytes) -> int:
        if not self.taking:
            raise TimeoutError
        return len(data)


def test_taking_what_was_not_taken_is_a_sign_of_life() -> None:
    sink = Sink()
    wire = Wire(sink)
    wire.last_moved = 0.0
    with pytest.raises(TimeoutError):
        wire.send(b"x")
    assert wire.last_moved == 0.0
    sink.taking = True
    wire.send(b"x")
    assert wire.last_moved > 0.0
    # While there is room nobody at the far end has to take anything.
    wire.last_moved = 0.0
    wire.send(b"x")
    assert wire.last_moved == 0.0


class DeafHop:
    """A hop that never answers; `moved` whether it still takes what is sent to it."""

    def __init__(self, latency_s: float | None, *, moves: bool = False) -> None:
        self.way = SimpleNamespace(name="h")
        self.latency_s = latency_s
        self._moves = moves
        self._wire = SimpleNamespace(last_moved=0.0)

    @property
    def transport(self) -> Any:
        if self._moves:
            self._wire.last_moved = time.monotonic()
        return SimpleNamespace(wire=self._wire, ask=lambda _kind: SimpleNamespace(latency_s=None))


class Calls:
    def call(self, work: Any) -> bool:
        work()
        return True


def silence_s(hop: DeafHop, within_s: float) -> float | None:
    """After what silence a hop is given up; None: not within that time."""
    heard: list[float] = []
    watch = keepalive.Keepalive(
        cast(Any, [hop]), cast(Any, Calls()), 0.05, 4, lambda _index, seconds: heard.append(seconds)
    )
    watch.start()
    watch.join(within_s)
    watch.stop()
    watch.join(5)
    return heard[0] if heard else None


def test_a_silent_hop_is_dead_after_four_pings() -> None:
    seconds = silence_s(DeafHop(0.001), 3)
    assert seconds is not None and 0.2 <= seconds < 0.5, seconds


def test_a_slow_link_under_load_is_not_dead() -> None:
    """A ping queues behind a transfer: a hop that last needed half a second gets two more."""
    assert silence_s(DeafHop(0.5), 1.0) is None
    seconds = silence_s(DeafHop(0.5), 5)
    assert seconds is not None and 2.2 <= seconds < 3, seconds
    assert silence_s(DeafHop(0.001, moves=True), 1.0) is None
