"""Rolled, flipped and turned arrays are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from graphc.link import names
from tests.tensor.agreement import DTYPES, arrays, check_agrees

SHAPES = st.sampled_from([(4,), (2, 3), (3, 0), (1, 4), (2, 3, 4)])


@settings(max_examples=100)
@given(arrays(DTYPES, SHAPES), st.data())
def test_any_array_is_rolled_as_in_numpy(value: np.ndarray, data: Any) -> None:
    one = st.integers(-value.ndim, value.ndim - 1)
    axis = data.draw(st.one_of(st.none(), one, st.lists(one, min_size=1, max_size=3).map(tuple)))
    n = len(axis) if isinstance(axis, tuple) else 1
    shifts = st.integers(-9, 9)
    several = st.lists(shifts, min_size=n, max_size=n).map(tuple)
    shift = data.draw(st.one_of(shifts, several))
    check_agrees(lambda x: gt.roll(x, shift, axis), lambda x: np.roll(x, shift, axis), value)


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(2, 3), (1, 3, 2), (0, 2)])), st.integers(-5, 5), st.data())
def test_any_array_is_turned_as_in_numpy(value: np.ndarray, k: int, data: Any) -> None:
    axes = tuple(data.draw(st.permutations(range(value.ndim)))[:2])
    check_agrees(lambda x: gt.rot90(x, k, axes), lambda x: np.rot90(x, k, axes), value)


@pytest.mark.parametrize("name", ["fliplr", "flipud"])
def test_rows_and_columns_flip_as_in_numpy(name: str) -> None:
    check_agrees(getattr(gt, name), getattr(np, name), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("mode", names())
def test_shifts_may_be_symbolic_and_need_no_compilation_of_their_own(mode: str) -> None:
    x, k, shifts = gt.matrix("x"), gt.bscalar("k"), gt.tensor("shifts", shape=(2,), dtype="uint8")
    outputs = [
        gt.roll(x, k),
        gt.roll(x, k, 1),
        gt.roll(x, (k, -k), (1, 1)),
        gt.roll(x, shifts, (0, 1)),
    ]
    slope = graphc.grad((outputs[1] * gt.arange(3)).sum(), x)
    f = graphc.function([x, k, shifts], [*outputs, slope], mode, returns="numpy")
    value = np.arange(6.0).reshape(2, 3)
    for by in (2, -7, 0):
        *found, moved = f(value, by, [1, 2])
        wanted = [np.roll(value, by), np.roll(value, by, 1), value, np.roll(value, (1, 2), (0, 1))]
        for y, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(moved, [np.roll(np.arange(3.0), -by)] * 2)
    assert f(np.zeros((0, 3)), 1, [1, 1])[1].shape == (0, 3)


X = gt.tensor("x", shape=(2, 3))

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "roll by a float": (lambda: gt.roll(X, 1.0), DTypeError, "expected integer shifts"),
    "roll along no axis": (lambda: gt.roll(X, 1, 2), ShapeError, "roll: no axis 2"),
    "roll by too many": (lambda: gt.roll(X, (1, 2, 3), (0, 1)), ShapeError, "3 shifts for 2"),
    "roll by unknown many": (lambda: gt.roll(X, gt.lvector()), ShapeError, "the number of shifts"),
    "fliplr of a vector": (lambda: gt.fliplr(gt.vector()), ShapeError, "fewer than 2 axes"),
    "flipud of a scalar": (lambda: gt.flipud(gt.scalar()), ShapeError, "fewer than 1 axes"),
    "rot90 in one axis": (lambda: gt.rot90(X, 1, (0, -2)), ShapeError, "two different axes"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_move_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_rearrange.py" in str(caught.value)
