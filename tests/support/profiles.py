"""Random profiles, small enough to be checked by the plainest way there is."""

from __future__ import annotations

from hypothesis import strategies as st

from devkit.profiling import Frame, Meta, Profile, ProfileBuilder

NAMES = ("main", "run", "gemm<float, 4>(float*, int)", "", "memcpy", "解码", 'a"b</script>\\;c')
PATHS = ("/data/local/tmp/devkit/llm/libMNN.so", "/system/lib64/libc.so", "[kernel.kallsyms]")


@st.composite
def profiles(draw: st.DrawFn, most_samples: int = 60) -> Profile:
    builder = ProfileBuilder()
    events = [builder.event("cpu-cycles", "cycles"), builder.event("off-cpu", "ns", off_cpu=True)]
    threads = [builder.thread(1, 1 + i, f"worker {i}") for i in range(draw(st.integers(1, 3)))]
    modules = [builder.module(path, "ab" * 10) for path in PATHS]
    frames = [
        builder.frame(name, module, file=f"/src/{index}.cpp", line=line, address=16 * index)
        for index, (name, module, line) in enumerate(
            draw(
                st.lists(
                    st.tuples(st.sampled_from(NAMES), st.sampled_from([-1, *modules]), st.integers(0, 9)),
                    min_size=1,
                    max_size=8,
                )
            )
        )
    ]
    chains = st.lists(st.sampled_from(frames), max_size=7)
    for time, (chain, thread, weight, event) in enumerate(
        draw(
            st.lists(
                st.tuples(chains, st.sampled_from(threads), st.integers(0, 10**9), st.sampled_from(events)),
                max_size=most_samples,
            )
        )
    ):
        builder.sample(builder.stack(chain), thread, weight, time * 1000, event)
    builder.series("memory", "VmRSS", "kB", [(draw(st.integers(0, 10**9)), 1.5), (7, 2.0)])
    builder.span("phase", "prefill", 0, 1000)
    return builder.finish(
        Meta("phone", ("llm_demo", "设置"), "simpleperf", 1.5, "arm64", lost=2, notes=("n",))
    )


def chain_of(profile: Profile, stack: int) -> tuple[Frame, ...]:
    return tuple(profile.frames[frame] for frame in profile.frames_of(stack))
