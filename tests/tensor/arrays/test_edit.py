"""Slices are put in and taken out as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc.tensor as gt
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

SHAPES = st.sampled_from([(4,), (2, 3), (3, 1, 2)])


def lengths_known(f: Callable[..., Any], value: np.ndarray) -> Callable[..., Any]:
    return lambda x: f(gt.specify_shape(x, value.shape))


@settings(max_examples=100)
@given(arrays(DTYPES, SHAPES), st.data())
def test_any_slices_are_deleted_as_in_numpy(value: np.ndarray, data: Any) -> None:
    one = st.integers(-value.ndim, value.ndim - 1)
    axis = data.draw(st.one_of(st.none(), one))
    n = value.size if axis is None else value.shape[axis]
    place = st.integers(-n, n - 1)
    masks = st.lists(st.booleans(), min_size=n, max_size=n)
    slices = st.builds(slice, st.none() | place, st.none() | place, st.sampled_from([None, 2, -1]))
    places = data.draw(st.one_of(place, st.lists(place, max_size=3), masks, slices))
    check_agrees(
        lengths_known(lambda x: gt.delete(x, places, axis), value),
        lambda x: np.delete(x, places, axis),
        value,
    )


@settings(max_examples=100)
@given(arrays(DTYPES, SHAPES), st.data())
def test_any_values_are_inserted_as_in_numpy(value: np.ndarray, data: Any) -> None:
    one = st.integers(-value.ndim, value.ndim - 1)
    axis = data.draw(st.one_of(st.none(), one))
    n = value.size if axis is None else value.shape[axis]
    place = st.integers(-n, n)
    places = data.draw(st.one_of(place, st.lists(place, min_size=1, max_size=3)))
    shape = [value.size] if axis is None else list(value.shape)
    shape[axis or 0] = len(places) if isinstance(places, list) else 1
    new = data.draw(arrays(["int8", "float32"], st.sampled_from([(), tuple(shape)])))
    if isinstance(places, int) and new.ndim:
        # For a single place, values stand along the first axis.
        new = np.moveaxis(new, axis or 0, 0)
    if value.dtype.kind == "u":
        new = np.abs(new)
    check_agrees(
        lengths_known(lambda x: gt.insert(x, places, new, axis), value),
        lambda x: np.insert(x, places, new, axis),
        value,
    )


def test_an_axis_of_unknown_length_takes_a_single_place() -> None:
    x, value = gt.matrix("x"), np.arange(12.0).reshape(3, 4)
    outputs = [
        gt.delete(x, -2, 1),
        gt.delete(x, 5),
        gt.insert(x, 1, [9, 8, 7], 1),
        gt.insert(x, -1, 6.0),
    ]
    wanted = [
        np.delete(value, -2, 1), np.delete(value, 5), np.insert(value, 1, [9, 8, 7], 1),
        np.insert(value, -1, 6.0),
    ]  # fmt: skip
    for y, expected in zip(evaluate(outputs, {x: value}), wanted, strict=True):
        np.testing.assert_array_equal(y, expected)
    for missing in (gt.delete(x, 4, 1), gt.delete(x, -5, 1), gt.insert(x, 5, 0, 1)):
        with pytest.raises(ShapeError, match="is negative"):
            evaluate([missing], {x: value})


def test_values_are_appended_as_in_numpy() -> None:
    value = np.arange(6.0).reshape(2, 3)
    check_agrees(lambda x: gt.append(x, x[0]), lambda x: np.append(x, x[0]), value)
    check_agrees(lambda x: gt.append(x, x, -1), lambda x: np.append(x, x, -1), value)


X, XS = gt.tensor("x", shape=(2, 3)), gt.matrix("xs")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "delete what is not there": (lambda: gt.delete(X, 2, 0), BoundsError, "position 2 is outside"),
    "delete several not there": (lambda: gt.delete(X, [0, 3], 1), BoundsError, "out of bounds"),
    "delete by a float": (lambda: gt.delete(X, 1.5), DTypeError, "are not positions"),
    "delete by a bool": (lambda: gt.delete(X, True), DTypeError, "are not positions"),
    "delete by a symbol": (lambda: gt.delete(X, gt.lscalar()), ArgumentError, "is symbolic"),
    "delete several of many": (lambda: gt.delete(XS, [0, 1], 0), ShapeError, "length of axis 0"),
    "insert beyond the end": (lambda: gt.insert(X, 3, 0, 0), BoundsError, "position 3 is outside"),
    "insert several beyond": (lambda: gt.insert(X, [0, -4], 0, 1), BoundsError, "position -4"),
    "insert what does not fit": (
        lambda: gt.insert(X, [0, 1], [1, 2, 3, 4, 5], 1), ShapeError, "lengths differ",
    ),
    "append another shape": (lambda: gt.append(X, X.T, 0), ShapeError, "concatenate"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_place_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_edit.py" in str(caught.value)
