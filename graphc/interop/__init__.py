"""Other libraries' programs in graphs, and graphs in other libraries' programs."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.interop.wrap import wrap_jax
from graphc.interop.wrap_py import as_op, wrap_py

if TYPE_CHECKING:
    from graphc.interop import (
        jax as jax,
        pymc as pymc,
        pytensor as pytensor,
        weights as weights,
    )
else:
    lazy.provide(
        __name__,
        modules=tuple(f"graphc.interop.{name}" for name in ("jax", "pymc", "pytensor", "weights")),
    )
    __getattr__, __dir__ = lazy.attributes(globals())

__all__ = ["as_op", "jax", "pymc", "pytensor", "weights", "wrap_jax", "wrap_py"]
