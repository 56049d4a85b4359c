"""XLA's text and the events of a trace, read."""

from __future__ import annotations

import pytest

from graphc.link.jax.fusions import TraceEvent, instructions, runs

TEXT = """HloModule jit_graphc_profile

%fused (p0: f32[30,30]) -> f32[30,30] {
  %p0 = f32[30,30]{1,0} parameter(0), metadata={op_name="jit(f)/graphc_node_9/x"}
  %tanh = f32[30,30]{1,0} tanh(%p0), metadata={op_name="jit(f)/graphc_node_3/tanh"}
  ROOT %exp = f32[30,30]{1,0} exponential(%tanh), metadata={op_name="jit(f)/graphc_node_4/exp"}
}

%body (t: (s32[], f32[30,30])) -> (s32[], f32[30,30]) {
  %t = (s32[], f32[30,30]{1,0}) parameter(0)
  %x = f32[30,30]{1,0} get-tuple-element(%t), index=1
  %both = f32[30,30]{1,0} fusion(%x), kind=kLoop, calls=%inner
  ROOT %r = (s32[], f32[30,30]{1,0}) tuple(%n, %both)
}

%inner (p1: f32[30,30]) -> f32[30,30] {
  %row = f32[30,30]{1,0} slice(%p1), metadata={op_name="jit(f)/graphc_node_6/while/body/slice"}
  ROOT %s = f32[30,30]{1,0} sine(%row), metadata={op_name="graphc_node_6/while/graphc_node_7/sin"}
}

ENTRY %main (a: f32[30,30]) -> f32[30,30] {
  %a = f32[30,30]{1,0} parameter(0)
  %f.1 = f32[30,30]{1,0} fusion(%a), kind=kLoop, calls=%fused
  %flags = pred[5]{0} custom-call(%a), custom_call_target="f(x)"
  %w = (s32[], /*index=1*/f32[30,30]) while(%f.1), body=%body, metadata={op_name="graphc_node_6/x"}
  ROOT %c = f32[30,30]{1,0} copy(%f.1)
}
"""
SQUARE = 4 * 30 * 30


def test_instructions_know_their_operations_and_bytes() -> None:
    known = instructions(TEXT)
    fusion = known["f.1"]
    assert (fusion.kind, fusion.scopes) == ("fusion", ((3,), (4,)))
    assert (fusion.inside, fusion.operations, fusion.bytes) == ((), (3, 4), 2 * SQUARE)
    assert known["flags"].bytes == SQUARE + 5
    assert (known["w"].operations, known["w"].bytes) == ((6,), 0)
    assert (known["c"].scopes, known["c"].inside, known["c"].operations) == ((), (), ())
    # What only the loop says of a fusion is not what it computes.
    assert (known["both"].inside, known["both"].operations) == ((6,), (7,))


def event(name: str, start: float, end: float, thread: int = 0) -> TraceEvent:
    return TraceEvent(name, (1, thread), start, end)


def test_time_belongs_to_the_innermost_event() -> None:
    found = runs([
        event("while", 0, 10), event("a", 1, 3), event("a", 4, 5), event("b", 12, 13)
    ])  # fmt: skip
    assert [(run.event.name, run.microseconds) for run in found] == [
        ("while", 7),
        ("a", 2),
        ("a", 1),
        ("b", 1),
    ]
    assert [run.around is found[0] for run in found] == [False, True, True, False]


def test_time_of_threads_that_work_together_is_shared() -> None:
    found = runs([event("a", 0, 4), event("b", 2, 6, thread=1), event("c", 2, 4, thread=2)])
    shares = {run.event.name: run.microseconds for run in found}
    assert shares == pytest.approx({"a": 2 + 2 / 3, "b": 2 / 3 + 2, "c": 2 / 3})
    assert sum(shares.values()) == pytest.approx(6)
