"""Implicit arrays, products with packed codes, and attention, whose code few programs import."""

from __future__ import annotations

from typing import Any

from graphc.attention.flex import Flex, FlexGradient
from graphc.implicit.node import Implicit
from graphc.implicit.quantized import QuantizedMatmul
from graphc.link.jax.backend import backend


@backend.lower(Implicit)
def implicit(op: Implicit, *fields: Any) -> Any:
    return op.treedef.build(fields)


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    # Programs without codes do not import the decoder.
    from graphc.link.jax.implicit import quantized  # noqa: PLC0415

    return quantized.matmul(op.coding, op.transposed, x, packed, *parts)


@backend.lower(Flex)
def flex(op: Flex, *values: Any) -> Any:
    """Lower attention; blocks that are not in the tables cost no time."""
    from graphc.link.jax.attention import lowered  # noqa: PLC0415

    return lowered.flex(op, values)


@backend.lower(FlexGradient)
def flex_gradient(op: FlexGradient, *values: Any) -> Any:
    """Lower the gradient of attention, which recomputes the weights block by block."""
    from graphc.link.jax.attention import lowered  # noqa: PLC0415

    return lowered.flex_gradient(op, values)
