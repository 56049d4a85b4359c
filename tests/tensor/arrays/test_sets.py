"""Distinct elements and sets of two arrays are NumPy's; of equals the first has the slope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DynamicShapeError
from tests.grad.differences import check_derivatives
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
FLOATS = hnp.arrays(
    np.float64, hnp.array_shapes(max_dims=1, min_side=0, max_side=9),
    elements=st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0, 2.5]),
)  # fmt: skip


@settings(max_examples=60)
@given(data=st.data())
def test_distinct_elements_and_slices_are_numpys(data: Any) -> None:
    value = data.draw(arrays(DTYPES, SHAPES))
    axis = data.draw(st.none() | st.integers(-value.ndim, value.ndim - 1))
    if axis is not None and 0 in value.shape:
        return
    x = gt.tensor(dtype=value.dtype, shape=(None,) * value.ndim)
    found = evaluate(gt.unique(x, True, True, True, axis), {x: value})
    for ours, theirs in zip(found, np.unique(value, True, True, True, axis), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=60)
@given(value=FLOATS, more=st.integers(0, 3))
def test_so_many_distinct_elements_are_numpys_and_then_the_fill_value(
    value: np.ndarray, more: int
) -> None:
    wanted = np.unique(value, True, True, True)
    n = len(wanted[0])
    x = gt.vector("x")
    found = evaluate(gt.unique(x, True, True, True, size=n + more, fill_value=7), {x: value})
    np.testing.assert_array_equal(found[0], np.append(wanted[0], [7.0] * more))
    np.testing.assert_array_equal(found[1][:n], wanted[1])
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_array_equal(found[3], np.append(wanted[3], [0] * more))


@settings(max_examples=60)
@given(a=FLOATS, b=FLOATS)
def test_membership_is_numpys(a: np.ndarray, b: np.ndarray) -> None:
    check_agrees(gt.isin, np.isin, a, b)
    check_agrees(
        lambda a, b: gt.isin(a, b, invert=True), lambda a, b: np.isin(a, b, invert=True), a, b
    )


SETS: dict[str, Callable[..., Any]] = {
    "union1d": lambda n, a, b: n.union1d(a, b),
    "setdiff1d": lambda n, a, b: n.setdiff1d(a, b),
    "setxor1d": lambda n, a, b: n.setxor1d(a, b),
    "intersect1d": lambda n, a, b: n.intersect1d(a, b),
    "places in the first": lambda n, a, b: n.intersect1d(a, b, return_indices=True)[1],
    "places in the second": lambda n, a, b: n.intersect1d(a, b, return_indices=True)[2],
}


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=20)
@given(data=st.data())
def test_sets_of_two_arrays_are_numpys(name: str, data: Any) -> None:
    a, b = (data.draw(FLOATS | arrays(["int8", "int64", "float32"], SHAPES)) for _ in range(2))
    check_agrees(
        lambda *xs: SETS[name](gt, *xs), lambda *xs: SETS[name](np, *xs), a, b, tight=False
    )


def test_elements_known_to_be_distinct_are_taken_as_they_are() -> None:
    a, b = np.array([5, 1, 4]), np.array([4, 2, 5, 7])
    check_agrees(
        lambda a, b: gt.setdiff1d(a, b, True),
        lambda a, b: np.setdiff1d(a, b, True),
        a,
        b,
        tight=False,
    )
    check_agrees(
        lambda a, b: gt.setxor1d(a, b, True),
        lambda a, b: np.setxor1d(a, b, True),
        a,
        b,
        tight=False,
    )
    for i in range(3):
        check_agrees(
            lambda a, b, i=i: gt.intersect1d(a, b, True, True)[i],
            lambda a, b, i=i: np.intersect1d(a, b, True, True)[i],
            a, b, tight=False,
        )  # fmt: skip


A = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, 1.5]])
DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "unique": lambda x: gt.unique(x) ** 2,
    "unique slices": lambda x: gt.unique(x, axis=1) ** 2,
    "unique of a size": lambda x: gt.unique(x, size=8, fill_value=1) ** 2,
    "union": lambda x: gt.union1d(x, [7.0, 8.0]) ** 2,
    "difference": lambda x: gt.setdiff1d(x, [0.7, 4.5]) ** 2,
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_what_differences_give(name: str) -> None:
    check_derivatives(DIFFERENTIABLE[name], A)


def test_an_element_that_comes_twice_is_the_first_one() -> None:
    x = gt.vector("x")
    for y in (gt.unique(x), gt.unique(x, size=2)):
        slope = graphc.grad((y * [10.0, 20]).sum(), x)
        assert evaluate([slope], {x: [3.0, 1, 3, 1]})[0].tolist() == [20, 10, 0, 0]


def test_how_many_are_distinct_is_known_to_numpy_constants_and_integers() -> None:
    x, i = gt.vector("x"), gt.lvector("i")
    with pytest.raises(DynamicShapeError, match="size=") as caught:
        graphc.function([x], gt.unique(x), "JAX")
    assert "test_sets.py:" in str(caught.value)
    f = graphc.function([i], gt.unique(i, return_counts=True), "JAX", returns="numpy")
    assert [y.tolist() for y in f([5, 2, 5])] == [[2, 5], [1, 2]]
    assert gt.unique([3, 1, 3]).eval(mode="JAX").tolist() == [1, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"axis": 0, "size": 2}, "axis=None"), ({"fill_value": 2}, "requires size=")],
)
def test_what_does_not_go_together_is_refused_with_the_users_line(
    options: Any, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        gt.unique(gt.matrix(), **options)
    assert "test_sets.py:" in str(caught.value)
