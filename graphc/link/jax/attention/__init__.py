"""Attention of JAX arrays: the kernel, and block masks of functions written in JAX."""

from graphc.link.jax.attention.attend import flex_attention
from graphc.link.jax.attention.create import tables as mask_tables
from graphc.link.jax.attention.functions import check_kept, mask_values

__all__ = ["check_kept", "flex_attention", "mask_tables", "mask_values"]
