"""`perf script`'s text, as Linux perf 6.1 writes it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.profiling import Meta, Module
from devkit.profiling.perf_script import parse_build_ids, read_perf_script
from devkit.profiling.store import fault_of
from tests.support.profiles import chain_of

TEXT = """\
worker 29295/29304  2910.410741:    1000000 cpu-clock:pppH: 
\t            1386 sixty (/tmp/my dir/hot (deleted))
\t            1461 kit::work(int, char (*)(int)) (/tmp/my dir/hot (deleted))
\t           891f4 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)

llm demo x 29295/29295  2910.5:    1000001 cpu-clock:pppH: 
\tffffffff81000010 native_write_msr ([kernel.kallsyms])
\t            1386 sixty (/tmp/my dir/hot (deleted))
\t    7f0000001000 [unknown] ([unknown])

worker 29295/29304  2910.410841:    1000000 cpu-clock:pppH: 
\t            1386 sixty (/tmp/my dir/hot (deleted))
\t            1461 kit::work(int, char (*)(int)) (/tmp/my dir/hot (deleted))
\t           891f4 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)

worker 29295/29304  2911.000000:         12 cycles:u: 

"""  # noqa: W291
HOT = Module("/tmp/my dir/hot", "ab" * 20)


def test_samples_have_thread_time_weight_and_chain() -> None:
    def locate(module: Module, place: int) -> int | None:
        return place + 0x1000 if module == HOT else None

    profile = read_perf_script(
        TEXT.splitlines(), Meta("here"), build_ids={HOT.path: HOT.build_id}, locate=locate
    )
    assert fault_of(profile) is None and len(profile) == 4
    assert [thread[:] for thread in profile.threads] == [
        (29295, 29304, "worker"), (29295, 29295, "llm demo x"),
    ]  # fmt: skip
    assert list(profile.sample_time_ns)[:2] == [2910_410_741_000, 2910_500_000_000]
    assert [event[:2] for event in profile.events] == [("cpu-clock:pppH", "ns"), ("cycles:u", "cycles")]
    assert profile.total(0) == 3_000_001 and profile.total(1) == 12
    chain = chain_of(profile, profile.sample_stack[0])
    assert [(frame.function, frame.address) for frame in chain] == [
        ("start_thread", 0x891F4), ("kit::work(int, char (*)(int))", 0x2461), ("sixty", 0x2386),
    ]  # fmt: skip
    assert profile.modules[chain[-1].module] == HOT
    assert profile.sample_stack[0] == profile.sample_stack[2]
    kernel = chain_of(profile, profile.sample_stack[1])
    assert [frame.function for frame in kernel] == ["", "sixty", "native_write_msr"]
    assert profile.sample_stack[3] == -1


def test_build_ids_by_path() -> None:
    text = "ab12cd34ef56ab12 /tmp/my dir/hot\nnot an id /x\n\nab12cd34ef56ab12\n"
    assert parse_build_ids(text) == {"/tmp/my dir/hot": "ab12cd34ef56ab12"}


LINES = [*TEXT.splitlines(), "\t zz", "x", "a 1/2 3.4: 5 e: ", "\t ffffffffffffffffff f (d)", "9/9 1.1: 1 :"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES) | st.text("a1/.:( )\t", max_size=20), max_size=30))
def test_any_lines_make_a_whole_profile(lines: list[str]) -> None:
    assert fault_of(read_perf_script(lines, Meta())) is None
