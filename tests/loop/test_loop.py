"""The operation itself: what a step is, what equal loops are, what a gradient stores."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    InvalidGraphError,
    RuntimeShapeError,
    ShapeError,
)
from graphc.ir import Graph, Input, Leaf, Node, TensorType, toposort
from graphc.ir.graph import check
from graphc.link import names
from graphc.loop.build import ENDLESS, build
from graphc.loop.loop import Loop
from graphc.loop.step import Formal, LoopStep

PLAIN = Loop(Graph([], []))
RANDOM = np.random.default_rng(0)


def rnn(x: Any, h0: Any, w: Any, **how: Any) -> list[Any]:
    """The last state and all states of a small recurrent net."""
    h, x_t = h0.type("h"), x.type.with_shape(x.type.shape[1:])("x_t")
    new = gt.tanh(h @ w + x_t)
    n = gt.as_tensor(x.shape[0]) if x.type.shape[0] is None else x.type.shape[0]
    like = Loop(Graph([], []), **how)
    return build(like, n, None, [h0], [x], LoopStep([h], [x_t], [new], [new]))


def counter(n: Any, stop: Callable[[Any], Any] | None = None, count: Any = None) -> list[Any]:
    """1, 2, 4, ... and the number of them."""
    x = gt.scalar("x")
    ends = None if stop is None else stop(2 * x)
    return build(PLAIN, n, count, [gt.as_tensor(1.0)], [], LoopStep([x], [], [2 * x], [x], ends))


def loops(*outputs: Any) -> list[Node]:
    return [node for node in toposort(outputs) if isinstance(node.op, Loop)]


def test_equal_loops_are_one_object() -> None:
    x, h0, w = gt.matrix(), gt.vector(), gt.matrix()
    first, second = rnn(x, h0, w), rnn(x, h0, w)
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_a_step_refers_to_nothing_outside() -> None:
    x, h0 = gt.matrix(), gt.vector()
    w = gt.as_tensor(RANDOM.standard_normal((20, 20)))
    (loop,) = loops(rnn(x, h0, w)[0])
    step = loop.op.step  # type: ignore[attr-defined]
    assert not [node for node in step.nodes if isinstance(node.op, Leaf)]
    assert all(isinstance(node.op, Formal) for node in step.nodes if isinstance(node.op, Input))
    assert w in loop.inputs


def test_what_does_not_vary_is_computed_outside_once() -> None:
    x, h0, w = gt.matrix(), gt.vector(), gt.matrix()
    (loop,) = loops(rnn(x, h0, gt.exp(w) + 1)[0])
    assert gt.exp(w) + 1 in loop.inputs


def test_a_length_is_that_of_what_a_parameter_stands_for() -> None:
    x, h0 = gt.matrix(), gt.vector()
    h, x_t = gt.vector(), gt.vector()
    new = h + x_t.shape[0] + gt.zeros(h.shape)
    (loop,) = loops(
        build(PLAIN, gt.as_tensor(x.shape[0]), None, [h0], [x], LoopStep([h], [x_t], [new]))[0]
    )
    names = {node.op.name for node in loop.op.step.nodes}  # type: ignore[attr-defined]
    assert not names & {"length", "shape"}


def test_static_lengths_are_kept() -> None:
    x, h0, w = gt.tensor(shape=(7, 3)), gt.tensor(shape=(3,)), gt.tensor(shape=(3, 3))
    final, states = rnn(x, h0, w)
    assert (final.type.shape, states.type.shape) == ((3,), (7, 3))


def test_what_a_step_knows_of_a_shape_holds_from_the_start() -> None:
    h = gt.vector("h")
    final, rows = build(
        PLAIN, 2, None, [gt.vector("h0")], [], LoopStep([h], [], [gt.ones(3) * h.sum()], [h])
    )
    assert (final.type.shape, rows.type.shape) == ((3,), (2, 3))


def test_what_is_known_at_the_start_holds_after_a_step() -> None:
    h = gt.tensor("h", shape=(4,))
    (final,) = build(PLAIN, 2, None, [gt.ones(4)], [], LoopStep([h], [], [gt.vector("other") * 2]))
    assert final.type.shape == (4,)


def test_a_loop_is_pickled_whole() -> None:
    loss = rnn(*inputs())[1].sum()
    graph = Graph([x for x in toposort([loss]) if isinstance(x.op, Input)], [loss])
    assert pickle.loads(pickle.dumps(graph)).key() == graph.key()


def inputs() -> tuple[Any, Any, Any]:
    return gt.matrix("x"), gt.vector("h0"), gt.matrix("w")


def test_a_gradient_is_a_sound_graph() -> None:
    x, h0, w = inputs()
    loss = (rnn(x, h0, w)[1] ** 2).sum()
    slopes = graphc.grad(loss, [x, h0, w])
    check(Graph([x, h0, w], [loss, *slopes]))
    check(Graph([x, h0, w], [graphc.grad(slopes[2].sum(), w)]))


def test_a_gradient_stores_the_carries_and_no_more() -> None:
    x, h0, w = inputs()
    *_, forward, backward = loops(graphc.grad(rnn(x, h0, w)[0].sum(), w))
    # The states as they were asked for, and those that tanh gave for the gradient: rewriting makes
    # them one. The state before a step is the row of the step before.
    assert forward.op.stacked == 2  # type: ignore[attr-defined]
    names = [node.op.name for node in backward.op.step.nodes]  # type: ignore[attr-defined]
    assert "tanh" not in names
    assert names.count("dot_general") == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_a_gradient_of_returned_states_stores_no_state_twice(reverse: bool) -> None:
    x, h0, w = inputs()
    *_, forward, backward = loops(graphc.grad((rnn(x, h0, w, reverse=reverse)[1] ** 2).sum(), w))
    assert forward.op.stacked == 1  # type: ignore[attr-defined]
    # The cotangents of the state and of w are carried, and no state.
    assert backward.op.carries == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("backend", names())
def test_a_gradient_of_returned_states_is_what_differences_give(
    backend: str, reverse: bool, n: int
) -> None:
    x, h0, w = inputs()
    loss = (rnn(x, h0, w, reverse=reverse)[1] ** 2).sum()
    given = [RANDOM.standard_normal(shape) for shape in ((n, 3), (3,), (3, 3))]
    directions = [RANDOM.standard_normal(a.shape) for a in given]
    gradient = graphc.function([x, h0, w], graphc.grad(loss, [x, h0, w]), mode=backend)(*given)
    slope = sum(np.sum(np.asarray(g) * d) for g, d in zip(gradient, directions, strict=True))
    f = graphc.function([x, h0, w], loss, mode="NUMPY")
    ends = [f(*(a + s * d for a, d in zip(given, directions, strict=True))) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_dear_part_of_a_step_is_stored_and_not_computed_again() -> None:
    x, h0, w = inputs()
    h, x_t = gt.vector("h"), gt.vector("x_t")
    new = gt.sin(h @ w) * x_t
    n = gt.as_tensor(x.shape[0])

    def products(recompute: bool) -> int:
        like = Loop(Graph([], []), recompute=recompute)
        (final,) = build(like, n, None, [h0], [x], LoopStep([h], [x_t], [new]))
        back = loops(graphc.grad(final.sum(), x))[-1]
        return [node.op.name for node in back.op.step.nodes].count("dot_general")  # type: ignore[attr-defined]

    assert products(True) == products(False) + 1


@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_number_of_steps_may_be_known_at_run_time_only(n: int) -> None:
    steps = gt.scalar("n", dtype="int64")
    final, rows = counter(steps)
    f = graphc.function([steps], [final, rows], mode="NUMPY")
    last, powers = f(n)
    assert last == 2.0**n
    np.testing.assert_array_equal(powers, 2.0 ** np.arange(n))


def test_a_loop_stops_after_the_step_that_says_so() -> None:
    final, rows, done = counter(6, stop=lambda x: x > 5)
    values = graphc.function([], [final, rows, done], mode="NUMPY")()
    assert [v.tolist() for v in values] == [8.0, [1.0, 2.0, 4.0, 0.0, 0.0, 0.0], 3]


def test_a_loop_may_have_no_bound() -> None:
    x = gt.scalar("x")
    final, done = build(
        PLAIN, ENDLESS, None, [x * 1], [], LoopStep([x], [], [2 * x], stop=2 * x > 1e6)
    )
    found = graphc.function([x], [final, done], mode="NUMPY")(1.0)
    assert [float(v) for v in found] == [2.0**20, 20]
    with pytest.raises(GradientError, match="max_steps"):
        graphc.grad(final, x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_count_says_how_many_of_the_steps_are_done(count: int, reverse: bool) -> None:
    xs, s, x = gt.vector("xs"), gt.scalar("s"), gt.scalar("x")
    like = Loop(Graph([], []), reverse=reverse)
    k = gt.scalar("k", dtype="int64")
    final, rows = build(
        like, 4, k, [gt.as_tensor(9.0)], [xs], LoopStep([s], [x], [s * 10 + x], [s])
    )
    given = np.array([1.0, 2.0, 3.0, 4.0])
    last, kept = graphc.function([xs, k], [final, rows], mode="NUMPY")(given, count)
    expected, state = np.zeros(4), 9.0
    for i in range(count)[:: -1 if reverse else 1]:
        expected[i] = state
        state = state * 10 + given[i]
    assert last == state
    np.testing.assert_array_equal(kept, expected)


def test_a_carry_that_changes_its_dtype_is_named() -> None:
    h = gt.vector("state", dtype="float32")
    with pytest.raises(DTypeError, match=r"carry 0 \(state\) begins as float32\[\?\].*float64"):
        build(
            PLAIN,
            3,
            None,
            [gt.vector(dtype="float32")],
            [],
            LoopStep([h], [], [h.astype("float64")]),
        )


def test_a_carry_that_changes_its_shape_is_named() -> None:
    h = gt.tensor("state", shape=(2,))
    with pytest.raises(ShapeError, match=r"carry 0 \(state\) begins as float64\[2\].*float64\[4\]"):
        build(
            PLAIN, 3, None, [gt.tensor(shape=(2,))], [], LoopStep([h], [], [gt.concatenate([h, h])])
        )


def test_a_carry_that_changes_its_shape_unseen_is_refused_at_run_time() -> None:
    h0, h = gt.vector("h0"), gt.vector("h")
    (final,) = build(PLAIN, 3, None, [h0], [], LoopStep([h], [], [gt.concatenate([h, h])]))
    with pytest.raises(RuntimeShapeError, match="shape"):
        graphc.function([h0], final, mode="NUMPY")([1.0, 2.0])


def test_a_sequence_of_another_length_is_refused() -> None:
    xs, x = gt.vector("xs"), gt.scalar("x")
    _, rows = build(
        PLAIN, 3, None, [gt.as_tensor(0.0)], [xs], LoopStep([gt.scalar()], [x], [x], [x])
    )
    with pytest.raises(RuntimeShapeError, match="4 elements for 3 steps"):
        graphc.function([xs], rows, mode=graphc.Mode("NUMPY", excluding="all"))(np.ones(4))


def test_a_negative_number_of_steps_is_refused() -> None:
    n = gt.scalar("n", dtype="int64")
    with pytest.raises(ArgumentError, match="-1 steps"):
        graphc.function([n], counter(n)[0], mode="NUMPY")(-1)


def test_a_step_is_given_what_it_takes() -> None:
    (loop,) = loops(rnn(*inputs())[0])
    with pytest.raises(InvalidGraphError, match="expected"):
        loop.op.infer(*[TensorType("float32", x.type.shape) for x in loop.inputs])
