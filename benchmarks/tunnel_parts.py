"""The processes at both ends of a tunnel that is measured: a target, and a proxy that delays and paces."""

from __future__ import annotations

import contextlib
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable

_PIECE_BYTES = 65536
# What a paced link holds before it pushes back: 20 ms at 1 Gbit/s, as a switch does.
_PACED_BYTES = 2_500_000


def target(sock: socket.socket) -> None:
    """Obey one line: "pull N" sends N bytes, "push N" reads N and says how many came."""
    line = b""
    while not line.endswith(b"\n"):
        line += sock.recv(1)
    word, number = line.split()
    size = int(number)
    if word == b"pull":
        piece = memoryview(bytes(262144))
        for sent in range(0, size, len(piece)):
            sock.sendall(piece[: min(len(piece), size - sent)])
    else:
        got = 0
        while got < size:
            got += len(sock.recv(262144))
        sock.sendall(b"%d" % got)


def proxy(port: int, delay_s: float, rate: int) -> Callable[[socket.socket], None]:
    """Join a client to `port`; each way takes `delay_s` and carries `rate` bytes a second (0: any)."""

    def serve(sock: socket.socket) -> None:
        far = socket.create_connection(("127.0.0.1", port))
        for end in (sock, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        up = threading.Thread(target=_one_way, args=(sock, far, delay_s, rate), daemon=True)
        up.start()
        _one_way(far, sock, delay_s, rate)
        up.join()

    return serve


def _one_way(source: socket.socket, sink: socket.socket, delay_s: float, rate: int) -> None:
    pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(_PACED_BYTES // _PIECE_BYTES if rate else 0)
    writer = threading.Thread(target=_write, args=(pieces, sink), daemon=True)
    writer.start()
    free_at = time.perf_counter()
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            now = time.perf_counter()
            if rate:
                free_at = max(free_at, now) + len(data) / rate
            pieces.put(((free_at if rate else now) + delay_s, data))
    pieces.put((0, b""))
    writer.join()


def _write(pieces: queue.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            due, data = pieces.get()
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            wait_s = due - time.perf_counter()
            if wait_s > 0.0005:
                time.sleep(wait_s)
            sink.sendall(data)


def main(words: list[str]) -> None:
    """Listen on a free port, print it, serve for ever."""
    serve = target if words[0] == "target" else proxy(int(words[1]), int(words[2]) / 2000, int(words[3]))
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_one, args=(serve, sock), daemon=True).start()


def _one(serve: Callable[[socket.socket], None], sock: socket.socket) -> None:
    with contextlib.suppress(OSError), sock:
        serve(sock)


if __name__ == "__main__":
    main(sys.argv[1:])
