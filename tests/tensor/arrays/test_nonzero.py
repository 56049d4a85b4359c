"""Places of what is not zero, all of them or as many as are asked for."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.link import names
from tests.modes import uncompiled
from tests.tensor.agreement import DTYPES, arrays, check_agrees

BACKENDS = names()


@pytest.mark.exhaustive
@settings(max_examples=60)
@given(data=st.data(), size=st.integers(0, 7), fill=st.sampled_from([None, 9, -1]))
def test_so_many_places_are_those_of_jax(data: Any, size: int, fill: Any) -> None:
    shapes = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
    value = data.draw(arrays(DTYPES, shapes))
    if not value.size and fill is None:
        fill = 0  # JAX divides by a length of 0 there
    for axis in range(value.ndim):
        check_agrees(
            lambda x, i=axis: gt.nonzero(x, size=size, fill_value=fill)[i],
            lambda x, i=axis: _by_numpy(x, size, fill or 0)[i],
            value,
        )
    if value.size:
        found = jnp.nonzero(value, size=size, fill_value=fill)
        for ours, theirs in zip(_by_numpy(value, size, fill or 0), found, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def _by_numpy(x: np.ndarray, size: int, fill: int) -> list[np.ndarray]:
    return [np.array([*places[:size], *[fill] * (size - len(places))], np.int64)
            for places in np.nonzero(x)]  # fmt: skip


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_number_of_places_compiles_once_for_all_values(mode: str) -> None:
    x = gt.matrix("x", dtype="int64")
    rows, columns = gt.nonzero(x, size=4, fill_value=(-1, -2))
    flat, pairs = gt.flatnonzero(x, size=2), gt.argwhere(x, size=3, fill_value=7)
    f = graphc.function([x], [rows, columns, flat, pairs], uncompiled(mode), returns="numpy")
    value = np.array([[0, 5, 0], [3, 0, 1]])
    for found, wanted in zip(
        f(value), ([0, 1, 1, -1], [1, 0, 2, -2], [1, 3], [[0, 1], [1, 0], [1, 2]]), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    *_, pairs = f(np.zeros((2, 3), int))
    np.testing.assert_array_equal(pairs, np.full((3, 2), 7))


@pytest.mark.parametrize("mode", BACKENDS)
def test_rows_of_a_batch_have_places_of_their_own(mode: str) -> None:
    x = gt.matrix("x")
    y = graphc.vectorize(lambda row: gt.nonzero(row, size=2)[0], signature="(n)->(m)")(x)
    f = graphc.function([x], y, uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f([[0.0, 1, 2], [3, 0, 0], [0, 0, 0]]), [[1, 2], [0, 0], [0, 0]])


def test_what_is_asked_for_wrongly_is_told() -> None:
    x = gt.matrix("x")
    with pytest.raises(ArgumentError, match=r"requires size=(.|\n)*test_nonzero.py"):
        gt.nonzero(x, fill_value=1)
    with pytest.raises(ArgumentError, match="3 fill values for 2 axes"):
        gt.nonzero(x, size=1, fill_value=(1, 2, 3))
    with pytest.raises(ShapeError, match="expected at least one axis"):
        gt.nonzero(gt.scalar(), size=1)


def test_places_come_as_a_matrix_where_that_is_asked_for() -> None:
    x = np.array([[0, 1], [2, 0]])
    found = gt.as_tensor(x).nonzero(return_matrix=True).eval(mode="NUMPY")
    np.testing.assert_array_equal(found, np.stack(np.nonzero(x)))


@pytest.mark.parametrize("mode", BACKENDS)
def test_nonzero_of_a_mask_of_ranges_is_known_while_the_backend_compiles(mode: str) -> None:
    x = gt.vector("x")
    rows, columns = gt.tri(11, 12).nonzero()
    f = graphc.function([x], [x[rows], x[columns], x[gt.gt(gt.arange(12), 3)]], mode=mode)
    value = np.linspace(-1, 2, 12)
    wanted = [value[i] for i in np.tri(11, 12).nonzero()]
    for y, z in zip(f(value), [*wanted, value[4:]], strict=True):
        np.testing.assert_array_equal(y, z)
