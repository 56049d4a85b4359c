"""Parts of arrays by integers, slices, lists and arrays, constant and symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

TABLE = np.arange(24.0).reshape(4, 6) ** 1.5


def program() -> list[Any]:
    x = pt.matrix("x")
    i, j = pt.lvectors("i", "j")
    n = pt.lscalar("n")
    outputs = [
        x[1:3, ::-2],
        x[[0, 3, 0], [5, 1, 5]],
        x[i, j],
        x[i[:, None], j[None, :]],
        x[n],
        x[:, n, None],
        x[-1, 1:-1],
        x[..., ::-1],
        pt.take(x, i, axis=1),
        x[pt.argsort(x[:, 0])[::-1]],
        graphc.grad((x[i] ** 2).sum(), x),
    ]
    return graphc.function([x, i, j, n], outputs)(TABLE, [2, 0, 2], [1, 5, 0], 3)


def expected() -> list[Any]:
    i, j = np.array([2, 0, 2]), np.array([1, 5, 0])
    count = np.bincount(i, minlength=4)[:, None]
    return [
        TABLE[1:3, ::-2],
        np.array([TABLE[0, 5], TABLE[3, 1], TABLE[0, 5]]),
        np.array([TABLE[p] for p in zip(i, j, strict=True)]),
        TABLE[np.ix_(i, j)],
        TABLE[3],
        TABLE[:, 3].reshape(4, 1),
        TABLE[3, 1:5],
        np.fliplr(TABLE),
        TABLE.T[i].T,
        np.flipud(TABLE),
        2 * count * TABLE,
    ]
