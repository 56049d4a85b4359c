"""Ranges, broadcast arrays and matrices with a diagonal, of unknown lengths."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.link.padding.compare import assert_padding_is_unseen, count, numbers

n, m = gt.scalar("n", dtype="int64"), gt.scalar("m", dtype="int64")
PAIRS = [(0, 0), (0, 3), (1, 4), (3, 2), (5, 5), (7, 1), (-2, 3), (4, -3)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("extra", [0, 4])
def test_arange(pair: tuple[int, int], extra: int) -> None:
    steps = [1, 2, 3, -1, -2]
    outputs = [gt.arange(n, m, step) for step in steps]
    outputs += [gt.arange(m - 1, n - 3, -3), gt.arange(2, n), gt.arange(n, n + 4, 2), gt.arange(m)]
    outputs += [gt.arange(n, m, 2, dtype="float32"), gt.arange(n, m, dtype="int8")]
    assert_padding_is_unseen([n, m], outputs, *pair, extra=extra)


@pytest.mark.parametrize("i", [0, 1, 5])
def test_arange_to_a_number_of_data(i: int) -> None:
    k = gt.scalar("k", dtype="int32")
    outputs = [gt.arange(count(k, 5)), gt.arange(2, count(k, 9), 2), gt.arange(count(k, 6), 0, -1)]
    outputs += [gt.sum(gt.arange(count(k, 5)))]
    assert_padding_is_unseen([k], outputs, np.int32(i))


@pytest.mark.parametrize("pair", [p for p in PAIRS if min(p) >= 0])
@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_eye(pair: tuple[int, int], offset: int) -> None:
    outputs = [gt.eye(n, m, offset), gt.eye(n, 3, offset, dtype="bool"), gt.eye(2, m, offset)]
    outputs += [gt.sum(gt.eye(n, m, offset), axis=1), gt.eye(n) @ gt.eye(n)]
    assert_padding_is_unseen([n, m], outputs, *pair)


@pytest.mark.parametrize("size", [(0, 3), (1, 1), (2, 5), (4, 0), (5, 8)])
@pytest.mark.parametrize("dtype", ["float64", "bool", "int32", "complex64"])
def test_broadcast_to(size: tuple[int, int], dtype: str) -> None:
    x = gt.matrix("x", dtype=dtype)
    row = gt.tensor("row", shape=(1, None), dtype=dtype)
    a, b = x.shape[0], x.shape[1]
    outputs = [
        gt.broadcast_to(x, (3, a, b)),
        gt.broadcast_to(x, (n, a, b)),
        gt.broadcast_to(row, (a, b)),
        gt.broadcast_to(row, (2, n, b)),
        gt.broadcast_to(x, (a, size[1])),
        gt.broadcast_to(x, size),
        gt.sum(gt.broadcast_to(x, (n, a, b)), axis=0),
        gt.broadcast_to(gt.as_tensor(3, dtype=dtype), (b, n)),
    ]
    arrays = numbers(*size, dtype=dtype), numbers(1, size[1], dtype=dtype)
    assert_padding_is_unseen([x, row, n], outputs, *arrays, 2)


@pytest.mark.parametrize("i", [0, 1, 4])
def test_zeros_and_ones_have_known_padding(i: int) -> None:
    k = gt.scalar("k", dtype="int32")
    c = count(k, 6)
    zeros, ones = gt.zeros((c, n)), gt.ones((n, c))
    outputs = [zeros, ones, zeros.sum(0), ones.sum(1), (ones + 1).sum(), zeros @ ones, ones @ zeros]
    outputs += [gt.exp(zeros).sum(0), ones.prod(0), gt.zeros((c, 3)) + gt.ones(3)]
    assert_padding_is_unseen([k, n], outputs, np.int32(i), 3)


@pytest.mark.parametrize("length", [0, 1, 3, 6])
@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("dtype", ["float64", "bool", "int64"])
def test_from_diagonal(length: int, offset: int, dtype: str) -> None:
    v = gt.tensor("v", shape=(None, None), dtype=dtype)
    outputs = [
        gt.alloc_diag(v, offset, 1, 2),
        gt.alloc_diag(v, offset),
        gt.sum(gt.cast(gt.alloc_diag(v, offset, 1, 2), "float64"), axis=2),
        gt.alloc_diag(v[:, : count(v.shape[1], 2)], offset, 1, 2),
    ]
    assert_padding_is_unseen([v], outputs, numbers(2, length, dtype=dtype))


@pytest.mark.parametrize("size", [(0, 2), (1, 1), (3, 5), (5, 2)])
@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_gradient_of_a_diagonal(size: tuple[int, int], offset: int) -> None:
    x = gt.matrix("x")
    y = gt.diagonal(x, offset)
    outputs = [y, graphc.grad((y * gt.arange(y.shape[0])).sum(), x)]
    assert_padding_is_unseen([x], outputs, numbers(*size))
