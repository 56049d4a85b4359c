"""Products with packed codes in calls of JAX."""

from __future__ import annotations

from typing import Any

from graphc.implicit.quantized import QuantizedMatmul
from graphc.link.jax.backend import backend
from graphc.link.jax.devices import DECODING

DECODING.add(QuantizedMatmul)


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    # Programs without codes do not import the decoder.
    from graphc.link.jax.implicit import quantized  # noqa: PLC0415

    return quantized.matmul(op.coding, op.transposed, x, packed, *parts)
