"""Special functions by ``jax.scipy.special`` where it is exact, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
from jax import lax

from graphc.ir import Graph, TensorType, dtype_name
from graphc.link.jax.backend import WIDENED, backend
from graphc.link.jax.lower.core.elementwise import broadcast_operands, in_float32
from graphc.link.legalize import inline
from graphc.link.program import Program
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.special.series import polynomial
from graphc.tensor.special.special import erfcx, ndtr, ndtri


def in_float64(row: Elementwise, compute: Callable[..., Any]) -> None:
    """Register a lowering that computes in float64 for every dtype."""

    def lower(op: Elementwise, *xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype == "float64":
            return compute(*broadcast_operands(*xs))
        wide = broadcast_operands(*[lax.convert_element_type(x, "float64") for x in xs])
        return lax.convert_element_type(compute(*wide), dtype)

    backend.lower(row)(lower)
    WIDENED.add(row)


INVERSE_SQUARES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)


def _erfcx(x: Any) -> Any:
    """Return erfcx: JAX's underflows near 26.6, so use a series from 20 on (DLMF 7.12.1)."""
    far = jnp.where(x > 20, x, 20)
    series = polynomial(1 / (2 * far * far), INVERSE_SQUARES) / (far * math.sqrt(math.pi))
    return jnp.where(x > 20, series, jax.scipy.special.erfcx(jnp.minimum(x, 20)))


in_float64(erfcx, _erfcx)

for _row, _compute in {ndtr: jax.scipy.special.ndtr, ndtri: jax.scipy.special.ndtri}.items():
    _narrow = in_float32(_compute)
    backend.lower(_row)(lambda op, x, compute=_narrow: compute(x))


def as_jax_function(expand: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of JAX arrays that computes a graph's function, for use in loops."""

    def compute(*xs: Any) -> Any:
        inputs = [TensorType(dtype_name(x.dtype), x.shape)() for x in xs]
        graph = inline(Graph(inputs, expand(*inputs)), backend)
        return Program(graph, backend, None).trace(*xs)

    return compute
