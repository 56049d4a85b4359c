"""Sorting and searching give what NumPy gives, and derivatives follow the permutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, BoundsError, RuntimeShapeError, ShapeError
from graphc.link import names
from tests.grad.differences import check_derivatives
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

BACKENDS = names()
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
FLOATS = hnp.arrays(
    np.float64, hnp.array_shapes(max_dims=1, min_side=0, max_side=9),
    elements=st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0, 2.5]),
)  # fmt: skip
REAL = [d for d in DTYPES if not d.startswith("c")]


@settings(max_examples=60)
@given(data=st.data())
def test_any_axis_is_sorted_as_in_numpy(data: Any) -> None:
    value = data.draw(arrays(DTYPES, SHAPES))
    axis = data.draw(st.none() | st.integers(-value.ndim, value.ndim - 1))
    check_agrees(lambda x: gt.sort(x, axis), lambda x: np.sort(x, axis), value)
    check_agrees(lambda x: gt.argsort(x, axis), lambda x: np.argsort(x, axis, kind="stable"), value)


@settings(max_examples=60)
@given(value=FLOATS)
def test_nan_comes_last(value: np.ndarray) -> None:
    check_agrees(gt.sort, np.sort, value)
    check_agrees(gt.argsort, lambda x: np.argsort(x, kind="stable"), value)


@settings(max_examples=60)
@given(data=st.data(), side=st.sampled_from(["left", "right"]))
def test_places_in_a_sorted_vector_are_numpys(data: Any, side: str) -> None:
    x, v = data.draw(FLOATS), data.draw(FLOATS)
    check_agrees(
        lambda x, v: gt.searchsorted(x, v, side), lambda x, v: np.searchsorted(x, v, side),
        np.sort(x), v,
    )  # fmt: skip
    check_agrees(
        lambda x, v: gt.searchsorted(x, v, side, gt.argsort(x)),
        lambda x, v: np.searchsorted(x, v, side, np.argsort(x, kind="stable")),
        x, v,
    )  # fmt: skip


@settings(max_examples=60)
@given(data=st.data())
def test_the_largest_come_first_and_the_first_of_equal_ones(data: Any) -> None:
    value = data.draw(arrays(REAL, hnp.array_shapes(min_dims=1, max_dims=2, max_side=5)))
    k = data.draw(st.integers(0, value.shape[-1]))
    order = np.argsort(-value.astype(float), axis=-1, kind="stable")[..., :k]
    check_agrees(lambda x: gt.top_k(x, k)[1], lambda x: order, value)
    check_agrees(lambda x: gt.top_k(x, k)[0], lambda x: np.take_along_axis(x, order, -1), value)


def test_several_keys_sort_as_in_numpy() -> None:
    keys = np.random.default_rng(0).integers(0, 3, (3, 2, 9))
    for axis in (0, 1, -1):
        check_agrees(
            lambda *k, a=axis: gt.lexsort(k, a), lambda *k, a=axis: np.lexsort(k, a), *keys
        )
    np.testing.assert_array_equal(gt.lexsort(keys).eval(mode="NUMPY"), np.lexsort(keys))


def test_a_partition_has_the_element_in_its_place() -> None:
    value = np.array([5.0, 1, 4, 2, 3])
    x = gt.vector("x")
    y, places = evaluate([gt.partition(x, 2), gt.argpartition(x, [2, -1])], {x: value})
    assert y[2] == value[places][2] == 3
    assert max(y[:2]) < 3 < min(y[3:])


A = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, 1.5]])
DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: gt.sort(x, 0) * gt.sort(x, 1),
    "sort of all": lambda x: gt.sort(x, None) ** 2,
    "top_k": lambda x: gt.top_k(x, 2)[0] ** 2,
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_what_differences_give(name: str) -> None:
    check_derivatives(DIFFERENTIABLE[name], A)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_is_sorted_and_searched_one_by_one(backend: str) -> None:
    x, v = gt.vector("x"), gt.vector("v")
    xs, vs = gt.matrix("xs"), gt.matrix("vs")
    ys = [gt.sort(x), gt.argsort(x), gt.searchsorted(gt.sort(x), v), gt.cumsum(x), gt.cumprod(x)]
    batch = graphc.vectorize_graph(ys, {x: xs, v: vs})
    one = graphc.function([x, v], ys, backend, returns="numpy")
    many = graphc.function([xs, vs], batch, backend, returns="numpy")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 5)), rng.normal(size=(3, 4))
    expected = zip(*[one(*row) for row in zip(*values, strict=True)], strict=True)
    for found, wanted in zip(many(*values), expected, strict=True):
        np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-12)


@pytest.mark.parametrize("k", [3, gt.lscalar("k")], ids=["number", "symbol"])
def test_there_are_not_fewer_elements_than_the_top_takes(k: Any, mode: str) -> None:
    x = gt.matrix("x")
    inputs = [x] if isinstance(k, int) else [x, k]
    f = graphc.function(inputs, gt.top_k(x, k), mode=uncompiled(mode), returns="numpy")
    values, places = f(*[[[1.0, 4.0, 2.0, 3.0]], 3][: len(inputs)])
    assert values.tolist() == [[4.0, 3.0, 2.0]]
    assert places.tolist() == [[1, 3, 2]]
    with pytest.raises(
        RuntimeShapeError, match=r"top_k: .* \(1, 2\) does not have the shape \(\?, 3\)"
    ):
        f(*[[[1.0, 4.0]], 3][: len(inputs)])


X = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such axis": (lambda: gt.sort(X, 2), ShapeError, "no axis 2"),
    "a kind": (lambda: gt.sort(X, kind="bubble"), ArgumentError, "kind='bubble'"),
    "fields": (lambda: gt.argsort(X, order="name"), ArgumentError, "names fields"),
    "a side": (lambda: gt.searchsorted([1, 2], X, "middle"), ArgumentError, "side='middle'"),
    "a matrix to search": (lambda: gt.searchsorted(X, 1.0), ShapeError, "expected a sorted vector"),
    "too many": (lambda: gt.top_k(X, 4), ShapeError, "k=4 is not from 0 to 3"),
    "fewer than none": (lambda: gt.top_k(gt.vector(), -1), ShapeError, "k=-1 is not from 0"),
    "a place outside": (lambda: gt.partition(X, 3), BoundsError, "position 3 is outside 3"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_order_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_sort.py:" in str(caught.value)
