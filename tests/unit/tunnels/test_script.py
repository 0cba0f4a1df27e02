"""`devkit tunnel script`: what may be part of a script, and that the scripts are scripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_powershell

from devkit.errors import UsageError
from devkit.tunnels.script import ADBD, POWERSHELL, SH, ScriptRequest, quote_powershell, render
from tests.e2e.support import REPO, eventually

CASES = REPO / "tests/data/cases"
SHELLS = [shell for shell in ("dash", "bash", "zsh", "mksh") if shutil.which(shell)]
REQUESTS = [
    ScriptRequest("server"),
    ScriptRequest("dev@10.0.0.2", jump="a@b:2222,c", forwards=(31313, 31314), name="my-laptop"),
    ScriptRequest("server", mode=ADBD, serial="192.168.1.23:5555"),
    ScriptRequest("server", mode=ADBD, port=40000, forwards=(31313,)),
]


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_every_sh_reads_it(shell: str, request_: ScriptRequest, tmp_path: Path) -> None:
    file = tmp_path / "tunnel.sh"
    file.write_text(render(request_, SH), encoding="ascii")
    done = subprocess.run([shell, "-n", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def faults(node: tree_sitter.Node) -> list[str]:
    found = [f"{node.start_point}: {(node.text or b'')[:80]!r}"] if node.is_error or node.is_missing else []
    return found + [fault for child in node.children for fault in faults(child)]


def powershell_tree(text: str) -> tree_sitter.Node:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    return parser.parse(text.encode()).root_node


@pytest.mark.parametrize("request_", REQUESTS)
def test_powershells_grammar_reads_it(request_: ScriptRequest) -> None:
    text = render(request_, POWERSHELL)
    assert text.isascii() and "\r" not in text
    assert faults(powershell_tree(text)) == []


def test_that_grammar_sees_faults() -> None:
    assert faults(powershell_tree("if ($a { 1 }\n"))


@pytest.mark.parametrize(
    "word", ["plain", "it's", "a b", 'say "x"', "$(rm)", "`n", "\u2018typographic\u2019 \u201aquotes\u201b"]
)
def test_a_word_for_powershell_is_one_string(word: str) -> None:
    quoted = quote_powershell(word)
    inner = quoted[1:-1]
    for quote in "'\u2018\u2019\u201a\u201b":
        assert inner.replace(quote * 2, "").count(quote) == 0
        inner_of_quote = inner.count(quote * 2)
        assert inner_of_quote == word.count(quote)
    assert quoted[0] == quoted[-1] == "'"


@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=x", "a b", "a;b", "a'b", 'a"b', "$(x)", "a\nb", "a`b", "a|b", "a\\b"]
)
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(UsageError, match="cannot be a host"):
        ScriptRequest(host)
    with pytest.raises(UsageError, match="cannot be jump hosts"):
        ScriptRequest("server", jump=host)


def test_what_else_is_refused() -> None:
    for wrong in (
        {"serial": "a b"},
        {"name": "../x"},
        {"name": "-x"},
        {"mode": "usb"},
        {"port": 0},
        {"forwards": (70000,)},
        {"forwards": (31313, 31313)},
        {"port": 31313, "forwards": (31313,)},
        # The adb server there would take it for an emulator.
        {"mode": ADBD, "port": 5557},
    ):
        with pytest.raises(UsageError):
            ScriptRequest("server", **wrong)  # type: ignore[arg-type]


def test_the_ports_are_on_loopback_only() -> None:
    for request in REQUESTS:
        for language in (SH, POWERSHELL):
            for line in render(request, language).splitlines():
                if "-R" in line:
                    assert "127.0.0.1:" in line and "0.0.0.0" not in line and "*:" not in line


def test_forwards_of_others_are_never_taken_over() -> None:
    """Case D7."""
    for language in (SH, POWERSHELL):
        text = render(REQUESTS[1], language)
        used = [line for line in text.splitlines() if "adb forward" in line]
        assert sum("--no-rebind" in line for line in used) == 1 and "--remove-all" not in text
        assert all(any(word in line for word in ("--no-rebind", "--list", "--remove ")) for line in used)


STUB_ADB = """\
#!/bin/sh
echo "$*" >>"$LOG"
case "$1 $2" in
'get-serialno '*) echo "$ANDROID_SERIAL" ;;
'forward --list') cat "$LIST" ;;
'forward --no-rebind') echo 40001; echo "$ANDROID_SERIAL tcp:40001 $4" >>"$LIST" ;;
esac
"""


@pytest.mark.parametrize(
    ("serial", "port", "local"),
    [
        ("FEDCBA9876543210", 5039, 5040),  # somebody's, that fits
        ("0123456789ABCDEF", 5039, 5039),
        ("FEDCBA9876543210", 5040, 40001),  # 5040 is a port of this machine there, not of the phone
        ("0123456789ABCDE", 5039, 40001),  # another phone's
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_forward_that_fits_is_used_and_left(
    shell: str, serial: str, port: int, local: int, tmp_path: Path
) -> None:
    """Case D7: same phone, same port of it; what the script made itself it removes."""
    listed, log = tmp_path / "list", tmp_path / "log"
    before = (CASES / "D7/forward_list.txt").read_text()
    listed.write_text(before)
    for name, text in (("adb", STUB_ADB), ("ssh", '#!/bin/sh\necho "ssh $*" >>"$LOG"; exec sleep 30\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "tunnel.sh"
    script.write_text(render(ScriptRequest("server", serial=serial, forwards=(port,)), SH))
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "LIST": str(listed), "LOG": str(log)}
    with subprocess.Popen([shell, script], env=environment, stderr=subprocess.DEVNULL) as running:
        assert eventually(lambda: log.exists() and "ssh " in log.read_text(), 20)
        running.terminate()
        assert running.wait(20) == 130
    said = log.read_text()
    assert f"-R 127.0.0.1:{port}:127.0.0.1:{local} " in said, said
    made = local == 40001
    assert ("--no-rebind" in said) == made
    assert ("forward --remove tcp:40001" in said) == made and said.count("--remove") == made


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from devkit.cli.main import run

    assert run(["tunnel", "script", "server", "--powershell", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["language"], data["mode"], data["port"]) == ("powershell", "adb-server", 15037)
    assert data["script"] == render(ScriptRequest("server"), POWERSHELL)
    assert run(["tunnel", "script", "server"]) == 0
    assert capsys.readouterr().out == render(ScriptRequest("server"), SH)
    assert run(["tunnel", "script", "server", "--sh", "--powershell"]) == 2
