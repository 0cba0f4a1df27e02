"""Keeps a tunnel up: makes it, watches every link, and makes it again when one breaks."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from devkit.device import AdbServer
from devkit.errors import DevkitError, TunnelError
from devkit.tunnels import state
from devkit.tunnels.board import Board
from devkit.tunnels.check_adb import clash_on_laptop
from devkit.tunnels.connection import Link, connect
from devkit.tunnels.direct import describe_way, find_direct_way
from devkit.tunnels.ends import make_ends
from devkit.tunnels.model import Prompts
from devkit.tunnels.near_hops import NearHops
from devkit.tunnels.patience import Patience, pause_s
from devkit.tunnels.phones import PhoneWatch
from devkit.tunnels.remember import RememberingPrompts
from devkit.tunnels.spec import SERVER_SIDE, TunnelSpec
from devkit.tunnels.ssh_config import resolve_chain

_TICK_S = 0.25
_SAVE_EVERY_S = 1.0
# A link that says nothing for their product is dead: before TCP would send again after too long a pause
# (each is twice the one before, RFC 6298 section 5.5), so that a network that is back carries within 3 s.
_KEEPALIVE_S = 0.5
_KEEPALIVES = 7
# What another attempt right away would not change; a person has to.
_SLOW_REASONS = (
    "config", "auth", "host-key-unknown", "host-key-changed", "host-key-revoked", "forward-denied",
)  # fmt: skip
_SLOW_PAUSE_S = 30.0
# A wall clock that runs ahead of the monotonic one by this much: the machine slept.
_SLEPT_S = 4.0
_PROBE_TIMEOUT_S = 3.0
_NOTICE_S = 1.0
# adb's own start takes up to ten seconds where it finds no network.
_ADB_START_S = 35.0


class Supervisor:
    """One tunnel, from the first login to its end.

    Args:
        server: the adb server on the laptop.
        say: told what happens, a sentence each.
        ready: called once, when the tunnel is up for the first time.
    """

    def __init__(
        self,
        spec: TunnelSpec,
        server: AdbServer,
        *,
        prompts: Prompts,
        say: Callable[[str], None],
        ready: Callable[[], None] = lambda: None,
        adb: Path | None = None,
        log: Path | None = None,
    ) -> None:
        self.spec = spec
        self._say = say
        self._ready = ready
        self._adb = adb
        self._prompts = RememberingPrompts(prompts)
        self._patience = Patience()
        self._near = NearHops()
        self._down_since = 0.0
        self._token = secrets.token_hex(8)
        self._stop = threading.Event()
        self._news = threading.Event()
        self._config = Path(spec.ssh_config) if spec.ssh_config else None
        chain = tuple(hop.alias for hop in resolve_chain(spec.host, config_file=self._config))
        self.board = Board(spec, chain, token=self._token, log=log)
        self._watch = PhoneWatch(server, say=say, changed=self._news.set, adb=adb)
        self._ends = make_ends(spec, self._watch, self._token, say)

    def stop(self) -> None:
        """End the tunnel soon; callable from signal handlers and other threads."""
        self._stop.set()

    def run(self) -> None:
        """Keep the tunnel up until `stop` is called or `devkit tunnel down` asks for it.

        Raises:
            DevkitError: it could not be made the first time. Later failures are retried for ever.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(state.remove, self.spec.name)
            stack.callback(self._ends.finish)
            stack.callback(self._near.close)
            self.board.connecting()
            self._save()
            if self._ends.watches_phones_before_login:
                stack.enter_context(self._watch)
                self._watch.wait_first(_ADB_START_S)
            attempt = 0
            was_up = False
            while not self._stopped():
                try:
                    with self._make(patient=not was_up) as link:
                        if not self._ends.watches_phones_before_login and not was_up:
                            stack.enter_context(self._watch)
                        self._came_up(link, was_up)
                        was_up, attempt = True, 0
                        with _named_by(link):
                            self._stay(link)
                except DevkitError as error:
                    reason = error.reason if isinstance(error, TunnelError) else ""
                    if not was_up:
                        raise
                    if attempt == 0:
                        self._down_since = time.monotonic()
                    self._went_down(error, first=attempt == 0)
                    self._pause(reason, attempt)
                    attempt += 1

    @contextlib.contextmanager
    def _make(self, *, patient: bool) -> Iterator[Link]:
        link = connect(
            self.spec.host,
            prompts=self._prompts,
            accept_new=self.spec.accept_new,
            config_file=self._config,
            keepalive_s=_KEEPALIVE_S,
            keepalive_count=_KEEPALIVES,
            patience=None if patient else self._patience,
            near=self._near,
        )
        try:
            status = link.status()
            self._patience.logged_in = {hop.name: hop.auth for hop in status.hops}
            self.board.logged_in(status)
            self._ends.make(link)
            yield link
        finally:
            self._ends.unmake()
            link.close()

    def _came_up(self, link: Link, was_up: bool) -> None:
        self._prompts.settle()
        self.board.came_up(self._ends.port)
        self._show_phones()
        if not was_up:
            self._advise(link)
        self._save()
        if was_up:
            self._say(f"the tunnel to {self.spec.host} is up again")
        else:
            self._ready()

    def _advise(self, link: Link) -> None:
        """Once: what would end the adb server, and whether there is a faster way."""
        if self.spec.side == SERVER_SIDE:
            return
        clash = clash_on_laptop(self._watch.server, self._adb)
        if clash is not None:
            self._say(clash)
        # An answer that does not come is no reason to have no tunnel; a broken link is noticed elsewhere.
        with contextlib.suppress(TunnelError):
            way = find_direct_way(link)
            if way is not None:
                self.board.direct = way.as_dict()
                if way.works:
                    self._say(describe_way(way))

    def _went_down(self, error: DevkitError, *, first: bool) -> None:
        self.board.went_down(error)
        self._save()
        if first:
            shown = f"{error.what}" + (f" ({error.evidence.splitlines()[-1]})" if error.evidence else "")
            self._say(f"the tunnel is down: {shown}; connecting again")

    def _stay(self, link: Link) -> None:
        """Until the link breaks (raises why) or the tunnel shall end (returns)."""
        saved_at = wall = time.time()
        steady = time.monotonic()
        while not self._stopped():
            if link.wait(_TICK_S):
                raise link.failure or TunnelError("the SSH connection ended", reason="lost")
            now, now_steady = time.time(), time.monotonic()
            slept = (now - wall) - (now_steady - steady)
            wall, steady = now, now_steady
            if slept > _SLEPT_S:
                self._say(f"this machine slept for {slept:.0f} s; looking whether the connection still lives")
                link.ping(_PROBE_TIMEOUT_S)
            if self._news.is_set():
                self._news.clear()
                self._ends.phones_changed()
                self._show_phones()
                saved_at = 0.0
            self._ends.tick()
            if self.spec.extra:
                self.board.phone_listens(self._ends.phone_ports)
            if now - saved_at >= _SAVE_EVERY_S or now < saved_at:
                self.board.measured(link.status())
                self._save()
                saved_at = now

    def _show_phones(self) -> None:
        self.board.phones(self._watch.is_up, self._watch.problem, self._watch.entries)

    def _pause(self, reason: str, attempt: int) -> None:
        if reason in _SLOW_REASONS:
            self._say(f"this needs you; the next attempt is in {_SLOW_PAUSE_S:.0f} s")
            pause = _SLOW_PAUSE_S
        else:
            pause = pause_s(reason, attempt, time.monotonic() - self._down_since)
        deadline = time.monotonic() + pause
        while not self._stopped() and (left := deadline - time.monotonic()) > 0:
            self._stop.wait(min(left, _TICK_S))

    def _stopped(self) -> bool:
        if not self._stop.is_set() and state.is_asked_to_stop(self.spec.name, self._token):
            self._stop.set()
        return self._stop.is_set()

    def _save(self) -> None:
        # A full disk must not end a tunnel that works.
        with contextlib.suppress(OSError):
            state.save(self.board.record(os.getpid()))


@contextlib.contextmanager
def _named_by(link: Link) -> Iterator[None]:
    """A request that fails since the connection broke: the connection knows which hop it was."""
    try:
        yield
    except DevkitError:
        if link.wait(_NOTICE_S) and link.failure is not None:
            raise link.failure from None
        raise
