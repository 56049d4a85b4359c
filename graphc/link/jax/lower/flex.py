"""Attention by functions of single elements, and its gradient, in calls of JAX."""

from __future__ import annotations

from typing import Any

from graphc.attention.flex import Flex, FlexGradient
from graphc.link.jax.attention import accelerated, lowered
from graphc.link.jax.attention.accelerated import KernelFlex, KernelFlexGradient
from graphc.link.jax.backend import backend


@backend.lower(Flex)
def flex(op: Flex, *values: Any) -> Any:
    """Lower attention; blocks that are not in the tables cost no time."""
    return lowered.flex(op, values)


@backend.lower(FlexGradient)
def flex_gradient(op: FlexGradient, *values: Any) -> Any:
    """Lower the gradient of attention, which recomputes the weights block by block."""
    return lowered.flex_gradient(op, values)


@backend.lower(KernelFlex)
def kernel_flex(op: KernelFlex, *values: Any) -> Any:
    """Lower attention to kernels for GPUs."""
    return accelerated.flex(op, values)


@backend.lower(KernelFlexGradient)
def kernel_flex_gradient(op: KernelFlexGradient, *values: Any) -> Any:
    """Lower the gradient of attention to kernels for GPUs."""
    return accelerated.flex_gradient(op, values)
