"""Diagonals; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.index import with_part
from graphc.tensor.arrays.diagonal import Diagonal, FromDiagonal, diagonal_length


@backend.lower(Diagonal)
def diagonal(op: Diagonal, x: Any) -> Any:
    """Of the last two axes: a gather, as to lay all elements in a row may copy them."""
    *batch, n, m = x.shape
    count = diagonal_length(n, m, op.offset)
    if not count:
        return mx.zeros((*batch, 0), x.dtype)
    return mx.diagonal(x, op.offset, -2, -1)


@backend.lower(FromDiagonal)
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    """Zeros but there."""
    return on_diagonal(v, *op.target(v.shape[-1], symbolic), op.offset)


def on_diagonal(v: Any, n: int, m: int, offset: int) -> Any:
    """Matrices of zeros with a value on a diagonal, to which its last axis broadcasts.

    In a row of all elements, those of a diagonal are one row and one column apart.
    """
    count = diagonal_length(n, m, offset)
    first = offset if offset >= 0 else -offset * m
    places = range(first, first + count * (m + 1), m + 1) if count else range(0)
    batch = v.shape[:-1]
    flat = mx.zeros((*batch, n * m), v.dtype)
    box = [*map(range, batch), places]
    return mx.reshape(with_part(flat, box, v), (*batch, n, m))
