"""paramiko's Transport, made fit for tunnels: streams without a thread each, paired global requests.

The only module that touches paramiko's internals; what it relies on is listed in `docs/dependencies.md`
and held by tests on the oldest and the newest supported release. Imports paramiko: load it lazily.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import paramiko
from paramiko.channel import Channel
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_OPEN_FAILURE,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_CHANNEL_WINDOW_ADJUST,
    MSG_NEWKEYS,
    MSG_REQUEST_FAILURE,
    MSG_REQUEST_SUCCESS,
    cMSG_CHANNEL_OPEN,
    cMSG_CHANNEL_WINDOW_ADJUST,
    cMSG_GLOBAL_REQUEST,
)
from paramiko.message import Message
from paramiko.packet import Packetizer

from devkit.tunnels.model import Address
from devkit.tunnels.read_ahead import Wire

# paramiko renews keys every 512 MB, a second and a half of work at full speed. RFC 4344 section 3.2
# allows 2^(L/4) blocks of an L-bit cipher: 64 GiB for AES; section 3.1 2^31 packets.
REKEY_BYTES = 2**34
REKEY_PACKETS = 2**31
MAX_PACKET_BYTES = 2**15
# One pass over the data does cipher and integrity; preferred where the server has it.
_FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")


class Stream(Protocol):
    """The near end of a channel. All methods are called by the transport's thread and must not block."""

    def opened(self) -> None: ...
    def refused(self, code: int, text: str) -> None: ...
    def received(self, data: bytes) -> None: ...
    def writable(self) -> None: ...
    def ended(self) -> None: ...
    def closed(self) -> None: ...


class _Packetizer(Packetizer):
    REKEY_BYTES = REKEY_BYTES
    REKEY_PACKETS = REKEY_PACKETS
    REKEY_BYTES_OVERFLOW_MAX = REKEY_BYTES
    REKEY_PACKETS_OVERFLOW_MAX = REKEY_PACKETS


class _Seen(dict[int, bool]):
    """Every channel number up to the newest; paramiko keeps one entry for each there ever was."""

    newest = -1

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number <= self.newest

    def __setitem__(self, number: int, _seen: bool) -> None:
        self.newest = max(self.newest, number)


