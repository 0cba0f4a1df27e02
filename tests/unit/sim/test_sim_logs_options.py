"""logcat's command line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from devkit.sim.logs import wire
from devkit.sim.logs.options import LogcatError, Options, parse, parse_time


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def options(*words: str, **environment: str) -> Options:
    return parse(list(words), environment, kernel_by_default=False)


def buffers(found: Options) -> list[str]:
    return [name for number, name in enumerate(wire.BUFFER_NAMES) if found.mask >> number & 1]


def test_without_options() -> None:
    found = options()
    assert buffers(found) == ["main", "system", "crash"]
    assert found.layout.name == "threadtime"
    assert not found.ends and found.filters.everything
    assert buffers(parse([], {}, kernel_by_default=True)) == ["main", "system", "crash", "kernel"]


def test_values_beside_and_behind_their_options() -> None:
    assert options("-t5").tail == options("-t", "5").tail == options("--tail=5").tail == 5
    assert options("-dv", "brief").layout.name == options("--format", "brief").layout.name == "brief"
    assert options("-b", "radio,events", "-b", "kernel").mask == options("--buffer=radio,events,kernel").mask
    assert options("--buffer-size").get_size and options("-g").get_size
    assert options("--buffer-size=2M").set_size == options("-G", "2M").set_size == 2 * 1024 * 1024
    assert options("-G", "65536").set_size == 65536


def test_free_words_are_filters_wherever_they_stand() -> None:
    found = options("MNNJNI:I", "-d", "*:S", "--", "-odd:W")
    assert found.ends
    assert found.filters.shows(wire.INFO, b"MNNJNI") and not found.filters.shows(wire.DEBUG, b"MNNJNI")
    assert found.filters.shows(wire.WARN, b"-odd") and not found.filters.shows(wire.FATAL, b"other")


def test_the_environment_counts_only_without_filters() -> None:
    assert not options(ANDROID_LOG_TAGS="*:S").filters.shows(wire.FATAL, b"x")
    assert options("x:V", ANDROID_LOG_TAGS="*:S").filters.shows(wire.DEBUG, b"y")
    assert options(ANDROID_LOG_TAGS="").filters.everything
    assert options(ANDROID_PRINTF_LOG="brief").layout.name == "brief"
    assert options("-v", "tag", ANDROID_PRINTF_LOG="brief").layout.name == "tag"
    wrong = options(ANDROID_PRINTF_LOG="nonsense")
    assert wrong.layout.name == "threadtime"
    assert wrong.warnings == ["invalid format in ANDROID_PRINTF_LOG 'nonsense'"]


def test_modifiers_alone_keep_the_layout() -> None:
    found = options("-v", "color", "-v", "usec")
    assert found.layout.name == "threadtime" and found.layout.modifiers == {"color", "usec"}


@pytest.mark.parametrize(
    ("text", "seconds", "rest"),
    [
        ("05-14 10:22:30.101", None, ""),
        ("2026-05-14 10:22:30.101233", 1778754150.101233, ""),
        ("1778754150.5", 1778754150.5, ""),
        ("1778754150.500000001x", 1778754150.500000001, "x"),
        ("2026-05-14 10:22:30.000 rest", 1778754150.0, " rest"),
    ],
)
def test_times(text: str, seconds: float | None, rest: str) -> None:
    parsed = parse_time(text)
    assert parsed is not None and parsed[1] == rest
    if seconds is not None:
        assert abs(parsed[0] / 1e9 - seconds) < 1e-6
    else:
        assert time.strftime("%m-%d %H:%M:%S", time.localtime(parsed[0] // 10**9)) == "05-14 10:22:30"
        assert time.localtime(parsed[0] // 10**9).tm_year == time.localtime().tm_year


def test_tails() -> None:
    assert options("-t", "3").ends and not options("-T", "3").ends
    found = options("-T", "2026-05-14 10:22:30.5")
    assert found.start == 1778754150_500000000 and found.tail == 0 and not found.ends
    assert options("-t", "0").warnings == ["WARNING: -t 0 invalid, setting to 1"]
    assert "time truncated" in options("-T", "1778754150.5x").warnings[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-x"], "Unknown option '-x'."),
        (["--nothing"], "Unknown option '--nothing'."),
        (["-v"], "Option '-v' needs an argument."),
        (["-v", "nonsense"], "Invalid -v 'nonsense'."),
        (["-b", "nonsense"], "Unknown -b buffer 'nonsense'."),
        (["-t", "soon"], "-t 'soon' not in time format."),
        (["-m", "0"], "-m '0' isn't an integer greater than zero."),
        (["-m", "1", "-t", "1"], "Cannot use -m (--max-count) and -t together."),
        (["-G", "lots"], "-G must be specified as <num><multiplier>."),
        (["--pid", "0"], "pid '0' out of range."),
        (["--pid", "1", "--pid", "2"], "Only one --pid argument can be provided."),
        (["--uid", "shell"], "Unable to parse UID 'shell'"),
        (["-r", "5"], "-r requires -f as well."),
        (["-f", "x", "-g"], "-f is incompatible with -g/-G, -S, and -p/-P."),
        (["-f", "x", "-P", ""], "-f is incompatible with -g/-G, -S, and -p/-P."),
        (["-L", "-S"], "-L is incompatible with -g/-G, -S, and -p/-P."),
        (["-L", "-p"], "-L is incompatible with -g/-G, -S, and -p/-P."),
        (["-L", "-c", "-f", "x"], "-c is ambiguous with both -f and -L specified."),
        (["-P"], "Option '-P' needs an argument."),
        (["tag:?"], "Invalid filter expression 'tag:?'."),
    ],
)
def test_mistakes(words: list[str], complaint: str) -> None:
    with pytest.raises(LogcatError) as caught:
        options(*words)
    assert str(caught.value) == complaint


def test_print_without_its_partners_is_ignored_with_a_warning() -> None:
    assert options("--print").warnings[0].startswith("WARNING: --print ignored")
    assert options("--print", "-e", "x", "-m", "1").print_all
