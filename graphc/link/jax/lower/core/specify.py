"""Checks of an array's lengths, which are known while JAX traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, agree, inner, make_ragged, rule, unequal
from graphc.link.jax.counts import is_known
from graphc.tensor.core.specify import SpecifyShape


@backend.lower(SpecifyShape)
def specify_shape(op: SpecifyShape, x: Any, *symbolic: Any) -> Any:
    """Return the array; raise where its lengths differ."""
    op.admit(x.shape, symbolic)
    return x


@rule(SpecifyShape)
def ragged_specify_shape(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Compare unknown lengths after the program has run."""
    op: Any = node.op
    x, *symbolic = values
    lengths = iter(symbolic)
    shape = []
    for length, declared in zip(x.shape, op.shape, strict=True):
        n = next(lengths) if declared is None else declared
        n = length if is_known(n) and int(n) == -1 else n
        agree(length, n, unequal(node))
        shape.append(length if is_known(length) else n)
    return make_ragged(inner(x), shape, x.fill if isinstance(x, Ragged) else None)
