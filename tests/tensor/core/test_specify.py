"""Lengths that are specified are part of the type, and seen to when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import RuntimeShapeError, ShapeError
from graphc.link import names

A = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("mode", names())
def test_a_shape_that_is_specified_is_seen_to_when_it_runs(mode: str) -> None:
    x, n = gt.matrix("x"), gt.lscalar("n")
    y = gt.specify_shape(x, (n, 3))
    row = gt.specify_broadcastable(x, -2) + gt.zeros((4, 1))
    slope = graphc.grad((y**2).sum(), x)
    f = graphc.function([x, n], [y, slope], mode, returns="numpy")
    np.testing.assert_array_equal(f(A, 2)[1], 2 * A)
    for value, k in ((A, 3), (A.T, 3)):
        with pytest.raises(
            RuntimeShapeError, match=r"does not have the shape \(3, 3\)(.|\n)*test_spec"
        ):
            f(value, k)
    g = graphc.function([x], row, mode, returns="numpy")
    np.testing.assert_array_equal(g(A[1:]), np.repeat(A[1:], 4, 0))
    with pytest.raises(RuntimeShapeError, match=r"does not have the shape \(1, \?\)"):
        g(A)


def test_a_specified_shape_is_part_of_the_type() -> None:
    x = gt.tensor("x", shape=(2, None))
    assert gt.specify_shape(x, (None, 3)).type.shape == (2, 3)
    assert gt.specify_shape(x, gt.as_tensor([2, 3])).type.shape == (2, 3)
    assert gt.specify_shape(x, (2, None)) is x
    assert gt.specify_broadcastable(x, 1).broadcastable == (False, True)


X = gt.tensor("x", shape=(2, 3))

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a shape it has not": (lambda: gt.specify_shape(X, (2, 4)), "axis 1 has length 3, not 4"),
    "a shape of other rank": (lambda: gt.specify_shape(X, (2,)), "1 lengths for 2 axes"),
    "a shape below 0": (lambda: gt.specify_shape(X, (-1, 3)), "the length -1 is negative"),
    "a length that is not 1": (lambda: gt.specify_broadcastable(X, 0), "has length 2, not 1"),
    "no such axis": (lambda: gt.specify_broadcastable(X, 2), "no axis 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_with_the_users_line(what: str) -> None:
    build, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message) as caught:
        build()
    assert "test_specify.py" in str(caught.value)


def test_specify_shape_takes_an_ellipsis_for_axes_of_any_length() -> None:
    x = gt.tensor4("x")
    assert gt.specify_shape(x, (2, ...)).type.shape == (2, None, None, None)
    assert gt.specify_shape(x, (..., 3, 5)).type.shape == (None, None, 3, 5)
    assert gt.specify_shape(x, (2, ..., 5)).type.shape == (2, None, None, 5)
    assert gt.specify_shape(x, (2, 3, ..., 4, 5)).type.shape == (2, 3, 4, 5)
    for wrong in ((2, ..., 3, 4, 5, 6), (2, 3)):
        with pytest.raises(ShapeError):
            gt.specify_shape(x, wrong)
