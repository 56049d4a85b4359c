"""Tiles and repeats are NumPy's, also where the numbers are known at run time only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, RuntimeShapeError, ShapeError
from graphc.link import names
from tests.tensor.agreement import DTYPES, arrays, check_agrees

COUNTS = st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=4))


@settings(max_examples=100)
@given(arrays(DTYPES), COUNTS)
def test_any_array_is_tiled_as_in_numpy(value: np.ndarray, reps: Any) -> None:
    check_agrees(lambda x: gt.tile(x, reps), lambda x: np.tile(x, reps), value)


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(), (3,), (2, 3), (0, 2), (2, 1, 3)])), st.data())
def test_any_array_is_repeated_as_in_numpy(value: np.ndarray, data: Any) -> None:
    axes = st.integers(-value.ndim, value.ndim - 1) if value.ndim else st.none()
    axis = data.draw(st.one_of(st.none(), axes))
    n = value.size if axis is None else value.shape[axis]
    listed = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    counts = data.draw(st.one_of(st.integers(0, 3), listed, st.tuples(st.integers(0, 3))))
    counts = np.array(counts, np.int32)
    check_agrees(lambda x: gt.repeat(x, counts, axis), lambda x: np.repeat(x, counts, axis), value)


@pytest.mark.parametrize("mode", names())
def test_numbers_may_be_known_at_run_time_only(mode: str) -> None:
    x, n, counts = gt.matrix("x"), gt.lscalar("n"), gt.ivector("counts")
    outputs = [
        gt.tile(x, (n, 2)),
        gt.tile(x, gt.stack([n, x.shape[0]])),
        gt.repeat(x, n),
        gt.repeat(x, n, 1),
        gt.repeat(x, counts, 0),
        gt.repeat(x, gt.stack([n, 2, 0]), axis=-1),
    ]
    costs = [(y * gt.arange(1, y.shape[-1] + 1)).sum() for y in outputs]
    slopes = [graphc.grad(cost, x) for cost in costs]
    f = graphc.function([x, n, counts], [*outputs, *slopes], mode, returns="numpy")
    value = np.arange(6.0).reshape(2, 3)
    for k, given_ in ((3, [0, 4]), (0, [1, 1])):
        found = f(value, k, given_)
        wanted = [
            np.tile(value, (k, 2)),
            np.tile(value, (k, 2)),
            np.repeat(value, k),
            np.repeat(value, k, 1),
            np.repeat(value, given_, 0),
            np.repeat(value, [k, 2, 0], -1),
        ]
        for y, expected in zip(found[:6], wanted, strict=True):
            np.testing.assert_array_equal(y, expected)
        # Where each element went: the positions' weights add up there.
        source = np.arange(6).reshape(2, 3)
        moved = [
            np.tile(source, (k, 2)), np.tile(source, (k, 2)), np.repeat(source, k),
            np.repeat(source, k, 1), np.repeat(source, given_, 0), np.repeat(source, [k, 2, 0], -1),
        ]  # fmt: skip
        for slope, places in zip(found[6:], moved, strict=True):
            weights = np.broadcast_to(np.arange(1, places.shape[-1] + 1), places.shape)
            by_hand = np.bincount(places.ravel(), weights.ravel(), minlength=6)
            np.testing.assert_array_equal(slope, by_hand.reshape(2, 3))
    with pytest.raises(RuntimeShapeError, match="3 counts for an axis of length 2"):
        f(value, 1, [1, 2, 3])
    with pytest.raises(RuntimeShapeError, match="the count -1 is negative"):
        f(value, 1, [1, -1])
    with pytest.raises(RuntimeShapeError, match="is negative"):
        f(value, -1, [1, 1])


def test_lengths_are_static_where_the_numbers_are() -> None:
    x = gt.tensor(shape=(2, None))
    assert gt.tile(x, (3, 2)).type.shape == (6, None)
    assert gt.repeat(x, [1, 4], 0).type.shape == (5, None)
    assert gt.repeat(x, gt.lscalar(), 1).type.shape == (2, None)


X = gt.tensor("x", shape=(2, 3))

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "tile by -1": (lambda: gt.tile(X, -1), ShapeError, "tile: the length -1 is negative"),
    "tile by a float": (lambda: gt.tile(X, 1.5), DTypeError, "tile: expected integer lengths"),
    "repeat by -1": (lambda: gt.repeat(X, -1), ShapeError, "repeat: the length -1 is negative"),
    "repeat by counts below 0": (lambda: gt.repeat(X, [1, -2], 0), ShapeError, "-2 is negative"),
    "repeat by too many": (lambda: gt.repeat(X, [1, 2, 3], 0), ShapeError, "3 counts for an axis"),
    "repeat by a float": (lambda: gt.repeat(X, 2.0), DTypeError, "expected integer counts"),
    "repeat by a matrix": (lambda: gt.repeat(X, [[1], [2]]), DTypeError, "expected integer counts"),
    "repeat along no axis": (lambda: gt.repeat(X, 2, 2), ShapeError, "repeat: no axis 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_number_of_times_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_repeat.py" in str(caught.value)
