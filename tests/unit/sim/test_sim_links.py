"""The phone's cable: what users write, the arithmetic of rate and delay, connections taken back in use."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace

import pytest

from devkit.errors import UsageError
from devkit.sim.adbd.handover import Handover
from devkit.sim.link import bind_listener
from devkit.sim.link_loop import LinkLoop
from devkit.sim.link_orders import OFFLINE, UNPLUGGED, UP, LinkOrder, LinkReport
from devkit.sim.links import LinkSettings, link_from, parse_delay, parse_rate, show_rate
from devkit.sim.shaping import Direction, Lane, LinkCut

MBIT = 1e6


@pytest.mark.parametrize(
    ("text", "bits"),
    [("20mbit", 20e6), ("500kbit", 5e5), ("1.5gbit", 1.5e9), ("8000bit", 8000), ("20Mbit/s", 20e6)],
)
def test_rates(text: str, bits: float) -> None:
    assert parse_rate(text) == bits


def test_unlimited_is_no_rate() -> None:
    assert parse_rate("unlimited") is None


@pytest.mark.parametrize("text", ["20", "20mb", "-1mbit", "0mbit", "", "fast", "1bit"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rate(text)
    assert "20mbit" in caught.value.hints


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("0.5s", 0.5), ("250us", 0.00025), ("0", 0)])
def test_delays(text: str, seconds: float) -> None:
    assert parse_delay(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "ten", "-1ms", "61s", ""])
def test_what_is_no_delay(text: str) -> None:
    with pytest.raises(UsageError):
        parse_delay(text)


def test_a_direction_of_its_own_wins_and_the_rest_stays() -> None:
    settings = link_from(rate="20mbit", rate_down="5mbit", delay="10ms")
    assert settings == LinkSettings(20e6, 5e6, 0.01, 0.01)
    assert settings.describe() == "20 Mbit/s up, 5 Mbit/s down, 10 ms each way"
    assert link_from(settings, delay_up="0").describe() == "20 Mbit/s up, 5 Mbit/s down, 0 ms up, 10 ms down"
    assert not link_from(settings, rate="unlimited", delay="0").is_shaped
    assert LinkSettings.from_dict(settings.as_dict()) == settings
    assert show_rate(1500) == "1.5 kbit/s"


def test_pieces_arrive_when_the_wire_and_the_delay_say() -> None:
    direction = Direction()
    direction.set(8 * MBIT, 0.5)  # a megabyte a second
    assert direction.schedule(250_000, 10.0) == pytest.approx(10.75)
    # The wire is busy until 10.25: the second piece waits for it, the delay runs at the same time.
    assert direction.schedule(250_000, 10.0) == pytest.approx(11.0)
    # An idle wire has saved nothing up.
    assert direction.schedule(100_000, 50.0) == pytest.approx(50.6)


def make_lane(direction: Direction) -> tuple[socket.socket, Lane, socket.socket]:
    source, near = socket.socketpair()
    far, sink = socket.socketpair()
    for sock in (source, near, far, sink):
        sock.setblocking(False)
    return source, Lane(near, far, direction), sink


def received(sink: socket.socket) -> bytes:
    with suppress(BlockingIOError):
        return sink.recv(1 << 20)
    return b""


def test_a_lane_holds_bytes_back_until_they_are_due() -> None:
    direction = Direction()
    direction.set(None, 0.25)
    source, lane, sink = make_lane(direction)
    source.send(b"hello")
    lane.read(now=100.0)
    lane.write(now=100.2)
    assert received(sink) == b"" and lane.due == pytest.approx(100.25)
    lane.write(now=100.26)
    assert received(sink) == b"hello" and lane.due is None
    source.close()
    lane.read(now=101.0)
    assert lane.is_done


def test_a_lane_stops_reading_when_it_is_full() -> None:
    direction = Direction()
    direction.set(1 * MBIT, 0.0)
    source, lane, _ = make_lane(direction)
    total = 0
    for _ in range(100):
        with suppress(BlockingIOError):
            total += source.send(bytes(64 * 1024))
        lane.read(now=0.0)
    assert not lane.wants_read
    assert total < 2_000_000


def test_a_change_reschedules_what_is_on_the_way() -> None:
    direction = Direction()
    direction.set(8000, 0.0)
    source, lane, sink = make_lane(direction)
    source.send(bytes(10_000))
    lane.read(now=0.0)
    lane.write(now=0.1)
    assert received(sink) == b""
    direction.set(None, 0.0)
    lane.reschedule(now=0.2)
    lane.write(now=0.2)
    assert len(received(sink)) == 10_000


def test_a_cut_lets_exactly_so_many_bytes_pass() -> None:
    direction = Direction()
    direction.cut_after_bytes = 7
    source, lane, sink = make_lane(direction)
    source.send(b"0123456789")
    lane.read(now=0.0)
    with pytest.raises(LinkCut):
        lane.write(now=0.0)
    assert received(sink) == b"0123456"


class Cable:
    """A link's loop in a thread, and an echo in place of adbd, connected by the real handover."""

    def __init__(self) -> None:
        self.listener = bind_listener("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        channel, phone = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders.settimeout(10)
        self.refreshed = 0
        loop = LinkLoop(self.listener, channel, theirs)
        threading.Thread(target=loop.run, daemon=True).start()
        self.handover = Handover(phone, self.refresh)
        threading.Thread(target=self.serve, daemon=True).start()

    def refresh(self) -> str | None:
        self.refreshed += 1
        return "no" if self.refreshed > 1 else None

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.handover.accept()
            except OSError:
                return
            threading.Thread(target=self.echo, args=(connection,), daemon=True).start()

    @staticmethod
    def echo(connection: socket.socket) -> None:
        buffer = memoryview(bytearray(16))
        with suppress(OSError):
            while (count := connection.recv_into(buffer)) > 0:
                connection.sendall(buffer[:count])
        connection.close()

    def obey(self, order: LinkOrder) -> LinkReport:
        self.orders.send(json.dumps(asdict(order)).encode())
        return LinkReport(**json.loads(self.orders.recv(65536)))

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), 5)
        sock.settimeout(5)
        return sock


