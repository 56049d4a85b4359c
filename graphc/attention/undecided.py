"""Blocks that intervals leave undecided, evaluated in a program: corners, then all elements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphc.attention.blocks import Decided, Tiling, ends
from graphc.attention.mods import Mod, tiled
from graphc.loop.functional import loop
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import set_subtensor
from graphc.tensor.arrays.reduce import all as all_of, any as any_of, argmax
from graphc.tensor.core.elementwise import cast, logical_and, logical_not, minimum
from graphc.tensor.core.shape import reshape
from graphc.tensor.core.tensor import Tensor, as_tensor

STEPS = 4
"""The blocks that a backend without loops evaluates before it tests whether any is left."""


def decided_by_values(mod: Mod, tiling: Tiling, decided: Decided) -> Decided:
    """The blocks that intervals leave undecided, decided by the mask's values; symbolic.

    Args:
        mod: The mask.
        tiling: The blocks, one at least.
        decided: What intervals say of them, NumPy or symbolic arrays.
    """
    certain, possible = [as_tensor(x) for x in decided]
    some, every = _corners(mod, tiling)
    cut = logical_and(some, logical_not(every))
    left = logical_and(logical_and(possible, logical_not(certain)), logical_not(cut))
    first = _Carry(*[reshape(x, (-1,)) for x in (certain, possible, left)])
    # A number of steps would be part of the program; a condition is evaluated in it. There is
    # always a first step, whose block stays what it is.
    last, _ = loop(
        lambda carry, _: (_next(mod, tiling, carry), None),
        first,
        until=lambda carry: logical_not(any_of(carry.left)),
        unroll=STEPS,
        name="create_block_mask",
    )
    return Decided(reshape(last.certain, tiling.counts), reshape(last.possible, tiling.counts))


def _corners(mod: Mod, tiling: Tiling) -> tuple[Tensor, Tensor]:
    """Whether any of the four corners of each block is kept, and whether all are."""
    batch, heads, rows, columns = tiling.counts
    places = [
        np.arange(batch, dtype=np.int32),
        np.arange(heads, dtype=np.int32),
        np.stack(ends(tiling.queries, tiling.block[0]), 1).reshape(-1),
        np.stack(ends(tiling.keys, tiling.block[1]), 1).reshape(-1),
    ]
    kept = tiled(mod.graph, mod.captured, [as_tensor(x) for x in places])
    kept = broadcast_to(kept, (batch, heads, 2 * rows, 2 * columns))
    kept = reshape(kept, (batch, heads, rows, 2, columns, 2))
    return any_of(kept, (3, 5)), all_of(kept, (3, 5))


class _Carry(NamedTuple):
    """Bool vectors over all blocks: certainly full, possibly not empty, and still undecided."""

    certain: Tensor
    possible: Tensor
    left: Tensor


def _next(mod: Mod, tiling: Tiling, carry: _Carry) -> _Carry:
    """The state after one more block is evaluated."""
    block = cast(argmax(cast(carry.left, "int32")), "int32")
    _, heads, rows, columns = tiling.counts
    q, k = (block // columns) % rows, block % columns
    b, h = block // (columns * rows * heads), (block // (columns * rows)) % heads
    places = [
        reshape(b, (1,)),
        reshape(h, (1,)),
        _elements(q, tiling.block[0], tiling.queries),
        _elements(k, tiling.block[1], tiling.keys),
    ]
    kept = tiled(mod.graph, mod.captured, places)
    return _Carry(
        set_subtensor(carry.certain[block], all_of(kept)),
        set_subtensor(carry.possible[block], any_of(kept)),
        set_subtensor(carry.left[block], False),
    )


def _elements(block: Tensor, size: int, n: int) -> Tensor:
    """The numbers of a block's elements; beyond the last one, that one again."""
    size = min(size, n)
    first = block * np.int32(size)
    return minimum(first + arange(size, dtype="int32"), np.int32(n - 1))
