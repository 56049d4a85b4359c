"""Products with structures that MLX has an algorithm of its own for."""

from __future__ import annotations

from typing import Any

from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.toeplitz import ToeplitzProduct, product
from graphc.link.mlx.backend import WIDE, backend

WIDE.add(ToeplitzProduct)


@backend.lower(ToeplitzProduct)
def toeplitz_product(op: ToeplitzProduct, t: Any, x: Any) -> Any:
    """By Fourier transforms in 32 bits; by blocks in float64, which those do not have."""
    return product(numpy_like(t), t, x, op.m, op.n)
