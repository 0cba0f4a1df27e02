"""The flame graph's page in a real browser: what stands where, and what the mouse and the keys do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.profiling import Meta, Profile, ProfileBuilder
from devkit.profiling.compare import compare_profiles
from devkit.profiling.flamegraph import render_comparison, render_page
from tests.support.browser import Page, Picture, browser

pytestmark = pytest.mark.slow

ROW = 18
WIDTH, HEIGHT = 1200, 800
HIGHLIGHT = (230, 0, 230)
WHITE = (255, 255, 255)
ENGINE, LLM, LIBC = "libMNN.so", "libllm.so", "libc.so"


def engine_profile() -> Profile:
    """main: 60 % gemm (libMNN), 30 % attention (libllm) of which 10 % memcpy (libc); a logger with 10 %."""
    builder = ProfileBuilder()
    builder.event("cpu-cycles:u", "cycles")
    worker, logger = builder.thread(7, 7, "worker"), builder.thread(7, 8, "logger <b>")
    app, engine, llm, libc = (
        builder.module(f"/data/local/tmp/devkit/{n}") for n in ("app", ENGINE, LLM, LIBC)
    )
    main = builder.frame("main", app, file="/src/main.cpp", line=5)
    gemm = builder.frame("gemm<float, 4>(float*)", engine, file="/src/设置/gemm.cpp", line=42)
    attention = builder.frame("attention", llm, file="/src/attention.cpp", line=7)
    memcpy, write = (
        builder.frame("memcpy", libc),
        builder.frame("</script><img src=x onerror=alert(1)>", libc),
    )
    for chain, thread, count in (
        ([main, gemm], worker, 600),
        ([main, attention], worker, 200),
        ([main, attention, memcpy], worker, 100),
        ([write], logger, 100),
    ):
        for _ in range(count):
            builder.sample(builder.stack(chain), thread, 1000)
    return builder.finish(Meta("phone", ("llm_demo", "model dir/config.json"), "simpleperf"))


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as page:
        yield page


class Graph:
    """The page as a person sees it: frames by their row and their part of the width."""

    def __init__(self, tab: Page, file: Path) -> None:
        self.tab = tab
        tab.console.clear()
        tab.requests.clear()
        tab.open(file, width=WIDTH, height=HEIGHT)
        tab.wait("document.body.dataset.ready === 'yes' || !document.getElementById('failed').hidden")
        assert not tab.console
        # The page itself and nothing else.
        assert tab.requests == [file.as_uri()]

    def box(self) -> tuple[float, float, float, float]:
        left, top, width, height = self.tab.evaluate(
            "(r => [r.left, r.top, r.width, r.height])"
            "(document.getElementById('flames').getBoundingClientRect())"
        )
        return left, top, width, height

    def at(self, part: float, row: int) -> tuple[float, float]:
        left, top, width, _ = self.box()
        # Near the upper edge, where no letter is.
        return left + part * width, top + row * ROW + 2

    def colour(self, part: float, row: int) -> tuple[int, int, int]:
        return self.look().colour(*self.at(part, row))

    def look(self) -> Picture:
        """A picture without the box that follows the pointer."""
        self.tab.move(2, 2)
        return self.tab.picture()

    def legend(self, library: str) -> tuple[int, int, int]:
        text = self.tab.evaluate(
            "(name => { for (const li of document.querySelectorAll('#modules li'))"
            " if (li.textContent.includes(name))"
            " return getComputedStyle(li.querySelector('.swatch')).backgroundColor; })"
            f"({library!r})"
        )
        red, green, blue = (round(float(v)) for v in text.removeprefix("rgb(").removesuffix(")").split(","))
        return red, green, blue

    def tick(self, listing: str, text: str) -> None:
        """Click the box of an entry as a person does: opened first."""
        found = self.tab.evaluate(
            f"(() => {{ const list = document.getElementById({listing!r}); list.parentElement.open = true;"
            f" for (const li of list.children) if (li.textContent.includes({text!r}))"
            " { const r = li.querySelector('input').getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; } })()"
        )
        self.tab.click(*found)

    def text(self, element: str) -> str:
        return str(self.tab.evaluate(f"document.getElementById({element!r}).innerText"))


def near(first: tuple[int, int, int], second: tuple[int, int, int]) -> bool:
    return all(abs(a - b) <= 3 for a, b in zip(first, second, strict=True))


@pytest.fixture
def graph(tab: Page, tmp_path: Path) -> Graph:
    file = tmp_path / "flame graph 火焰.html"
    file.write_text(render_page(engine_profile()), "utf-8")
    return Graph(tab, file)


def test_frames_stand_where_their_shares_put_them(graph: Graph) -> None:
    engine, llm, libc = (graph.legend(name) for name in (ENGINE, LLM, LIBC))
    assert len({engine, llm, libc}) == 3
    picture = graph.look()

    def seen(part: float, row: int) -> tuple[int, int, int]:
        return picture.colour(*graph.at(part, row))

    # Row 0 is all, row 1 main (90 %) and the logger's write (10 %), row 2 what main calls.
    for part in (0.01, 0.3, 0.59):
        assert near(seen(part, 2), engine)
    for part in (0.61, 0.75, 0.89):
        assert near(seen(part, 2), llm)
    for part in (0.91, 0.99):
        assert near(seen(part, 1), libc)
        assert near(seen(part, 2), WHITE)
    # memcpy is a third of attention, the rest of which is attention itself.
    assert near(seen(0.65, 3), libc)
    assert near(seen(0.75, 3), WHITE)
    # Labels: dark ink on the row of gemm.
    left, top, width, height = graph.box()
    ink = [picture.colour(left + x, top + 2 * ROW + y) for x in range(3, 60) for y in range(3, 15)]
    assert any(sum(colour) < 200 for colour in ink)
    assert height == pytest.approx(4 * ROW)
    assert width > 0.9 * WIDTH


def test_the_frame_under_the_pointer_says_function_line_and_share(graph: Graph) -> None:
    graph.tab.move(*graph.at(0.3, 2))
    tip = graph.text("tip")
    for words in (
        "gemm<float, 4>(float*)",
        "/src/设置/gemm.cpp:42",
        "libMNN.so",
        "60.0 % with",
        "600,000 cycles",
    ):
        assert words in tip
    graph.tab.move(*graph.at(0.95, 1))
    # A name is a name, whatever it looks like.
    assert "</script><img src=x onerror=alert(1)>" in graph.text("tip")
    assert graph.tab.evaluate("document.images.length") == 0


def test_a_click_zooms_and_escape_zooms_out(graph: Graph) -> None:
    llm, libc = graph.legend(LLM), graph.legend(LIBC)
    assert near(graph.colour(0.65, 3), libc) and near(graph.colour(0.75, 3), WHITE)
    graph.tab.click(*graph.at(0.7, 2))
    picture = graph.look()
    assert all(near(picture.colour(*graph.at(part, 2)), llm) for part in (0.01, 0.5, 0.99))
    assert near(picture.colour(*graph.at(0.3, 3)), libc)
    assert near(picture.colour(*graph.at(0.4, 3)), WHITE)
    assert "below attention" in graph.tab.evaluate("document.querySelector('h2').innerText")
    # Frames above the zoomed one stay, over the whole width; a click on them zooms out.
    graph.tab.click(*graph.at(0.95, 0))
    assert near(graph.colour(0.75, 3), WHITE)
    graph.tab.click(*graph.at(0.7, 2))
    for kind in ("keyDown", "keyUp"):
        graph.tab.call(
            "Input.dispatchKeyEvent", type=kind, key="Escape", code="Escape", windowsVirtualKeyCode=27
        )
    assert near(graph.colour(0.65, 3), libc) and near(graph.colour(0.75, 3), WHITE)


def test_search_marks_frames_and_says_their_share(graph: Graph) -> None:
    llm = graph.legend(LLM)
    left, top = graph.tab.evaluate(
        "(r => [r.left + 20, r.top + 5])(document.getElementById('search').getBoundingClientRect())"
    )
    graph.tab.click(left, top)
    graph.tab.type("gemm|memcpy")
    picture = graph.look()
    assert near(picture.colour(*graph.at(0.3, 2)), HIGHLIGHT)
    assert near(picture.colour(*graph.at(0.65, 3)), HIGHLIGHT)
    assert near(picture.colour(*graph.at(0.7, 2)), llm)
    assert graph.text("found") == "70.0 % in 2 frames"
    # No regular expression, but what C++ names look like.
    graph.tab.evaluate("document.getElementById('search').value = ''")
    graph.tab.type("gemm<float, 4>(")
    assert graph.text("found") == "60.0 % in 1 frames"


def test_threads_and_libraries_are_left_out(graph: Graph) -> None:
    engine, llm, libc = (graph.legend(name) for name in (ENGINE, LLM, LIBC))
    graph.tick("threads", "logger <b>")
    # Without the logger's tenth main is all there is.
    assert near(graph.colour(0.65, 2), engine)
    assert near(graph.colour(0.68, 2), llm)
    assert not near(graph.colour(0.95, 1), libc)
    graph.tick("threads", "logger <b>")
    assert near(graph.colour(0.65, 2), llm)
    # Without libllm its memcpy is called by main, and its own time is main's.
    graph.tick("modules", LLM)
    picture = graph.look()
    assert near(picture.colour(*graph.at(0.3, 2)), engine)
    assert near(picture.colour(*graph.at(0.65, 2)), libc)
    assert near(picture.colour(*graph.at(0.75, 2)), WHITE)


def test_only_stacks_of_one_library(graph: Graph) -> None:
    llm, libc = graph.legend(LLM), graph.legend(LIBC)
    graph.tab.evaluate(
        "for (const li of document.querySelectorAll('#modules li'))"
        f" if (li.textContent.includes({LLM!r})) li.querySelector('button').click()"
    )
    picture = graph.look()
    assert all(near(picture.colour(*graph.at(part, 2)), llm) for part in (0.01, 0.99))
    assert near(picture.colour(*graph.at(0.3, 3)), libc)


def test_the_table_has_the_functions_by_their_own_time(graph: Graph) -> None:
    rows = graph.tab.evaluate(
        "[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.innerText))"
    )
    assert rows[0] == ["60.0 %", "60.0 %", "gemm<float, 4>(float*)", ENGINE]
    assert rows[1] == ["20.0 %", "30.0 %", "attention", LLM]
    assert ["0.00 %", "90.0 %", "main", "app"] in rows


def comparison_page() -> str:
    """gemm from 60 to 40 %, norm from 20 to 40 %, rope stays."""
    made = []
    for gemm, norm in ((600, 200), (400, 400)):
        builder = ProfileBuilder()
        builder.event("cpu-cycles", "cycles")
        thread, library = builder.thread(1, 1, "worker"), builder.module("/x/libMNN.so")
        for name, count in (("gemm", gemm), ("norm", norm), ("rope", 200)):
            for _ in range(count):
                builder.sample(builder.stack([builder.frame(name, library)]), thread, 5)
        made.append(builder.finish(Meta()))
    compared = compare_profiles(*made)
    return render_comparison(compared.joined, compared.counts, title="a → b", about=["before"], notes=[])


def test_a_comparison_is_red_where_it_grew_and_blue_where_it_shrank(tab: Page, tmp_path: Path) -> None:
    file = tmp_path / "diff.html"
    file.write_text(comparison_page(), "utf-8")
    graph = Graph(tab, file)
    picture = graph.look()
    # Widths are means: gemm 50 %, norm 30 %, rope 20 %.
    gemm, norm, rope = (picture.colour(*graph.at(part, 1)) for part in (0.45, 0.75, 0.95))
    assert gemm[2] > gemm[0] + 60
    assert norm[0] > norm[2] + 60
    assert near(rope, (238, 238, 238))
    graph.tab.move(*graph.at(0.75, 1))
    tip = graph.text("tip")
    assert "before 20.0 %, after 40.0 %: +20.00 points" in tip and "chance" not in tip
    rows = tab.evaluate(
        "[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.innerText))"
    )
    assert rows[-1][:3] == ["20.0 %", "20.0 %", "0.00 points ?"]


def test_memory_and_phases_are_drawn_over_time(tab: Page, tmp_path: Path) -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    thread, stack = builder.thread(1, 1), builder.stack([builder.frame("main")])
    for at in range(11):
        builder.sample(stack, thread, 10**8, 10**9 + at * 10**8)
    # Half of the time little, then ten times as much.
    builder.series(
        "memory", "VmRSS", "kB", [(10**9 + at * 10**7, 100 if at < 50 else 1000) for at in range(101)]
    )
    builder.span("phase", "prefill", 10**9, 10**9 + 5 * 10**8)
    file = tmp_path / "time.html"
    file.write_text(render_page(builder.finish(Meta())), "utf-8")
    graph = Graph(tab, file)
    blue = (31, 119, 180)
    left, top, width, height = tab.evaluate(
        "(r => [r.left, r.top, r.width, r.height])"
        "(document.querySelector('svg.panel').getBoundingClientRect())"
    )
    picture, scale = graph.look(), width / 1100

    def line_in(first: float, last: float) -> list[float]:
        """Heights of the line's pixels between two places, as parts of the panel from above."""
        return [
            (y - top) / height
            for x in range(int(left + first * scale), int(left + last * scale))
            for y in range(int(top), int(top + height))
            if near(picture.colour(x, y), blue)
        ]

    assert min(line_in(100, 400)) > 0.8
    assert max(line_in(500, 850)) < 0.2
    (mark,) = tab.evaluate(
        "[...document.querySelectorAll('rect')].filter(r => r.querySelector('title'))"
        ".map(r => [r.querySelector('title').textContent, r.getAttribute('width')])"
    )
    assert mark[0] == "phase: prefill, 0.500 s" and float(mark[1]) == pytest.approx(395)


def test_more_rows_than_a_canvas_holds(tab: Page, tmp_path: Path) -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    frame = builder.frame("descend", builder.module("/x/libdeep.so"))
    builder.sample(builder.stack([frame] * 5000), builder.thread(1, 1), 1)
    file = tmp_path / "deep.html"
    file.write_text(render_page(builder.finish(Meta())), "utf-8")
    graph = Graph(tab, file)
    assert near(graph.colour(0.5, 20), graph.legend("libdeep.so"))
    assert "deeper rows are not drawn: zoom in" in graph.text("deeper")
    before = int(graph.text("deeper").split()[0])
    graph.tab.evaluate("document.getElementById('flames').scrollIntoView({block: 'end'})")
    last = round(graph.box()[3] / ROW) - 1
    graph.tab.click(*graph.at(0.5, last))
    # Of what is above only the nearest are drawn: there is room for what is below.
    assert int(graph.text("deeper").split()[0]) < before - 1000
