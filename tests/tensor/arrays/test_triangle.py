"""Triangles are NumPy's."""

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

SHAPES = st.sampled_from([(3, 3), (2, 4), (4, 2), (0, 3), (1, 1), (2, 3, 2), (3,)])


@settings(max_examples=100)
@given(arrays(DTYPES, SHAPES), st.integers(-5, 5))
def test_any_matrix_has_numpys_triangles(value: np.ndarray, k: int) -> None:
    for name in ("tril", "triu"):
        check_agrees(
            lambda x, name=name: getattr(gt, name)(x, k),
            lambda x, name=name: getattr(np, name)(x, k),
            value,
        )


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 3)])
@pytest.mark.parametrize("k", [-5, -1, 0, 2, 5])
def test_places_in_triangles_are_numpys(shape: tuple[int, int], k: int) -> None:
    for name in ("tril_indices_from", "triu_indices_from"):
        for i in range(2):
            check_agrees(
                lambda x, name=name, i=i: getattr(gt, name)(x, k)[i],
                lambda x, name=name, i=i: getattr(np, name)(x, k)[i],
                np.zeros(shape),
            )


@pytest.mark.parametrize("mode", names())
def test_lengths_and_diagonals_may_be_known_at_run_time_only(mode: str) -> None:
    x, n, k = gt.matrix("x"), gt.lscalar("n"), gt.iscalar("k")
    outputs = [gt.tri(n, n + 1, k, "int8"), gt.tril(x, k), gt.triu(x, k), *gt.tril_indices(n, m=2)]
    f = graphc.function([x, n, k], outputs, mode, returns="numpy")
    value = np.arange(1.0, 13).reshape(3, 4)
    for by in (-1, 2):
        wanted = [np.tri(3, 4, by, "int8"), np.tril(value, by), np.triu(value, by)]
        wanted += [*np.tril_indices(3, 0, 2)]
        for y, expected in zip(f(value, 3, by), wanted, strict=True):
            assert y.dtype == expected.dtype
            np.testing.assert_array_equal(y, expected)


def test_places_in_triangles_have_static_lengths() -> None:
    assert [y.type.shape for y in gt.tril_indices(4)] == [(10,), (10,)]
    assert gt.triu_indices(3, -1, 2)[0].eval(mode="NUMPY").tolist() == [0, 0, 1, 1, 2]


V = gt.vector("v")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "tril of a scalar": (lambda: gt.tril(1.0), ShapeError, "expected a matrix"),
    "tri above a float": (
        lambda: gt.tri(3, k=0.5),
        DTypeError,
        "tri: expected an integer diagonal, got 0.5",
    ),
    "tri of -1": (lambda: gt.tri(-1), ShapeError, "tri: the length -1 is negative"),
    "places in a vector": (lambda: gt.tril_indices_from(V), ShapeError, "expected a matrix"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_triangle_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_triangle.py" in str(caught.value)
