"""AUTH: Android's keys and signatures, the phone's memory of hosts, and the user's answers."""

from __future__ import annotations

import base64
import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import adbutils
import pytest
from sim_peer import Peer, make_peer

from devkit.errors import SimError
from devkit.sim import state, taps
from devkit.sim.adbd import auth
from devkit.sim.adbd.auth import Keyring, PublicKey, parse_public_key
from devkit.sim.adbd.packets import AUTH, CLSE, CNXN, OPEN

Load = Callable[[str], tuple[PublicKey, Callable[[bytes], bytes]]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pairs of keys as the real adb makes them."""
    folder = tmp_path_factory.mktemp("keys")
    adb = Path(adbutils.__file__).parent / "binaries" / "adb"
    for name in ("one", "two"):
        subprocess.run([adb, "keygen", folder / name], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def load(keys: Path) -> Load:
    """A public key, and what signs a token with its private half."""
    return functools.partial(_load, keys)


def _load(keys: Path, name: str) -> tuple[PublicKey, Callable[[bytes], bytes]]:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils
    from cryptography.hazmat.primitives.hashes import SHA1
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key((keys / name).read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    public = parse_public_key((keys / f"{name}.pub").read_text())
    assert public is not None
    return public, lambda token: private.sign(token, padding.PKCS1v15(), utils.Prehashed(SHA1()))


@pytest.mark.parametrize("name", ["one", "two"])
def test_signatures_of_the_real_format(load: Load, name: str) -> None:
    public, sign = load(name)
    token = bytes(range(20))
    signature = sign(token)
    assert public.verifies(token, signature)
    assert not public.verifies(token[::-1], signature)
    assert not public.verifies(token, signature[:-1])
    assert not public.verifies(token, signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not public.verifies(token, b"\xff" * 256)
    assert not public.verifies(token, bytes(256))


def test_one_keys_signature_is_not_anothers(load: Load) -> None:
    (one, sign_one), (two, _) = load("one"), load("two")
    token = b"x" * 20
    assert one.verifies(token, sign_one(token))
    assert not two.verifies(token, sign_one(token))
    assert one.fingerprint != two.fingerprint
    assert len(one.fingerprint.split(":")) == 16


def test_what_is_no_key(keys: Path) -> None:
    line = (keys / "one.pub").read_text()
    data = bytearray(base64.b64decode(line.split()[0]))

    def encoded(*, at: int, value: bytes) -> str:
        changed = data[:at] + value + data[at + len(value) :]
        return base64.b64encode(bytes(changed)).decode() + " user@host"

    assert parse_public_key(line) is not None
    assert parse_public_key(encoded(at=0, value=b"\x20")) is None  # a 1024 bit key
    assert parse_public_key(encoded(at=8, value=bytes(256))) is None  # would let anybody in
    assert parse_public_key(encoded(at=8, value=bytes([data[8] & 0xFE]))) is None
    assert parse_public_key(encoded(at=520, value=b"\x01\0\0\0")) is None
    for text in ("", " ", "QUJD user@host", "not base64!", line.split()[0][:-8], "手 手"):
        assert parse_public_key(text) is None, text


# ---- over the wire


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a phone "p" whose daemon is in this process, and whose lock is held."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "状态 state"))
    folder = state.phone_dir("p") / "adb"
    folder.mkdir(parents=True)
    lock = state.lock_phone("p")
    assert lock is not None
    with state.closing_fd(lock):
        yield folder


def connect(keyring: Keyring) -> tuple[Peer, bytes]:
    peer = make_peer(keyring=keyring)
    peer.send_connect()
    return peer, bytes(peer.expect(AUTH).payload)


def show(peer: Peer, key: Path) -> None:
    peer.send(AUTH, 3, 0, key.read_bytes().strip() + b"\0")


def test_a_new_host_is_let_in_by_the_user_and_remembered(
    phone: Path, keys: Path, load: Load, log: list[str]
) -> None:
    keyring = Keyring(phone)
    public, sign = load("one")
    peer, token = connect(keyring)
    peer.send(AUTH, 2, 0, sign(token))
    assert bytes(peer.expect(AUTH).payload) != token
    show(peer, keys / "one.pub")
    assert taps.tap_allow("p").fingerprint == public.fingerprint
    peer.expect(CNXN)
    assert taps.pending_keys("p") == []
    peer.hang_up()
    # Next time its signature is enough, also for another adbd with the same folder.
    for ring in (keyring, Keyring(phone)):
        again, token = connect(ring)
        again.send(AUTH, 2, 0, sign(token))
        again.expect(CNXN)
        again.hang_up()


def test_keys_are_tried_one_after_the_other(phone: Path, keys: Path, load: Load, log: list[str]) -> None:
    (phone / auth.KEYS_FILE).write_text("garbage\n" + (keys / "two.pub").read_text())
    (_, sign_one), (_, sign_two) = load("one"), load("two")
    peer, token = connect(Keyring(phone))
    peer.send(AUTH, 2, 0, sign_one(token))
    second = bytes(peer.expect(AUTH).payload)
    peer.send(AUTH, 2, 0, sign_two(second))
    peer.expect(CNXN)
    peer.hang_up()


def test_an_old_tokens_signature_is_worth_nothing(
    phone: Path, keys: Path, load: Load, log: list[str]
) -> None:
    (phone / auth.KEYS_FILE).write_text((keys / "one.pub").read_text())
    _, sign = load("one")
    peer, token = connect(Keyring(phone))
    peer.send(AUTH, 2, 0, b"")
    peer.expect(AUTH)
    peer.send(AUTH, 2, 0, sign(token))
    peer.expect(AUTH)
    peer.hang_up()


def test_once_is_not_remembered(phone: Path, keys: Path, log: list[str]) -> None:
    keyring = Keyring(phone)
    peer, _ = connect(keyring)
    show(peer, keys / "one.pub")
    taps.tap_allow("p", always=False)
    peer.expect(CNXN)
    peer.hang_up()
    assert keyring.known_keys() == []


def test_a_refused_host_stays_outside(phone: Path, keys: Path, log: list[str]) -> None:
    peer, _ = connect(Keyring(phone))
    show(peer, keys / "one.pub")
    taps.tap_deny("p")
    peer.send(OPEN, 1, 0, b"shell:id\0")
    peer.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        peer.receive()
    peer.hang_up()


def test_a_host_that_goes_takes_its_question_along(phone: Path, keys: Path, log: list[str]) -> None:
    keyring = Keyring(phone)
    first, _ = connect(keyring)
    second, _ = connect(keyring)
    for peer in (first, second):
        show(peer, keys / "one.pub")
        # Packets are taken in order: when this one is answered, the key was shown.
        peer.send(AUTH, 2, 0, b"")
        peer.expect(AUTH)
    first.hang_up()
    assert len(taps.pending_keys("p")) == 1, "the other connection still asks"
    second.hang_up()
    assert taps.pending_keys("p") == []
    with pytest.raises(SimError, match="no adb host asks"):
        taps.tap_allow("p", timeout_s=0.1)


def test_nobody_is_served_before_they_are_allowed(phone: Path, keys: Path, log: list[str]) -> None:
    peer, _ = connect(Keyring(phone))
    peer.send(OPEN, 1, 0, b"shell:id\0")
    peer.send(AUTH, 3, 0, b"no key\0")
    peer.send(AUTH, 7, 0, b"")
    show(peer, keys / "two.pub")
    taps.tap_allow("p")
    peer.expect(CNXN)
    peer.send(OPEN, 5, 0, b"no-such-service\0")
    assert peer.expect(CLSE).arg1 == 5
    peer.hang_up()


def test_taps_need_a_phone_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SimError, match="no virtual phone named nobody"):
        taps.tap_allow("nobody")
