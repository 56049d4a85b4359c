"""Arrays taken apart; the lengths of the parts are Python integers here."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.index import part_of
from graphc.tensor.arrays.split import Split


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """A view for each part."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    whole = [range(n) for n in x.shape]
    return tuple(
        part_of(x, [*whole[: op.axis], range(*ends), *whole[op.axis + 1 :]])
        for ends in pairwise(bounds)
    )
