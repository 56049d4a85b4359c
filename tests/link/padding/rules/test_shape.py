"""Shapes and reshapes of padded arrays."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import GraphcError
from tests.link.padding.compare import assert_padding_is_unseen, count, numbers
from tests.link.padding.run import run_padded

SIZES = [(0, 3), (1, 1), (2, 5), (4, 3), (6, 0), (5, 8)]


@pytest.mark.parametrize("size", SIZES)
def test_shape_and_length(size: tuple[int, int]) -> None:
    x = gt.matrix("x")
    outputs = [gt.shape(x), x.shape[1] * 2, gt.size(x)]
    assert_padding_is_unseen([x], outputs, numbers(*size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "complex128"])
def test_reshape_of_two_unknown_lengths(size: tuple[int, int], dtype: str) -> None:
    x = gt.tensor("x", shape=(None, None, 2), dtype=dtype)
    n, m = x.shape[0], x.shape[1]
    shapes = [(-1,), (n, 2 * m), (n, -1), (m, 2, n), (m, -1, 2), (2, -1), (n, 1, m, 2), (-1, 2)]
    shapes = [s for s in shapes if 0 not in size or s not in [(n, -1), (m, -1, 2)]]
    outputs = [gt.reshape(x, s) for s in shapes]
    assert_padding_is_unseen([x], outputs, numbers(*size, 2, dtype=dtype))


@pytest.mark.parametrize("size", SIZES)
def test_reshape_leaves_last_axes_in_one_piece(size: tuple[int, int]) -> None:
    x, z = gt.tensor("x", shape=(None, None, 2, 3)), gt.tensor4("z")
    n, m, k = x.shape[0], x.shape[1], z.shape[3]
    outputs = [
        gt.reshape(x, (-1, 2, 3)),
        gt.reshape(x, (m, n, 2, 3)),
        gt.reshape(x, (n * m * 2, 3)),
        gt.reshape(z, (n * m, 2, k)),
        gt.reshape(z, (n * m * z.shape[2], k)),
        gt.sum(gt.reshape(z, (-1, k)), axis=1) if size[0] else n,
    ]
    assert_padding_is_unseen([x, z], outputs, numbers(*size, 2, 3), numbers(*size, 2, 4))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 16])
def test_reshape_merges_and_splits_rows(n: int) -> None:
    x = gt.tensor("x", shape=(None, 6))
    shapes = [(-1,), (-1, 3), (-1, 4, 3), (-1, 2, 3, 1), (x.shape[0], 3, 2), (-1, 9), (6, -1)]
    fit = {(-1, 4, 3): n % 2 == 0, (-1, 9): n % 3 == 0}
    outputs = [gt.reshape(x, s) for s in shapes if fit.get(s, True)]
    assert_padding_is_unseen([x], outputs, numbers(n, 6))


@pytest.mark.parametrize("n", [0, 2, 4])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_reshape_with_computed_lengths(n: int, extra: int) -> None:
    x, i = gt.vector("x"), gt.scalar("i", dtype="int32")
    k = count(i, 8)
    outputs = [
        gt.reshape(x, (k, 3)),
        gt.reshape(x, (1, k, 3)),
        gt.reshape(x, (3, k)),
        gt.reshape(x[: 3 * k], (k, -1)) if n else x,
        gt.reshape(x, (-1, 3)),
    ]
    assert_padding_is_unseen([x, i], outputs, numbers(3 * n), np.int32(n), extra=extra)


def test_reshape_of_one_element_and_of_none() -> None:
    x, y, n = gt.vector("x"), gt.matrix("y"), gt.scalar("n", dtype="int64")
    outputs = [
        gt.reshape(x, ()),
        gt.reshape(x, (1, 1)),
        gt.reshape(y, (5, 0)),
        gt.reshape(y, (0, n)),
        gt.reshape(gt.as_tensor(2.5), (n,)),
    ]
    assert_padding_is_unseen([x, y, n], outputs, numbers(1), numbers(0, 4), 1)


def test_reshape_that_does_not_fit_is_refused() -> None:
    x = gt.matrix("x")
    for shape in [(4, 2), (-1, 4), (x.shape[0] + 1, x.shape[1]), (3,)]:
        with pytest.raises((GraphcError, ValueError)):
            run_padded([x], [gt.reshape(x, shape)], [numbers(2, 3)])


@pytest.mark.parametrize("dtype", ["float64", "bool", "int64"])
def test_specify_shape(dtype: str) -> None:
    x, i = gt.matrix("x", dtype=dtype), gt.scalar("i", dtype="int32")
    for n, m in [(0, 3), (2, 3), (5, 3)]:
        outputs = [
            gt.specify_shape(x, (None, 3)),
            gt.specify_shape(x, (n, None)),
            gt.specify_shape(x, (count(i, 7), x.shape[1])),
            gt.sum(gt.specify_shape(x, (None, 3)), axis=0),
            gt.specify_shape(x, (x.shape[0], 3)) + gt.cast(np.arange(3), dtype),
        ]
        arrays = numbers(n, m, dtype=dtype), np.int32(n)
        assert_padding_is_unseen([x, i], outputs, *arrays)
