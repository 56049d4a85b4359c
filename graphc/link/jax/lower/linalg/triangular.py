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
    ragged,
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
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Solve with an identity block behind a matrix of unknown length."""
    a, b = values
    found = [a, b]
    for axis in range(-b.ndim, -1):
        if axis == -2:
            found, _ = common(node, found, [a.ndim - 2, b.ndim - 2])
        else:
            found, _ = common(node, found, [a.ndim + axis, b.ndim + axis])
    a, b = found
    matrix = bordered(node, a)
    size = matrix.shape[-1]
    b = ragged(cut(inner(b), size, b.ndim - 2), b.shape)
    columns = zero_beyond(b, (b.ndim - 2,))
    return ragged(lowering(node.op, matrix, columns), b.shape)


def bordered(node: Node, x: Any) -> Any:
    """The buffer of square matrices, with an identity block behind those of unknown length."""
    n, m = x.shape[-2:]
    agree(n, m, unequal(node))
    buffer = inner(x)
    size = min(buffer.shape[-2:])
    buffer = cut(cut(buffer, size, x.ndim - 2), size, x.ndim - 1)
    if not isinstance(n, Count) and not isinstance(m, Count):
        return buffer
    n = m if isinstance(m, Count) else n
    own = Ragged(buffer, (*[None] * (x.ndim - 2), n, n))
    return jnp.where(own.inside(), buffer, jnp.eye(size, dtype=buffer.dtype))
