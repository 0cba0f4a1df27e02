"""What ninja and ccache wrote down about one build."""

from __future__ import annotations

from pathlib import Path

from devkit.engine.build_stats import STATS_LOG, CcacheStats, NinjaTimes, Step, read_ccache

HEAD = "# ninja log v5\n"


def test_the_slowest_steps_of_this_build_only(tmp_path: Path) -> None:
    log = tmp_path / ".ninja_log"
    log.write_text(HEAD + "0\t9000\t1\told.o\taa\n")
    times = NinjaTimes(tmp_path)
    with log.open("a") as file:
        file.write("0\t1500\t2\ta.o\tbb\n5\t4005\t2\tb.o\tcc\n5\t4005\t2\tb.d\tcc\nbroken line\n")
    assert times.slowest() == (Step("b.o", 4.0), Step("a.o", 1.5))
    assert times.slowest(1) == (Step("b.o", 4.0),)


def test_ninja_may_have_rewritten_its_log(tmp_path: Path) -> None:
    log = tmp_path / ".ninja_log"
    log.write_text(HEAD + "0\t9000\t1\told.o\taa\n0\t1\t1\tgone.o\tdd\n")
    times = NinjaTimes(tmp_path)
    log.write_text("# ninja log v7\n0\t9000\t1\told.o\taa\n0\t70\t1\tnew.o\tee\n")
    assert times.slowest() == (Step("new.o", 0.07),)


def test_no_ninja(tmp_path: Path) -> None:
    assert NinjaTimes(tmp_path).slowest() == ()


def test_what_ccache_did(tmp_path: Path) -> None:
    assert read_ccache(tmp_path) is None
    (tmp_path / STATS_LOG).write_text(
        "# /src/a.cpp\ndirect_cache_hit\nlocal_storage_hit\nlocal_storage_read_hit\n"
        "# /src/b.cpp\ndirect_cache_miss\npreprocessed_cache_miss\ncache_miss\n"
        "# /src/c.cpp\npreprocessed_cache_hit\n# \ncalled_for_link\n"
    )
    found = read_ccache(tmp_path)
    assert found == CcacheStats(hits=2, misses=1)
    assert found.text == "2 of 3 compilations from the cache (66 %)"
    (tmp_path / STATS_LOG).write_text("# \ncalled_for_link\n")
    assert read_ccache(tmp_path) is None
