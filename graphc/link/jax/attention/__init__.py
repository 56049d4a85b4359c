"""Attention of JAX arrays: the kernel, and mask and score functions written in JAX."""

from graphc.link.jax.attention.attend import flex_attention
from graphc.link.jax.attention.functions import check_lossless
from graphc.link.jax.attention.mods import (
    call_mod,
    captured_values,
    placeholders,
    traced_tables,
)

__all__ = [
    "call_mod",
    "captured_values",
    "check_lossless",
    "flex_attention",
    "placeholders",
    "traced_tables",
]
