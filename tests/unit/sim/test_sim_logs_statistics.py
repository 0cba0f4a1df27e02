"""`logcat -S` and the prune list: layouts as phones print them, arithmetic by hand."""

from __future__ import annotations

import pytest

from devkit.sim.logs import statistics, wire
from devkit.sim.logs.pruning import PruneList
from devkit.sim.logs.statistics import BufferUse, line, package, span_text, unpack
from devkit.sim.logs.wire import EVENTS, INFO, KERNEL, MAIN, SYSTEM, encode_entry, encode_text

SECOND = 10**9


# ---- rows: lines of phones (public logs)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (
            ("Chattiest UIDs in main log buffer:", "Size", "+/-  Pruned"),
            "Chattiest UIDs in main log buffer:                           Size   +/-  Pruned\n",
        ),
        (
            ("UID   PACKAGE", "BYTES", "NUM"),
            "UID   PACKAGE                                               BYTES           NUM\n",
        ),
        (
            ("1001  radio", "33731", "+11%     929"),
            "1001  radio                                                 33731  +11%     929\n",
        ),
        (
            (" 1338/1000  system_server", "29777", "1154"),
            " 1338/1000  system_server                                   29777          1154\n",
        ),
        (
            ("10161 com.miui.home", "1505254", ""),
            "10161 com.miui.home                                       1505254\n",
        ),
    ],
)
def test_a_row_of_a_table(cells: tuple[str, str, str], expected: str) -> None:
    assert line(*cells) == expected


def test_columns_of_the_summary() -> None:
    """The two first lines of a public `logcat -b all -S`, whose release had no total yet."""
    names = ("main", "radio", "events", "system", "crash", "security")
    head = "size/num main               radio              events             system             crash"
    assert (
        statistics._row("size/num", names, "kernel", start=9)
        == head + "              security           kernel"
    )
    total = ("34748511/543920", "17967354/157500", "755132/8916", "2367378/31924", "0/0", "0/0")
    expected = "Total    34748511/543920    17967354/157500    755132/8916        2367378/31924      0/0"
    assert (
        statistics._row("Total", total, "207326/3235")
        == expected + "                0/0                207326/3235"
    )


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, ""), (999, ""), (1000, "1"), (55_659, "55.659"), (61_500, "1:01.5"), (3_600_000, "1:00:00"),
        (7_384_050, "2:03:04.05"), (86_400_000 + 3_723_000, "1d 1:02:03"), (86_400_000, "1d 0:00:00"),
    ],
)  # fmt: skip
def test_spans(milliseconds: int, text: str) -> None:
    assert span_text(milliseconds) == text


# ---- the report


def use(log_id: int, *entries: tuple[int, int, int, bytes, int], oldest: int = 0) -> BufferUse:
    """Entries are user, process, thread, tag and size of the text."""
    packets = [
        encode_entry(log_id, uid, pid, tid, 10, 0, encode_text(INFO, tag, b"x" * size))
        for uid, pid, tid, tag, size in entries
    ]
    sizes = [len(packet) - wire.ENTRY.size for packet in packets]
    held = sum(map(len, packets))
    return BufferUse(sum(sizes), len(packets), oldest, 10 * SECOND if packets else oldest, held, packets)


def report(uses: dict[int, BufferUse], *, detailed: bool = True, pid: int = 0) -> str:
    mask = sum(1 << number for number in uses)
    names = {
        7: "/data/local/tmp/llm_demo",
        8: "/system/bin/a_program_with_a_name_that_is_far_too_long_for_its_column",
    }
    return statistics.statistics(uses, mask, names.get, detailed=detailed, pid=pid)


