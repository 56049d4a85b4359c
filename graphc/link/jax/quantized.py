"""Products with packed codes in JAX: a block is decoded at a time."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphc.implicit.quantized import QuantizedMatmul
from graphc.link.jax.backend import backend


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """As structures of JAX's arrays have it."""
    # A program without codes does not load what decodes them.
    products = import_module("graphc.implicit.jax.quantized")
    return products.matmul(op.coding, op.transposed, x, packed, *parts)
