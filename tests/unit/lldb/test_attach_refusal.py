"""Why an attach was refused: each kind from what a phone's /proc says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devkit.lldb.attach_refusal import AttachFacts, judge

SHELL = "u:r:shell:s0"
FACTS = AttachFacts(
    pid=4711,
    own={"Uid": "2000\t2000\t2000\t2000", "Seccomp": "0"},
    status={"Name": "llm_demo", "State": "S (sleeping)", "TracerPid": "0", "Uid": "2000\t2000\t2000\t2000"},
    owner="2000",
    enforce="Enforcing",
    context=SHELL,
    own_context=SHELL,
)
APP = {"Uid": "10123\t10123\t10123\t10123"}


def test_a_process_that_has_ended() -> None:
    for status in ({}, {**FACTS.status, "State": "Z (zombie)"}):
        refusal = judge(replace(FACTS, status=status), "llm_demo")
        assert (refusal.reason, refusal.what) == ("ended", "process 4711 has ended")
        assert "devkit device ps" in refusal.hints


def test_a_process_that_is_traced_names_its_tracer() -> None:
    traced = replace(FACTS, status={**FACTS.status, "TracerPid": "99"}, tracer="strace -f -p 4711")
    # It is the reason even where something else would forbid it, too.
    for facts in (traced, replace(traced, yama="1")):
        refusal = judge(facts, "llm_demo")
        assert refusal.reason == "traced"
        assert refusal.evidence == ("TracerPid 99: strace -f -p 4711",)
        assert any("kill 99" in hint for hint in refusal.hints)


@pytest.mark.parametrize("debuggable", ["0", "1"])
def test_a_process_of_another_user(debuggable: str) -> None:
    facts = replace(
        FACTS, status={**FACTS.status, **APP}, debuggable=debuggable, context="u:r:untrusted_app:s0"
    )
    refusal = judge(facts, "llm_demo")
    assert refusal.reason == "other-user"
    assert "belongs to u0_a123; lldb-server runs as shell" in refusal.what
    assert any("adb root" in hint for hint in refusal.hints) is (debuggable == "1")


def test_root_may_trace_what_belongs_to_others() -> None:
    root = {**FACTS.own, "Uid": "0\t0\t0\t0"}
    facts = replace(FACTS, own=root, status={**FACTS.status, **APP}, yama="1")
    assert judge(facts, "llm_demo").reason == "unknown"


@pytest.mark.parametrize(("scope", "hints"), [("1", 2), ("2", 1), ("3", 0)])
def test_yama(scope: str, hints: int) -> None:
    refusal = judge(replace(FACTS, yama=scope), "llm_demo")
    assert refusal.reason == "yama" and refusal.evidence == (f"/proc/sys/kernel/yama/ptrace_scope: {scope}",)
    assert len(refusal.hints) == hints


def test_yama_that_allows_it_is_not_the_reason() -> None:
    assert judge(replace(FACTS, yama="0"), "llm_demo").reason == "unknown"


def test_selinux_by_its_own_line_or_by_the_contexts() -> None:
    line = "avc: denied { ptrace } for comm=lldb-server scontext=u:r:shell:s0 tcontext=u:r:su:s0"
    certain = judge(replace(FACTS, denied=line), "llm_demo")
    assert certain.reason == "selinux" and "SELinux forbids" in certain.what and line in certain.evidence
    likely = judge(replace(FACTS, context="u:r:su:s0"), "llm_demo")
    assert likely.reason == "selinux" and "probably" in likely.what
    assert judge(replace(FACTS, context="u:r:su:s0", enforce="Permissive"), "llm_demo").reason == "unknown"


def test_a_process_that_made_itself_untraceable() -> None:
    assert judge(replace(FACTS, owner="0"), "llm_demo").reason == "undumpable"


def test_a_filter_and_no_reason_at_all() -> None:
    assert judge(replace(FACTS, own={**FACTS.own, "Seccomp": "2"}), "llm_demo").reason == "seccomp"
    refusal = judge(FACTS, "llm_demo")
    assert refusal.reason == "unknown" and "same user (2000), no tracer" in refusal.evidence[0]
    assert "devkit debug llm_demo starts it under the debugger" in refusal.hints
