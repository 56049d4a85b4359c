"""LU factors and pivots in ``jax.lax.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    cut,
    inner,
    make_ragged,
    rule,
    unknown_length_error,
    within,
)
from graphc.link.jax.counts import is_same
from graphc.link.jax.lower.linalg.triangular import pad_with_identity
from graphc.tensor.linalg.lu import LU, PivotsToPermutation


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    return tuple(lax.linalg.lu(a))


@backend.lower(PivotsToPermutation)
def pivots_to_permutation(op: PivotsToPermutation, exchanges: Any, x: Any) -> Any:
    return lax.linalg.lu_pivots_to_permutation(exchanges, x.shape[0])


@rule(LU)
def ragged_lu(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Factorise with an identity block as padding, whose rows are never exchanged."""
    (x,) = values
    *batch, n, m = x.shape
    if not is_same(n, m):
        raise unknown_length_error(node)
    packed, exchanges, order = lowering(node.op, pad_with_identity(node, x))
    return (
        make_ragged(packed, x.shape),
        make_ragged(exchanges, [*batch, n]),
        make_ragged(order, [*batch, n]),
    )


@rule(PivotsToPermutation)
def ragged_pivots_to_permutation(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Convert pivots; unused ones exchange no rows."""
    exchanges, x = values
    if not is_same(exchanges.shape[-1], x.shape[0]):
        raise unknown_length_error(node)
    buffer, rows = inner(exchanges), inner(x)
    size = min(buffer.shape[-1], rows.shape[0])
    buffer = cut(buffer, size, buffer.ndim - 1)
    identity = lax.broadcasted_iota(np.int32, buffer.shape, buffer.ndim - 1)
    mask = within(buffer.shape, buffer.ndim - 1, exchanges.shape[-1])
    permutation = lowering(node.op, jnp.where(mask, buffer, identity), cut(rows, size, 0))
    return make_ragged(permutation, exchanges.shape)
