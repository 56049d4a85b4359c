"""Symmetric matrices from one triangle."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.mirror import Mirror


@backend.lower(Mirror)
def mirror(op: Mirror, x: Any) -> Any:
    """Copy the triangle that is read to the other triangle."""
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    opposite = lax.transpose(x, axes)
    row, column = (lax.broadcasted_iota(np.int32, x.shape, x.ndim - k) for k in (2, 1))
    is_read = lax.gt(row, column) if op.lower else lax.lt(row, column)
    diagonal = x
    if op.conjugated and x.dtype.kind == "c":
        opposite = lax.conj(opposite)
        diagonal = lax.convert_element_type(lax.real(x), x.dtype)
    return lax.select(is_read, x, lax.select(lax.eq(row, column), diagonal, opposite))
