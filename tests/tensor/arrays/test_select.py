"""Elements chosen by indices and conditions are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tests.grad.differences import check_derivatives
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import check_agrees

A = np.arange(60.0).reshape(3, 4, 5)


@st.composite
def along(draw: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """An array, and places along an axis whose other lengths are the array's or 1."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    lengths = [draw(st.sampled_from([m, 1])) for m in shape]
    lengths[axis] = draw(st.integers(0, 3))
    places = draw(hnp.arrays(np.int64, tuple(lengths), elements=st.integers(-n, n - 1)))
    return np.arange(1.0, np.prod(shape) + 1).reshape(shape), places, axis


@settings(max_examples=80)
@given(along())
def test_places_along_an_axis_are_read_as_in_numpy(case: Any) -> None:
    x, places, axis = case
    check_agrees(
        lambda x, i: gt.take_along_axis(x, i, axis),
        lambda x, i: np.take_along_axis(x, i, axis),
        x, places,
    )  # fmt: skip


@settings(max_examples=80)
@given(along(), st.booleans())
def test_places_along_an_axis_are_replaced_as_in_numpy(case: Any, whole: bool) -> None:
    x, places, axis = case
    value = np.array(-7.0) if whole else -1.0 - np.arange(places.shape[axis])
    value = (
        value
        if whole
        else np.moveaxis(np.broadcast_to(value, np.moveaxis(places, axis, -1).shape), -1, axis)
    )
    first = np.sort(places % x.shape[axis], axis)
    if not whole and (np.diff(first, axis=axis) == 0).any():
        return

    def theirs(x: Any, i: Any, v: Any) -> Any:
        y = x.copy()
        np.put_along_axis(y, i, v, axis)
        return y

    check_agrees(lambda x, i, v: gt.put_along_axis(x, i, v, axis), theirs, x, places, value)


def test_values_for_one_place_add_up() -> None:
    x, i = gt.matrix("x"), gt.lmatrix("i")
    y = gt.put_along_axis(x, i, gt.as_tensor([[1.0, 2.0]]), 1, accumulate=True)
    (found,) = evaluate([y], {x: np.zeros((2, 3)), i: [[0, 0], [2, 1]]})
    assert found.tolist() == [[3, 0, 0], [0, 2, 1]]


def test_no_axis_means_all_elements() -> None:
    places = np.array([7, -1, 0])
    check_agrees(
        lambda x, i: gt.take_along_axis(x, i, None),
        lambda x, i: np.take_along_axis(x, i, None),
        A, places,
    )  # fmt: skip
    x = gt.tensor3("x")
    (y,) = evaluate([gt.put_along_axis(x, places, [1.0, 2.0, 3.0], None)], {x: A})
    assert y.shape == A.shape
    assert y.ravel()[places].tolist() == [1, 2, 3]


FAR = np.array([[-9, 0, 7], [3, -1, 2]])


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, 2])
def test_places_outside_are_wrapped_or_clipped_as_in_numpy(mode: str, axis: Any) -> None:
    check_agrees(
        lambda x, i: gt.take(x, i, axis, mode), lambda x, i: np.take(x, i, axis, mode=mode), A, FAR
    )
    check_agrees(
        lambda i, x: gt.choose(i, [x, 7.0, -x], mode),
        lambda i, x: np.choose(i, [x, np.full_like(x, 7), -x], mode=mode),
        FAR, A[0, 0, :3],
    )  # fmt: skip
    check_agrees(
        lambda i, x: gt.choose(i, x, mode),
        lambda i, x: np.choose(i, x, mode=mode),
        FAR, A[0, :, :3],
    )  # fmt: skip
    check_agrees(
        lambda i, j: gt.ravel_multi_index((i, j), (4, 6), mode),
        lambda i, j: np.ravel_multi_index((i, j), (4, 6), mode),
        FAR, FAR.T.copy()[:1, :1],
    )  # fmt: skip


OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "choose": lambda i: gt.choose(i, [1, 2]),
    "ravel_multi_index": lambda i: gt.ravel_multi_index((i, i), (3, 2)),
    "unravel_index": lambda i: gt.unravel_index(i, (1, 2))[1],
    "bincount": lambda i: gt.bincount(i - 3, length=4),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_place_outside_raises_where_values_are_at_hand(name: str) -> None:
    i = gt.lvector("i")
    f = graphc.function([i], OUTSIDE[name](i), "NUMPY")
    with pytest.raises(BoundsError, match=f"{name}: .* is not from 0 on and below") as caught:
        f([2])
    assert "test_select.py:" in str(caught.value)


SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 7)]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES)
def test_places_take_another_form_and_back_as_in_numpy(shape: Any, order: str) -> None:
    flat = np.arange(np.prod(shape))[::2]
    for axis, wanted in enumerate(np.unravel_index(flat, shape, order)):
        check_agrees(
            lambda i, a=axis: gt.unravel_index(i, shape, order)[a], lambda i, w=wanted: w, flat
        )
    check_agrees(
        lambda *i: gt.ravel_multi_index(i, shape, order=order), lambda *i: flat,
        *np.unravel_index(flat, shape, order),
    )  # fmt: skip


MASK = A % 3 == 1
CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "compress": lambda n, x: n.compress([False, True, True], x, 0),
    "compress of all": lambda n, x: n.compress([True, False, True, True], x),
    "extract": lambda n, x: n.extract(MASK, x),
    "flatnonzero": lambda n, x: n.flatnonzero(x % 2),
    "argwhere": lambda n, x: n.argwhere(x % 2),
    "argwhere of a scalar": lambda n, x: n.argwhere(x[0, 0, 1]),
    "count_nonzero": lambda n, x: n.count_nonzero(x % 3),
    "count_nonzero over axes": lambda n, x: n.count_nonzero(x % 3, (0, 2), keepdims=True),
    "select": lambda n, x: n.select([x < 3, x > 50], [x, x * x], -1.0),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_choose_what_they_choose_in_numpy(name: str) -> None:
    f = CONDITIONS[name]
    check_agrees(lambda x: f(gt, x), lambda x: f(np, x), A, tight=False)