@pytest.fixture
def cable() -> Iterator[Cable]:
    made = Cable()
    yield made
    made.orders.close()


def exchange(sock: socket.socket, data: bytes) -> float:
    """Send, read the same back; seconds it took."""
    started = time.monotonic()
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    back = b""
    while len(back) < len(data):
        piece = sock.recv(1 << 20)
        assert piece, "the connection ended"
        back += piece
    sender.join()
    assert back == data
    return time.monotonic() - started


def test_without_orders_no_byte_runs_through_the_link(cable: Cable) -> None:
    with cable.connect() as sock:
        exchange(sock, b"x" * 100_000)
    report = cable.obey(LinkOrder())
    assert (report.bytes_up, report.bytes_down) == (0, 0)


def test_an_open_connection_is_taken_back_without_losing_a_byte(cable: Cable) -> None:
    with cable.connect() as sock:
        data = bytes(range(256)) * 8000
        stop = threading.Event()
        problems: list[BaseException] = []

        def keep_talking() -> None:
            try:
                while not stop.is_set():
                    exchange(sock, data)
            except BaseException as error:
                problems.append(error)

        talker = threading.Thread(target=keep_talking)
        talker.start()
        for rate in (50e6, 400e6, None, 100e6):
            time.sleep(0.1)
            cable.obey(LinkOrder(LinkSettings(rate, rate, 0.001, 0.001)))
        stop.set()
        talker.join(30)
        assert not problems
        assert cable.obey(LinkOrder()).bytes_up > 0


def test_delay_is_added_in_each_direction(cable: Cable) -> None:
    cable.obey(LinkOrder(LinkSettings(delay_up_s=0.05, delay_down_s=0.02)))
    with cable.connect() as sock:
        times = sorted(exchange(sock, b"ping") for _ in range(5))
    assert times[0] >= 0.07 and times[2] < 0.1


def test_unplugged_the_port_refuses_and_stays_ours(cable: Cable) -> None:
    sock = cable.connect()
    exchange(sock, b"before")
    for _ in range(2):
        cable.obey(LinkOrder(state=UNPLUGGED))
        assert sock.recv(10) == b""
        with pytest.raises(ConnectionRefusedError):
            cable.connect()
        with socket.socket() as other, pytest.raises(OSError):
            other.bind(("127.0.0.1", cable.port))
    cable.obey(LinkOrder(state=UP))
    with cable.connect() as again:
        exchange(again, b"after")


def test_offline_takes_connections_and_says_nothing(cable: Cable) -> None:
    before = cable.connect()
    exchange(before, b"before")
    cable.obey(LinkOrder(state=OFFLINE))
    assert before.recv(10) == b""
    with cable.connect() as silent:
        silent.sendall(b"anybody?")
        silent.settimeout(0.3)
        with pytest.raises(TimeoutError):
            silent.recv(10)
        cable.obey(LinkOrder())
        silent.settimeout(5)
        with suppress(ConnectionResetError):
            assert silent.recv(10) == b""
    with cable.connect() as again:
        exchange(again, b"after")


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_cut_breaks_once_or_again(cable: Cable, direction: str) -> None:
    order = LinkOrder(**{f"cut_{direction}_bytes": 1000})  # type: ignore[arg-type]

    def count_until_break() -> int:
        total = 0
        with cable.connect() as sock, suppress(OSError):
            for round_ in range(100):
                sock.sendall(b"x" * 50)
                while total < (round_ + 1) * 50:
                    piece = sock.recv(50)
                    if not piece:
                        return total
                    total += len(piece)
        return total

    assert cable.obey(order).cuts == 0
    assert 900 <= count_until_break() <= 1000
    assert count_until_break() == 5000
    assert cable.obey(order).cuts == 1
    cable.obey(replace(order, cut_number=1, cut_repeats=True))
    assert [900 <= count_until_break() <= 1000 for _ in range(3)] == [True] * 3
    assert cable.obey(LinkOrder()).cuts == 4


def test_a_refresh_waits_for_the_answer(cable: Cable) -> None:
    assert cable.obey(LinkOrder(refresh=True)).problem is None
    assert cable.obey(LinkOrder(refresh=True)).problem == "no"
    assert cable.refreshed == 2
    assert cable.obey(LinkOrder()).problem is None
