"""Splits in ``jax.lax``; the lengths of the parts are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, agree, at_least, inner, ragged, rule, unequal
from graphc.link.jax.counts import is_known, plus
from graphc.link.jax.lower.arrays.bounded_index import shifted
from graphc.tensor.arrays.split import Split


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Split into one slice for each part."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    return tuple(lax.slice_in_dim(x, *ends, axis=op.axis) for ends in pairwise(bounds))


@rule(Split)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Split along an axis of unknown length, or into parts of unknown lengths."""
    op: Any = node.op
    x, *symbolic = values
    left = iter(symbolic)
    sizes = [next(left) if n is None else n for n in op.sizes]
    start: Any = 0
    found = []
    for size in sizes:
        at_least(size, 0, unequal(node))
        shape = [size if i == op.axis else n for i, n in enumerate(x.shape)]
        found.append(ragged(shifted(inner(x), start, size, op.axis), shape))
        known = is_known(start) and is_known(size)
        start = int(start) + int(size) if known else plus(start, size)
    agree(start, x.shape[op.axis], unequal(node))
    return tuple(found)
