"""Symmetric matrices of one triangle."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.mirror import Mirror


@backend.lower(Mirror)
def mirror(op: Mirror, x: Any) -> Any:
    """Copy the triangle that is read to the other one."""
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    other = lax.transpose(x, axes)
    row, column = (lax.broadcasted_iota(np.int32, x.shape, x.ndim - k) for k in (2, 1))
    own = lax.gt(row, column) if op.lower else lax.lt(row, column)
    middle = x
    if op.conjugated and x.dtype.kind == "c":
        other = lax.conj(other)
        middle = lax.convert_element_type(lax.real(x), x.dtype)
    return lax.select(own, x, lax.select(lax.eq(row, column), middle, other))
