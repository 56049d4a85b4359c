"""Loops, branches and sub-graphs of padded arrays: values, lengths and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import scan, until
from graphc.errors import ArgumentError, DynamicShapeError, RuntimeShapeError
from graphc.ir import is_inexact, to_gathered_form
from graphc.tensor import Tensor
from tests.contract.loops import CASES
from tests.link.padding import run

x, y = gt.vectors("x", "y")
m = gt.matrix("m")
h, limit = gt.scalars("h", "limit")
n, k = gt.lscalars("n", "k")
RANDOM = np.random.default_rng(3)


def run_padded(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    arrays: Sequence[Any],
    exact: Sequence[Tensor] = (),
) -> list[Any]:
    """Return the results on padded arrays, of branches that have what only they need."""
    return run.run_padded(inputs, to_gathered_form(outputs, inputs), arrays, exact=exact)


def compare(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    *arrays: Any,
    exact: Sequence[Tensor] = (),
) -> None:
    """Compare the results on padded arrays with NumPy's on the arrays."""
    f = graphc.function([*inputs], [*outputs], mode="NUMPY", on_unused_input="ignore")
    expected = f(*arrays)
    for result, e in zip(run_padded(inputs, outputs, arrays, exact), expected, strict=True):
        assert result.shape == e.shape
        assert result.dtype == e.dtype
        np.testing.assert_allclose(result, e, rtol=1e-10, atol=1e-13)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Return random numbers from 0.2 to 1."""
    return RANDOM.uniform(0.2, 1, shape)


def growing(x_t: Any, state: Any) -> Tensor:
    """Return a state that grows with the element of a sequence."""
    return 1.4 * state + x_t * gt.sin(state)


@pytest.mark.parametrize(("length", "backwards"), [*product([0, 1, 4], [False, True])])
def test_a_scan_goes_over_the_valid_elements_of_sequences(length: int, backwards: bool) -> None:
    states = scan(growing, x, h, go_backwards=backwards)
    rows = scan(lambda a, b: gt.exp(a) * b, [x, x[::-1]], go_backwards=backwards)
    outputs = [states, rows, states.sum(), rows + states, rows.shape[0]]
    compare([x, h], outputs, numbers(length), 0.3)


@pytest.mark.parametrize(("steps", "reverse"), [*product([0, 1, 4], [False, True])])
def test_a_number_of_steps_may_be_a_count(steps: int, reverse: bool) -> None:
    last, rows = graphc.loop(lambda s, i: (growing(0.5, s), s * y), h, n_steps=n, reverse=reverse)
    outputs = [last, rows, rows.sum(0), rows[:, 0], rows.mean(1)]
    compare([h, n, y], outputs, 0.3, steps, numbers(3))


def test_a_loop_over_a_sequence_may_have_as_many_steps_as_it_has_elements() -> None:
    rows = scan(growing, x, h, n_steps=n)
    compare([x, h, n], [rows], numbers(4), 0.3, 4)
    with pytest.raises(ValueError, match="does not hold"):
        run_padded([x, h, n], [rows], [numbers(2), 0.3, 4])


@pytest.mark.parametrize("most", [0.0, 0.9, 2.0, 1e9])
@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_loop_stops_where_its_condition_says(most: float, length: int) -> None:
    def step(x_t: Any, s: Any) -> Any:
        new = growing(x_t, s)
        return [new, x_t * new], until(new > limit)

    states, rows = scan(step, x, [h, None])
    by_first = graphc.grad(states.sum() + rows[-1], [x, h])
    outputs = [states, rows, states[-1], states.shape[0], states[::-1] + rows, *by_first]
    compare([x, h, limit], outputs, numbers(length), 0.6, most)


@pytest.mark.parametrize("most", [0.0, 0.9, 1e9])
@pytest.mark.parametrize("steps", [6, n], ids=str)
def test_a_loop_stops_before_a_number_of_steps(most: float, steps: Any) -> None:
    def step(s: Any) -> Any:
        new = growing(0.5, s)
        return new, until(new > limit)

    states = scan(step, outputs_info=h, n_steps=steps)
    outputs = [states, states[-1], gt.exp(-states).mean(), graphc.grad(states.sum(), h)]
    if most > 2:
        weighted = states[::-1] * gt.constant(numbers(5 if steps is n else 6))
        outputs += [weighted, graphc.grad(weighted.sum(), h)]
    compare([h, limit, n], outputs, 0.6, most, 5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exact", [[m, y, x], [m, y], [x]])
def test_loops_over_lengths_that_the_backend_knows(exact: list[Tensor], reverse: bool) -> None:
    def stopping(row: Any, s: Any) -> Any:
        new = growing(row, s)
        return [new, new.sum() * x], until(new.sum() > limit)

    every = scan(growing, m, y, go_backwards=reverse)
    states, rows = scan(stopping, m, [y, None], go_backwards=reverse)
    steps = scan(lambda s: growing(0.5, s), outputs_info=h, n_steps=m.shape[0])
    inner = scan(lambda row: scan(growing, row, row.sum()), m)
    chosen = graphc.cond(h > 0, lambda a: scan(growing, a, y)[-1], lambda a: a[0] + y, m)
    outputs = [every, states, rows, rows.shape[0], states[::-1], steps, inner, chosen]
    outputs += graphc.grad(every.sum() + states.mean() + rows[-1].sum(), [m, y, x])
    arrays = numbers(4, 3), numbers(3), numbers(2), 0.3, 3.0
    compare([m, y, x, h, limit], outputs, *arrays, exact=exact)


def test_a_loop_without_rows_needs_no_bound_of_the_number_of_steps() -> None:
    steps = gt.floor(h * 10).astype("int64")
    last, _ = graphc.loop(lambda s, i: (growing(0.5, s), None), limit, n_steps=steps)
    compare([h, limit], [last], 0.45, 0.1)
    with pytest.raises(DynamicShapeError, match=r"cannot be padded|no upper bound"):
        run_padded(
            [h, x],
            [scan(growing, outputs_info=[h], n_steps=steps, non_sequences=[h])],
            [0.45, numbers(2)],
        )
    bounded = scan(lambda s: growing(0.5, s), outputs_info=h, n_steps=gt.minimum(steps, 9))
    compare([h], [bounded, bounded.sum()], 0.45)


def test_a_while_loop_goes_on_while_its_condition_holds() -> None:
    final = graphc.while_loop(lambda s: s.sum() < limit, lambda s: 1.5 * s + 1, x)
    compare([x, limit], [final], numbers(3), 40.0)


@pytest.mark.parametrize(("rows", "columns"), [*product([0, 1, 3], [0, 1, 4])])
def test_carries_and_rows_have_padded_axes(rows: int, columns: int) -> None:
    states = scan(lambda row, s: gt.sin(s) * 2 + row, m, y)
    products = scan(lambda row: gt.outer(row, x), m)
    outputs = [states, states.sum(0), products, products.sum(1), products.max(initial=0.0)]
    compare([m, y, x], outputs, numbers(rows, columns), numbers(columns), numbers(2))


def test_loops_in_loops_go_over_padded_elements_and_captured_arrays() -> None:
    by_row = scan(lambda row, s: scan(growing, row, s)[-1], m, h)
    captured = scan(lambda x_t, s: scan(growing, y * x_t, s).sum(), x, h)
    all_rows = scan(lambda row: scan(lambda a: gt.exp(a) - x, row), m)
    outputs = [by_row, captured, all_rows, all_rows.sum((0, 2))]
    compare([m, x, y, h], outputs, numbers(3, 4), numbers(2), numbers(5), 0.3)
    gradients = graphc.grad(by_row.sum() + captured.sum() + all_rows.sum(), [m, x, y, h])
    compare([m, x, y, h], gradients, numbers(3, 4), numbers(2), numbers(5), 0.3)


def test_a_loop_in_a_loop_may_stop_and_may_have_steps_that_differ() -> None:
    def stopping(x_t: Any, s: Any) -> Any:
        states = scan(lambda t: (growing(x_t, t), until(t > 1)), outputs_info=s, n_steps=5)
        return 0.1 * states[-1] + states.sum() / states.shape[0]

    def differing(i: Any, s: Any) -> Any:
        return scan(lambda t: growing(0.5, t), outputs_info=s, n_steps=gt.minimum(i, 4))[-1] / 2

    outputs = [scan(stopping, x, h), scan(differing, gt.arange(1, n + 1), h)]
    compare([x, h, n], outputs, numbers(4), 0.3, 5)


def test_lengths_that_a_step_computes_do_not_exist_outside_of_it() -> None:
    def inner(s: Any) -> Any:
        return scan(lambda t: (growing(0.5, t), until(t > 1)), outputs_info=s, n_steps=5)

    with pytest.raises(DynamicShapeError, match=r"a row's length is not known .* step to step"):
        run_padded([x], [scan(inner, x)], [numbers(3)])
    fixed = gt.tensor("fixed", shape=(3,), dtype="float64")
    outputs = [graphc.loop(lambda s, a: (inner(a)[:3] * s, None), fixed, xs=x)[0]]
    with pytest.raises(DynamicShapeError):
        run_padded([x, fixed], outputs, [numbers(3), numbers(3)])


def test_a_carry_keeps_its_length() -> None:
    grown, _ = graphc.loop(lambda s, a: (gt.concatenate([s, s])[: y.shape[0]] + a, None), y, xs=x)
    compare([x, y], [grown], numbers(3), numbers(4))
    other, _ = graphc.loop(lambda s, a: (x * a, None), y, xs=x)
    compare([x, y], [other], numbers(3), numbers(3))
    with pytest.raises(ValueError, match="does not hold"):
        run_padded([x, y], [other], [numbers(3), numbers(2)])


def test_errors_in_a_step_name_the_loop() -> None:
    rows = scan(lambda row: gt.linalg.eig(row[:, None] * row)[0], m, name="spectra")
    with pytest.raises(DynamicShapeError, match="In a step of spectra"):
        run_padded([m], [rows], [numbers(2, 3)])


def test_a_negative_number_of_steps_is_an_error() -> None:
    rows = scan(lambda s: s + 1, outputs_info=h, n_steps=n)
    with pytest.raises((ArgumentError, ValueError), match=r"steps|does not hold"):
        run_padded([h, n], [rows], [0.3, -2])


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("value", [-0.5, 0.5])
def test_branches_have_results_of_padded_lengths(length: int, value: float) -> None:
    chosen = graphc.ifelse(h > 0, gt.exp(x), x[::-1])
    total = graphc.cond(h > 0, lambda a: a.sum(), lambda a: scan(growing, a, h).sum(), x)
    outputs = [chosen, chosen * 2, total, *graphc.grad(chosen.sum() + total, [x, h])]
    compare([x, h], outputs, numbers(length), value)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
def test_an_index_may_be_a_count(index: int) -> None:
    functions: list[Callable[..., Any]] = [gt.exp, lambda a: a[::-1], lambda a: a * n]
    compare([x, n], [graphc.switch_case(n, functions, x)], numbers(3), index)


def test_branches_of_different_lengths_need_the_exact_program() -> None:
    chosen = graphc.ifelse(h > 0, x, y)
    compare([x, y, h], [chosen, chosen + 1], numbers(3), numbers(3), 0.5)
    with pytest.raises(ValueError, match="does not hold"):
        run_padded([x, y, h], [chosen], [numbers(3), numbers(2), 0.5])
    fixed = gt.tensor("fixed", shape=(3,), dtype="float64")
    compare([x, fixed, h], [graphc.ifelse(h > 0, x, fixed)], numbers(3), numbers(3), 0.5)
    unequal = graphc.cond(h > 0, lambda a: a.sum() * gt.ones(2), lambda a: a.max() * gt.ones(3), x)
    with pytest.raises(RuntimeShapeError, match="one branch gives the shape"):
        run_padded([x, h], [unequal], [numbers(9), 0.5])


def test_a_branch_in_a_loop_and_a_loop_in_a_branch_may_stop() -> None:
    def stopping(a: Any) -> Any:
        return scan(lambda a_t, s: (growing(a_t, s), until(s > 1)), a, h)[-1]

    def step(row: Any, s: Any) -> Any:
        return graphc.cond(s > 1, lambda r: r.sum(), stopping, row)

    compare([m, h], [scan(step, m, h)], numbers(4, 3), 0.3)


@pytest.mark.parametrize("inline", [False, True])
def test_a_graph_as_an_operation_takes_padded_arrays(inline: bool) -> None:
    op = graphc.OpFromGraph(
        [x, y], [x * y.sum(), scan(growing, y, x.sum())], inline=inline, name="both"
    )
    first, second = op(m[0], x * 2)
    outputs = [first, second, *graphc.grad(first.sum() + second.sum(), [m, x])]
    compare([m, x], outputs, numbers(2, 3), numbers(4))


@pytest.mark.parametrize("seed", range(12))
def test_random_loops_of_padded_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    backwards, stops, has_inner = rng.random(3) > 0.5
    length, width = rng.integers(1, 6, 2)

    def step(row: Any, s: Any, total: Any) -> Any:
        new = gt.tanh(s + row) * 1.2
        if has_inner:
            new = scan(lambda a, b: gt.cos(a) * b, row, new)[-1] if length % 2 else new[::-1]
        values = [new, total + new.sum(), gt.outer(new, x)]
        return (values, until(total > limit)) if stops else values

    states, totals, rows = scan(step, m, [y, h, None], go_backwards=backwards)
    outputs = [states, totals, rows, rows.sum(0), states[-1], totals[::2]]
    outputs += graphc.grad(states.sum() + totals.mean() + rows[-1].sum(), [m, y, x, h])
    arrays = numbers(length, width), numbers(width), numbers(rng.integers(0, 4)), 0.3, 3.0
    compare([m, y, x, h, limit], outputs, *arrays)


SHARED = {"a number of steps that is shared", "a shared value in the step"}
"""Cases whose graphs have shared variables, which are no inputs of ``run_padded``."""

REFUSED = {
    "the root of few steps of unknown number": "reshape",
    "the root of seventeen steps of unknown number": "reshape",
    "segments of a number of steps that is an input": "no upper bound",
    "no step whose inner number of steps is an element": "no upper bound",
    "an inner loop of another length every step": "no upper bound",
    "a number of steps of a narrow dtype": "no upper bound",
    "a trace reduced in several ways": "logsumexp",
    "a softmax and a sort every step": "softmax",
}
"""Cases for the exact program: lengths that follow from floats or elements, or no declaration."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(CASES.keys() - SHARED - REFUSED.keys()))
def test_every_case_of_a_loop_runs_on_padded_arrays(name: str) -> None:
    _run_case(name)


@pytest.mark.parametrize("name", REFUSED)
def test_a_loop_of_unknown_rows_is_refused(name: str) -> None:
    with pytest.raises(DynamicShapeError, match=REFUSED[name]):
        _run_case(name)


def _run_case(name: str) -> None:
    case = CASES[name]
    xs = case.symbols()
    ys = case.build(*xs)
    outputs = list(ys) if isinstance(ys, list | tuple) else [ys]
    if case.order:
        cost = sum((gt.real(y).sum() for y in outputs if is_inexact(y.dtype)), gt.constant(0.0))
        wrt = [xs[i] for i in case.wrt]
        outputs += graphc.grad(cost, wrt, disconnected_inputs="ignore")
    compare(xs, outputs, *case.given)
