"""Other libraries' programs in graphs, and graphs in other libraries' programs."""

from graphc.interop.wrap import wrap_jax

__all__ = ["wrap_jax"]
