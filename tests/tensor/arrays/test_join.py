"""Joined arrays are NumPy's, in static type and in value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, RuntimeShapeError, ShapeError
from graphc.ir.law import checks_of
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

M, V, A = np.arange(6.0).reshape(2, 3), np.arange(3), np.arange(12.0).reshape(2, 3, 2)

SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "concatenate": (
        lambda x: gt.concatenate([x, x[:, 1:]], 1),
        lambda x: np.concatenate([x, x[:, 1:]], 1),
        (A,),
    ),
    "stack": (lambda x: gt.stack([x, -x], -1), lambda x: np.stack([x, -x], -1), (A,)),
    "join": (lambda a, b: gt.join(1, a, b), lambda a, b: np.concatenate([a, b], 1), (M, M)),
    "make_vector": (
        lambda a, b: gt.make_vector(a, 2, b), lambda a, b: np.array([a, 2, b]),
        (np.array(1.5), np.array(3)),
    ),
    "stacklists": (
        lambda a, b: gt.stacklists([[a, b], [b, a], [a, a]]),
        lambda a, b: np.array([[a, b], [b, a], [a, a]]), (V, V + 7),
    ),
    "concat_with_broadcast": (
        lambda a, b: gt.concat_with_broadcast([a, b, a], axis=-1),
        lambda a, b: np.concatenate([a, np.repeat(b, 2, 0), a], -1), (M, M[:1, :2] + 9),
    ),
    "horizontal_stack": (gt.horizontal_stack, lambda a, b: np.hstack([a, b]), (M, M[:, :2])),
    "vertical_stack": (gt.vertical_stack, lambda a, b: np.vstack([a, b]), (M, M[:1])),
    "block of a block": (gt.block, np.block, (M,)),
    "block of a row": (lambda a, b: gt.block([a, b, 1]), lambda a, b: np.block([a, b, 1]), (V, V)),
    "block of blocks": (
        lambda a, b: gt.block([[a, b], [b, a]]), lambda a, b: np.block([[a, b], [b, a]]),
        (M, M[:, :2]),
    ),
    "block of more axes": (
        lambda a, b: gt.block([[a], [b]]), lambda a, b: np.block([[a], [b]]), (A, A[:, :1]),
    ),
    **{
        f"{name} of {x.ndim} axes": (
            lambda a, name=name: getattr(gt, name)([a, a + 1]),
            lambda a, name=name: getattr(np, name)([a, a + 1]),
            (x,),
        )
        for name in ("hstack", "vstack", "dstack", "column_stack")
        for x in (np.array(2.0), V, M, A)
        if name != "column_stack" or x.ndim in {1, 2}
    },
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_it_is_what_numpy_gives(what: str) -> None:
    ours, theirs, values = SAME[what]
    check_agrees(ours, theirs, *values)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(-2, 1), st.data())
def test_arrays_of_any_lengths_and_dtypes_join_as_in_numpy(
    lengths: list[int], axis: int, data: Any
) -> None:
    values = []
    for n in lengths:
        shape = [2, 2]
        shape[axis] = n
        values.append(data.draw(arrays(DTYPES, st.just(tuple(shape)))))
    check_agrees(
        lambda *xs: gt.concatenate(xs, axis), lambda *xs: np.concatenate(xs, axis), *values
    )


def test_arrays_that_must_be_equally_long_say_so() -> None:
    x, y = gt.matrix(), gt.matrix()
    z = gt.concatenate([x, y], 1)
    assert checks_of(z) == ((0, 0, 1, 0),)


def test_a_vector_of_no_scalars_is_empty() -> None:
    (found,) = evaluate([gt.make_vector()])
    assert (found.dtype, found.shape) == (np.int64, (0,))


X, U, XS = gt.tensor("x", shape=(2, 3)), gt.vector("u"), gt.tensor3("xs")

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "concatenate nothing": (lambda: gt.concatenate([]), "at least one"),
    "concatenate ranks": (lambda: gt.concatenate([X, XS]), "one rank"),
    "concatenate scalars": (lambda: gt.concatenate([gt.scalar()]), "gt.stack"),
    "concatenate shapes": (
        lambda: gt.concatenate([X, gt.tensor(shape=(2, 4))], 0), "differ on axis 1",
    ),
    "stack nothing": (lambda: gt.stack([]), "at least one"),
    "stack ranks": (lambda: gt.stack([X, XS]), "one rank"),
    "join along no axis": (lambda: gt.join(2, X, X), "no axis 2"),
    "join of nothing": (lambda: gt.join(0), "at least one array"),
    "a vector of vectors": (lambda: gt.make_vector(U, U), "expected scalars"),
    "lists of unequal shapes": (lambda: gt.stacklists([X, X.T]), "lengths differ"),
    "a broadcast that does not fit": (
        lambda: gt.concat_with_broadcast([X, gt.tensor(shape=(3, 1))], 1), "lengths differ",
    ),
    "a broadcast of ranks": (lambda: gt.concat_with_broadcast([X, U]), "one rank"),
    "matrices beside a vector": (lambda: gt.horizontal_stack(X, U), "expected a matrix"),
    "an empty block": (lambda: gt.block([[], [X]]), "a list is empty"),
    "different depths": (lambda: gt.block([[X], X]), "different depths"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_join_is_refused_with_the_users_line(what: str) -> None:
    build, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message) as caught:
        build()
    assert "test_join.py" in str(caught.value)


@pytest.mark.parametrize("axis", range(-3, 3))
def test_join_sort_and_argsort_take_a_symbolic_axis(axis: int, mode: str) -> None:
    rng = np.random.default_rng(0)
    other = [2, 3, 4]
    other[axis] = 5
    values = rng.normal(size=(2, 3, 4)), rng.normal(size=other)
    n, a, b = gt.lscalar("n"), gt.tensor3("a"), gt.tensor3("b")
    costs = [
        (gt.join(at, a, b) ** 3).sum() + (gt.sort(a, at) * gt.arange(4)).sum() for at in (n, axis)
    ]
    outputs = [
        gt.join(n, a, b),
        gt.concatenate([a, b], n),
        gt.sort(a, n),
        gt.argsort(a, n),
        *graphc.grad(costs[0], [a, b]),
        *graphc.grad(costs[1], [a, b]),
    ]
    f = graphc.function([n, a, b], outputs, mode=uncompiled(mode), returns="numpy")
    joined, again, ordered, order, *slopes = f(axis, *values)
    np.testing.assert_array_equal(joined, np.concatenate(values, axis))
    np.testing.assert_array_equal(again, joined)
    np.testing.assert_array_equal(ordered, np.sort(values[0], axis))
    np.testing.assert_array_equal(order, np.argsort(values[0], axis))
    for slope, wanted in zip(slopes[:2], slopes[2:], strict=True):
        np.testing.assert_array_equal(slope, wanted)


def test_join_along_a_symbolic_axis_compares_the_other_lengths(mode: str) -> None:
    n, a, b = gt.lscalar("n"), gt.tensor3("a"), gt.tensor3("b")
    f = graphc.function([n, a, b], gt.join(n, a, b), mode=uncompiled(mode))
    for axis, shape in ((2, (3, 2, 4)), (3, (2, 3, 4)), (-4, (2, 3, 4))):
        with pytest.raises(RuntimeShapeError):
            f(axis, np.ones((2, 3, 4)), np.ones(shape))
    with pytest.raises(DTypeError, match="integer scalar as axis"):
        gt.join(gt.scalar("x"), a, b)
