"""Loops over containers, and while loops: against plain Python loops over NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GradientError

RANDOM = np.random.default_rng(4)

x, y = gt.vector("x"), gt.vector("y")
a = gt.scalar("a")


@dataclass(frozen=True)
class State:
    """A carry."""

    h: Any
    count: Any


class Row(NamedTuple):
    """What a step stacks."""

    total: Any
    both: Any


def step(carry: State, element: dict[str, Any]) -> tuple[State, Row]:
    """A step that works on arrays of either kind."""
    h = gt.tanh(carry.h + element["x"] * element["pair"][0])
    return State(h, carry.count + 1), Row(h.sum(), [h * 2, carry.count])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_containers_are_put_together_again(
    reverse: bool, checkpoint: int | None, mode: str
) -> None:
    m, h0 = gt.matrix("m"), gt.vector("h0")
    xs = {"x": m, "pair": (y, None)}
    final, rows = graphc.loop(step, State(h0, 0), xs, reverse=reverse, checkpoint=checkpoint)
    slope = graphc.grad(final.h.sum() + (rows.total**2).sum(), h0)
    f = graphc.function([m, y, h0], [final, rows, slope], mode=mode, returns="numpy")
    given = RANDOM.standard_normal((5, 2)), RANDOM.standard_normal(5)
    start = RANDOM.standard_normal(2)

    def plain(h: np.ndarray) -> tuple[Any, ...]:
        totals, doubled, counts = np.zeros(5), np.zeros((5, 2)), np.zeros(5)
        order = range(5)[:: -1 if reverse else 1]
        for count, i in enumerate(order):
            h = np.tanh(h + given[0][i] * given[1][i])
            totals[i], doubled[i], counts[i] = h.sum(), h * 2, count
        return h, totals, doubled, counts

    def cost(h: np.ndarray) -> float:
        last, totals, *_ = plain(h)
        return last.sum() + (totals**2).sum()

    got, stacked, found = f(*given, start)
    assert isinstance(got, State)
    assert isinstance(stacked, Row)
    assert int(got.count) == 5
    expected = plain(start)
    for part, wanted in zip([got.h, stacked.total, *stacked.both], expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-12)
    moved = [(cost(start + e) - cost(start - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(found, moved, rtol=1e-6, atol=1e-8)


def test_dataclasses_are_arguments_and_outputs_of_functions(mode: str) -> None:
    f = graphc.function([State(x, a)], State(x * a, {"a": a}), mode=mode)
    found = f(State(np.array([1.0, 2.0]), 3.0))
    assert isinstance(found, State)
    assert np.asarray(found.h).tolist() == [3.0, 6.0]
    with pytest.raises(graphc.errors.ArgumentError, match="expected a State"):
        f((np.array([1.0, 2.0]), 3.0))


def test_a_carry_may_come_with_its_keys_in_another_order() -> None:
    final, _ = graphc.loop(
        lambda c, _: ({"b": c["b"] + 1, "a": c["a"] * 2}, None), {"a": a, "b": 0}, n_steps=3
    )
    f = graphc.function([a], final, mode="NUMPY")
    assert {key: float(part) for key, part in f(5.0).items()} == {"a": 40.0, "b": 3.0}


def test_a_step_without_sequences_and_rows_gets_and_gives_none() -> None:
    seen: list[Any] = []

    def double(carry, element):
        seen.append(element)
        return carry * 2, None

    final, rows = graphc.loop(double, a, n_steps=4)
    assert (rows, set(seen)) == (None, {None})
    assert float(final.eval({a: 3.0}, mode="NUMPY")) == 48.0


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_end_with_the_step_that_stops(reverse: bool, mode: str) -> None:
    final, rows = graphc.loop(
        lambda c, x_t: (c * x_t, c + x_t), a, x, until=lambda c: c > 10, reverse=reverse
    )
    cost = final + (rows**2).sum()
    f = graphc.function([x, a], [final, rows, *graphc.grad(cost, [x, a])], mode=mode)
    elements = np.array([2.0, 3.0, 4.0, 5.0, 6.0])

    def plain(elements: np.ndarray, h: float) -> tuple[float, np.ndarray]:
        found = []
        for x_t in elements[:: -1 if reverse else 1]:
            found.append(h + x_t)
            h = h * x_t
            if h > 10:
                break
        return h, np.array(found[:: -1 if reverse else 1])

    def cost_of(elements: np.ndarray, h: float) -> float:
        last, stacked = plain(elements, h)
        return last + (stacked**2).sum()

    last, stacked, by_x, by_a = (np.asarray(part) for part in f(elements, 1.0))
    np.testing.assert_allclose(last, plain(elements, 1.0)[0])
    np.testing.assert_allclose(stacked, plain(elements, 1.0)[1])
    e = 1e-6 * np.eye(5)
    moved = [(cost_of(elements + d, 1.0) - cost_of(elements - d, 1.0)) / 2e-6 for d in e]
    np.testing.assert_allclose(by_x, moved, rtol=1e-6, atol=1e-6)
    slope = (cost_of(elements, 1 + 1e-6) - cost_of(elements, 1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(by_a, slope, rtol=1e-6)


def test_a_loop_without_a_bound_ends_by_its_condition(mode: str) -> None:
    final, rows = graphc.loop(lambda c, _: (c * 2, None), a, until=lambda c: c > 100)
    assert rows is None
    f = graphc.function([a], final, mode=mode)
    assert (float(f(3.0)), float(f(300.0))) == (192.0, 600.0)


def test_max_steps_bound_a_condition(mode: str) -> None:
    n = gt.lscalar("n")
    _, rows = graphc.loop(lambda c, _: (c * 2, c), a, until=lambda c: c > 100, max_steps=n)
    f = graphc.function([a, n], rows, mode=mode)
    assert np.asarray(f(3.0, 4)).tolist() == [3.0, 6.0, 12.0, 24.0]
    assert np.asarray(f(40.0, 4)).tolist() == [40.0, 80.0]


# While loops.


@pytest.mark.parametrize(
    ("start", "end", "slope"), [(3.0, 6561.0, 8 * 3.0**7), (200.0, 200.0, 1.0), (99.0, 9801.0, 198)]
)
def test_a_condition_is_asked_before_each_step(
    start: float, end: float, slope: float, mode: str
) -> None:
    final = graphc.while_loop(lambda c: c < 100, lambda c: c * c, a, max_steps=50)
    f = graphc.function([a], [final, graphc.grad(final, a)], mode=mode)
    np.testing.assert_allclose([np.asarray(part) for part in f(start)], [end, slope])


def test_a_while_loop_ends_after_max_steps_in_any_case(mode: str) -> None:
    n = gt.lscalar("n")
    final = graphc.while_loop(lambda c: c[1] > -1, lambda c: (c[0] * 2, c[1] + 1), (a, 0), n)
    f = graphc.function([a, n], [final[0], graphc.grad(final[0], a)], mode=mode)
    assert [float(part) for part in f(1.5, 4)] == [24.0, 16.0]
    assert [float(part) for part in f(1.5, 0)] == [1.5, 1.0]


def test_a_while_loop_without_a_bound_has_no_gradient() -> None:
    final = graphc.while_loop(lambda c: c < 100, lambda c: c * c, a)
    with pytest.raises(GradientError, match="max_steps="):
        graphc.grad(final, a)


def test_a_while_loop_without_a_bound_has_tangents(mode: str) -> None:
    final = graphc.while_loop(lambda c: c < 100, lambda c: c * c, a)
    tangent = graphc.pushforward(final, a, gt.as_tensor(1.0))
    assert float(graphc.function([a], tangent, mode=mode)(3.0)) == 8 * 3.0**7


@pytest.mark.parametrize("most", [None, 50])
def test_each_of_a_batch_ends_on_its_own(most: int | None, mode: str) -> None:
    def squared(z: Any) -> Any:
        return graphc.while_loop(lambda c: c < 100, lambda c: c * c, z, max_steps=most)

    found = graphc.vectorize(squared, signature="()->()")(x)
    outputs = [found] if most is None else [found, graphc.grad(found.sum(), x)]
    got = graphc.function([x], outputs, mode=mode)(np.array([3.0, 200.0, 2.0]))
    expected = [[6561.0, 200.0, 256.0], [8 * 3.0**7, 1.0, 8 * 2.0**7]]
    for part, wanted in zip(got, expected, strict=False):
        np.testing.assert_allclose(part, wanted)


def test_a_loop_that_carries_nothing_is_a_map() -> None:
    final, rows = graphc.loop(lambda _, x_t: (None, x_t**2), None, xs=x)
    assert final is None
    assert rows.eval({x: [1.0, 3.0]}, mode="NUMPY").tolist() == [1.0, 9.0]
