"""Functions with derivatives of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, GradientError, UnsupportedOperationError
from graphc.link import names
from tests.modes import uncompiled

VALUE = np.array([-1.5, 0.25, 2.0])


def run(inputs: Any, outputs: Any, backend: str, *values: Any) -> list[Any]:
    return graphc.function(inputs, outputs, uncompiled(backend), returns="numpy")(*values)  # type: ignore[no-any-return]


@graphc.custom_pullback(lambda g, y, x: 2 * g * gt.cos(x))
def sine(x: Any) -> Any:
    """A sine with twice its slope."""
    return gt.sin(x)


def test_it_keeps_its_name_and_its_text() -> None:
    assert sine.__name__ == "sine"
    assert sine.__doc__ == "A sine with twice its slope."
    x = gt.vector("x")
    assert sine(x) is sine(x)
    assert sine(x).inputs[0].op.name == "sine"


@pytest.mark.parametrize("backend", names())
def test_the_gradient_is_the_one_given_and_has_gradients_in_turn(backend: str) -> None:
    x = gt.vector("x")
    y = sine(x)
    first = graphc.grad(y.sum(), x)
    second = graphc.grad(first.sum(), x)
    tangent = graphc.Rop(y, x, gt.ones_like(x))
    found = run([x], [y, first, second, tangent], backend, VALUE)
    wanted = [np.sin(VALUE), 2 * np.cos(VALUE), -2 * np.sin(VALUE), 2 * np.cos(VALUE)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("backend", names())
def test_it_holds_in_steps_of_loops_and_in_branches(backend: str) -> None:
    x = gt.vector("x")
    ends = graphc.scan(
        lambda now, last: sine(last) + now, sequences=x, outputs_info=gt.constant(0.5)
    )
    chosen = graphc.ifelse(x[0] < 0, sine(x), x)
    outputs = [graphc.grad(ends[-1], x), graphc.grad(chosen.sum(), x)]
    found = run([x], outputs, backend, VALUE)
    states = [0.5]
    for now in VALUE:
        states.append(np.sin(states[-1]) + now)
    slopes = [4 * np.cos(states[1]) * np.cos(states[2]), 2 * np.cos(states[2]), 1]
    np.testing.assert_allclose(found[0], slopes)
    np.testing.assert_allclose(found[1], 2 * np.cos(VALUE))


@graphc.custom_pullback(lambda g, y, a, b: (g * b.sum(), 100 * g * a))
def scaled(a: Any, b: Any) -> Any:
    """A product, whose gradient by b is a hundred times too large."""
    return a * b


@pytest.mark.parametrize("backend", names())
def test_batches_have_the_gradient_of_each_element(backend: str) -> None:
    rows, c = gt.tensor("rows", shape=(None, None)), gt.vector("c")
    values, factor = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
    a = graphc.vectorize(scaled, "(n),(n)->(n)")
    by_first = graphc.grad(a(rows, c).sum(), [rows, c])
    by_second = graphc.grad(a(c, rows).sum(), [c, rows])
    found = run([rows, c], [*by_first, *by_second], backend, values, factor)
    wanted = [
        np.full((2, 3), 7.0), 100 * values.sum(0),
        np.full(3, values.sum()), np.broadcast_to(100 * factor, (2, 3)),
    ]  # fmt: skip
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, expected)


def test_an_empty_batch_is_one() -> None:
    rows, c = gt.tensor("rows", shape=(None, None)), gt.vector("c")
    y = graphc.vectorize(scaled, "(n),(n)->(n)")(rows, c)
    found = run([rows, c], [y, *graphc.grad(y.sum(), [rows, c])], "NUMPY", np.zeros((0, 3)), VALUE)
    assert [v.shape for v in found] == [(0, 3), (0, 3), (3,)]
    assert found[2].tolist() == [0.0] * 3


def test_results_may_be_nested_and_integers_have_no_gradient() -> None:
    seen: list[Any] = []

    def back(g: Any, y: Any, x: Any) -> Any:
        seen.append((g, y))
        return gt.where(gt.equal(gt.arange(x.shape[0]), y["place"]), g["value"], 0.0)

    @graphc.custom_pullback(back)
    def top(x: Any) -> Any:
        return {"value": gt.max(x), "place": gt.argmax(x)}

    x = gt.vector("x")
    y = top(x)
    slope = graphc.grad(y["value"] * 3, x)
    assert set(y) == {"value", "place"}
    ((g, results),) = seen
    assert g["place"] is None
    assert results == y
    assert run([x], [slope], "NUMPY", VALUE)[0].tolist() == [0.0, 0.0, 3.0]


def test_of_a_result_without_gradient_the_cotangent_is_zero() -> None:
    @graphc.custom_pullback(lambda g, y, x: g[0] * 2 + g[1] * 3)
    def both(x: Any) -> Any:
        return x, x

    x = gt.vector("x")
    a, b = both(x)
    found = run([x], [graphc.grad(v.sum(), x) for v in (a, b, a + b)], "NUMPY", VALUE)
    assert [y[0] for y in found] == [2.0, 3.0, 5.0]


def test_keywords_go_to_the_function_and_to_its_pullback() -> None:
    @graphc.custom_pullback(lambda g, y, x, power: power * g * x ** (power - 1))
    def raised(x: Any, power: int) -> Any:
        return x**power

    x = gt.vector("x")
    y = raised(x, power=3)
    found = run([x], [y, graphc.grad(y.sum(), x)], "NUMPY", VALUE)
    np.testing.assert_allclose(found, [VALUE**3, 3 * VALUE**2])


def test_the_pullback_may_call_functions_that_call_it() -> None:
    @graphc.custom_pullback(lambda g, y, x: g * cosine(x))
    def own_sine(x: Any) -> Any:
        return gt.sin(x)

    @graphc.custom_pullback(lambda g, y, x: -g * own_sine(x))
    def cosine(x: Any) -> Any:
        return gt.cos(x)

    x = gt.scalar("x")
    y = own_sine(x)
    for _ in range(4):
        y = graphc.grad(y, x)
    np.testing.assert_allclose(run([x], [y], "NUMPY", 0.3), [np.sin(0.3)])


def test_forward_mode_may_have_a_derivative_of_its_own() -> None:
    @graphc.custom_pullback(lambda g, y, x, k: (g, None), lambda t, y, x, k: 5 * t[0])
    def f(x: Any, k: Any) -> Any:
        return x * k

    x = gt.vector("x")
    tangent = graphc.Rop(f(x, 2), x, gt.ones_like(x))
    rows = gt.tensor("rows", shape=(None, None))
    wide = graphc.vectorize(lambda v: f(v, 2), "(n)->(n)")(rows)
    moved = graphc.Rop(wide, rows, gt.ones_like(rows))
    found = run([x, rows], [tangent, moved], "NUMPY", VALUE, np.zeros((2, 3)))
    assert found[0].tolist() == [5.0] * 3
    assert found[1].tolist() == [[5.0] * 3] * 2


def test_a_pullback_that_is_not_linear_gives_no_tangent() -> None:
    @graphc.custom_pullback(lambda g, y, x: g * g)
    def f(x: Any) -> Any:
        return x

    x = gt.scalar("x")
    with pytest.raises(UnsupportedOperationError, match="not linear"):
        graphc.Rop(f(x), x, gt.ones_like(x))


def test_what_it_takes_from_outside_has_no_gradient_through_it() -> None:
    x, w = gt.vector("x"), gt.vector("w")

    @graphc.custom_pullback(lambda g, y, x: g * w)
    def f(x: Any) -> Any:
        return x * w

    assert run([x, w], [graphc.grad(f(x).sum(), x)], "NUMPY", VALUE, 2 * VALUE)[0].tolist() == [
        *(2 * VALUE)
    ]
    with pytest.raises(GradientError, match="taken from outside"):
        graphc.grad(f(x).sum(), w)
    with pytest.raises(GradientError, match="taken from outside"):
        graphc.Rop(f(x), w, gt.ones_like(w))


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ArgumentError, match="not a function"):
        graphc.custom_pullback(1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="not a function"):
        graphc.custom_pullback(lambda g, y, x: g)(1)  # type: ignore[arg-type]
    x = gt.vector("x")
    few = graphc.custom_pullback(lambda g, y, a, b: (g,))(lambda a, b: a * b)
    with pytest.raises(GradientError, match="1 arrays for 2 arguments"):
        graphc.grad(few(x, x).sum(), x)
    deep = graphc.custom_pullback(lambda g, y, a: g.sum())(lambda a: a * 2)
    with pytest.raises(GradientError, match="pullback of"):
        graphc.grad(deep(x).sum(), x)
    torn = graphc.custom_pullback(lambda g, y, a: g[0], lambda t, y, a: t[0])(lambda a: (a, a))
    with pytest.raises(ArgumentError, match="another structure"):
        graphc.Rop(torn(x)[0], x, gt.ones_like(x))
