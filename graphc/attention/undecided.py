"""Block tables that a program computes.

Blocks that intervals leave undecided are evaluated: their corners, then all of their elements.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphc.attention.blocks import (
    BlockBounds,
    Tables,
    Tiling,
    block_ends,
    block_indices,
    block_tables,
    bounds_of_blocks,
    shared_tables,
)
from graphc.attention.intervals.graphs import bounds
from graphc.attention.mods import Mod, map_over_grid, uses
from graphc.loop.functional import loop
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import set_subtensor
from graphc.tensor.arrays.reduce import all as all_of, any as any_of, argmax
from graphc.tensor.core.elementwise import cast, logical_and, logical_not, minimum
from graphc.tensor.core.shape import reshape
from graphc.tensor.core.tensor import Tensor, as_tensor

STEPS = 4
"""The blocks that a backend without loops evaluates before it tests whether any remains."""


def symbolic_tables(mod: Mod, tiling: Tiling) -> Tables:
    """Return the tables of a mask as graphs of the arrays that it captures."""

    def compute(reduced: Tiling) -> Tables:
        interval = bounds(mod.graph, block_indices(*reduced), mod.captured, reduced.span)
        blocks = _decide_by_values(mod, reduced, bounds_of_blocks(interval, reduced.counts))
        return block_tables(*blocks, reduced.keys, reduced.block[1])

    return shared_tables(uses(mod.graph), tiling, compute)


def _decide_by_values(mod: Mod, tiling: Tiling, bounds: BlockBounds) -> BlockBounds:
    """Return symbolic bounds in which the mask's values decide the blocks left undecided.

    Args:
        mod: The mask.
        tiling: The blocks, at least one.
        bounds: The bounds by intervals, NumPy or symbolic arrays.
    """
    certain, possible = [as_tensor(x) for x in bounds]
    some, every = _corners(mod, tiling)
    is_mixed = logical_and(some, logical_not(every))
    undecided = logical_and(logical_and(possible, logical_not(certain)), logical_not(is_mixed))
    first = _Carry(*[reshape(x, (-1,)) for x in (certain, possible, undecided)])
    # A number of steps would be static; a condition is evaluated at run time. The first step
    # always runs; if no block is undecided, evaluating block 0 does not change its bounds.
    last, _ = loop(
        lambda carry, _: (_evaluate_next(mod, tiling, carry), None),
        first,
        until=lambda carry: logical_not(any_of(carry.undecided)),
        unroll=STEPS,
        name="create_block_mask",
    )
    return BlockBounds(reshape(last.certain, tiling.counts), reshape(last.possible, tiling.counts))


def _corners(mod: Mod, tiling: Tiling) -> tuple[Tensor, Tensor]:
    """Return whether the mask keeps any of the four corners of each block, and whether all."""
    batch, heads, rows, columns = tiling.counts
    indices = [
        np.arange(batch, dtype=np.int32),
        np.arange(heads, dtype=np.int32),
        np.stack(block_ends(tiling.queries, tiling.block[0]), 1).reshape(-1),
        np.stack(block_ends(tiling.keys, tiling.block[1]), 1).reshape(-1),
    ]
    keep = map_over_grid(mod.graph, mod.captured, [as_tensor(x) for x in indices])
    keep = broadcast_to(keep, (batch, heads, 2 * rows, 2 * columns))
    keep = reshape(keep, (batch, heads, rows, 2, columns, 2))
    return any_of(keep, (3, 5)), all_of(keep, (3, 5))


class _Carry(NamedTuple):
    """Bool vectors over all blocks: certainly full, possibly not empty, and still undecided."""

    certain: Tensor
    possible: Tensor
    undecided: Tensor


def _evaluate_next(mod: Mod, tiling: Tiling, carry: _Carry) -> _Carry:
    """Return the state after one more block is evaluated."""
    block = cast(argmax(cast(carry.undecided, "int32")), "int32")
    _, heads, rows, columns = tiling.counts
    q, k = (block // columns) % rows, block % columns
    b, h = block // (columns * rows * heads), (block // (columns * rows)) % heads
    indices = [
        reshape(b, (1,)),
        reshape(h, (1,)),
        _elements(q, tiling.block[0], tiling.queries),
        _elements(k, tiling.block[1], tiling.keys),
    ]
    keep = map_over_grid(mod.graph, mod.captured, indices)
    return _Carry(
        set_subtensor(carry.certain[block], all_of(keep)),
        set_subtensor(carry.possible[block], any_of(keep)),
        set_subtensor(carry.undecided[block], False),
    )


def _elements(block: Tensor, size: int, n: int) -> Tensor:
    """Return the indices of a block's elements; beyond the end, the last index is repeated."""
    size = min(size, n)
    first = block * np.int32(size)
    return minimum(first + arange(size, dtype="int32"), np.int32(n - 1))
