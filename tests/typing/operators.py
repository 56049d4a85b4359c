"""Operators and methods, with Python's numbers and NumPy's arrays on either side; indices."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import graphc.tensor as gt
from graphc.tensor import Tensor


def program() -> None:
    x, ones = gt.vector("x", shape=(3,)), np.ones(3)
    for y in (x + 1, 1 - x, 2.0**x, x / ones, ones * x, np.float32(2) - x, x @ ones, ones @ x):
        assert_type(y, Tensor)
    for y in (-x, abs(x), round(x), x < 1, ones >= x, x // 2, x % 2):
        assert_type(y, Tensor)
    assert_type([1, 2, 3] + x, Tensor)  # noqa: RUF005 (a list beside an array is an array)
    assert_type((x > 0) & ~(x < 1), Tensor)
    assert_type(divmod(x, 2), tuple[Tensor, Tensor])
    assert_type(x == x + 1, bool)
    assert_type(x[0], Tensor)
    assert_type(x[1:].set(0.0), Tensor)
    assert_type(x[x > 0].inc(1.0), Tensor)
    assert_type(x[None, ..., ::-1], Tensor)
    assert_type([2 * part for part in x], list[Tensor])
    assert_type(x.sum(axis=0, keepdims=True), Tensor)
    assert_type(x.exp().log1p().clip(0, 1), Tensor)
    assert_type(x.nonzero(), tuple[Tensor, ...])
    assert_type(x.nonzero(return_matrix=True), Tensor)
    assert_type(x.astype("float32").reshape((3, 1)).T, Tensor)
    assert_type(x.shape, Tensor)
    assert_type(x.type.shape, tuple[int | None, ...])
    assert_type(x.ndim, int)
    assert_type(x.dtype, str)
    assert_type(x.name, str | None)
    assert_type(x.eval({x: ones}, mode="NUMPY"), np.ndarray[Any, Any])
