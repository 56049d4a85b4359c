"""Joins and splits, at known lengths."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.index import part_of
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate arrays; empty ones add nothing."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return filled[0] if len(filled) == 1 else mx.concatenate(filled, op.axis)


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Return a view of each part."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    ranges = [range(n) for n in x.shape]
    return tuple(
        part_of(x, [*ranges[: op.axis], range(*ends), *ranges[op.axis + 1 :]])
        for ends in pairwise(bounds)
    )