def test_the_first_condition_that_holds_chooses() -> None:
    x = gt.vector("x")
    (y,) = evaluate([gt.select([x > 0, x > 1], [x, 9])], {x: [-1.0, 0.5, 2.0]})
    assert y.tolist() == [0, 0.5, 2]


def test_values_that_are_not_zero_come_in_order() -> None:
    check_agrees(gt.nonzero_values, lambda x: x[x != 0], A % 3, tight=False)


def test_a_permutation_and_its_inverse_give_the_array_back() -> None:
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(5), (3, 4, 1)), axis=-1)
    x, p = gt.tensor3("x"), gt.ltensor3("p")
    moved = gt.permute_row_elements(x, p)
    outputs = [moved, gt.permute_row_elements(moved, p, inverse=True), gt.inverse_permutation(p)]
    found = evaluate(outputs, {x: A, p: order})
    np.testing.assert_array_equal(found[0], np.take_along_axis(A, order, -1))
    np.testing.assert_array_equal(found[1], A)
    np.testing.assert_array_equal(found[2], np.argsort(order, -1))


def test_one_hot_vectors_have_a_dtype_and_are_zero_outside() -> None:
    i = gt.lmatrix("i")
    y = gt.to_one_hot(i, 3)
    assert y.type.shape == (None, None, 3)
    (found,) = evaluate([y], {i: [[0, 2], [1, 5]]})
    assert found.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 0]]]
    assert found.dtype == np.float64
    assert gt.to_one_hot(i, 3, "bool").dtype == "bool"


@pytest.mark.parametrize("axis", [0, -1])
def test_a_slice_goes_to_its_axis(axis: int) -> None:
    np.testing.assert_array_equal(
        A[gt.slice_at_axis(slice(1, 3), axis)], A[1:3] if axis == 0 else A[..., 1:3]
    )


PLACES = np.array([[0, 2, 2], [1, 0, 0]])
DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "take_along_axis": lambda x: gt.take_along_axis(x, PLACES, 1) ** 2,
    "put_along_axis": lambda x: gt.put_along_axis(x, PLACES[:, :2], x[:, :2] ** 2, 1) * x,
    "take": lambda x: gt.take(x, [4, -1], 1, mode="wrap") ** 2,
    "choose": lambda x: gt.choose([1, 0, 1], [x, x**2]),
    "compress": lambda x: gt.compress([True, False, True], x, 1) ** 2,
    "select": lambda x: gt.select([x > 0, x < -1], [gt.sqrt(x), x * x], 2.0),
    "permute_row_elements": lambda x: gt.permute_row_elements(x, [2, 0, 1]) * x,
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_go_to_what_was_chosen(name: str) -> None:
    check_derivatives(DIFFERENTIABLE[name], np.array([[0.5, -1.5, 2.0], [-0.25, 3.0, 1.0]]))


X = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "another rank": (lambda: gt.take_along_axis(X, [0, 1], 0), ShapeError, "as many axes"),
    "other lengths": (lambda: gt.take_along_axis(X, np.zeros((4, 1), int), 1), ShapeError, "axis"),
    "floats": (lambda: gt.take_along_axis(X, X, 0), DTypeError, "expected integers"),
    "a mode": (lambda: X.take([0], mode="bounce"), ArgumentError, "mode='bounce'"),
    "an order": (lambda: gt.unravel_index([1], (2, 2), "A"), ArgumentError, "order='A'"),
    "too few indices": (lambda: gt.ravel_multi_index((1,), (2, 2)), ArgumentError, "for 2 axes"),
    "a condition of two axes": (lambda: gt.compress(X > 0, X), ShapeError, "expected a vector"),
    "more conditions": (lambda: gt.select([X > 0], []), ArgumentError, "1 conditions and 0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_chooses_nothing_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_select.py:" in str(caught.value)


def test_ravel_multi_index_takes_a_symbolic_vector_and_no_floats(mode: str) -> None:
    i, j, shape, both = gt.lvector("i"), gt.lvector("j"), gt.lvector("shape"), gt.lmatrix("both")
    outputs = [gt.ravel_multi_index((i, j), shape), gt.ravel_multi_index(both, (4, 5))]
    f = graphc.function([i, j, shape, both], outputs, mode=uncompiled(mode), returns="numpy")
    flat, again = f([1, 3, 2], [4, 0, 2], [4, 5], [[1, 3, 2], [4, 0, 2]])
    wanted = np.ravel_multi_index(([1, 3, 2], [4, 0, 2]), (4, 5))
    np.testing.assert_array_equal(flat, wanted)
    np.testing.assert_array_equal(again, wanted)
    for wrong in ((4.0, 5.5), gt.vector("floats")):
        with pytest.raises(DTypeError, match="integer"):
            gt.ravel_multi_index((i, j), wrong)
    with pytest.raises(DTypeError, match="integer"):
        gt.unravel_index(i, (4.0, 5.5))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_inverse_permutation_keeps_the_dtype(dtype: str) -> None:
    order = np.array([2, 0, 3, 1], dtype)
    theirs = pt.inverse_permutation(pt.as_tensor(order)).eval()
    ours = gt.inverse_permutation(order).eval(mode="NUMPY")
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)
