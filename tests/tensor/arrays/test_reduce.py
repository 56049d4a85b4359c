"""Reductions have NumPy's dtypes, shapes and values, also of empty and infinite slices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

REDUCTIONS: dict[str, list[str]] = {
    "sum": DTYPES,
    "prod": DTYPES,
    "max": [d for d in DTYPES if not d.startswith("c")],
    "min": [d for d in DTYPES if not d.startswith("c")],
    "all": DTYPES,
    "any": DTYPES,
    "mean": [d for d in DTYPES if d != "float16"],
    "var": [d for d in DTYPES if d != "float16"],
    "std": [d for d in DTYPES if d != "float16"],
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_axes_of_any_array_reduce_as_in_numpy(name: str, data: Any) -> None:
    value = data.draw(arrays(REDUCTIONS[name]))
    ndim = value.ndim
    axis = data.draw(
        st.none() | st.lists(st.integers(-ndim, ndim - 1), unique_by=lambda a: a % ndim).map(tuple)
        if ndim
        else st.none()
    )
    keepdims = data.draw(st.booleans())
    check_agrees(
        lambda x: getattr(gt, name)(x, axis=axis, keepdims=keepdims),
        lambda x: getattr(np, name)(x, axis=axis, keepdims=keepdims),
        value,
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@settings(max_examples=60)
@given(data=st.data())
def test_the_place_of_an_extreme_is_numpys(name: str, data: Any) -> None:
    value = data.draw(arrays(REDUCTIONS["max"]))
    axis = data.draw(
        st.none() | st.integers(-value.ndim, value.ndim - 1) if value.ndim else st.none()
    )
    keepdims = data.draw(st.booleans())
    check_agrees(
        lambda x: getattr(gt, name)(x, axis=axis, keepdims=keepdims),
        lambda x: getattr(np, name)(x, axis=axis, keepdims=keepdims),
        value,
    )


def test_half_width_floats_add_up_in_float32() -> None:
    x = gt.vector(dtype="float16")
    (total, mean) = evaluate([x.sum(), x.mean()], {x: np.ones(5000)})
    assert (total, mean) == (5000, 1)
    assert total.dtype == mean.dtype == np.float16


def test_a_dtype_says_what_to_add_up_in() -> None:
    x = gt.vector(dtype="int8")
    outputs = [x.sum(dtype="int8"), x.sum(), x.prod(dtype="float32"), x.mean(dtype="float32")]
    found = evaluate(outputs, {x: [100, 100]})
    assert [y.dtype.name for y in found] == ["int8", "int64", "float32", "float32"]
    assert [float(y) for y in found] == [-56, 200, 10000, 100]


def test_nan_is_an_extreme() -> None:
    x = gt.vector()
    outputs = [x.max(), x.min(), x.argmax(), x.argmin()]
    found = evaluate(outputs, {x: [1, np.nan, 3]})
    assert [str(y) for y in found] == ["nan", "nan", "1", "1"]


@pytest.mark.parametrize("ddof", [0, 1])
def test_a_variance_takes_degrees_of_freedom_off(ddof: int) -> None:
    values = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 9.0]])
    check_agrees(lambda x: gt.var(x, 1, ddof=ddof), lambda x: np.var(x, 1, ddof=ddof), values)
    check_agrees(lambda x: x.std(ddof=ddof), lambda x: np.std(x, ddof=ddof), values + 1j * values)


EMPTY: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (gt.sum, 0),
    "prod": (gt.prod, 1),
    "all": (gt.all, True),
    "any": (gt.any, False),
    "mean": (gt.mean, math.nan),
    "norm": (gt.norm, 0),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_slice_has_the_value_that_changes_nothing(name: str) -> None:
    f, expected = EMPTY[name]
    for x in (gt.vector(), gt.tensor(shape=(0,))):
        (y,) = evaluate([f(x)], {x: np.zeros(0)})
        np.testing.assert_equal(y[()], expected)


WITHOUT_EMPTY = [gt.max, gt.min, gt.argmax, gt.argmin]


@pytest.mark.parametrize("f", WITHOUT_EMPTY, ids=lambda f: f.__name__)
def test_an_empty_slice_has_no_extreme(f: Any) -> None:
    with pytest.raises(ShapeError, match="a slice is empty"):
        f(gt.tensor(shape=(0, 3)), axis=0)
    x = gt.matrix()
    with pytest.raises(ShapeError, match="a slice is empty"):
        evaluate([f(x, axis=0)], {x: np.zeros((0, 3))})
    (y,) = evaluate([f(x, axis=0)], {x: np.zeros((2, 0))})
    assert y.shape == (0,)


FLOATS = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=4),
    elements=st.floats(-800, 800) | st.sampled_from([-np.inf]),
)
NAMED = {
    "logsumexp": special.logsumexp,
    "softmax": special.softmax,
    "log_softmax": special.log_softmax,
}


@pytest.mark.parametrize("name", NAMED)
@settings(max_examples=60)
@given(value=FLOATS, data=st.data())
def test_named_functions_of_a_slice_are_scipys(name: str, value: np.ndarray, data: Any) -> None:
    axis = data.draw(st.none() | st.integers(-value.ndim, value.ndim - 1))
    with np.errstate(all="ignore"):
        check_agrees(
            lambda x: getattr(gt, name)(x, axis=axis), lambda x: NAMED[name](x, axis=axis), value
        )


INFINITE: dict[str, tuple[Callable[[Any], Any], list[float], Any]] = {
    "logsumexp of -inf": (gt.logsumexp, [-np.inf, -np.inf], -np.inf),
    "logsumexp of inf": (gt.logsumexp, [np.inf, 1.0], np.inf),
    "logsumexp of both": (gt.logsumexp, [np.inf, -np.inf], np.inf),
    "logsumexp of NaN": (gt.logsumexp, [np.nan, np.inf], np.nan),
    "logsumexp of large": (gt.logsumexp, [1000.0, 1000.0], 1000 + np.log(2)),
    "softmax with -inf": (gt.softmax, [-np.inf, 0.0], [0, 1]),
    "softmax of large": (gt.softmax, [1e308, -1e308], [1, 0]),
    "log_softmax of small": (gt.log_softmax, [0.0, -1000.0], [0, -1000]),
    "log_softmax with -inf": (gt.log_softmax, [0.0, -np.inf], [0, -np.inf]),
}


@pytest.mark.parametrize("what", INFINITE)
def test_named_functions_at_infinities(what: str) -> None:
    f, values, expected = INFINITE[what]
    x = gt.vector()
    (y,) = evaluate([f(x)], {x: values})
    np.testing.assert_allclose(y, expected, rtol=1e-15)


def test_named_functions_of_integers_are_floating() -> None:
    assert gt.softmax(gt.lvector()).dtype == "float64"
    assert gt.logsumexp(gt.fmatrix(), 0, keepdims=True).type.shape == (1, None)


def test_softmax_of_an_empty_array_is_empty() -> None:
    x = gt.matrix()
    for f in (gt.softmax, gt.log_softmax):
        (y,) = evaluate([f(x, axis=1)], {x: np.zeros((0, 3))})
        assert y.shape == (0, 3)


X = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such axis": (lambda: X.sum(2), ShapeError, "no axis 2 in an array of 2 axes"),
    "an axis twice": (lambda: X.sum((0, -2)), ShapeError, "is repeated"),
    "a float axis": (lambda: X.max(1.0), DTypeError, "expected Python integers"),
    "a bool axis": (lambda: X.max(True), DTypeError, "expected Python integers"),
    "an axis of a scalar": (lambda: gt.sum(1.0, axis=0), ShapeError, "A 0-d array has no axes"),
    "extreme of complex": (lambda: gt.zvector().max(), DTypeError, "are not ordered"),
    "place of complex": (lambda: gt.zvector().argmin(), DTypeError, "are not ordered"),
    "softmax of complex": (lambda: gt.softmax(gt.zvector()), DTypeError, "real floating"),
    "logsumexp of no axis": (lambda: gt.logsumexp(X, 5), ShapeError, "no axis 5"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_reduced_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_reduce.py:" in str(caught.value)


@pytest.mark.parametrize("axis", [None, 1, (2, 0), (0, 1)], ids=str)
def test_the_largest_and_its_place_come_together(axis: Any) -> None:
    value = np.random.default_rng(4).permutation(24).astype(float).reshape(2, 3, 4)
    axes = range(3) if axis is None else np.atleast_1d(axis).tolist()
    rest = [i for i in range(3) if i not in axes]
    behind = value.transpose(*rest, *sorted(axes)).reshape(*(value.shape[i] for i in rest), -1)
    check_agrees(lambda x: gt.max_and_argmax(x, axis)[0], lambda x: x.max(axis), value)
    check_agrees(lambda x: gt.max_and_argmax(x, axis)[1], lambda x: behind.argmax(-1), value)
    check_agrees(lambda x: gt.argmax(x, axis), lambda x: behind.argmax(-1), value)
    check_agrees(lambda x: gt.argmin(x, axis), lambda x: behind.argmin(-1), value)
    kept = gt.max_and_argmax(gt.tensor(shape=(2, 3, 4)), axis, keepdims=True)
    assert [y.ndim for y in kept] == [3, 3]
