"""Inverses of many small triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SMALL, MANY = 16, 64
"""From so many triangles on, up to this size, their i-th rows are computed at once."""

LARGE = 192
"""Triangles above this size are inverted by their halves, whose products are fast."""


def inverse_of_triangles(low: Array, out: Array) -> None:
    """The inverses of lower triangles, (b, k, k)."""
    from scipy.linalg.lapack import dtrtri

    b, k, _ = low.shape
    if k > LARGE:
        h = k // 2
        first, last = out[:, :h, :h], out[:, h:, h:]
        inverse_of_triangles(low[:, :h, :h], first)
        inverse_of_triangles(low[:, h:, h:], last)
        np.matmul(-last, np.matmul(low[:, h:, :h], first), out=out[:, h:, :h])
        out[:, :h, h:] = 0.0
    elif k <= SMALL and b >= MANY:
        _by_rows(low, out)
    else:
        for x, y in zip(low, out, strict=True):
            y[...] = dtrtri(x.T, lower=0)[0].T


def _by_rows(low: Array, out: Array) -> None:
    out[...] = 0.0
    own = 1 / np.diagonal(low, 0, 1, 2)
    for i in range(low.shape[1]):
        out[:, i, i] = own[:, i]
        if i:
            before = np.matmul(low[:, i : i + 1, :i], out[:, :i, :i])[:, 0]
            out[:, i, :i] = -own[:, i, None] * before
