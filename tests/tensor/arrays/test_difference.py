"""Differences of neighbours are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from tests.tensor.agreement import DTYPES, arrays, check_agrees


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(4,), (2, 3), (0, 2), (1,)])), st.integers(0, 3), st.data())
def test_any_array_has_numpys_differences(value: np.ndarray, n: int, data: Any) -> None:
    axis = data.draw(st.integers(-value.ndim, value.ndim - 1))
    check_agrees(lambda x: gt.diff(x, n, axis), lambda x: np.diff(x, n, axis), value)


def test_values_may_stand_in_front_and_behind() -> None:
    value = np.arange(6.0).reshape(2, 3) ** 2
    check_agrees(
        lambda x: gt.diff(x, prepend=1, append=x[:, :2]),
        lambda x: np.diff(x, prepend=1, append=x[:, :2]),
        value,
    )


@settings(max_examples=40)
@given(arrays(["int8", "int64", "float32", "complex64"]))
def test_differences_of_all_elements_are_numpys(value: np.ndarray) -> None:
    end, begin = np.array([3, 4], value.dtype), np.array(7, value.dtype)
    check_agrees(gt.ediff1d, np.ediff1d, value)
    check_agrees(lambda x: gt.ediff1d(x, [3, 4], 7), lambda x: np.ediff1d(x, end, begin), value)


def test_differences_of_no_number_or_axis_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"n=-1 is negative(.|\n)*test_difference.py"):
        gt.diff(gt.vector(), -1)
    with pytest.raises(ShapeError, match="no axis -1"):
        gt.diff(gt.scalar())


@settings(max_examples=60)
@given(data=st.data(), edge_order=st.sampled_from([1, 2]), kind=st.integers(0, 3))
def test_slopes_are_numpys(data: Any, edge_order: int, kind: int) -> None:
    shapes = st.sampled_from([(3,), (5,), (3, 4), (2 + edge_order, 3, 3)])
    value = data.draw(arrays(["int16", "float32", "float64", "complex128"], shapes))
    coordinates = [np.cumsum(np.arange(1.0, n + 1)) for n in value.shape]
    each = [coordinates[0], *[0.5 * (i + 1) for i in range(1, value.ndim)]]
    distances: list[Any] = [[], [0.25], each, [coordinates[-1]]][kind]
    axis = -1 if kind == 3 else None

    def theirs(x: np.ndarray, i: int) -> Any:
        found = np.gradient(x, *distances, axis=axis, edge_order=edge_order)
        return (found[i] if isinstance(found, tuple) else found).astype(dtype)

    dtype = value.dtype if value.dtype.kind in "fc" else np.dtype("float64")
    for i in range(value.ndim if axis is None else 1):

        def ours(x: Any, i: int = i) -> Any:
            found = gt.gradient(x, *distances, axis=axis, edge_order=edge_order)
            return found[i] if isinstance(found, tuple) else found

        check_agrees(ours, lambda x, i=i: theirs(x, i), value)


def test_slopes_of_too_few_elements_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"axis 0 has only 1 elements(.|\n)*test_difference.py"):
        gt.gradient(gt.tensor(shape=(1,)))
    with pytest.raises(ArgumentError, match="2 distances for 1 axes"):
        gt.gradient(gt.vector(), 1.0, 2.0)
    with pytest.raises(ArgumentError, match="edge_order=3"):
        gt.gradient(gt.vector(), edge_order=3)
