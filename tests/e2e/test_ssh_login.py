"""Logging in: keys of all kinds, the agent, passphrases, questions; and what a refusal says."""

from __future__ import annotations

import json
import logging
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devkit.errors import TunnelError
from devkit.tunnels import HostKeyQuestion, NoPrompts
from devkit.tunnels.patience import Patience
from tests.e2e.ssh_support import Echo, Lab, ask, lab_in, wait_for
from tests.support.ssh_questions import AskingServer
from tests.support.sshd import fingerprint, make_key, public

SECRET = "korrektes Pferd ü"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_in(tmp_path) as lab:
        yield lab


class Answers(NoPrompts):
    """Gives prepared answers and remembers what was asked."""

    def __init__(
        self, passphrases: Sequence[str] = (), passwords: Sequence[str] = (), replies: Sequence[str] = ()
    ) -> None:
        self.passphrases = list(passphrases)
        self.passwords = list(passwords)
        self.replies = list(replies)
        self.asked: list[str] = []
        self.keys: list[HostKeyQuestion] = []

    def passphrase(self, key: Path, attempt: int) -> str | None:
        self.asked.append(f"passphrase {key.name} {attempt}")
        return self.passphrases.pop(0) if self.passphrases else None

    def password(self, login: str, attempt: int) -> str | None:
        self.asked.append(f"password {login.split('@')[0]} {attempt}")
        return self.passwords.pop(0) if self.passwords else None

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        self.asked += [f"{title}/{instructions}/{text}/{echo}" for text, echo in questions]
        return self.replies or None

    def trust(self, question: HostKeyQuestion) -> bool:
        self.keys.append(question)
        return True


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The address of a real ssh-agent."""
    address = f"/tmp/devkit-agent-{os.getpid()}-{abs(hash(tmp_path)) % 10**8}"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", address], stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(address), "the agent")
    yield address
    process.send_signal(signal.SIGTERM)
    process.wait()


def add_to(agent: str, *files: Path) -> None:
    env = {**os.environ, "SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", *map(str, files)], env=env, check=True, stdin=subprocess.DEVNULL)


def auth_of(lab: Lab, name: str, **options: object) -> str:
    link = lab.connect(name, **options)
    said = link.status().hops[0].auth
    link.close()
    return said


def refused(lab: Lab, name: str, **options: object) -> TunnelError:
    with pytest.raises(TunnelError) as caught:
        lab.connect(name, **options)
    assert caught.value.reason == "auth", caught.value
    return caught.value


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("passphrase", ["", SECRET])
def test_key_files(lab: Lab, kind: str, passphrase: str) -> None:
    key = make_key(lab.folder / "mine", kind, passphrase)
    server = lab.server("s", config=f' IdentityFile "{key}"')
    server.authorized_keys.write_text(public(key) + "\n", "utf-8")
    prompts = Answers(["falsch", passphrase])
    assert "mine" in auth_of(lab, "s", prompts=prompts)
    assert prompts.asked == (["passphrase mine 1", "passphrase mine 2"] if passphrase else [])


def test_a_pem_key_with_a_passphrase(lab: Lab) -> None:
    key = lab.folder / "old"
    argv = ["ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", SECRET, "-f", str(key)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    server = lab.server("s", config=f' IdentityFile "{key}"')
    server.authorized_keys.write_text(public(key) + "\n", "utf-8")
    assert "old" in auth_of(lab, "s", prompts=Answers([SECRET]))


def test_a_wrong_passphrase_is_said_and_shown_nowhere(
    lab: Lab, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    key = make_key(lab.folder / "mine", passphrase="right")
    server = lab.server("s", config=f' IdentityFile "{key}"')
    server.authorized_keys.write_text(public(key) + "\n", "utf-8")
    error = refused(lab, "s", prompts=Answers([SECRET] * 5))
    assert "mine: wrong passphrase 3 times" in str(error.evidence)
    said = capfd.readouterr()
    for text in (json.dumps(error.as_dict(), ensure_ascii=False), caplog.text, said.out, said.err):
        assert SECRET not in text and key.read_text("utf-8")[40:80] not in text
    error = refused(lab, "s")
    assert "mine: encrypted, no passphrase was given" in str(error.evidence)


def test_a_refused_key_names_all_that_was_tried(lab: Lab) -> None:
    other = make_key(lab.folder / "other")
    server = lab.server("s", config=f' IdentityFile "{lab.folder / "none"}"\n IdentityFile "{other}"')
    server.authorized_keys.write_text("", "utf-8")
    error = refused(lab, "s")
    evidence = str(error.evidence)
    assert f"{lab.folder / 'none'}: not there" in evidence
    assert f"{other}: refused" in evidence and f"{lab.key}: refused" in evidence
    assert "the server takes: publickey" in evidence
    assert evidence.index("none: not there") < evidence.index("other: refused")


def test_an_encrypted_key_is_asked_for_only_when_no_other_fits(lab: Lab) -> None:
    locked = make_key(lab.folder / "locked", passphrase=SECRET)
    lab.server("s", config=f' IdentityFile "{locked}"')
    prompts = Answers()
    assert auth_of(lab, "s", prompts=prompts).endswith("/id")
    assert prompts.asked == []


# The agent: case E3.


def test_identities_only_offers_only_what_is_listed(lab: Lab, agent: str) -> None:
    """Six keys in the agent, MaxAuthTries 2: with IdentitiesOnly the login works."""
    many = [make_key(lab.folder / f"k{n}") for n in range(6)]
    right = lab.key
    add_to(agent, *many, right)
    lab.server("s", ["MaxAuthTries 2"], config=f" IdentityAgent {agent}")
    assert auth_of(lab, "s") == f"agent {right}"


def test_too_many_keys_advises_identities_only(lab: Lab, agent: str) -> None:
    add_to(agent, *[make_key(lab.folder / f"k{n}") for n in range(6)])
    server = lab.server("s", ["MaxAuthTries 2"], config=f" IdentityAgent {agent}\n IdentitiesOnly no")
    server.authorized_keys.write_text("", "utf-8")
    error = refused(lab, "s")
    assert "too many keys" in error.what and any("IdentitiesOnly yes" in hint for hint in error.hints)
    assert "refused" in str(error.evidence)


def test_a_public_file_stands_for_the_agents_key(lab: Lab, agent: str) -> None:
    key = make_key(lab.folder / "work")
    add_to(agent, key)
    server = lab.server("s", config=f' IdentityAgent {agent}\n IdentityFile "{key}.pub"')
    server.authorized_keys.write_text(public(key) + "\n", "utf-8")
    key.unlink()
    assert auth_of(lab, "s") == f"agent {key}.pub"


def test_an_encrypted_key_in_the_agent_needs_no_passphrase(lab: Lab, agent: str) -> None:
    key = make_key(lab.folder / "mine")
    add_to(agent, key)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", SECRET, "-f", str(key)], check=True, stdout=subprocess.DEVNULL
    )
    Path(f"{key}.pub").rename(lab.folder / "elsewhere.pub")
    server = lab.server("s", config=f' IdentityAgent {agent}\n IdentityFile "{key}"')
    server.authorized_keys.write_text((lab.folder / "elsewhere.pub").read_text("utf-8"), "utf-8")
    prompts = Answers()
    assert auth_of(lab, "s", prompts=prompts) == f"agent {key}" and prompts.asked == []


def test_other_agent_keys_are_tried_without_identities_only(lab: Lab, agent: str) -> None:
    key = make_key(lab.folder / "loose")
    add_to(agent, key)
    server = lab.server("s", config=f" IdentityAgent {agent}\n IdentitiesOnly no")
    server.authorized_keys.write_text(public(key) + "\n", "utf-8")
    assert fingerprint(key) in auth_of(lab, "s")


def test_an_agent_that_is_gone_does_not_stop_the_files(lab: Lab) -> None:
    lab.server("s", config=" IdentityAgent /nowhere/agent")
    assert auth_of(lab, "s").endswith("/id")


def test_an_agent_that_refuses_to_sign_costs_only_its_key(lab: Lab, agent: str) -> None:
    key = make_key(lab.folder / "confirm")
    env = {**os.environ, "SSH_AUTH_SOCK": agent, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(["ssh-add", "-q", "-c", str(key)], env=env, check=True, stdin=subprocess.DEVNULL)
    server = lab.server("s", config=f' IdentityAgent {agent}\n IdentityFile "{key}"')
    server.authorize(key)
    assert auth_of(lab, "s").endswith("/id")


# Certificates.


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("in_agent", [False, True])
def test_certificates(lab: Lab, agent: str, kind: str, in_agent: bool) -> None:
    authority = make_key(lab.folder / "ca")
    key = make_key(lab.folder / "mine", kind)
    server = lab.server(
        "s",
        [f"TrustedUserCAKeys {lab.folder.parent}/ca.pub"],
        config=f' IdentityFile "{key}"' + (f"\n IdentityAgent {agent}" if in_agent else ""),
    )
    shutil.copy(f"{authority}.pub", lab.folder.parent / "ca.pub")
    server.authorized_keys.write_text("", "utf-8")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", server.user, f"{key}.pub"]
    if in_agent:
        add_to(agent, key)
    subprocess.run(sign, check=True, stdin=subprocess.DEVNULL)
    assert "mine-cert.pub" in auth_of(lab, "s")


# Questions.


def asking(lab: Lab, methods: str, **options: object) -> AskingServer:
    host_key = make_key(lab.folder / "asking_host")
    server = AskingServer(host_key, methods, **options)  # type: ignore[arg-type]
    lab.defer(server.close)
    lab.known_hosts.write_text(f"[127.0.0.1]:{server.port} {public(host_key)}\n", "utf-8")
    lab.add_host("s", server.port, "dev")
    return server


def test_a_password_is_asked_for_up_to_three_times(lab: Lab) -> None:
    server = asking(lab, "password", password=SECRET)
    prompts = Answers(passwords=["falsch", SECRET])
    assert auth_of(lab, "s", prompts=prompts) == "password"
    assert prompts.asked == ["password dev 1", "password dev 2"]
    error = refused(lab, "s", prompts=Answers(passwords=[SECRET + "x"] * 5))
    assert str(error.evidence).count("password: refused") == 3 and SECRET not in str(error.as_dict())
    assert server.attempts.count("password") == 5


def test_keyboard_interactive(lab: Lab) -> None:
    asking(lab, "keyboard-interactive", answers=[SECRET, "123456"])
    prompts = Answers(replies=[SECRET, "123456"])
    assert auth_of(lab, "s", prompts=prompts) == "keyboard-interactive"
    assert prompts.asked == ["Title/Instructions/Password: /False", "Title/Instructions/Code: /True"]
    assert "nobody answered" in str(refused(lab, "s").evidence)


def test_two_factors(lab: Lab) -> None:
    key = public(lab.key).split()[1]
    asking(lab, "publickey", answers=["a", "b"], partial_key=key)
    both = f"{lab.key} and keyboard-interactive"
    assert auth_of(lab, "s", prompts=Answers(replies=["a", "b"])) == both
    again = Patience(logged_in={"s": both})
    assert auth_of(lab, "s", prompts=Answers(replies=["a", "b"]), patience=again) == both


def test_the_key_of_last_time_is_offered_first(lab: Lab) -> None:
    """A tunnel that comes back: which methods there are is not asked, and other keys are not tried."""
    other = make_key(lab.folder / "other")
    server = lab.server("s", ["LogLevel DEBUG1"], config=f' IdentityFile "{other}"')
    last = auth_of(lab, "s")
    asked = methods_of(server.log)
    assert asked[0] == "none" and set(asked[1:]) == {"publickey"}
    again = Patience(logged_in={"s": last})
    assert auth_of(lab, "s", patience=again) == last
    assert methods_of(server.log)[len(asked) :] == ["publickey"]
    # That key is not taken any more: all is tried, as the first time.
    server.authorized_keys.write_text(public(other) + "\n", "utf-8")
    assert auth_of(lab, "s", patience=again).endswith("/other")
    # Its file is gone.
    assert auth_of(lab, "s", patience=Patience(logged_in={"s": "no such key"})).endswith("/other")


def methods_of(log: Path) -> list[str]:
    """The methods of the logins that an sshd was asked for."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return [line.split("method ")[1].split()[0] for line in lines if "userauth-request" in line]


