"""Cases of graphc.tensor.arrays.cumulative."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import Recurrence
from tests.contract.case import EMPTY, EVERY, FLOATING, NONE, REAL, Case, X


def _recurrence(a: Any, b: Any) -> Any:
    y = np.array(b)
    for i in range(1, y.shape[1]):
        y[:, i] += a[:, i] * y[:, i - 1]
    return y


def _backwards(a: Any, b: Any) -> Any:
    return _recurrence(a[:, ::-1], b[:, ::-1])[:, ::-1]


def _coupled(a: Any, b: Any) -> Any:
    y = np.array(b)
    for i in range(1, y.shape[-1]):
        y[..., i] += np.einsum("pq...,q...->p...", a[..., i], y[..., i - 1])
    return y


def _backwards_coupled(a: Any, b: Any) -> Any:
    return _coupled(a[..., ::-1], b[..., ::-1])[..., ::-1]


INEXACT = (*FLOATING, "complex64", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "cumulative": {
        "cumsum": Case(lambda n, x: n.cumsum(x, 1), (X,), EVERY),
        "cumsum of all": Case(lambda n, x: n.cumsum(x), (X,)),
        "cumsum of nothing": Case(lambda n, x: n.cumsum(x, 0), (EMPTY,)),
        "cumsum of 4000": Case(lambda n, x: n.cumsum(x), ((4000,),), ("float16", "bfloat16")),
        "cumsum in a dtype": Case(lambda n, x: n.cumsum(x, 0, "int8"), (X,), ("int8", "int64")),
        "cumsum with NaN": Case(lambda n, x: n.cumsum(x, 0), ((7, 4),), FLOATING, special=True),
        "cumprod": Case(lambda n, x: n.cumprod(x, -1), (X,), EVERY),
        "cumprod of all": Case(lambda n, x: n.cumprod(x), (X,)),
        "cumprod of nothing": Case(lambda n, x: n.cumprod(x, 1), (NONE,)),
        "cummax": Case(
            lambda x: gt.cummax(x, 1), (X,), REAL, lambda x: np.maximum.accumulate(x, 1)
        ),
        "cummax with NaN": Case(
            lambda x: gt.cummax(x, 0), ((7, 4),), FLOATING,
            lambda x: np.maximum.accumulate(x, 0), special=True,
        ),
        "cummin": Case(
            lambda x: gt.cummin(x, 2), (X,), REAL, lambda x: np.minimum.accumulate(x, 2)
        ),
        "cummin with NaN": Case(
            lambda x: gt.cummin(x, 0), ((7, 4),), FLOATING,
            lambda x: np.minimum.accumulate(x, 0), special=True,
        ),
        "from 0": Case(
            lambda n, x: n.cumulative_sum(x, axis=1, include_initial=True), (X,),
        ),
        "from 1": Case(
            lambda n, x: n.cumulative_prod(x, axis=0, include_initial=True), (X,),
        ),
        "logcumsumexp": Case(
            lambda x: gt.logcumsumexp(x, 1), (X,), FLOATING,
            lambda x: np.logaddexp.accumulate(x, 1),
        ),
        "logcumsumexp with NaN": Case(
            lambda x: gt.logcumsumexp(x, 0), ((7, 4),), ("float32", "float64"),
            lambda x: np.logaddexp.accumulate(x, 0), special=True,
        ),
        "recurrence": Case(
            lambda a, b: gt.Tensor.make(Recurrence(1), a, b), (X, X), INEXACT, _recurrence
        ),
        "recurrence backwards": Case(
            lambda a, b: gt.Tensor.make(Recurrence(1, True), a, b), (X, X), INEXACT, _backwards
        ),
        # By a quarter, so that states do not grow by themselves.
        "coupled recurrence": Case(
            lambda a, b: gt.Tensor.make(CoupledRecurrence(), a / 4, b), ((2, 2, 40), (2, 40)),
            INEXACT, lambda a, b: _coupled(a / 4, b),
        ),
        "coupled recurrence backwards": Case(
            lambda a, b: gt.Tensor.make(CoupledRecurrence(True), a / 4, b),
            ((3, 3, 2, 5), (3, 2, 5)), INEXACT, lambda a, b: _backwards_coupled(a / 4, b),
        ),
    },
}  # fmt: skip
