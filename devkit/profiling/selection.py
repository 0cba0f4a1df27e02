"""A part of a profile: some threads, one event."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from devkit.errors import UsageError
from devkit.profiling.model import Profile


def only_threads(profile: Profile, wanted: Sequence[str]) -> Profile:
    """The samples of some threads.

    Args:
        wanted: thread ids, names, or parts of names, any of which may fit.

    Raises:
        UsageError: none fits.
    """
    chosen = [
        any(word == str(thread.tid) or word.lower() in thread.name.lower() for word in wanted)
        for thread in profile.threads
    ]
    if not any(chosen):
        names = dict.fromkeys(f"{thread.name or '?'} ({thread.tid})" for thread in profile.threads)
        raise UsageError(
            f"no thread is called {' or '.join(wanted)}", evidence="\n".join([*names][:40]),
            hints=["--thread takes an id, a name, or a part of it"],
        )  # fmt: skip
    kept = [chosen[thread] for thread in profile.sample_thread]

    def column(whole: array[int]) -> array[int]:
        return array(whole.typecode, compress(whole, kept))

    return replace(
        profile,
        sample_stack=column(profile.sample_stack),
        sample_thread=column(profile.sample_thread),
        sample_event=column(profile.sample_event),
        sample_weight=column(profile.sample_weight),
        sample_time_ns=column(profile.sample_time_ns),
    )


def event_named(profile: Profile, wanted: str | None) -> int:
    """The index of an event by its name or the beginning of it; None: the first with any weight.

    Raises:
        UsageError: there is none, or several begin like that.
    """
    names = [event.name for event in profile.events]
    if wanted is None:
        used = set(profile.sample_event)
        return next((index for index in range(len(names)) if index in used), 0)
    if wanted in names:
        return names.index(wanted)
    fitting = [index for index, name in enumerate(names) if name.startswith(wanted)]
    if len(fitting) != 1:
        raise UsageError(
            f"{'several events begin with' if fitting else 'there is no event'} {wanted}",
            evidence="\n".join(names),
        )
    return fitting[0]
