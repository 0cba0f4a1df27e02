"""The page: everything of the text report is in it, and nothing that a log holds becomes a part of it."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from devkit.crashes import SymbolFolders, as_text, read_crashes, symbolize
from devkit.crashes.page import as_html
from devkit.results import Finding
from devkit.symbols import Symbolizer

DATA = Path(__file__).parents[2] / "data"
EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>{{ 7*7 }}{% raw %}"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href") or name.startswith("on")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_everything_of_the_text_is_in_it(tmp_path: Path) -> None:
    reading = read_crashes((DATA / "cases/I1/logcat.txt").read_text().splitlines())
    source = tmp_path / "src/fixture.cpp"
    source.parent.mkdir()
    source.write_text("".join(f"int line_{n}; // <b>\n" for n in range(1, 60)))
    with SymbolFolders([DATA / "cases/_symbols"]) as folders:
        symbolize(reading.crashes, folders, Symbolizer())
    page = Page(as_html(reading, [], [tmp_path]))
    for line in as_text(reading, [], [tmp_path]).splitlines():
        for word in line.replace("[inlined]", "").split():
            # Of `  (libllm.so)` and the labels, the page has the words alone.
            assert word.strip("():|>") in page.text, (word, line)
    assert "int line_7; // <b>" in page.text
    assert not page.links and not page.tags & {"script", "img", "link", "iframe", "b"}


def test_what_a_log_holds_is_text() -> None:
    lines = [
        f"pid: 7, tid: 7, name: {EVIL}  >>> {EVIL} <<<",
        "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------",
        f"Abort message: '{EVIL}'",
        "backtrace:",
        f"      #00 pc 00000000000004cc  /data/{EVIL}/libx.so ({EVIL}+8)",
    ]
    finding = Finding("x", "failed", EVIL, EVIL, (EVIL,), EVIL, 3, {}, False)
    reading = read_crashes(lines)
    assert len(reading.crashes) == 1
    page = Page(as_html(reading, [finding], []))
    assert page.text.count("alert(1)") >= 5 and "{{ 7*7 }}" in page.text and "49" not in page.text
    assert not page.links and not page.tags & {"script", "img"}


def test_several_crashes_and_none() -> None:
    several = read_crashes((DATA / "cases/I6/logcat.txt").read_text().splitlines())
    page = Page(as_html(several, [], []))
    assert "6 crashes" in page.text and page.text.count("uncaught C++ exception") == 0
    assert all(f"{n}. SIGABRT" in page.text for n in range(1, 7))
    assert "No crash was found." in Page(as_html(read_crashes(["a", "b"]), [], [])).text


def test_the_option(tmp_path: Path) -> None:
    def run(*args: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "devkit", "symbolize", *map(str, args)]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)

    log = DATA / "cases/I1/logcat.txt"
    done = run(log, "--html", "out put/crash.html", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["html"] == "out put/crash.html"
    assert "SIGSEGV" in Page((tmp_path / "out put/crash.html").read_text()).text
    (tmp_path / "log.txt").write_bytes(log.read_bytes())
    itself = run("log.txt", "--html", "./log.txt")
    assert itself.returncode == 2 and "is the text itself" in itself.stderr
    assert (tmp_path / "log.txt").read_bytes() == log.read_bytes()
    assert "is a folder" in run(log, "--html", ".").stderr
    assert run(log, "--html", "/proc/no/such.html").returncode == 125
