"""Symmetric matrices of one triangle."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.mirror import Mirror


@backend.lower(Mirror)
def mirror(op: Mirror, x: Any) -> Any:
    """The element of the triangle that is read, at both places."""
    places = mx.arange(x.shape[-1])
    row, column = places[:, None], places
    own = mx.greater(row, column) if op.lower else mx.less(row, column)
    other, middle = mx.swapaxes(x, -1, -2), x
    if op.conjugated and x.dtype == mx.complex64:
        other, middle = mx.conj(other), mx.real(x).astype(x.dtype)
    return mx.where(own, x, mx.where(mx.equal(row, column), middle, other))