def test_an_unknown_host_key_is_asked_about(lab: Lab) -> None:
    server = lab.server("s", known=False, config=" HashKnownHosts yes")
    prompts = Answers()
    auth_of(lab, "s", prompts=prompts)
    question = prompts.keys[0]
    assert question.known_as == f"[127.0.0.1]:{server.port}" and question.file == lab.known_hosts
    assert question.fingerprint == fingerprint(server.host_key("ed25519"))
    assert lab.known_hosts.read_text("utf-8").startswith("|1|")
    auth_of(lab, "s", prompts=prompts)
    assert len(prompts.keys) == 1
    found = subprocess.run(
        ["ssh-keygen", "-F", question.known_as, "-f", str(lab.known_hosts)], capture_output=True, check=False
    )
    assert found.returncode == 0


def test_a_host_certificate_that_only_openssh_can_check(lab: Lab) -> None:
    """Its authority is known: the way out is shown, and leads to the machine's real key."""
    authority = make_key(lab.folder / "authority")
    folder = lab.folder.parent / "sshd-s"
    server = lab.server("s", [f"HostCertificate {folder / 'host_ed25519-cert.pub'}"], known=False)
    key = server.host_key("ed25519")
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "s", "-h", f"{key}.pub"], check=True)
    server.stop()
    server.start()
    lab.known_hosts.write_text(f"@cert-authority * {public(authority)}\n", "utf-8")
    with pytest.raises(TunnelError) as caught:
        lab.connect("s")
    assert caught.value.reason == "host-key-unknown"
    shown = fingerprint(key)
    assert shown in (caught.value.evidence or "") and "certificate authority" in (caught.value.evidence or "")
    hint = next(text for text in caught.value.hints if "ssh s " in text)
    command = hint.partition(": ")[2].replace("ssh s ", f"ssh -F '{lab.config}' s ")
    command = command.replace("/etc/ssh/ssh_host_*_key.pub", f"{key}.pub")
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert shown in said.stdout, said.stderr


# An account without a shell, and sshd run by an ordinary user.


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a server for another user")
def test_an_account_without_a_shell_can_carry_forwards(lab: Lab) -> None:
    # games: in Debian's base system, and not nobody, which systemd's name service says is locked.
    lab.server("s", uid=pwd.getpwnam("games").pw_uid)
    link = lab.connect("s")
    with Echo() as target:
        assert ask(link.remote_forward(target.address).port) == b"hello"
    assert link.run("echo hi").exit_code != 0


def test_commands(lab: Lab) -> None:
    lab.server("s")
    link = lab.connect("s")
    done = link.run("cat; echo $((6*7)); echo oops >&2; exit 3", stdin=b"in\n")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"in\n42\n", b"oops\n")
    with pytest.raises(TunnelError) as caught:
        link.run("sleep 60", timeout_s=0.5)
    assert caught.value.reason == "timeout" and link.alive
