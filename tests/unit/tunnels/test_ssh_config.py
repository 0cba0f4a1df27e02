"""Both readers of the ssh configuration say the same: ours, and `ssh -G` of the real OpenSSH."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devkit.errors import TunnelError
from devkit.tunnels import HostPlan, resolve, resolve_chain

CASES = Path(__file__).parents[2] / "data" / "cases"
READERS = pytest.mark.parametrize("openssh", [True, False], ids=["ssh -G", "own"])


def config(folder: Path, text: str) -> Path:
    path = folder / "config ü"
    path.write_text(text, "utf-8")
    return path


def both(path: Path, host: str) -> HostPlan:
    """The plan, after asserting that the two readers agree on all of it."""
    theirs = resolve(host, config_file=path)
    ours = resolve(host, config_file=path, openssh=False)
    assert theirs.source == "ssh -G" and ours.source == "devkit"
    assert dataclasses.replace(theirs, source="") == dataclasses.replace(ours, source="")
    return ours


@READERS
def test_case_e1_include(tmp_path: Path, openssh: bool) -> None:
    folder = tmp_path / "E1"
    shutil.copytree(CASES / "E1", folder)
    for file in [folder / "config", *folder.glob("conf.d/*.conf")]:
        file.write_text(file.read_text("utf-8").replace("@DIR@", str(folder)), "utf-8")
    expected = json.loads((CASES / "E1/expected.json").read_text("utf-8"))["oracle"]
    for host, right in expected.items():
        plan = resolve(host, config_file=folder / "config", openssh=openssh)
        assert (plan.hostname, str(plan.port)) == (right["hostname"], right["port"])
        assert plan.user == right.get("user", getpass.getuser())
        assert plan.keepalive_s == float(right["serveraliveinterval"])
        for name in right.get("identityfile", []):
            assert plan.identity_files == (Path(os.path.expanduser(name)),)


@pytest.mark.parametrize(
    "lines",
    [
        ("ProxyJump none", "ProxyCommand nc %h %p"),
        ("ProxyJump none", "ProxyJump b", "ProxyCommand nc %h %p"),
        ("ProxyJump b", "ProxyJump none", "ProxyCommand nc %h %p"),
        ("ProxyCommand none", "ProxyJump b"),
        ("ProxyCommand nc %h %p", "ProxyJump none"),
    ],
)
def test_jumps_and_commands_that_are_none(tmp_path: Path, lines: tuple[str, ...]) -> None:
    both(config(tmp_path, "\n".join(("Host a", *lines))), "a")


@READERS
def test_case_e3_identities(openssh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    path = CASES / "E3/config"
    home = Path.home()
    phonebox = resolve("phonebox", config_file=path, openssh=openssh)
    assert phonebox.identity_files == (
        home / ".ssh/id_none",
        home / ".ssh/dev_192.0.2.50_key",
        home / ".ssh/id_work",
    )
    assert phonebox.identities_only and phonebox.identity_agent == "/tmp/agent"
    assert resolve("agentonly", config_file=path, openssh=openssh).identity_files == (
        home / ".ssh/id_work.pub",
    )
    assert resolve("many", config_file=path, openssh=openssh).identity_agent is None


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("", "plain"),
        ("Host a\n HostName %h.example.com\n Port 2200\n", "a"),
        ("Host *.lab !bad.lab\n User dev\nHost *\n User other\n", "good.lab"),
        ("Host *.lab !bad.lab\n User dev\nHost *\n User other\n", "bad.lab"),
        ("Host a b\n User one\nHost b\n User two\n Port 7\n", "b"),
        ("Host ?x\n User one\n", "ax"),
        ("USER=top\nHost a\n user no\n", "a"),
        ('Host a\n UserKnownHostsFile "~/my known" ~/second\n', "a"),
        ("Host a\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n", "a"),
        ("Host a\n IdentityFile ~/.ssh/%r_%h_%p\n IdentityFile /k/%n\n IdentitiesOnly yes\n User x\n", "a"),
        ("Host a\n IdentityFile /k\nHost *\n IdentityFile /l\n IdentityFile /k\n", "a"),
        ("Host a\n CertificateFile ~/.ssh/x-cert.pub\n", "a"),
        ("Host a\n ProxyJump me@j1:2222,ssh://x@j2\n ProxyCommand nc %h %p\n", "a"),
        ("Host a\n ProxyCommand nc -X 5 '%h' %p # not a comment\n ProxyJump j\n", "a"),
        ("Host a\n ProxyJump none\nHost *\n ProxyJump j\n", "a"),
        ("Host a\n StrictHostKeyChecking accept-new\n HashKnownHosts yes\n HostKeyAlias lab\n", "a"),
        ("Host a\n StrictHostKeyChecking off\n", "a"),
        ("Host a\n ConnectTimeout 1m30s\n ServerAliveInterval 15\n ServerAliveCountMax 5\n", "a"),
        ("Host a\n PreferredAuthentications password,publickey\n PubkeyAuthentication no\n", "a"),
        ("Host a\n BatchMode yes\n ServerAliveInterval 5\n", "a"),
        ("Host a\n KbdInteractiveAuthentication no\n", "a"),
        ("Host a\n IdentityAgent none\n", "a"),
        ("Host a\n IdentityAgent ~/agent-%r\n User u\n", "a"),
        ("Match host a\n User one\nMatch user one\n Port 77\n", "a"),
        ("Match originalhost a user root,dev\n Port 77\n", "dev@a"),
        ("Match !host a\n Port 77\nMatch all\n User u\n", "a"),
        ("Host a\n HostName b\nMatch host b\n User fromb\nMatch originalhost b\n Port 9\n", "a"),
        ("Host a\n User one\nMatch final host a\n Port 99\n User two\n", "a"),
        ("Host a\n User = eq\n Port=99 # comment\n", "a"),
        ("Host a # comment b\n User u\n", "b"),
        ("Host a\n User u\n", "ssh://w@a:99"),
        ("Host a\n User u\n Port 5\n", "w@a"),
        ("Host a\n IdentityFile none\n", "a"),
    ],
)
def test_the_readers_agree(tmp_path: Path, text: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    both(config(tmp_path, text), host)


_names = st.sampled_from(["a", "b", "ab", "lab.x", "x.lab"])
_patterns = st.lists(
    st.tuples(st.sampled_from(["", "", "!"]), st.sampled_from(["a", "b", "*", "?b", "*.x", "lab*", "x.*"])),
    min_size=1,
    max_size=3,
).map(lambda pairs: " ".join(mark + name for mark, name in pairs))
_settings = st.sampled_from(
    [
        "User one",
        "User two",
        "Port 2200",
        "Port 22",
        "HostName %h.example",
        "HostName b",
        "IdentityFile ~/.ssh/%r",
        "IdentityFile /k/%h",
        "ProxyJump j1,j2",
        "ProxyJump none",
        "ProxyCommand nc %h %p",
        "ServerAliveInterval 3",
        "IdentitiesOnly yes",
        "StrictHostKeyChecking no",
    ]
)
_heads = st.one_of(
    _patterns.map(lambda text: "Host " + text),
    _names.map(lambda name: "Match host " + name),
    _names.map(lambda name: "Match originalhost " + name + " user one"),
    st.just("Match all"),
    st.just("Include {included}"),
)
_lines = st.lists(st.one_of(_heads, _settings, _settings), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(main=_lines, included=_lines, host=_names)
def test_the_readers_agree_on_any_order(
    tmp_path: Path, main: list[str], included: list[str], host: str
) -> None:
    inside = tmp_path / "included"
    inside.write_text("\n".join(line for line in included if "Include" not in line) + "\n", "utf-8")
    text = "\n".join(main).replace("{included}", f'"{inside}"') + "\n"
    both(config(tmp_path, text), host)


@READERS
def test_a_chain_takes_each_hop_from_its_own_configuration(tmp_path: Path, openssh: bool) -> None:
    path = config(
        tmp_path,
        "Host s\n ProxyJump j1,me@j2:2200\n User dev\n"
        "Host j1\n HostName 192.0.2.1\n ProxyJump j0\n User one\n"
        "Host j2\n HostName 192.0.2.2\n ProxyJump elsewhere\n User two\n",
    )
    chain = resolve_chain("s", config_file=path, openssh=openssh)
    assert [plan.login for plan in chain] == [
        f"{getpass.getuser()}@j0",
        "one@192.0.2.1",
        "me@192.0.2.2:2200",
        "dev@s",
    ]


@READERS
def test_jumps_in_a_circle_are_named(tmp_path: Path, openssh: bool) -> None:
    path = config(tmp_path, "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(TunnelError, match="circle") as caught:
        resolve_chain("a", config_file=path, openssh=openssh)
    assert caught.value.reason == "config" and "a → b → a" in str(caught.value.evidence)


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "-l@a", "u@", "a:99999", "ssh://"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(TunnelError) as caught:
        resolve(text)
    assert caught.value.reason == "config"


@pytest.mark.parametrize("text", ["Host\n", "Host a\n User\n", 'Host a\n User "open\n', "Include {self}\n"])
def test_own_reader_names_the_line(tmp_path: Path, text: str) -> None:
    path = config(tmp_path, "")
    path.write_text(text.replace("{self}", f'"{path}"'), "utf-8")
    with pytest.raises(TunnelError) as caught:
        resolve("a", config_file=path, openssh=False)
    assert caught.value.reason == "config" and f"{path}:" in str(caught.value)


def test_a_configuration_that_openssh_refuses(tmp_path: Path) -> None:
    path = config(tmp_path, "Host a\n NoSuchOption yes\n")
    with pytest.raises(TunnelError) as caught:
        resolve("a", config_file=path)
    assert "nosuchoption" in str(caught.value.evidence).lower()


def test_match_exec_is_not_run_by_our_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, f"Match exec 'touch {tmp_path}/ran'\n User x\nMatch all\n Port 9\n")
    plan = resolve("a", config_file=path, openssh=False)
    assert plan.port == 9 and plan.user == getpass.getuser()
    assert "Match exec" in capsys.readouterr().err and not (tmp_path / "ran").exists()
