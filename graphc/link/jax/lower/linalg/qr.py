"""Orthonormal factors in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import refuse
from graphc.tensor.linalg.qr import QR, ComplexQR, Orthogonal, PivotedQR


@backend.lower(QR, ComplexQR)
def qr(op: Orthogonal, x: Any) -> Any:
    refuse(op.name, *x.shape[-2:])
    return tuple(lax.linalg.qr(x, full_matrices=op.full))


@backend.lower(PivotedQR)
def pivoted_qr(op: PivotedQR, x: Any) -> Any:
    """Factorise by LAPACK; the pivots count from 0."""
    refuse(op.name, *x.shape[-2:])
    q, r, p = lax.linalg.qr(x, pivoting=True, full_matrices=op.full)
    return q, r, lax.convert_element_type(p, np.int32)
