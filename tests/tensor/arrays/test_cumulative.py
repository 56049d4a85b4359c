"""Running sums and products have NumPy's dtypes, shapes and values, and right derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from tests.grad.differences import check_derivatives, check_gradient
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees


def _along(of_two: np.ufunc, x: np.ndarray, axis: int | None) -> np.ndarray:
    return of_two.accumulate(x.ravel()) if axis is None else of_two.accumulate(x, axis)


REAL = [d for d in DTYPES if not d.startswith("c")]
ACCUMULATED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "cumsum": (np.cumsum, DTYPES),
    "cumprod": (np.cumprod, DTYPES),
    "cummax": (lambda x, axis: _along(np.maximum, x, axis), REAL),
    "cummin": (lambda x, axis: _along(np.minimum, x, axis), REAL),
    "nancumsum": (np.nancumsum, REAL),
    "nancumprod": (np.nancumprod, REAL),
}  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", ACCUMULATED)
@settings(max_examples=50)
@given(data=st.data())
def test_any_axis_accumulates_as_in_numpy(name: str, data: Any) -> None:
    theirs, dtypes = ACCUMULATED[name]
    value = data.draw(arrays(dtypes, SHAPES))
    axis = data.draw(st.none() | st.integers(-value.ndim, value.ndim - 1))
    check_agrees(lambda x: getattr(gt, name)(x, axis=axis), lambda x: theirs(x, axis=axis), value)


LOGARITHMS = hnp.arrays(
    np.float64, hnp.array_shapes(max_dims=2, min_side=0, max_side=5),
    elements=st.sampled_from([-np.inf, -1000.0, -1.0, 0.0, 0.5, 999.0, 1000.0, np.inf, np.nan]),
)  # fmt: skip


@settings(max_examples=60)
@given(value=LOGARITHMS)
def test_logarithms_are_added_up_without_overflow(value: np.ndarray) -> None:
    check_agrees(gt.logcumsumexp, lambda x: _along(np.logaddexp, x, None), value)
    check_agrees(lambda x: gt.logcumsumexp(x, -1), lambda x: _along(np.logaddexp, x, -1), value)


def test_sums_of_logarithms_have_derivatives() -> None:
    check_derivatives(gt.logcumsumexp, np.array([0.5, -1.0, 2.0, 1.5]))
    check_derivatives(lambda x: gt.logcumsumexp(x, 0), np.array([[0.5, 3.0], [-1.0, 2.0]]))
    x = gt.vector("x")
    slope = graphc.grad(gt.logcumsumexp(x)[-1], x)
    (found,) = evaluate([slope], {x: np.array([-np.inf, 1000.0, -1000.0, 1000.0])})
    np.testing.assert_allclose(found, [0, 0.5, 0, 0.5], atol=1e-12)


def test_they_are_methods() -> None:
    x = gt.matrix("x")
    assert x.cumsum(1) is gt.cumsum(x, 1)
    assert x.cumprod() is gt.cumprod(x)


def test_half_width_floats_accumulate_in_float32() -> None:
    x = gt.vector(dtype="float16")
    (y,) = evaluate([x.cumsum()], {x: np.ones(5000)})
    assert y[-1] == 5000


def test_a_dtype_says_what_to_accumulate_in() -> None:
    x = gt.vector(dtype="int8")
    narrow, wide, floating = evaluate(
        [x.cumsum(dtype="int8"), x.cumsum(), x.cumprod(dtype="float32")], {x: [100, 100]}
    )
    assert narrow.tolist() == [100, -56]
    assert (wide.dtype, floating.dtype) == (np.int64, np.float32)
    assert floating.tolist() == [100, 10000]


ZEROS = {
    "none": [1.5, -2.0, 0.5, 3.0],
    "one": [1.5, 0.0, 0.5, 3.0],
    "two": [1.5, 0.0, -0.5, 0.0],
    "at both ends": [0.0, 1.5, 2.5, 0.0],
    "in a row": [2.0, 0.0, 0.0, 3.0],
    "nothing else": [0.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("which", ZEROS)
def test_three_derivatives_of_cumprod_are_right_where_elements_are_zero(which: str) -> None:
    value = np.array(ZEROS[which])
    check_derivatives(gt.cumprod, value)
    check_derivatives(gt.cumprod, value * (1 - 0.5j))
    x = gt.vector("x")
    weights = [np.array(w) for w in ([1.0, 2, 3, 5], [1.5, 1, -2, 4], [0.5, 3, 1, -1])]
    cost = (gt.cumprod(x) * weights[0]).sum()
    for weight in weights[1:]:
        cost = (graphc.grad(cost, x) * weight).sum()
    check_gradient(cost, [x], {x: value})


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_derivatives_along_an_axis_are_what_differences_give(name: str, axis: int) -> None:
    check_derivatives(
        lambda x: getattr(gt, name)(x, axis), np.random.default_rng(3).normal(size=(3, 4))
    )


def test_an_extreme_that_comes_twice_is_the_first_one() -> None:
    x = gt.vector("x")
    slope = graphc.grad((gt.cummax(x) * [1.0, 2, 4, 8]).sum(), x)
    (found,) = evaluate([slope], {x: [1.0, 3, 3, 2]})
    assert found.tolist() == [1, 14, 0, 0]


def test_the_gradient_of_nothing_is_nothing() -> None:
    x = gt.matrix("x")
    for f in (gt.cumsum, gt.cumprod, gt.cummax):
        (found,) = evaluate([graphc.grad(f(x, 1).sum(), x)], {x: np.zeros((3, 0))})
        assert found.shape == (3, 0)


X = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such axis": (lambda: X.cumsum(2), ShapeError, "no axis 2 in an array of 2 axes"),
    "an axis of a scalar": (lambda: gt.cumprod(1.0, 0), ShapeError, "A 0-d array has no axes"),
    "extreme of complex": (lambda: gt.cummax(gt.zvector()), DTypeError, "are not ordered"),
    "which axis": (lambda: gt.cumulative_sum(X), ArgumentError, "requires axis="),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_accumulated_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_cumulative.py:" in str(caught.value)
