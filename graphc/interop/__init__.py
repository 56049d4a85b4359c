"""Other libraries' programs in graphs, and graphs in other libraries' programs."""

from graphc.interop.wrap import wrap_jax
from graphc.interop.wrap_py import as_op, wrap_py

__all__ = ["as_op", "wrap_jax", "wrap_py"]
