"""Arrays are taken apart as NumPy does it, and by lengths that are known at run time only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, RuntimeShapeError, ShapeError
from graphc.link import names
from tests.tensor.agreement import DTYPES, arrays, check_agrees

A = np.arange(24.0).reshape(2, 3, 4)

PLACES = st.one_of(st.integers(1, 5), st.lists(st.integers(-6, 6), max_size=3))


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(5,), (2, 5), (5, 0), (0, 3)])), PLACES, st.data())
def test_any_array_is_split_as_in_numpy(value: np.ndarray, places: Any, data: Any) -> None:
    axis = data.draw(st.integers(-value.ndim, value.ndim - 1))
    theirs = np.array_split(value, places, axis)
    for i, part in enumerate(theirs):
        check_agrees(
            lambda x, i=i: gt.array_split(x, places, axis)[i],
            lambda x, part=part: part,
            value,
        )
    assert len(gt.array_split(gt.as_tensor(value), places, axis)) == len(theirs)


@pytest.mark.parametrize("name", ["hsplit", "vsplit", "dsplit"])
@pytest.mark.parametrize("places", [1, [1], [1, 1, 9], np.array([0, 2])], ids=str)
def test_splits_along_the_first_axes_are_numpys(name: str, places: Any) -> None:
    for i, part in enumerate(getattr(np, name)(A, places)):
        check_agrees(lambda x, i=i: getattr(gt, name)(x, places)[i], lambda x, part=part: part, A)


def test_a_vector_is_split_horizontally() -> None:
    check_agrees(lambda x: gt.hsplit(x, 2)[1], lambda x: np.hsplit(x, 2)[1], np.arange(6.0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_unstacked_array_gives_its_slices(axis: int) -> None:
    parts = gt.unstack(gt.tensor(shape=A.shape), axis)
    assert len(parts) == A.shape[axis]
    check_agrees(
        lambda x: gt.unstack(gt.specify_shape(x, A.shape), axis)[1],
        lambda x: np.take(x, 1, axis),
        A,
    )


@pytest.mark.parametrize("mode", names())
def test_lengths_of_parts_may_be_known_at_run_time_only(mode: str) -> None:
    x, n, sizes = gt.matrix("x"), gt.iscalar("n"), gt.lvector("sizes")
    parts = gt.split(x, [n, x.shape[1] - n], axis=1)
    parts += gt.split(x, sizes, n_splits=3, axis=1)
    cost = (parts[0] ** 2).sum() + 3 * parts[3].sum()
    f = graphc.function([x, n, sizes], [*parts, graphc.grad(cost, x)], mode, returns="numpy")
    value = np.arange(10.0).reshape(2, 5)
    *found, slope = f(value, 2, [1, 3, 1])
    wanted = [*np.split(value, [2], 1), *np.split(value, [1, 4], 1)]
    for part, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part, expected)
    by_hand = np.zeros((2, 5))
    by_hand[:, :2] += 2 * value[:, :2]
    by_hand[:, 1:4] += 3
    np.testing.assert_array_equal(slope, by_hand)
    with pytest.raises(RuntimeShapeError, match="do not add up to 5"):
        f(value, 2, [1, 1, 1])
    with pytest.raises(RuntimeShapeError, match="is negative"):
        f(value, 6, [1, 3, 1])


def test_what_a_mask_leaves_out_of_a_part_adds_no_nan() -> None:
    x = gt.vector("x")
    first, rest = gt.split(gt.log(x), [1, x.shape[0] - 1])
    cost = gt.where(rest > 0, rest, 0).sum() + first.sum()
    slope = graphc.function([x], graphc.grad(cost, x), mode="NUMPY")
    np.testing.assert_array_equal(slope(np.array([2.0, 0.0, 4.0])), [0.5, 0, 0.25])


X, XS, V = gt.tensor("x", shape=(2, 3)), gt.tensor3("xs"), gt.lvector("v")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "split by a number": (lambda: gt.split(X, 2), ArgumentError, "array_split"),
    "split into nothing": (lambda: gt.split(X, []), ShapeError, "at least one part"),
    "split beyond the end": (lambda: gt.split(X, [1, 2]), ShapeError, "axis 0 has length 2"),
    "split short of it": (lambda: gt.split(X, [1, 1], axis=1), ShapeError, "has length 3"),
    "split of no axis": (lambda: gt.split(X, [2], axis=2), ShapeError, "split: no axis 2"),
    "split by -1": (lambda: gt.split(X, [3, -1]), ShapeError, "the length -1 is negative"),
    "split by a float": (lambda: gt.split(X, [1.0, 1]), DTypeError, "expected integer lengths"),
    "split by a vector": (lambda: gt.split(X, V), ShapeError, "the number of entries"),
    "split into more parts": (lambda: gt.split(X, [1, 1], n_splits=3), ShapeError, "n_splits=3"),
    "no parts": (lambda: gt.array_split(X, 0), ShapeError, "0 parts"),
    "a symbolic number of parts": (
        lambda: gt.array_split(X, gt.lscalar("n")), DTypeError, "expected a vector of positions",
    ),
    "unequal parts": (lambda: gt.vsplit(gt.tensor(shape=(3, 2)), 2), ShapeError, "equal length"),
    "dsplit of a matrix": (lambda: gt.dsplit(X, 1), ShapeError, "fewer than 3 axes"),
    "unstack of unknown length": (lambda: gt.unstack(XS), ShapeError, "the length of axis 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_parts_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_split.py" in str(caught.value)
