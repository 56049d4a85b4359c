"""Splits in ``jax.lax``; the sections' lengths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, agree, at_least, inner, make_ragged, rule, unequal
from graphc.link.jax.counts import is_known, plus
from graphc.link.jax.lower.arrays.bounded_index import shift
from graphc.tensor.arrays.split import Split


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Return one slice for each section."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    return tuple(lax.slice_in_dim(x, *ends, axis=op.axis) for ends in pairwise(bounds))


@rule(Split)
def ragged_split(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Split along an axis of unknown length, or into sections of unknown lengths."""
    op: Any = node.op
    x, *symbolic = values
    lengths = iter(symbolic)
    sizes = [next(lengths) if n is None else n for n in op.sizes]
    start: Any = 0
    sections = []
    for size in sizes:
        at_least(size, 0, unequal(node))
        shape = [size if i == op.axis else n for i, n in enumerate(x.shape)]
        sections.append(make_ragged(shift(inner(x), start, size, op.axis), shape))
        is_static = is_known(start) and is_known(size)
        start = int(start) + int(size) if is_static else plus(start, size)
    agree(start, x.shape[op.axis], unequal(node))
    return tuple(sections)
