"""Rules of single loops: values, gradients and the form that is promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import Mode
from graphc.ir import Graph, Node, toposort
from graphc.link import names
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from graphc.rewrite import optimize
from tests.reference import evaluate

PLAIN = Loop(Graph([], []))
BACK = replace(PLAIN, reverse=True)
RANDOM = np.random.default_rng(0)
COUNTS = (0, 1, 2, 7)

Made = list[Any]


def loops(outputs: Any) -> list[Node]:
    return [node for node in toposort(outputs) if isinstance(node.op, Loop)]


def names_within(loop: Node) -> set[str]:
    op: Any = loop.op
    return {node.op.name for node in op.step.nodes}


def length(x: Any) -> Any:
    n = x.type.shape[0]
    return gt.as_tensor(x.shape[0]) if n is None else n


def element(x: Any, name: str) -> Any:
    return x.type.with_shape(x.type.shape[1:])(name)


class Cell:
    """Inputs of a loop, their types with n unknown or known, and a loop over them."""

    def __init__(self, n: int | None, like: Loop = PLAIN, counted: bool = False) -> None:
        self.like = like
        self.count = gt.lscalar("count") if counted else None
        self.x = gt.tensor("x", shape=(n, 3))
        self.z = gt.tensor("z", shape=(n, 2), dtype="float32")
        self.k = gt.tensor("k", shape=(n,), dtype="int64")
        self.w = gt.tensor("w", shape=(3, 3))
        self.v = gt.tensor("v", shape=(None, None))
        self.h = gt.tensor("h", shape=(3,))
        self.inputs = [self.x, self.z, self.k, self.w, self.v, self.h]
        self.inputs += [self.count] if counted else []
        self.a, self.b, self.i = element(self.x, "a"), element(self.z, "b"), element(self.k, "i")
        self.c = self.h.type("c")

    def values(self, n: int) -> list[Any]:
        shapes = [(n, 3), (n, 2), (n,), (3, 3), (3, 4), (3,)]
        made = [RANDOM.standard_normal(shape) for shape in shapes]
        made[1] = made[1].astype("float32")
        made[2] = np.arange(n) * 3 % 5 - 1
        return [*made, *([] if self.count is None else [n // 2])]

    def run(
        self, init: Any, nexts: Any, rows: Any = (), carries: Any = None, stop: Any = None
    ) -> Made:
        """The results, given what a step makes of the inputs that stand for what it takes."""
        elements = {self.a: self.x, self.b: self.z, self.i: self.k}
        known = set(toposort([*nexts, *rows]))
        xs = {p: x for p, x in elements.items() if p in known or p is self.a}
        places = [self.c] if carries is None else list(carries)
        return build(
            self.like,
            length(self.x),
            self.count,
            list(init),
            list(xs.values()),
            LoopStep(places[: len(init)], list(xs), list(nexts), list(rows), stop),
        )


def mapped(s: Cell) -> Made:
    return s.run([], [], [gt.exp(s.a) * s.h, s.w @ s.a, s.b.sum() + s.i, s.h * 2])


def mixed_map(s: Cell) -> Made:
    return s.run([s.h], [gt.tanh(s.c + s.a)], [gt.sort(s.a), s.c, s.i * s.b])


def net(s: Cell) -> Made:
    new = gt.tanh(s.w @ s.a + s.w.T @ s.c)
    return s.run([s.h], [new], [new, new @ s.v])


def net_and_sums(s: Cell) -> Made:
    total, outer, count = s.h.type("total"), s.w.type("outer"), gt.lscalar("count")
    new = gt.sin(s.w @ s.c + s.a)
    init = [s.h, gt.zeros((3,)), s.w, gt.constant(2)]
    nexts = [
        new,
        total + gt.cumsum(s.a) - new,
        outer + gt.outer(new, s.a) - gt.outer(s.a, s.a) / 2,
        count + s.i,
    ]
    return s.run(init, nexts, [new], [s.c, total, outer, count])


def grams(s: Cell) -> Made:
    first, second, third = s.w.type(), s.h.type(), gt.tensor(shape=(3, 2))
    init = [s.w, s.h, gt.zeros((3, 2))]
    nexts = [first + gt.outer(s.a, s.h * s.a), second - s.w @ s.a, third + gt.outer(s.a, s.b)]
    return s.run(init, nexts, [], [first, second, third])


def differences(s: Cell) -> Made:
    second = s.h.type("second")
    return s.run([s.h, 2 * s.h], [s.a, s.a - s.c], [s.a - s.c, second * s.c], [s.c, second])


def smoothed(s: Cell) -> Made:
    other = s.h.type("other")
    new = s.c + gt.sigmoid(s.a) * (s.a - s.c)
    return s.run([s.h, s.h], [new, -other * 2 + new / 3], [new, other], [s.c, other])


def summed_and_multiplied(s: Cell) -> Made:
    product = s.h.type("product")
    return s.run(
        [s.h, s.h], [s.c + s.a, product * s.a[0]], [s.c, s.c + s.a, product], [s.c, product]
    )


def chosen(s: Cell) -> Made:
    new = gt.where(s.a > 0, s.c, s.a * 2)
    return s.run([s.h], [new], [new])


def reversed_walk(s: Cell) -> Made:
    new = gt.tanh(s.c) + s.a
    n = length(s.x)
    return build(s.like, n, s.count, [s.h], [s.x[::-1]], LoopStep([s.c], [s.a], [new], [s.c * s.a]))


def nested(s: Cell) -> Made:
    inner_c, inner_a = gt.scalar("inner_c"), gt.scalar("inner_a")
    final, trace = build(
        PLAIN,
        3,
        None,
        [s.a[0]],
        [s.a],
        LoopStep([inner_c], [inner_a], [gt.sin(inner_c) + inner_a], [inner_c]),
    )
    return s.run([s.h], [gt.tanh(s.c + trace)], [s.c * final, trace])


CASES: dict[str, Callable[[Cell], Made]] = {
    f.__name__: f
    for f in (
        mapped,
        mixed_map,
        net,
        net_and_sums,
        grams,
        differences,
        smoothed,
        summed_and_multiplied,
        chosen,
        reversed_walk,
        nested,
    )
}

EVERY = {"including": ["all", "coupled_recurrence", "linear_recurrence", "work_before_loop"]}


def check_equal(before: Any, after: Any, values: Any) -> None:
    for a, b in zip(evaluate(before, values), evaluate(list(after), values), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=2e-5 if a.dtype == "float32" else 1e-9, atol=1e-12)


def with_gradients(cell: Cell, outputs: Made) -> Made:
    inexact = [y for y in outputs if y.dtype.startswith("float")]
    cost = sum((i + 1.3) * gt.sin(y).sum() for i, y in enumerate(inexact))
    wrt = [cell.x, cell.w, cell.h, cell.v]
    return [*outputs, *graphc.grad(cost, wrt, disconnected_inputs="ignore")]


def rewritten(cell: Cell, outputs: Made, **asked: Any) -> Any:
    return optimize(Graph(cell.inputs, outputs), checking=True, **asked).graph.outputs


@pytest.mark.parametrize("like", [PLAIN, BACK], ids=["forwards", "backwards"])
@pytest.mark.parametrize("asked", [{}, EVERY], ids=["default", "linear"])
@pytest.mark.parametrize("name", CASES)
def test_rules_keep_values_and_gradients(name: str, asked: dict[str, Any], like: Loop) -> None:
    cell = Cell(None, like)
    before = with_gradients(cell, CASES[name](cell))
    after = rewritten(cell, before, **asked)
    for n in COUNTS:
        check_equal(before, after, dict(zip(cell.inputs, cell.values(n), strict=True)))


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("name", CASES)
def test_rules_keep_values_where_the_number_of_steps_is_static(name: str, n: int) -> None:
    cell = Cell(n)
    before = with_gradients(cell, CASES[name](cell))
    after = rewritten(cell, before)
    check_equal(before, after, dict(zip(cell.inputs, cell.values(n), strict=True)))


@pytest.mark.parametrize("name", CASES)
def test_what_was_rewritten_has_the_same_gradients(name: str) -> None:
    cell = Cell(None)
    outputs = CASES[name](cell)
    before = with_gradients(cell, outputs)
    after = with_gradients(cell, list(rewritten(cell, outputs, **EVERY)))
    for n in COUNTS:
        check_equal(before, after, dict(zip(cell.inputs, cell.values(n), strict=True)))


@pytest.mark.parametrize("like", [PLAIN, BACK], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", CASES)
def test_rows_of_steps_not_done_stay_zero(name: str, like: Loop) -> None:
    cell = Cell(None, like, counted=True)
    before = with_gradients(cell, CASES[name](cell))
    after = rewritten(cell, before, **EVERY)
    for n in COUNTS:
        check_equal(before, after, dict(zip(cell.inputs, cell.values(n), strict=True)))


@pytest.mark.parametrize("asked", [{}, EVERY], ids=["default", "linear"])
def test_a_loop_that_stops_keeps_its_values(asked: dict[str, Any]) -> None:
    cell = Cell(None)
    total = cell.h.type("total")
    new = gt.tanh(cell.w @ cell.a + cell.c)
    outputs = cell.run(
        [cell.h, cell.h],
        [new, total + cell.a],
        [cell.w @ cell.a, new @ cell.v],
        [cell.c, total],
        gt.sum(cell.a) > 1,
    )
    before = with_gradients(cell, outputs)
    after = rewritten(cell, before, **asked)
    for n in COUNTS:
        check_equal(before, after, dict(zip(cell.inputs, cell.values(n), strict=True)))


@pytest.mark.parametrize(("like", "n"), [(PLAIN, 0), (BACK, 0), (PLAIN, 1), (BACK, 7)])
@pytest.mark.parametrize("backend", ["JAX", "MLX"])
@pytest.mark.parametrize("name", CASES)
def test_a_backend_gives_the_same(name: str, backend: str, like: Loop, n: int) -> None:
    cell = Cell(None, like)
    outputs = CASES[name](cell)
    values = cell.values(n)
    wanted = evaluate(outputs, dict(zip(cell.inputs, values, strict=True)))
    mode = graphc.Mode(backend, including=["all", "linear_recurrence"])
    found = graphc.function(
        cell.inputs, outputs, mode=mode, returns="numpy", on_unused_input="ignore"
    )(*values)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


# The form that is promised.


@pytest.mark.parametrize("name", ["mapped", "grams", "differences"])
def test_no_loop_is_left(name: str) -> None:
    cell = Cell(None)
    assert not loops(rewritten(cell, CASES[name](cell)))


@pytest.mark.parametrize("name", ["smoothed", "summed_and_multiplied", "chosen"])
def test_linear_recurrences_are_no_loop_where_they_are_asked_for(name: str) -> None:
    cell = Cell(None)
    outputs = CASES[name](cell)
    assert len(loops(rewritten(cell, outputs))) == 1
    assert not loops(rewritten(cell, outputs, **EVERY))


def test_the_gradient_of_an_elementwise_loop_is_a_linear_recurrence() -> None:
    cell = Cell(None)
    (final,) = cell.run([cell.h], [gt.tanh(cell.c * cell.a)])
    gradient = graphc.grad(final.sum(), cell.h)
    (forwards,) = loops(rewritten(cell, [gradient], **EVERY))
    assert not forwards.op.reverse  # type: ignore[attr-defined]


def test_only_the_product_with_the_state_stays_in_a_net() -> None:
    cell = Cell(None)
    after = rewritten(cell, net(cell))
    (loop,) = loops(after)
    assert names_within(loop) - {"#0", "#1", "#2"} == {"add", "matmul", "tanh"}


@pytest.mark.parametrize("static", [False, True], ids=["unknown", "static"])
def test_a_gradient_loop_of_a_net_adds_up_nothing(static: bool) -> None:
    cell = Cell(7 if static else None)
    cost = gt.sum(net(cell)[0] ** 2)
    gradients = graphc.grad(cost, [cell.x, cell.w])
    _, backwards = loops(rewritten(cell, gradients))
    assert backwards.op.reverse  # type: ignore[attr-defined]
    assert "add" not in names_within(backwards)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("backend", names())
def test_draws_before_loop_are_those_of_each_step(backend: str, n: int) -> None:
    def function(mode: Any) -> Any:
        stream = gt.random.RandomStream(seed=4)
        x = graphc.scan(
            lambda x: 0.9 * x + stream.normal(x) * stream.uniform(), outputs_info=1.0, n_steps=n
        )
        return graphc.function([], x, mode=mode)

    after, before = function(backend), function(Mode("NUMPY", excluding=["all"]))
    for _ in range(2):
        np.testing.assert_allclose(after(), before(), 1e-9)


def test_draws_before_loop_leave_no_hash_in_a_step_but_that_of_its_keys() -> None:
    stream = gt.random.RandomStream(seed=4)
    x = graphc.scan(lambda x: 0.9 * x + stream.normal(x), outputs_info=1.0, n_steps=9)
    keys, states = loops(graphc.function([], x, mode="NUMPY").graph.outputs)
    op: Any = keys.op
    assert (op.carries, op.sequences) == (1, 0)
    assert "threefry" not in names_within(states)


@pytest.mark.parametrize("returned", ["states", "the last state"])
def test_draws_before_loop_take_memory_for_each_step_only_if_rows_do(returned: str) -> None:
    stream, n = gt.random.RandomStream(seed=4), gt.lscalar("n")
    x = graphc.scan(lambda x: 0.9 * x + stream.normal(x), outputs_info=gt.zeros(7), n_steps=n)
    f = graphc.function([n], x if returned == "states" else x[-1], mode="NUMPY")
    inner = [names_within(loop) for loop in loops(f.graph.outputs)]
    assert any("threefry" in names and "erfinv" in names for names in inner) == (
        returned == "the last state"
    )


def test_sums_of_products_stay_where_the_factors_are_larger() -> None:
    x, h = gt.tensor(shape=(7, 8, 3)), gt.tensor(shape=(8, 3))
    x_t, c, total = gt.tensor(shape=(8, 3)), gt.tensor(shape=(8, 3)), gt.tensor(shape=(3, 3))
    new = gt.tanh(c + x_t)
    step = LoopStep([c, total], [x_t], [new, total + new.T @ x_t])
    _, y = build(PLAIN, 7, None, [h, gt.zeros((3, 3))], [x], step)
    (loop,) = loops(optimize(Graph([x, h], [y])).graph.outputs)
    assert loop.op.carries == 2  # type: ignore[attr-defined]


def test_what_saves_memory_is_left_alone() -> None:
    cell = Cell(None, replace(PLAIN, recompute=True))
    (loop,) = loops(rewritten(cell, net_and_sums(cell)))
    assert loop.op.carries == 4  # type: ignore[attr-defined]


def test_arrays_too_large_for_all_steps_at_once_are_not_made() -> None:
    x = gt.tensor("x", shape=(2**16, 200))
    x_t = gt.tensor(shape=(200,))
    (y,) = build(
        PLAIN, 2**16, None, [], [x], LoopStep([], [x_t], [], [gt.exp(gt.outer(x_t, x_t)).sum()])
    )
    assert loops(optimize(Graph([x], [y])).graph.outputs)


def test_a_choice_in_a_map_computes_one_branch() -> None:
    x, x_t = gt.vector("x"), gt.scalar()
    chosen = graphc.cond(x_t > 0, lambda: gt.exp(x_t), lambda: gt.sin(x_t))
    (y,) = build(PLAIN, gt.as_tensor(x.shape[0]), None, [], [x], LoopStep([], [x_t], [], [chosen]))
    assert loops(optimize(Graph([x], [y])).graph.outputs)


def test_a_rule_can_be_left_out() -> None:
    cell = Cell(None)
    assert loops(rewritten(cell, mapped(cell), excluding=["loop_without_carries"]))


def test_an_optional_rule_is_asked_for_by_name() -> None:
    cell = Cell(None)
    outputs = smoothed(cell)
    assert loops(rewritten(cell, outputs, including=["loop", "specialize"]))
    excluded = rewritten(cell, outputs, excluding=["linear_recurrence"], **EVERY)
    assert loops(excluded)


def test_sums_of_what_all_but_cancels_keep_their_digits() -> None:
    x, mean, total = gt.fvector("x"), gt.fscalar("mean"), gt.fscalar("total")
    a = element(x, "a")
    for nexts in (total + (a - mean), (total - mean) + a):
        (final,) = build(
            PLAIN,
            length(x),
            None,
            [gt.constant(0, dtype="float32")],
            [x],
            LoopStep([total], [a], [nexts]),
        )
        value = (1e6 + np.arange(1000) % 7).astype("float32")
        found = graphc.function([x, mean], final, mode="NUMPY")
        assert not loops(found.graph.outputs)
        assert found(value, np.float32(1e6)) == (np.arange(1000) % 7).sum()
        assert found(np.full(4, 1e38, "float32"), np.float32(1e38)) == 0


def test_sums_of_what_a_product_misses_keep_their_digits() -> None:
    x, w, total, level = gt.fmatrix("x"), gt.fvector("w"), gt.fscalar("total"), gt.fscalar("level")
    a = element(x, "a")
    zero = gt.constant(0, dtype="float32")
    (final,) = build(
        PLAIN, length(x), None, [zero], [x], LoopStep([total], [a], [total + (w @ a - level)])
    )
    value = np.full((1000, 2), 1e6, "float32") + np.arange(1000, dtype="float32")[:, None] % 7
    found = graphc.function([x, w, level], final, mode="NUMPY")
    assert not loops(found.graph.outputs)
    assert found(value, [1.0, 0.0], 1e6) == (np.arange(1000) % 7).sum()


def test_of_no_step_there_is_no_sum() -> None:
    n, x, v, total = gt.lscalar("n"), gt.scalar("x"), gt.vector("v"), gt.scalar("total")
    xs = gt.matrix("xs")
    row = element(xs, "row")
    (many,) = build(PLAIN, n, None, [gt.constant(2.0)], [], LoopStep([total], [], [total + 1 / x]))
    (dots,) = build(
        PLAIN,
        length(xs),
        None,
        [gt.constant(2.0)],
        [xs],
        LoopStep([total], [row], [total + v @ row]),
    )
    found = graphc.function([n, x, v, xs], [many, dots], mode="NUMPY")
    assert not loops(found.graph.outputs)
    assert found(0, 0.0, [np.inf], np.zeros((0, 1))) == [2, 2]
    assert found(3, 0.5, [2.0], np.ones((3, 1))) == [8, 8]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_more_steps_than_a_dtype_has_numbers(dtype: str) -> None:
    n, total = gt.lscalar("n"), gt.scalar("total", dtype=dtype)
    k = gt.scalar("k", dtype=dtype)
    (final,) = build(
        PLAIN, n, None, [gt.constant(1, dtype=dtype)], [], LoopStep([total], [], [total + k])
    )
    assert graphc.function([n, k], final, mode="NUMPY")(70_000, 0.0) == 1


def test_a_map_of_no_rows_gives_them_another_shape() -> None:
    x = gt.matrix("x")
    folded = graphc.map(lambda row: row.reshape((2, -1)), x)
    found = graphc.function([x], folded, mode="NUMPY")
    assert not loops(found.graph.outputs)
    assert found(np.zeros((0, 4))).shape == (0, 2, 2)
    assert found(np.arange(8.0).reshape((2, 4))).tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
