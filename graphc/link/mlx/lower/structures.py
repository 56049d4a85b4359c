"""Products with structured matrices for which MLX has a special algorithm."""

from __future__ import annotations

from typing import Any

from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.toeplitz import ToeplitzProduct, product
from graphc.link.mlx.backend import WIDE, backend

WIDE.add(ToeplitzProduct)


@backend.lower(ToeplitzProduct)
def toeplitz_product(op: ToeplitzProduct, t: Any, x: Any) -> Any:
    """Multiply by Fourier transforms in 32 bits, or by blocks in float64."""
    return product(numpy_like(t), t, x, op.m, op.n)
