"""Statistics have NumPy's dtypes, shapes and values, and right derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from tests.grad.differences import check_derivatives
from tests.reference import evaluate
from tests.tensor.agreement import arrays, check_agrees

RNG = np.random.default_rng(5)
X, W = RNG.normal(size=(3, 4, 5)), RNG.uniform(0.5, 2, (3, 4, 5))
MASK = RNG.uniform(size=(3, 4, 5)) > 0.4
NANS = np.where(MASK, X, np.nan)
M, N = X[0], X[1]

EQUAL: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "average": (lambda n, x: n.average(x, (0, 2)), [X]),
    "average of integers": (lambda n, x: n.average(x, 0), [np.arange(6).reshape(2, 3)]),
    "average with weights": (lambda n, x, w: n.average(x, 1, w), [X, W]),
    "average with weights of an axis": (lambda n, x, w: n.average(x, 1, w), [X, W[0, :, 0]]),
    "average kept": (lambda n, x, w: n.average(x, -1, w, keepdims=True), [X, W]),
    "sum of weights": (lambda n, x, w: n.average(x, 1, w, returned=True)[1], [X, W[0, :, 0]]),
    "count": (lambda n, x: n.average(x, 1, returned=True)[1], [X]),
    "ptp": (lambda n, x: n.ptp(x, (0, 1), keepdims=True), [X]),
    "cov": (lambda n, x: n.cov(x), [M]),
    "cov of a vector": (lambda n, x: n.cov(x), [M[0]]),
    "cov of integers": (lambda n, x: n.cov(x), [np.arange(6).reshape(2, 3) ** 2]),
    "cov of two": (lambda n, x, y: n.cov(x, y), [M, N]),
    "cov of columns": (lambda n, x, y: n.cov(x, y, rowvar=False, bias=True), [M, N]),
    "cov with ddof": (lambda n, x: n.cov(x, ddof=2), [M]),
    "cov of float32": (lambda n, x: n.cov(x), [M.astype("float32")]),
    "cov of complex": (lambda n, x, y: n.cov(x + 1j * y), [M, N]),
    "cov counted": (lambda n, x, f: n.cov(x, fweights=f), [M, np.array([1, 2, 1, 3, 1])]),
    "cov weighted": (lambda n, x, a: n.cov(x, aweights=a), [M, W[0, 0]]),
    "cov counted and weighted": (
        lambda n, x, f, a: n.cov(x, fweights=f, aweights=a),
        [M, np.array([1, 2, 1, 3, 1]), W[0, 0]],
    ),
    "corrcoef": (lambda n, x: n.corrcoef(x), [M]),
    "corrcoef of a vector": (lambda n, x: n.corrcoef(x), [M[0]]),
    "corrcoef of complex": (lambda n, x, y: n.corrcoef(x + 1j * y), [M, N]),
    "mean where": (lambda n, x, m: n.mean(x, 1, where=m), [X, MASK]),
    "mean where a row is": (lambda n, x, m: n.mean(x, (0, 2), where=m), [X, MASK[0]]),
    "var where": (lambda n, x, m: n.var(x, (0, 1), where=m, ddof=1), [X, MASK]),
    "var of fewer than ddof": (lambda n, x: n.var(x, 0, ddof=5), [M]),
    "std of nothing": (lambda n, x: n.std(x, ddof=1), [np.zeros(0)]),
    "cov of fewer than ddof": (lambda n, x: n.cov(x, ddof=7), [M]),
    "std where": (lambda n, x, m: n.std(x, where=m, keepdims=True), [X, MASK]),
    "any where": (lambda n, x, m: n.any(x > 1, 1, where=m), [X, MASK]),
    "all where": (lambda n, x, m: n.all(x < 1, 1, where=m), [X, MASK]),
    "sum from": (lambda n, x, m: n.sum(x, 1, initial=2, where=m), [X, MASK]),
    "prod from": (lambda n, x, m: n.prod(x, 1, initial=2, where=m), [X, MASK]),
    "max from": (lambda n, x, m: n.max(x, 1, initial=0.5, where=m), [X, MASK]),
    "min from": (lambda n, x, m: n.min(x, 1, initial=0.5, where=m), [X, MASK]),
    "max of nothing": (lambda n, x: n.max(x, 0, initial=-3), [np.zeros((0, 3), int)]),
    "min of nothing": (lambda n, x: n.min(x, 0, initial=9.0), [np.zeros((0, 3))]),
    "nansum": (lambda n, x: n.nansum(x, 1), [NANS]),
    "nanprod": (lambda n, x: n.nanprod(x, (0, 2)), [NANS]),
    "nanmax": (lambda n, x: n.nanmax(x, 2), [NANS]),
    "nanmin": (lambda n, x: n.nanmin(x, 0, keepdims=True), [NANS]),
    "nanargmax": (lambda n, x: n.nanargmax(x, 1), [NANS]),
    "nanargmin": (lambda n, x: n.nanargmin(x), [NANS]),
    "nanmean": (lambda n, x: n.nanmean(x, 1), [NANS]),
    "nanvar": (lambda n, x: n.nanvar(x, 1, ddof=1), [NANS]),
    "nanstd": (lambda n, x: n.nanstd(x), [NANS]),
    "nanmedian": (lambda n, x: n.nanmedian(x, 1), [NANS]),
    "nanmedian of all": (lambda n, x: n.nanmedian(x, (0, 2), keepdims=True), [NANS]),
    "nanmedian at infinities": (lambda n, x: n.nanmedian(x), [np.array([1, np.inf, np.nan, 2])]),
    "nanquantile": (lambda n, x: n.nanquantile(x, [[0.1, 0.5], [0, 1]], 1), [NANS]),
    "nanquantile of all": (lambda n, x: n.nanquantile(x, 0.3, keepdims=True), [NANS]),
    "nanquantile below": (lambda n, x: n.nanquantile(x, [0.3, 0.9], 2, method="lower"), [NANS]),
    "nanquantile by Weibull": (lambda n, x: n.nanquantile(x, 0.7, 0, method="weibull"), [NANS]),
    "nanpercentile": (lambda n, x: n.nanpercentile(x, 30, 1), [NANS]),
    "nanquantile of NaN": (lambda n, x: n.nanquantile(x, 0.5, 0), [np.full((2, 3), np.nan)]),
    "nanmedian of NaN": (lambda n, x: n.nanmedian(x, 0), [np.full((2, 3), np.nan)]),
    "nan of integers": (lambda n, x: n.nanmax(x, 0), [np.arange(6).reshape(2, 3)]),
    "nothing but NaN": (lambda n, x: n.nanmax(x, 0), [np.full((2, 3), np.nan)]),
    "the mean of NaN": (lambda n, x: n.nanmean(x, 0), [np.full((2, 3), np.nan)]),
    "the variance of NaN": (lambda n, x: n.nanvar(x, 0), [np.full((2, 3), np.nan)]),
    "isclose": (lambda n, x, y: n.isclose(x, y), [X, X + 1e-6 * W]),
    "isclose of integers": (lambda n, x, y: n.isclose(x, y), [np.arange(3), np.arange(3)[::-1]]),
    "allclose": (lambda n, x, y: n.allclose(x, y, atol=1e-5), [X, X + 1e-6 * W]),
    "array_equal": (lambda n, x, y: n.array_equal(x, y), [X, X.copy()]),
    "array_equal not": (lambda n, x, y: n.array_equal(x, y), [X, W]),
    "array_equal of two lengths": (lambda n, x, y: n.array_equal(x, y), [M, M[:, :1]]),
    "array_equal of nothing": (lambda n, x, y: n.array_equal(x, y), [M[:0], M[:0]]),
    "array_equal of two ranks": (lambda n, x, y: n.array_equal(x, y), [M, M[0]]),
    "array_equal with NaN": (lambda n, x, y: n.array_equal(x, y, equal_nan=True), [NANS, NANS]),
    "isposinf": (lambda n, x: n.isposinf(x), [np.array([1, np.inf, -np.inf, np.nan])]),
    "isneginf": (lambda n, x: n.isneginf(x), [np.array([1, np.inf, -np.inf, np.nan])]),
    "isposinf of integers": (lambda n, x: n.isposinf(x), [np.arange(3)]),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_statistic_is_numpys(name: str) -> None:
    f, values = EQUAL[name]
    check_agrees(lambda *xs: f(gt, *xs), lambda *xs: f(np, *xs), *values, tight=False)


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_nan_that_does_not_count_is_in_no_derivative(name: str) -> None:
    f: Callable[..., Any] = getattr(gt, name)
    x = gt.vector("x")
    slope = graphc.grad(f(x), x)
    second = graphc.grad(slope[0], x)
    at, others = np.array([1.0, np.nan, 4.0, 5.0]), [0, 2, 3]
    found = graphc.function([x], [slope, second], "NUMPY")
    for with_nan, without in zip(found(at), found(at[others]), strict=True):
        np.testing.assert_allclose(with_nan[others], without)
        assert with_nan[1] == 0


AWKWARD = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1.0, 1.0 + 1e-9, -2.5, 1e300])
FLOATS = hnp.arrays(np.float64, 6, elements=AWKWARD)


@settings(max_examples=80)
@given(FLOATS, FLOATS, st.booleans())
def test_infinities_are_close_to_themselves_alone(a: Any, b: Any, equal_nan: bool) -> None:
    check_agrees(
        lambda a, b: gt.isclose(a, b, equal_nan=equal_nan),
        lambda a, b: np.isclose(a, b, equal_nan=equal_nan),
        a, b,
    )  # fmt: skip


@settings(max_examples=40)
@given(FLOATS, st.sampled_from(["float16", "float32", "float64", "complex64"]))
def test_numbers_stand_in_place_of_infinities_and_nan(x: Any, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    check_agrees(gt.nan_to_num, np.nan_to_num, x)
    check_agrees(
        lambda x: gt.nan_to_num(x, 1, 2, -3),
        lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-3),
        x,
    )


def test_half_width_floats_are_averaged_in_float32() -> None:
    x = gt.vector(dtype="float16")
    mean, var, median = evaluate(
        [x.mean(), x.var(), gt.median(x)], {x: np.tile([300.0, 500.0], 400)}
    )
    assert (mean, var, median) == (400, 10000, 400)
    assert {y.dtype for y in (mean, var, median)} == {np.dtype("float16")}


def test_shapes_that_types_tell_apart_are_not_equal() -> None:
    assert not gt.array_equal(gt.vector(), gt.matrix()).eval(mode="NUMPY")
    assert not gt.array_equal(np.zeros(2), np.zeros(3)).eval(mode="NUMPY")


# Statistics of order.

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip


@settings(max_examples=120)
@given(data=st.data(), method=st.sampled_from(METHODS))
def test_quantiles_are_numpys(data: Any, method: str) -> None:
    value = data.draw(
        arrays(["int8", "int64", "float32", "float64"], hnp.array_shapes(max_dims=3, max_side=5))
    )
    axis = data.draw(
        st.none() | st.lists(st.integers(0, value.ndim - 1), min_size=1, unique=True).map(tuple)
    )
    shape = data.draw(st.sampled_from([(), (3,), (2, 1)]))
    # Quarters and thirds: many fall on an element.
    q = data.draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0, 0.25, 1 / 3, 0.5, 1])))
    keepdims = data.draw(st.booleans())
    for f, scale in (("quantile", 1), ("percentile", 100)):
        check_agrees(
            lambda x, f=f, s=scale: getattr(gt, f)(x, s * q, axis, method, keepdims),
            lambda x, f=f, s=scale: getattr(np, f)(
                x, s * q, axis=axis, method=method, keepdims=keepdims
            ),
            value,
        )


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_medians_are_numpys(data: Any) -> None:
    value = data.draw(
        arrays(["int8", "float32", "float64"], hnp.array_shapes(max_dims=3, min_side=0))
    )
    axis = data.draw(st.none() | st.integers(-value.ndim, value.ndim - 1))
    keepdims = data.draw(st.booleans())
    check_agrees(
        lambda x: gt.median(x, axis, keepdims), lambda x: np.median(x, axis, keepdims=keepdims),
        value,
    )  # fmt: skip


def test_a_slice_with_nan_has_no_quantile() -> None:
    for f in (gt.median, lambda x, a: gt.quantile(x, [0.0, 0.5], a)):
        (y,) = evaluate([f(gt.as_tensor([[1.0, np.nan], [1.0, 2.0]]), 1)])
        np.testing.assert_array_equal(np.isnan(y), np.broadcast_to([True, False], y.shape))


def test_quantiles_that_fall_on_infinities_are_infinite() -> None:
    x = gt.as_tensor([-np.inf, 1.0, np.inf, np.inf])
    (y,) = evaluate([gt.quantile(x, [0, 0.25, 1 / 3, 0.9, 1])])
    assert y.tolist() == [-np.inf, -np.inf, 1, np.inf, np.inf]


def test_equal_elements_share_the_derivative_of_what_lies_between_them() -> None:
    x = gt.vector("x")
    for q, expected in ((0.5, [0.5, 0.5]), ([0.25, 0.75], [1.0, 1.0])):
        by_x = graphc.grad(gt.sum(gt.quantile(x, q)), x)
        (slope,) = evaluate([by_x], {x: [3.0, 3.0]})
        assert slope.tolist() == expected


EDGES = np.array([-1.0, -0.25, 0.5, 2.0])
COUNTED: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "bincount": (lambda n, x: n.bincount(x), [np.array([3, 1, 3, 0])]),
    "bincount of nothing": (lambda n, x: n.bincount(x), [np.zeros(0, int)]),
    "bincount of bool": (lambda n, x: n.bincount(x.astype("int8")), [MASK[0, 0]]),
    "bincount with weights": (
        lambda n, x, w: n.bincount(x, w, 7), [np.array([3, 1, 3, 0, 1]), W[0, 0]],
    ),
    "digitize": (lambda n, x: n.digitize(x, EDGES), [np.append(EDGES, [-9, 0, 9])]),
    "digitize to the right": (lambda n, x: n.digitize(x, EDGES, True), [np.append(EDGES, 9)]),
    "digitize descending": (lambda n, x, b: n.digitize(x, b), [X, EDGES[::-1].copy()]),
    "digitize in one": (lambda n, x, b: n.digitize(x, b), [X, EDGES[:1]]),
    "histogram": (lambda n, x: n.histogram(x)[0], [X]),
    "edges": (lambda n, x: n.histogram(x, 7)[1], [X]),
    "histogram of integers": (lambda n, x: n.histogram(x, 3)[0], [np.arange(9)]),
    "histogram of one value": (lambda n, x: n.histogram(x, 2)[0], [np.ones(3)]),
    "histogram of nothing": (lambda n, x: n.histogram(x)[1], [np.zeros(0)]),
    "histogram with edges": (lambda n, x: n.histogram(x, EDGES)[0], [X]),
    "histogram in a range": (lambda n, x: n.histogram(x, 4, (-1, 1))[0], [X]),
    "histogram with weights": (lambda n, x, w: n.histogram(x, 4, weights=w)[0], [X, W]),
    "histogram of densities": (lambda n, x: n.histogram(x, EDGES, density=True)[0], [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_numpys(name: str) -> None:
    f, values = COUNTED[name]
    check_agrees(lambda *xs: f(gt, *xs), lambda *xs: f(np, *xs), *values, tight=False)


# Interpolation.

PLACES, HEIGHTS = np.array([-2.0, -1.0, 0.5, 3.0]), np.array([1.0, 4.0, -2.0, 5.0])
AT = np.array([[-9.0, -2.0, -1.7], [0.5, 2.9, 12.0]])


@pytest.mark.parametrize("ends", [{}, {"left": -7.0, "right": 7.0}, {"period": 4.5}], ids=str)
def test_interpolation_is_numpys(ends: dict[str, float]) -> None:
    check_agrees(
        lambda x, xp, fp: gt.interp(x, xp, fp, **ends),
        lambda x, xp, fp: np.interp(x, xp, fp, **ends),
        AT, PLACES, HEIGHTS,
    )  # fmt: skip


BETWEEN = {
    "linear": [-20.0, 1.0, 1.9, -2.0, 4.72, 30.2],
    "nearest": [1.0, 1.0, 1.0, -2.0, 5.0, 5.0],
    "first": [1.0, 1.0, 1.0, 4.0, -2.0, 5.0],
    "last": [1.0, 1.0, 4.0, -2.0, 5.0, 5.0],
    "mean": [2.5, 2.5, 2.5, 1.0, 1.5, 1.5],
}


@pytest.mark.parametrize("method", BETWEEN)
def test_interpolate1d_has_pytensors_values_for_points_in_any_order(method: str, mode: str) -> None:
    order = [2, 0, 3, 1]
    f = gt.interpolate1d(PLACES[order], HEIGHTS[order], method)
    np.testing.assert_allclose(f(AT.ravel()).eval(mode=mode), BETWEEN[method], rtol=1e-12)
    theirs = pt.interpolate1d(PLACES[order], HEIGHTS[order], method)
    np.testing.assert_allclose(theirs(pt.as_tensor(AT.ravel())).eval(), BETWEEN[method], rtol=1e-12)
    g = gt.interpolate1d(PLACES, HEIGHTS, method, right_pad=0.0, extrapolate=False)
    ends = g(AT.ravel()).eval(mode=mode)[[0, -1]]
    np.testing.assert_allclose(ends, [1.0, 0.0])


# Derivatives.

KEPT = MASK[0] | (np.arange(5) == 2)

DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "average": (lambda x, w: gt.average(x, 0, w), [M, W[0]]),
    "var where": (lambda x: gt.var(x, 1, where=KEPT), [M]),
    "cov": (gt.cov, [M[:2]]),
    "cov weighted": (lambda x, a: gt.cov(x, aweights=a), [M[:2], W[0, 0]]),
    "corrcoef": (lambda x: gt.corrcoef(x)[0, 1], [M[:2]]),
    "ptp": (lambda x: gt.ptp(x, 1) ** 2, [M]),
    "median": (lambda x: gt.median(x, 0) ** 2, [M]),
    "quantile": (lambda x, q: gt.quantile(x, q, 1) ** 2, [M, np.array([0.3, 0.6])]),
    "hazen": (lambda x: gt.quantile(x, 0.4, (0, 1), "hazen") ** 2, [M]),
    "max from": (lambda x: gt.max(x, 1, initial=0.5) ** 2, [M]),
    "sum where": (lambda x: gt.sum(x, 1, where=MASK[0]) ** 2, [M]),
    "nanmean": (lambda x: gt.nanmean(gt.where(KEPT, x, np.nan), 1) ** 2, [M]),
    "bincount": (lambda w: gt.bincount([0, 2, 0, 1, 2], w) ** 2, [M[0]]),
    "histogram": (lambda w: gt.histogram(M, EDGES, weights=w)[0] ** 2, [W[0]]),
    "interp": (lambda x, y: gt.interp(x, PLACES, y) ** 2, [M[:2], HEIGHTS]),
    "nan_to_num": (lambda x: gt.nan_to_num(gt.where(KEPT, x, np.nan)) ** 2, [M]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives_are_what_differences_give(name: str) -> None:
    f, values = DIFFERENTIABLE[name]
    check_derivatives(f, *values)


T = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "weights that do not fit": (lambda: gt.average(T, weights=[1.0]), ShapeError, "not fit 2 axes"),
    "a covariance of three axes": (lambda: gt.cov(gt.tensor3()), ShapeError, "a matrix"),
    "a method": (lambda: gt.quantile(T, 0.5, method="odd"), ArgumentError, "method='odd'"),
    "a part outside": (lambda: gt.quantile(T, [0.5, 1.5]), ArgumentError, "is outside"),
    "a percentage outside": (lambda: gt.percentile(T, 101), ArgumentError, "is outside"),
    "a quantile of nothing": (
        lambda: gt.quantile(gt.tensor(shape=(0, 2)), 0.5, 0), ShapeError, "a slice is empty",
    ),
    "a mask without a start": (lambda: gt.max(T, where=T > 0), ArgumentError, "initial="),
    "counts of a matrix": (lambda: gt.bincount(gt.lmatrix()), ShapeError, "a vector"),
    "counts of floats": (lambda: gt.bincount(gt.vector()), TypeError, "expected integers"),
    "half a bin": (lambda: gt.histogram(T, 2.5), ArgumentError, "bins="),
    "an interpolation": (lambda: gt.interpolate1d([0, 1], [0, 1], "cubic"), ArgumentError, "cubic"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_statistic_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_statistics.py:" in str(caught.value)