def test_the_whole_report() -> None:
    text = report(
        {
            MAIN: use(
                MAIN,
                (2000, 7, 7, b"MNNJNI", 991), (2000, 7, 9, b"MNNJNI", 91),
                (0, 8, 8, b"init", 94), (2000, 5, 5, b"x", 0),
            ),
            SYSTEM: use(SYSTEM),
            KERNEL: use(KERNEL, (0, 1, 1, b"kernel", 91)),
        }
    )  # fmt: skip
    assert text.splitlines() == [
        "size/num main               system             kernel             Total",
        "Total    1205/4             0/0                100/1              1305/5",
        "Now      1205/4                                100/1              1305/5",
        "Logspan  10                                    10                 10",
        "Overhead 1317                                  128                1445",
        "",
        "Chattiest UIDs in main log buffer:                           Size   +/-  Pruned",
        "UID   PACKAGE                                               BYTES           NUM",
        "2000  shell                                                  1104",
        "0     root                                                    101",
        "",
        "",
        "Chattiest PIDs:                                              Size        Pruned",
        "  PID/UID   COMMAND LINE                                    BYTES           NUM",
        "    7/2000  /data/local/tmp/llm_demo                         1100",
        "    8/0 ...am_with_a_name_that_is_far_too_long_for_its_column 101",
        "",
        "",
        "Chattiest TIDs:                                              Size        Pruned",
        "  TID/UID   COMM                                            BYTES           NUM",
        "    7/2000  llm_demo                                         1000",
        "    8/0     a_program_with_                                   101",
        "    9/2000  llm_demo                                          100",
        "",
        "",
        "Chattiest TAGs:                                              Size",
        "  TID/PID/UID   LOG_TAG NAME                                BYTES",
        "        7/2000  MNNJNI                                       1100",
        "        8/0     init                                          101",
    ]


def test_a_users_build_has_no_tables_of_processes() -> None:
    text = report({MAIN: use(MAIN, (2000, 7, 7, b"t", 10))}, detailed=False)
    assert "Chattiest UIDs" in text and "PIDs" not in text and "TAGs" not in text


def test_one_process_alone() -> None:
    uses = {MAIN: use(MAIN, (2000, 7, 7, b"mine", 10), (2000, 8, 8, b"other", 10))}
    text = report(uses, pid=7)
    assert "Logging for this PID:" in text and "Chattiest TAGs for PID 7:" in text
    assert "mine" in text and "other" not in text


def test_events_are_counted_by_their_number() -> None:
    payload = (42).to_bytes(4, "little") + b"\0" + (1).to_bytes(4, "little")
    packet = encode_entry(EVENTS, 2000, 7, 7, 10, 0, payload)
    text = report({EVENTS: BufferUse(9, 1, 0, 10 * SECOND, 37, [packet])})
    assert "Chattiest events log buffer TAGs:                            Size         Prune\n" in text
    assert "     42/2000                                                    9\n" in text


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 94, 95, 96, 97, 993, 994, 995, 996, 997, 99_990])
def test_an_answer_says_how_long_it_is(count: int) -> None:
    answer = package("x" * count)
    assert int(answer.partition("\n")[0]) == len(answer)
    assert unpack(answer) == "x" * count + "\n"


@pytest.mark.parametrize("answer", ["", "Invalid Argument", "Range Error", "2\n", "x\ny"])
def test_what_is_no_answer(answer: str) -> None:
    assert unpack(answer) is None


# ---- the prune list


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("default", "~! ~1000/!"),
        ("disable", ""),
        ("", ""),
        ("1000 ~2000/77 /5 ~/6 ~1000/!", "~1000/! 1000 /5 ~2000/77 ~/6"),
        ("!1000 ~!", "~! ~1000"),
        ("007", "7"),
        ("10/", "10"),
    ],
)
def test_prune_lists(text: str, shown: str) -> None:
    rules = PruneList()
    assert rules.set(text)
    assert rules.text() == shown


@pytest.mark.parametrize("text", ["abc", "~", "/", "1000/x", "~!x", "~1000/!x", "1000 abc"])
def test_wrong_prune_lists(text: str) -> None:
    assert not PruneList().set(text)
