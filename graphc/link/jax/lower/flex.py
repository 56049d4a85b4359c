"""Lowerings of attention; the first program with attention imports the kernel."""

from __future__ import annotations

from typing import Any

from graphc.attention.flex import Flex, FlexGradient
from graphc.link.jax.backend import backend


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
