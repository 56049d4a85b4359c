"""Orders of axes are NumPy's, and new axes stand where they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from tests.tensor.agreement import check_agrees

M = np.arange(6.0).reshape(2, 3)
A = np.arange(24.0).reshape(2, 3, 4)
ONES = np.arange(6).reshape(1, 2, 1, 3)

SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray]] = {
    "T": (lambda x: x.T, lambda x: x.T, A),
    "mT": (lambda x: x.mT, lambda x: x.mT, A),
    "transpose": (lambda x: x.transpose(1, -1, 0), lambda x: x.transpose(1, -1, 0), A),
    "transpose by a list": (lambda x: x.transpose([2, 0, 1]), lambda x: x.transpose(2, 0, 1), A),
    "swapaxes": (lambda x: x.swapaxes(0, -1), lambda x: x.swapaxes(0, -1), A),
    "moveaxis": (lambda x: gt.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), A),
    "moveaxis of two": (
        lambda x: gt.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0)), A,
    ),
    "dimshuffle": (
        lambda x: x.dimshuffle(2, "x", 0, 1), lambda x: x.transpose(2, 0, 1)[:, None], A,
    ),
    "dimshuffle that drops": (lambda x: x.dimshuffle(3, 1), lambda x: x[0, :, 0].T, ONES),
    "expand_dims": (
        lambda x: gt.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1)), A,
    ),
    "squeeze": (lambda x: x.squeeze(), np.squeeze, ONES),
    "squeeze of an axis": (lambda x: x.squeeze(2), lambda x: np.squeeze(x, 2), ONES),
    "atleast_1d": (lambda x: gt.atleast_1d(x[0, 0, 0]), lambda x: np.atleast_1d(x[0, 0, 0]), A),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_it_is_what_numpy_gives(what: str) -> None:
    ours, theirs, value = SAME[what]
    check_agrees(ours, theirs, value)


def test_new_axes_stand_in_front_behind_or_between() -> None:
    check_agrees(lambda x: gt.shape_padleft(x, 2), lambda x: x[None, None], M)
    check_agrees(gt.shape_padright, lambda x: x[:, :, None], M)
    check_agrees(lambda x: gt.shape_padaxis(x, 1), lambda x: x[:, None], M)
    check_agrees(lambda x: gt.shape_padaxis(x, -1), lambda x: x[:, :, None], M)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("left", [True, False])
def test_an_array_gets_the_axes_it_lacks(n: int, left: bool) -> None:
    for value in (np.array(2.0), np.arange(3), M, M[None, None]):
        missing = (None,) * max(n - value.ndim, 0)
        index = (*missing, ...) if left else (..., *missing)
        named = getattr(gt, f"atleast_{n}d")
        check_agrees(lambda x: gt.atleast_Nd(x, n=n, left=left), lambda x, i=index: x[i], value)
        check_agrees(lambda x, f=named: f(x, left=left), lambda x, i=index: x[i], value)


def test_several_arrays_come_in_a_list() -> None:
    made = gt.atleast_2d(1.5, gt.vector())
    assert [x.type.shape for x in made] == [(1, 1), (1, None)]


X, XS = gt.tensor("x", shape=(2, 3)), gt.tensor3("xs")

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "transpose of too few axes": (lambda: XS.transpose(0, 1), "not a permutation"),
    "transpose of an axis twice": (lambda: X.transpose(0, 0), "not a permutation"),
    "swapaxes of no axis": (lambda: X.swapaxes(0, 2), "no axis 2"),
    "moveaxis of one to two": (lambda: gt.moveaxis(X, 0, (0, 1)), "cannot move"),
    "moveaxis to one place": (lambda: gt.moveaxis(XS, (0, 1), (2, 2)), "cannot move"),
    "dimshuffle of an axis twice": (lambda: X.dimshuffle(0, 0), "is repeated"),
    "dimshuffle that drops": (lambda: X.dimshuffle(1), "the length of axis 0 is not 1"),
    "squeeze": (lambda: X.squeeze(0), "the length of axis 0 is not 1"),
    "expand_dims twice": (lambda: gt.expand_dims(X, (0, 0)), "is repeated"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_such_axes_is_refused_with_the_users_line(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message) as caught:
        make()
    assert "test_axes.py:" in str(caught.value)


AXES = {
    "a constant": gt.constant(0),
    "a 0-d array": np.array(0),
    "a NumPy integer": np.int8(0),
    "constants": [gt.constant(0)],
    "a vector": np.array([0]),
    "a constant vector": gt.constant([0]),
}


@pytest.mark.parametrize("what", AXES)
def test_axes_may_be_constants(what: str) -> None:
    axis, x = AXES[what], gt.tensor("x", shape=(2, 3))
    assert x.sum(axis) is x.sum(0)
    assert gt.expand_dims(x, axis) is gt.expand_dims(x, 0)
    assert gt.moveaxis(x, axis, -1) is gt.moveaxis(x, 0, -1)
    assert gt.roll(x, 1, axis) is gt.roll(x, 1, 0)
    assert gt.fft.fftn(x, axes=axis) is gt.fft.fftn(x, axes=(0,))
    if isinstance(axis, list) or axis.ndim:
        return
    assert gt.concatenate([x, x], axis) is gt.concatenate([x, x], 0)
    assert gt.join(axis, x, x) is gt.join(0, x, x)
    assert gt.stack([x, x], axis) is gt.stack([x, x], 0)
    assert gt.split(x, [1, 1], axis=axis)[0] is gt.split(x, [1, 1])[0]
    assert gt.argmax(x, axis) is gt.argmax(x, 0)
    assert gt.join_dims(x, axis) is gt.join_dims(x, 0)
    assert gt.linalg.norm(x, axis=axis) is gt.linalg.norm(x, axis=0)
    assert gt.transpose(x, [gt.constant(1), axis]) is x.T


def test_an_axis_that_is_no_constant_is_refused() -> None:
    with pytest.raises(DTypeError, match="expected Python integers as axes"):
        gt.vector("x").sum(gt.iscalar("axis"))
