"""Common shapes are found, and arrays brought to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import RuntimeShapeError, ShapeError
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import check_agrees

A, B = np.arange(6.0).reshape(2, 3), np.arange(3, dtype="int8").reshape(1, 3)


def test_an_array_is_repeated_as_in_numpy() -> None:
    value = np.arange(6).reshape(1, 2, 1, 3)
    shape = (5, 4, 2, 2, 3)
    check_agrees(lambda x: gt.broadcast_to(x, shape), lambda x: np.broadcast_to(x, shape), value)


@settings(max_examples=100)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4))
def test_any_shapes_broadcast_together_as_in_numpy(shapes: Any) -> None:
    values = [np.arange(np.prod(s, dtype=int)).reshape(s) for s in shapes.input_shapes]
    for i in range(2):
        check_agrees(
            lambda *xs, i=i: gt.broadcast_arrays(*xs)[i],
            lambda *xs, i=i: np.broadcast_arrays(*xs)[i],
            *values,
        )


def test_a_second_array_is_brought_to_the_common_shape() -> None:
    for fill in (gt.second, gt.fill, lambda a, b: a.fill(b)):
        check_agrees(fill, lambda a, b: np.broadcast_arrays(a, b)[1], A, B)
        check_agrees(fill, lambda a, b: np.broadcast_arrays(a, b)[1], B[0], A[:, :1])
        check_agrees(lambda a, f=fill: f(a, 2), lambda a: np.full((2, 3), 2), A)


def test_common_lengths_are_found_without_the_arrays() -> None:
    x, n = gt.matrix("x"), gt.lscalar("n")
    found = gt.broadcast_shape(x, gt.tensor(shape=(4, 1, 3)))
    assert gt.get_scalar_constant_value(found[0]) == 4
    given = gt.broadcast_shape((n, 1), (1, 5), arrays_are_shapes=True)
    values = evaluate([*found, *given], {x: np.zeros((2, 3)), n: 7})
    assert [int(m) for m in values] == [4, 2, 3, 7, 5]
    assert gt.broadcast_shape() == ()


def test_lengths_that_only_the_run_decides_are_compared(mode: str) -> None:
    a, b = gt.matrix("a"), gt.matrix("b")
    made = gt.zeros(gt.broadcast_shape(a, b, gt.tensor(shape=(1, 4))))
    f = graphc.function([a, b], made, mode=uncompiled(mode), returns="numpy")
    assert f(np.ones((3, 4)), np.ones((3, 4))).shape == (3, 4)
    for shapes in [(1, 4), (3, 4)], [(3, 4), (1, 4)], [(3, 2), (3, 2)]:
        with pytest.raises(RuntimeShapeError, match="broadcast_shape: lengths differ on axis"):
            f(*map(np.ones, shapes))


X = gt.tensor("x", shape=(2, 3))

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "broadcast to fewer axes": (lambda: gt.broadcast_to(X, (3,)), "fewer axes than the array"),
    "broadcast to others": (lambda: gt.broadcast_to(X, (2, 4)), "differ on axis -1"),
    "broadcast to -1": (lambda: gt.broadcast_to(X, (-1, 3)), "the length -1 is negative"),
    "shapes that have nothing common": (lambda: gt.broadcast_shape(X, X.T), "lengths differ"),
    "a second that does not fit": (lambda: gt.second(X, X.T), "lengths differ"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_with_the_users_line(what: str) -> None:
    build, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message) as caught:
        build()
    assert "test_broadcast.py" in str(caught.value)
