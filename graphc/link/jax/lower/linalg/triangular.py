"""Triangular systems in ``jax.lax.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    agree,
    common,
    cut,
    inner,
    make_ragged,
    rule,
    unequal,
    zero_beyond,
)
from graphc.link.jax.counts import Count
from graphc.tensor.linalg.triangular import SolveTriangular


@backend.lower(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    """Solve by BLAS."""
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=op.lower,
        transpose_a=op.transposed,
        unit_diagonal=op.unit_diagonal,
    )


@rule(SolveTriangular)
def ragged_solve_triangular(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Solve with an identity block as padding of the matrix."""
    a, b = values
    for axis in range(-b.ndim, -1):
        (a, b), _ = common(node, [a, b], [a.ndim + axis, b.ndim + axis])
    matrix = pad_with_identity(node, a)
    size = matrix.shape[-1]
    b = make_ragged(cut(inner(b), size, b.ndim - 2), b.shape)
    columns = zero_beyond(b, (b.ndim - 2,))
    return make_ragged(lowering(node.op, matrix, columns), b.shape)


def pad_with_identity(node: Node, x: Any) -> Any:
    """Return the buffer of square matrices, with an identity block as padding."""
    n, m = x.shape[-2:]
    agree(n, m, unequal(node))
    buffer = inner(x)
    size = min(buffer.shape[-2:])
    buffer = cut(cut(buffer, size, x.ndim - 2), size, x.ndim - 1)
    if not isinstance(n, Count) and not isinstance(m, Count):
        return buffer
    n = m if isinstance(m, Count) else n
    square = Ragged(buffer, (*[None] * (x.ndim - 2), n, n))
    return jnp.where(square.inside(), buffer, jnp.eye(size, dtype=buffer.dtype))
