"""Joins and splits of padded arrays."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import GraphcError
from tests.link.padding.compare import assert_padding_is_unseen, count, numbers
from tests.link.padding.run import run_padded

LENGTHS = [(0, 0, 0), (1, 0, 2), (0, 4, 1), (3, 2, 5), (5, 5, 0)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dtype", ["float64", "bool", "int8", "complex64"])
@pytest.mark.parametrize("extra", [0, 3])
def test_concatenate(lengths: tuple[int, int, int], dtype: str, extra: int) -> None:
    x, y, z = [gt.matrix(name, dtype=dtype) for name in "xyz"]
    fixed = gt.tensor("fixed", shape=(None, 2), dtype=dtype)
    outputs = [
        gt.concatenate([x, y, z], 1),
        gt.concatenate([fixed, y, fixed, x], 1),
        gt.concatenate([x.T, y.T]),
        gt.concatenate([x, x]),
        gt.concatenate([np.ones((4, 2), dtype), x], 1),
    ]
    arrays = [numbers(4, n, dtype=dtype) for n in (*lengths, 2)]
    assert_padding_is_unseen([x, y, z, fixed], outputs, *arrays, extra=extra)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_concatenate_parts_of_computed_lengths(n: int) -> None:
    x, k = gt.vector("x"), gt.scalar("k", dtype="int32")
    c = count(k, 5)
    outputs = [gt.concatenate([x[:c], x, x[:c]]), gt.concatenate([[1.0], x[c:], gt.arange(c)])]
    outputs += [gt.concatenate([x[:c], x]).sum(), gt.stack([x[:c], x[:c]], 1)]
    assert_padding_is_unseen([x, k], outputs, numbers(6), np.int32(n))


@pytest.mark.parametrize("sizes", LENGTHS)
@pytest.mark.parametrize("dtype", ["float64", "bool", "int8"])
def test_split_into_unknown_lengths(sizes: tuple[int, int, int], dtype: str) -> None:
    x = gt.matrix("x", dtype=dtype)
    n, m, k = [gt.scalar(name, dtype="int64") for name in "nmk"]
    parts = [
        *gt.split(x, [n, m, k], n_splits=3, axis=1),
        *gt.split(x, [n, x.shape[1] - n], n_splits=2, axis=1),
        *gt.split(x, [sizes[0], sum(sizes[1:])], n_splits=2, axis=1),
        *gt.split(x, [1, 2], n_splits=2, axis=0),
    ]
    outputs = [*parts, gt.concatenate(parts[:2], 1)]
    arrays = numbers(3, sum(sizes), dtype=dtype), *sizes
    assert_padding_is_unseen([x, n, m, k], outputs, *arrays)


def test_split_into_other_lengths_is_refused() -> None:
    x, n = gt.vector("x"), gt.scalar("n", dtype="int64")
    for sizes in [[n, 2], [n, n, -1], [3, 3]]:
        with pytest.raises((GraphcError, ValueError)):
            run_padded([x, n], gt.split(x, sizes, n_splits=len(sizes)), [numbers(5), 2])
