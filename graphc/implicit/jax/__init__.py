"""Implicit arrays in JAX's programs; the only part of ``graphc.implicit`` that imports JAX."""

from graphc.implicit.jax import control, custom, rules, rules_stacks, sharded
from graphc.implicit.jax.captured import call

__all__ = ["call", "control", "custom", "rules", "rules_stacks", "sharded"]
