"""The stage for loops: what it leaves out, what it makes one, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, InvalidGraphError
from graphc.ir import Constant, Graph, Input, Node, Op, Pick, toposort
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from graphc.rewrite import explain, optimize
from graphc.rewrite.rule import LOOPS, PASSES, RULES
from graphc.tensor import Tensor

PLAIN = Loop(Graph([], []))
LENGTHS = (0, 1, 2, 7)

w, h, x = gt.matrix("w"), gt.vector("h"), gt.matrix("x")
s, a = gt.vector("s"), gt.vector("a")
SHAPES: dict[Node, Callable[[int], tuple[int, ...]]] = {
    w: lambda n: (3, 3),
    h: lambda n: (3,),
    x: lambda n: (n, 3),
    s: lambda n: (n,),
    a: lambda n: (2,),
}


def rewritten(*outputs: Node, **names: Any) -> Graph:
    inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
    return optimize(Graph(inputs, outputs), checking=True, **names).graph


def loops(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes if isinstance(node.op, Loop)]


def depth_of_loops(graph: Graph) -> list[int]:
    """How many loops there are, how many in their steps, and so on."""
    own = loops(graph)
    inner = [depth_of_loops(node.op.step) for node in own]
    below = [
        sum(counts[i] for counts in inner if i < len(counts))
        for i in range(max(map(len, inner), default=0))
    ]
    return [len(own), *below] if own else []


def values(inputs: Sequence[Node], n: int) -> list[Any]:
    """Values for n steps; directions have the shapes of what they are directions of."""
    random = np.random.default_rng(n)
    shapes = [SHAPES[node](n) for node in inputs]
    return [random.normal(size=shape) * 0.6 for shape in shapes]


# Derivatives.


def tanh_net() -> tuple[Tensor, list[Tensor]]:
    final, trace = graphc.loop(lambda c, e: (gt.tanh(c @ w + e),) * 2, h, x)
    return gt.sum(trace**2) + final[0], [h, w, x]


def two_taps() -> tuple[Tensor, list[Tensor]]:
    trace = graphc.scan(
        lambda e, one, two: gt.tanh(a[0] * one + a[1] * two + e),
        sequences=s,
        outputs_info=[{"initial": h[:2], "taps": [-1, -2]}],
    )
    return gt.sum(trace**2), [h, a, s]


def shift_register() -> tuple[Tensor, list[Tensor]]:
    def step(c: Any, e: Tensor) -> Any:
        return (gt.tanh(c[0] * a[0] + c[1] * a[1] + e), c[0], c[1]), c[2]

    final, trace = graphc.loop(step, (h[0], h[0], h[0]), s)
    return gt.sum(trace**2) + final[2], [h, a, s]


def integer_carry() -> tuple[Tensor, list[Tensor]]:
    def step(c: Any, e: Tensor) -> Any:
        count, total = c
        return (count + 1, gt.sin(total * e) * a[0] + count), total * count

    final, trace = graphc.loop(step, (gt.as_tensor(0), h[0]), s)
    return gt.sum(trace**2) + final[1], [h, a, s]


def until() -> tuple[Tensor, list[Tensor]]:
    final, trace = graphc.loop(
        lambda c, e: (gt.tanh(c * a[0] + e), c * c), h[0], s, until=lambda c: c > 0.4
    )
    return gt.sum(trace**2) + final, [h, a, s]


def nested() -> tuple[Tensor, list[Tensor]]:
    def step(c: Tensor, row: Tensor) -> Any:
        final, trace = graphc.loop(lambda c, e: (gt.tanh(c * a[0] + e * row[0]), c * e), c, row)
        return final, gt.sum(trace)

    final, trace = graphc.loop(step, h[0], x)
    return gt.sum(trace**2) + final, [h, a, x]


MODELS = (tanh_net, two_taps, shift_register, integer_carry, until, nested)
ORDERS: dict[str, list[int]] = {
    "cost": [1],
    "first": [2],
    "second": [4],
    "forward": [2],
    "third": [8],
}


@cache
def derivatives(model: Callable[[], tuple[Tensor, list[Tensor]]]) -> dict[str, list[Tensor]]:
    """The cost and its derivatives, along directions from the second order on."""
    cost, wrt = model()
    along = [p.type("along") for p in wrt]
    SHAPES.update({v: SHAPES[p] for v, p in zip(along, wrt, strict=True)})

    def directed(parts: Sequence[Tensor]) -> Tensor:
        return sum((gt.sum(g * v) for g, v in zip(parts, along, strict=True)), gt.as_tensor(0.0))

    first = graphc.grad(cost, wrt)
    second = graphc.grad(directed(first), wrt)
    third = graphc.grad(directed(second), wrt)
    forward = graphc.hessian_vector_product(cost, wrt, along)
    return {
        "cost": [cost],
        "first": [cost, *first],
        "second": [cost, *first, *second],
        "forward": [cost, *first, *forward],
        "third": [cost, *first, *second, *third],
    }


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_derivatives_share_their_loops(model: Any, order: str) -> None:
    count = ORDERS[order]
    found = depth_of_loops(rewritten(*derivatives(model)[order]))
    assert found == (count * 2 if model is nested else count)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_derivatives_keep_their_values(model: Any, order: str) -> None:
    outputs = derivatives(model)[order]
    inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
    plain = graphc.function(inputs, outputs, mode=graphc.Mode("NUMPY", excluding="all"))
    better = graphc.function(inputs, outputs, mode="NUMPY")
    for n in LENGTHS:
        given = values(inputs, n)
        for before, after in zip(plain(*given), better(*given), strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-11)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_each_order_is_the_slope_of_the_one_before(model: Any) -> None:
    _, wrt = model()
    orders = derivatives(model)
    inputs = [node for node in toposort(orders["third"]) if isinstance(node.op, Input)]
    along = [node for node in inputs if node.name == "along"]
    f = graphc.function(inputs, [*orders["third"], *orders["forward"]], mode="NUMPY")
    for n in LENGTHS:
        check_slopes(f, dict(zip(inputs, values(inputs, n), strict=True)), wrt, along)


def check_slopes(
    f: Callable[..., Any], given: dict[Node, Any], wrt: Sequence[Node], along: Sequence[Node]
) -> None:
    k = len(wrt)

    def at(t: float) -> list[Any]:
        moved = {p: given[p] + t * given[v] for p, v in zip(wrt, along, strict=True)}
        return [np.asarray(y) for y in f(*[moved.get(node, given[node]) for node in given])]

    step = 1e-5
    here = at(0.0)
    slopes = [(p - m) / (2 * step) for p, m in zip(at(step), at(-step), strict=True)]
    directions = [given[v] for v in along]
    first, second, third = here[1 : 1 + k], here[1 + k : 1 + 2 * k], here[1 + 2 * k : 1 + 3 * k]
    by_direction = sum(np.sum(g * v) for g, v in zip(first, directions, strict=True))
    np.testing.assert_allclose(by_direction, slopes[0], rtol=1e-6, atol=1e-8)
    for found, slope in zip([*second, *third], slopes[1 : 1 + 2 * k], strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-8)
    for found, expected in zip(here[-k:], second, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


# What goes.


def test_what_nothing_needs_is_not_computed() -> None:
    def step(c: Any, e: Any) -> Any:
        kept, dropped, read = c
        return (kept + e[0], dropped * e[1], read + kept), (gt.exp(e[1]), kept * 2, dropped)

    (final, _, _), (_, row, _) = graphc.loop(step, (h[0], h[1], h[2]), (s, a))
    (loop,) = loops(rewritten(final, row))
    assert (loop.op.carries, loop.op.sequences, loop.op.stacked) == (1, 1, 1)
    assert h[1] not in loop.inputs


def test_a_carry_goes_that_only_itself_reads() -> None:
    step = build(
        PLAIN, 5, None, [h[0], h[1]], [], LoopStep([s[0], s[1]], [], [s[0] * 2, s[1] + s[0]])
    )
    (loop,) = loops(rewritten(step[0]))
    assert loop.op.carries == 1


def test_what_a_condition_needs_stays() -> None:
    (_, total), _ = graphc.loop(
        lambda c, e: ((c[0] + e, c[1] * 2), None), (h[0], h[1]), s, until=lambda c: c[0] > 2
    )
    (loop,) = loops(rewritten(total))
    assert loop.op.carries == 2


def test_unused_parts_go_in_loops_within_loops() -> None:
    def step(c: Tensor, row: Tensor) -> Any:
        (final, _), (trace, _) = graphc.loop(
            lambda c, e: ((c[0] * e, c[1] + e), (c[1], gt.exp(e))), (c, c), row
        )
        return final, trace

    final, _ = graphc.loop(step, h[0], x)
    (outer,) = loops(rewritten(final))
    (inner,) = loops(outer.op.step)
    assert (inner.op.carries, inner.op.stacked) == (1, 0)


def test_no_loop_is_left_of_one_that_gives_what_it_is_given() -> None:
    (same, _), (rows, doubled) = graphc.loop(
        lambda c, e: ((c[0], c[1] + e), (e, c[0] * 2)), (h, gt.zeros(3)), x
    )
    graph = rewritten(same, rows)
    assert graph.outputs == (h, x)
    assert not loops(rewritten(doubled))


def test_a_carry_that_no_step_changes_is_a_constant() -> None:
    (_, final), _ = graphc.loop(lambda c, e: ((c[0], c[1] * c[0] + e), None), (h, h), x)
    (loop,) = loops(rewritten(final))
    assert loop.op.carries == 1
    assert len(loop.op.step.inputs) == 3


def test_carries_that_change_places_and_begin_as_equals_are_a_constant() -> None:
    (_, _, final), _ = graphc.loop(
        lambda c, e: ((c[1], c[0], gt.tanh(c[2] * c[0] + e)), None), (h, h, h), x
    )
    (loop,) = loops(rewritten(final))
    assert loop.op.carries == 1


def test_carries_that_agree_are_one_and_others_are_not() -> None:
    def step(c: Any, e: Tensor) -> Any:
        one, same, other, _ = c
        return (gt.tanh(one + e), gt.tanh(same + e), gt.tanh(other - e), one), None

    finals, _ = graphc.loop(step, (h, h, h, h), x)
    graph = rewritten(*finals)
    (loop,) = loops(graph)
    assert loop.op.carries == 3
    assert graph.outputs[0] is graph.outputs[1]


def test_arrays_given_twice_are_taken_once() -> None:
    def step(c: Tensor, e: Any) -> Any:
        return gt.tanh(c * e[0] + e[1]), (c * w[0], c * w[0])

    final, (one, same) = graphc.loop(step, h, (x, x * 1))
    graph = rewritten(final, one, same)
    (loop,) = loops(graph)
    assert (loop.op.sequences, loop.op.stacked) == (1, 1)
    assert graph.outputs[1] is graph.outputs[2]


# Steps.


def test_a_step_is_rewritten_and_what_does_not_change_leaves_it() -> None:
    final, _ = graphc.loop(lambda c, e: (gt.log(1 + c * 1) + e + gt.exp(w[0]) * 0.5, None), h, x)
    (loop,) = loops(rewritten(final))
    names = [node.op.name for node in loop.op.step.nodes]
    assert "log1p" in names
    assert "exp" not in names
    assert gt.exp(w[0]) in toposort(loop.inputs)


def test_numbers_are_part_of_the_step() -> None:
    parameters = [gt.vector("c"), gt.vector("e"), gt.scalar("k"), gt.vector("zeros")]
    c, e, k, zeros = parameters
    loop = replace(PLAIN, step=Graph(parameters, [gt.tanh(c * k + e) + zeros]), carries=1)
    loop = replace(loop, sequences=1)
    node = Node.make(loop, x.shape[0], h, x, gt.constant(2.0), gt.zeros(h.shape))
    (after,) = loops(rewritten(Tensor.make(Pick(0), node)))
    assert len(after.op.step.inputs) == 2
    assert any(isinstance(y.op, Constant) for y in after.op.step.nodes)
    assert len(after.op.step) == 6


def test_lengths_known_outside_are_known_in_the_step() -> None:
    known = gt.tensor("known", shape=(4, 3))
    begun = gt.tensor("begun", shape=(3,))
    c, e = gt.vector("c"), gt.vector("e")
    step = Graph([c, e], [gt.tanh(c + e), c])
    loop = replace(PLAIN, step=step, carries=1, sequences=1, steps=4)
    node = Node.make(loop, begun, known)
    (after,) = loops(rewritten(*[Tensor.make(Pick(i), node) for i in (0, 1)]))
    assert all(y.type.is_static for y in after.op.step.nodes)
    assert [t.shape for t in after.type.items] == [(3,), (4, 3)]


def test_a_rule_that_fails_in_a_step_is_named_with_the_loop(monkeypatch: Any) -> None:
    def fail(node: Node, op: Op) -> Node:
        raise InvalidGraphError("No.")

    monkeypatch.setattr(RULES["log_of_one_plus"], "apply", lambda node: fail(node, node.op))
    final, _ = graphc.loop(lambda c, e: (gt.log(1 + c) + e, None), h, x)
    with pytest.raises(InvalidGraphError) as caught:
        rewritten(final)
    first, second = caught.value.__notes__
    assert "log_of_one_plus" in first
    assert "loop" in second
    assert "test_stage.py" in second


# Merging.


def side(like: Loop = PLAIN, steps: Any = None, scale: float = 1.0) -> list[Tensor]:
    c, e = gt.vector("c"), gt.vector("e")
    n = x.shape[0] if steps is None else steps
    return build(like, n, None, [h * scale], [x], LoopStep([c], [e], [gt.tanh(c + e)], [c * scale]))


def test_loops_of_as_many_steps_are_one() -> None:
    one, other = side(), side(scale=2.0)
    (loop,) = loops(rewritten(*one, *other))
    assert (loop.op.carries, loop.op.sequences, loop.op.stacked) == (2, 1, 2)


@pytest.mark.parametrize(
    "other",
    [
        side(replace(PLAIN, reverse=True), scale=2.0),
        side(replace(PLAIN, unroll=4), scale=2.0),
        side(replace(PLAIN, recompute=True), scale=2.0),
        graphc.loop(lambda c, e: (gt.tanh(c * e), None), h[0], s),
        graphc.loop(lambda c, e: (gt.tanh(c + e), None), side()[0], x),
        graphc.loop(lambda c, e: (gt.tanh(c + e), None), h, gt.cumsum(side()[1], 0)),
    ],
    ids=["direction", "unroll", "recompute", "number of steps", "last carry", "rows as a whole"],
)
def test_loops_that_differ_or_wait_for_each_other_are_two(other: Any) -> None:
    outputs = [y for y in [*side(), *other] if y is not None]
    assert len(loops(rewritten(*outputs))) == 2


def test_loops_that_would_wait_for_each_other_are_not_merged_crosswise() -> None:
    """One pair of a kind fits, then the other would close a circle."""

    def forth(begin: Tensor, scale: float) -> Tensor:
        return graphc.loop(lambda c, e: (gt.tanh(c * scale + e), None), begin, x)[0]

    def back(begin: Tensor, scale: float) -> Tensor:
        return graphc.loop(lambda c, e: (gt.sin(c * scale + e), None), begin, x, reverse=True)[0]

    outputs = [back(forth(h, 1.0), 2.0), forth(back(h, 3.0), 4.0)]
    assert len(loops(rewritten(*outputs))) == 3
    check_values(outputs)


def test_a_loop_can_wait_for_the_one_it_fits() -> None:
    """The first loop fits the third, which waits for the second."""
    first = side(scale=3.0)[0]
    second, _ = graphc.loop(lambda c, e: (gt.tanh(c * e), None), h, x, reverse=True)
    third, _ = graphc.loop(lambda c, e: (gt.sin(c + e), None), second, x)
    outputs = [first, third]
    assert len(loops(rewritten(*outputs))) == 2
    check_values(outputs)


def stopping(most: float, scale: float) -> Any:
    def step(c: Any, e: Tensor) -> Any:
        return (c[0] + gt.abs(e), gt.tanh(c[1] * scale + e)), c[1]

    return graphc.loop(step, (h[0], h[1]), s, until=lambda c: c[0] > most)


def test_loops_that_stop_are_one_where_they_stop_together() -> None:
    one, other, late = (stopping(*given) for given in ((1.0, 2.0), (1.0, 3.0), (1.5, 2.0)))
    assert len(loops(rewritten(*one[0], *other[0]))) == 1
    outputs = [*one[0], one[1], *other[0], other[1], *late[0], late[1]]
    assert len(loops(rewritten(*outputs))) == 2
    check_values(outputs)


def test_the_older_name_is_kept() -> None:
    named = [side(replace(PLAIN, label=name), scale=k) for k, name in enumerate(("old", "new"), 1)]
    (loop,) = loops(rewritten(*named[0], *named[1]))
    assert loop.op.label == "old"


def check_values(outputs: Sequence[Tensor]) -> None:
    inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
    modes = [graphc.Mode("NUMPY", excluding="all"), "NUMPY"]
    plain, better = (graphc.function(inputs, list(outputs), mode=mode) for mode in modes)
    for n in LENGTHS:
        given = values(inputs, n)
        for before, after in zip(plain(*given), better(*given), strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-11)


# In a row.


def test_rows_read_step_by_step_are_not_kept() -> None:
    _, rows = side()
    final, _ = graphc.loop(lambda c, e: (gt.tanh(c * e), None), h, rows)
    graph = rewritten(final)
    (loop,) = loops(graph)
    assert loop.op.stacked == 0
    check_values([final])


def test_rows_that_something_else_reads_are_kept() -> None:
    _, rows = side()
    final, more = graphc.loop(lambda c, e: (gt.tanh(c * e), c + e), h, rows)
    (loop,) = loops(rewritten(final, more, gt.sum(rows)))
    assert loop.op.stacked == 2
    check_values([final, more, gt.sum(rows)])


def test_loops_in_the_other_direction_read_rows_afterwards() -> None:
    _, rows = side()
    final, _ = graphc.loop(lambda c, e: (gt.tanh(c * e), None), h, rows, reverse=True)
    assert len(loops(rewritten(final))) == 2


def test_the_last_row_keeps_no_trace() -> None:
    _, trace = graphc.loop(lambda c, e: (gt.tanh(c + e),) * 2, h, x)
    (loop,) = loops(rewritten(gt.exp(trace[-1])))
    assert loop.op.stacked == 0


# Names, reports and time.

STAGE = [rule for rule in RULES.values() if rule.step == LOOPS]


@pytest.mark.parametrize("name", [rule.name for rule in STAGE])
def test_each_part_can_be_left_out(name: str) -> None:
    outputs = derivatives(tanh_net)["second"]
    inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
    mode = graphc.Mode("NUMPY", excluding=name)
    plain = graphc.Mode("NUMPY", excluding="all")
    given = values(inputs, 3)
    found, expected = (graphc.function(inputs, outputs, mode=m)(*given) for m in (mode, plain))
    for after, before in zip(found, expected, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-11)


def test_the_stage_can_be_left_out() -> None:
    outputs = side() + side(scale=2.0)
    for excluding in ("loops", "loop", "all"):
        assert len(loops(rewritten(*outputs, excluding=excluding))) == 2
    assert len(loops(rewritten(*outputs, including=["loops_side_by_side"]))) == 1
    with pytest.raises(ArgumentError, match="'loops'"):
        rewritten(*outputs, excluding=["loopss"])


def test_the_stage_costs_nothing_where_there_are_no_loops() -> None:
    graph = Graph([x], [gt.log(1 + x)])
    assert {report.name for report in optimize(graph).passes} == set(PASSES)


def test_a_rewritten_loop_stays_as_it_is() -> None:
    for model in MODELS:
        done = rewritten(*derivatives(model)["second"])
        assert optimize(done).graph.outputs == done.outputs


def test_changes_are_explained() -> None:
    text = str(explain([*side(), *side(scale=2.0)]))
    for name in ("loops:", "loops_side_by_side", "steps_of_loops"):
        assert name in text
    assert "loops_side_by_side" in explain([*side(), *side(scale=2.0)]).html()
    f = graphc.function([h, x], [*side(), *side(scale=2.0)], mode="NUMPY")
    assert ", loops " in str(f.plan())


def chained(count: int) -> list[Tensor]:
    y = h
    for i in range(count):
        y, _ = graphc.loop(lambda c, e, i=i: (gt.tanh(c * (i + 1.0) + e), None), y, x)
    return [y]


def in_a_row(count: int) -> list[Tensor]:
    rows = x
    for i in range(count):
        _, rows = graphc.loop(lambda c, e, i=i: (gt.tanh(c * (i + 1.0) + e),) * 2, h, rows)
    return [rows]


def beside(count: int) -> list[Tensor]:
    return [
        graphc.loop(lambda c, e, i=i: (gt.tanh(c * (i + 1.0) + e), None), h, x)[0]
        for i in range(count)
    ]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("made", [chained, in_a_row, beside])
def test_time_is_linear_in_the_number_of_loops(made: Any, monkeypatch: Any) -> None:
    """Told by how many nodes are made."""
    counted = [0]
    make = Node.make.__func__  # type: ignore[attr-defined]

    def counting(cls: Any, op: Op, *inputs: Node) -> Node:
        counted[0] += 1
        return make(cls, op, *inputs)

    costs = []
    for count in (50, 200):
        outputs = made(count)
        with monkeypatch.context() as patch:
            patch.setattr(Node, "make", classmethod(counting))
            counted[0] = 0
            graph = rewritten(*outputs)
        costs.append(counted[0])
        assert len(loops(graph)) == (count if made is chained else 1)
    assert costs[1] < 5 * costs[0]
