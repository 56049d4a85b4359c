"""Implicit arrays in JAX programs: an interpreter of what JAX traces, and rules."""

from graphc.link.jax.implicit import (
    control,
    custom,
    ragged,
    rules,
    rules_stacks,
    rules_uniform,
    sharded,
)
from graphc.link.jax.implicit.captured import call
from graphc.link.jax.implicit.fields import joined
from graphc.link.jax.implicit.interpreter import bind, where_now
from graphc.link.jax.implicit.numpy_like import NAMESPACE, bcoo
from graphc.link.jax.implicit.quantized import matmul as quantized_matmul
from graphc.link.jax.implicit.straight_through import handled, straight_through

__all__ = [
    "NAMESPACE",
    "bcoo",
    "bind",
    "call",
    "control",
    "custom",
    "handled",
    "joined",
    "quantized_matmul",
    "ragged",
    "rules",
    "rules_stacks",
    "rules_uniform",
    "sharded",
    "straight_through",
    "where_now",
]
