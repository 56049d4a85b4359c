"""Functions of statistics in JAX: those that ``jax.scipy.special`` is exact for, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.scipy.special
from jax import lax

from graphc.ir import Graph, TensorType, dtype_name
from graphc.link.jax.backend import WIDENED, backend
from graphc.link.jax.elementwise import fitted
from graphc.link.legalize import inline
from graphc.link.program import Program
from graphc.tensor.elementwise import Elementwise
from graphc.tensor.special import erfcx, ndtr

__all__ = ["in_float64", "traced"]


def in_float64(row: Elementwise, compute: Callable[..., Any]) -> None:
    """Enter a lowering that computes in float64, whatever the operands' dtype."""

    def lowered(op: Elementwise, *xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype == "float64":
            return compute(*fitted(*xs))
        whole = fitted(*[lax.convert_element_type(x, "float64") for x in xs])
        return lax.convert_element_type(compute(*whole), dtype)

    backend.lower(row)(lowered)
    WIDENED.add(row)


# In float32 it is 0 from x = 9.2 on, up to x = 9.4.
in_float64(erfcx, jax.scipy.special.erfcx)


@backend.lower(ndtr)
def _ndtr(op: Elementwise, x: Any) -> Any:
    return jax.scipy.special.ndtr(x)


def traced(expand: Callable[..., Any]) -> Callable[..., Any]:
    """A function of graphs as one of JAX arrays, for lowerings that call it in a loop."""

    def compute(*xs: Any) -> Any:
        inputs = [TensorType(dtype_name(x.dtype), x.shape)() for x in xs]
        graph = inline(Graph(inputs, expand(*inputs)), backend)
        return Program(graph, backend, None).trace(*xs)

    return compute