class Transport(paramiko.Transport):
    """An SSH connection whose channels can be joined to `Stream`s.

    Args:
        sock: a connected socket, a paramiko channel, or anything else with send, recv and close.
        window: bytes the server may send on a channel before it has to wait for us.
    """

    # paramiko's, which its types do not know.
    _channels: Any
    _next_channel: Callable[[], int]
    _handler_table: dict[int, Any]
    _channel_handler_table: dict[int, Any]

    def __init__(self, sock: Any, *, window: int) -> None:
        self.wire = Wire(sock)
        super().__init__(
            self.wire,  # type: ignore[arg-type]
            default_window_size=window,
            default_max_packet_size=MAX_PACKET_BYTES,
            packetizer_class=_Packetizer,
        )
        self.on_forwarded: Callable[[Channel, Address, Address], Stream | None] | None = None
        self.on_end: Callable[[], None] | None = None
        # What the server said when it hung up, and when it last refused a channel.
        self.disconnect_text: str | None = None
        self.refusal_text: str | None = None
        self._streams: dict[int, Stream] = {}
        self._requests: collections.deque[Request] = collections.deque()
        self._ask_lock = threading.Lock()
        self._deferred: list[Message] = []
        self.channels_seen = _Seen()
        self._tcp_handler = self._forwarded
        options = self.get_security_options()
        fast = [name for name in _FAST_CIPHERS if name in options.ciphers]
        options.ciphers = (*fast, *(name for name in options.ciphers if name not in fast))
        self._handler_table = {
            **self._handler_table,
            MSG_CHANNEL_OPEN_SUCCESS: self._open_success,
            MSG_CHANNEL_OPEN_FAILURE: self._open_failure,
            MSG_REQUEST_SUCCESS: lambda message: self._answered(message),
            MSG_REQUEST_FAILURE: lambda _message: self._answered(None),
            MSG_NEWKEYS: self._new_keys,
        }
        self._channel_handler_table = {
            **self._channel_handler_table,
            MSG_CHANNEL_DATA: self._data,
            MSG_CHANNEL_WINDOW_ADJUST: self._window,
            MSG_CHANNEL_EOF: self._eof,
            MSG_CHANNEL_CLOSE: self._close,
        }

    # What the forwards call.

    def open_stream(self, stream: Stream, target: Address, origin: Address) -> Channel:
        """Ask for a direct-tcpip channel without waiting; `stream` hears of the answer."""
        with self.lock:
            number = self._next_channel()
            channel: Any = Channel(number)
            self._channels.put(number, channel)
            self.channels_seen[number] = True
            channel._set_transport(self)
            channel._set_window(self.default_window_size, self.default_max_packet_size)
            self._streams[number] = stream
        message = Message()
        message.add_byte(cMSG_CHANNEL_OPEN)
        message.add_string("direct-tcpip")
        message.add_int(number)
        message.add_int(self.default_window_size)
        message.add_int(self.default_max_packet_size)
        for host, port in (target, origin):
            message.add_string(host)
            message.add_int(port)
        self._send_user_message(message)
        opened: Channel = channel
        return opened

    def grant(self, channel: Channel, amount: int) -> None:
        """Let the server send `amount` more bytes on a channel."""
        if channel.closed:
            return
        message = Message()
        message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
        message.add_int(channel.remote_chanid)
        message.add_int(amount)
        self._send_user_message(message)

    def ask(self, kind: str, *values: object, then: Callable[[Request], None] | None = None) -> Request:
        """Send a global request; the answers come in the order of the requests (RFC 4254 section 4).

        paramiko's own waits with one event for all, which new keys set, too. `then` is called in the
        transport's thread before it looks at the next message.
        """
        request = Request(then)
        message = Message()
        message.add_byte(cMSG_GLOBAL_REQUEST)
        message.add_string(kind)
        message.add_boolean(True)
        if values:
            message.add(*values)
        # Not a lock that the answer needs: sending may have to wait for that same thread.
        with self._ask_lock:
            self._requests.append(request)
            self._send_user_message(message)
        if not self.active:
            request.answer(None, lost=True)
        return request

    # What paramiko's thread calls.

    def run(self) -> None:
        """The transport's thread; says when it ends, whatever ended it."""
        try:
            super().run()
        finally:
            # Without a listener here a request made just now would wait for ever.
            self.active = False
            for request in list(self._requests):
                request.answer(None, lost=True)
            for stream in list(self._streams.values()):
                stream.closed()
            self._streams.clear()
            if self.on_end is not None:
                self.on_end()

    def _send_user_message(self, message: Message) -> None:
        # During a key exchange paramiko waits here for its end. In the thread that has to bring that
        # end about (it answers the close of a channel) this would stall, and then end, the connection.
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._deferred.append(message)
            return
        try:
            super()._send_user_message(message)  # type: ignore[misc]
        except (EOFError, OSError):
            # The connection is gone; the reading thread notices and says so.
            self.packetizer.close()

    def _new_keys(self, message: Message) -> None:
        self._parse_newkeys(message)  # type: ignore[attr-defined]
        deferred, self._deferred = self._deferred, []
        for late in deferred:
            self._send_message(late)  # type: ignore[attr-defined]

    def _parse_disconnect(self, message: Message) -> None:
        message.get_int()
        self.disconnect_text = message.get_text()

    def _answered(self, message: Message | None) -> None:
        if self._requests:
            self._requests.popleft().answer(message)

    def _forwarded(self, channel: Channel, origin: Address, listener: Address) -> None:
        stream = self.on_forwarded(channel, origin, listener) if self.on_forwarded else None
        if stream is None:
            channel.close()
        else:
            self._streams[channel.chanid] = stream

    def _open_success(self, message: Message) -> None:
        number = message.get_int()
        message.rewind()
        self._parse_channel_open_success(message)  # type: ignore[attr-defined]
        stream = self._streams.get(number)
        if stream is not None:
            stream.opened()

    def _open_failure(self, message: Message) -> None:
        stream = self._streams.pop(message.get_int(), None)
        if stream is None:
            message.get_int()
            self.refusal_text = message.get_text()
            message.rewind()
            self._parse_channel_open_failure(message)  # type: ignore[attr-defined]
            return
        code, text = message.get_int(), message.get_text()
        message.rewind()
        self._channels.delete(message.get_int())
        stream.refused(code, text)

    def _data(self, channel: Any, message: Message) -> None:
        stream = self._streams.get(channel.chanid)
        if stream is None:
            channel._feed(message)
        else:
            stream.received(message.get_binary())

    def _window(self, channel: Any, message: Message) -> None:
        channel._window_adjust(message)
        stream = self._streams.get(channel.chanid)
        if stream is not None:
            stream.writable()

    def _eof(self, channel: Any, message: Message) -> None:
        channel._handle_eof(message)
        stream = self._streams.get(channel.chanid)
        if stream is not None:
            stream.ended()

    def _close(self, channel: Any, message: Message) -> None:
        channel._handle_close(message)
        stream = self._streams.pop(channel.chanid, None)
        if stream is not None:
            stream.closed()


class Request:
    """A global request and its answer."""

    def __init__(self, then: Callable[[Request], None] | None) -> None:
        self._then = then
        self._done = threading.Event()
        self._asked = time.monotonic()
        self.granted = False
        self.lost = False
        self.reply: Message | None = None
        self.latency_s: float | None = None

    def answer(self, reply: Message | None, *, lost: bool = False) -> None:
        """Called once by the transport."""
        if self._done.is_set():
            return
        self.reply, self.granted, self.lost = reply, reply is not None, lost
        if not lost:
            self.latency_s = time.monotonic() - self._asked
        if self._then is not None:
            self._then(self)
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Whether an answer (or the end of the connection) came in time."""
        return self._done.wait(timeout_s)
