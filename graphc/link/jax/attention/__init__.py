"""Attention of JAX arrays: the kernel, and block masks of functions written in JAX."""

from graphc.link.jax.attention.attend import flex_attention
from graphc.link.jax.attention.create import mask_tables
from graphc.link.jax.attention.functions import check_lossless, mask_values

__all__ = ["check_lossless", "flex_attention", "mask_tables", "mask_values"]
