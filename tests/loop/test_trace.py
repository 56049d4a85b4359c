"""The last row of a trace is what its loop ends with, also for derivatives and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import toposort
from graphc.loop import Loop

h0 = gt.vector("h0")
n = gt.lscalar("n")
powers = graphc.scan(lambda h: h**2, outputs_info=h0, n_steps=n)


@pytest.mark.parametrize("excluding", [(), "all"])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_last_state_of_no_steps_is_the_first_one_and_so_is_its_gradient(
    steps: int, excluding: Any
) -> None:
    last = powers[-1]
    mode = graphc.Mode("NUMPY", excluding=excluding)
    f = graphc.function([h0, n], [last, graphc.grad(last.sum(), h0)], mode)
    y, slope = f([3.0, 2.0], steps)
    start = np.array([3.0, 2.0])
    np.testing.assert_allclose(y, start ** (2**steps))
    np.testing.assert_allclose(slope, 2**steps * start ** (2**steps - 1))


def test_an_inner_loop_of_as_many_steps_as_an_element_says_may_have_none() -> None:
    counts, a = gt.lvector("counts"), gt.scalar("a")
    states = graphc.scan(
        lambda k, h: graphc.scan(lambda z: a * z + 1, outputs_info=h, n_steps=k)[-1], counts, 0.0
    )
    f = graphc.function([counts, a], [states, graphc.grad(states.sum(), a)], mode="NUMPY")
    rows, slope = f([2, 0, 1, 0], 0.5)
    # 1 + a, the same, 1 + a + a^2, the same
    np.testing.assert_allclose(rows, [1.5, 1.5, 1.75, 1.75])
    np.testing.assert_allclose(slope, 1 + 1 + 2 + 2)


def test_a_gradient_by_a_trace_is_as_long_as_the_trace() -> None:
    slope = graphc.grad((powers[-1] * gt.as_tensor([2.0, 3.0])).sum(), powers)
    found = graphc.function([h0, n], slope, mode="NUMPY")([1.0, 1.0], 3)
    np.testing.assert_array_equal(found, [[0.0, 0.0], [0.0, 0.0], [2.0, 3.0]])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_gradient_of_a_last_state_has_no_row_for_each_step(backwards: bool) -> None:
    x = gt.matrix("x")
    trace = graphc.scan(lambda x_t, h: gt.sin(h) + x_t, x, h0, go_backwards=backwards)
    loops = [y for y in toposort([graphc.grad(trace[-1].sum(), x)]) if isinstance(y.op, Loop)]
    back = loops[-1]
    # The states before each step, and no cotangents.
    assert back.op.sequences == 1  # type: ignore[attr-defined]


def test_last_states_of_a_batch_that_stops_at_different_steps_are_each_its_own() -> None:
    trace = graphc.scan(
        lambda h: (2 * h, graphc.until((2 * h).sum() > 10)), outputs_info=h0, n_steps=9
    )
    batch = gt.matrix("batch")
    last = graphc.vectorize_graph(trace[-1], {h0: batch})
    starts = np.array([[1.0, 2.0], [4.0, 5.0], [0.1, 0.2]])
    found = graphc.function([batch], last, mode="NUMPY")(starts)
    np.testing.assert_allclose(found, starts * [[4.0], [2.0], [64.0]])


@pytest.mark.parametrize("steps", [0, 2])
def test_a_last_state_within_a_step_is_the_first_one_of_no_steps(steps: int) -> None:
    inner = lambda h: graphc.scan(lambda s: s**2, outputs_info=h, n_steps=n)[-1]  # noqa: E731
    last = graphc.scan(lambda h: inner(h) * 3, outputs_info=h0, n_steps=2)[-1]
    f = graphc.function([h0, n], [last, graphc.grad(last.sum(), h0)], mode="NUMPY")
    y, slope = f([1.0, 0.5], steps)
    power = 2**steps
    start = np.array([1.0, 0.5])
    np.testing.assert_allclose(y, 3 ** (1 + power) * start ** (power**2))
    np.testing.assert_allclose(slope, 3 ** (1 + power) * power**2 * start ** (power**2 - 1))


@pytest.mark.parametrize("within", [False, True])
def test_an_index_without_entries_stands_beside_a_loop_and_in_one(mode: str, within: bool) -> None:
    x, s = gt.vector("x"), gt.scalar("s")

    def step(r: Any) -> Any:
        return gt.set_subtensor((2 * r)[...], (r * s)[()] ** 2) if within else 2 * r

    rows = graphc.scan(step, sequences=x) * (s + 1)[...]
    f = graphc.function([x, s], [rows, graphc.grad(rows.sum(), s)], mode=mode)
    found, slope = f([1.0, 2.0, -3.0], 0.5)
    a = np.array([1.0, 2.0, -3.0])
    np.testing.assert_allclose(found, 1.5 * ((a * 0.5) ** 2 if within else 2 * a))
    # d/ds of s^2 (s + 1) is 3 s^2 + 2 s.
    np.testing.assert_allclose(slope, (a**2).sum() * 1.75 if within else (2 * a).sum())
