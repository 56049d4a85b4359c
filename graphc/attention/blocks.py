"""The blocks of a mask: empty, full, or partial, where the mask function decides.

Each block is decided by the cheapest means that suffices: intervals of the mask function over the
block, its values at the block's corners, or all of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.grids import compact
from graphc.attention.intervals.interval import Interval, point
from graphc.implicit.namespace import numpy_like

Tables = tuple[Any, Any, Any, Any]
Evaluate = Callable[[Any, Any, Any, Any], Any]
"""A mask for batches (n, 1, 1), heads (n, 1, 1), queries (n, m, 1) and keys (n, 1, l)."""

SPAN = 4
"""The longest range of a captured array whose elements are bounded exactly, in blocks."""


class Tiling(NamedTuple):
    """The lengths of a mask, and the size of its blocks.

    Attributes:
        batch: The number of sequences, 1 if they share one mask.
        heads: The number of heads, 1 if they share one mask.
        queries: The number of queries.
        keys: The number of keys.
        block: The numbers of queries and keys of a block; the last one may have fewer.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    block: tuple[int, int]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The numbers of blocks along batch, heads, queries and keys."""
        rows, columns = self.block
        return self.batch, self.heads, -(-self.queries // rows), -(-self.keys // columns)

    @property
    def span(self) -> int:
        """The longest range of a captured array whose elements are bounded exactly."""
        return SPAN * max(self.block)


class BlockBounds(NamedTuple):
    """Bounds of a mask over blocks, bool (B, H, rows, columns).

    Attributes:
        certain: Whether the mask certainly keeps all elements of the block.
        possible: Whether the mask may keep an element of the block.
    """

    certain: Any
    possible: Any


def block_indices(
    batch: int, heads: int, queries: int, keys: int, block: tuple[int, int]
) -> tuple[Interval, Interval, Interval, Interval]:
    """Return the intervals of batch, head, query and key in each block, int32.

    Returns:
        Points (B, 1, 1, 1) and (1, H, 1, 1), and intervals (1, 1, rows, 1) and (1, 1, 1, columns),
        the last of which end where the queries and keys do.

    Example:
        >>> _, _, q, _ = block_indices(1, 1, 300, 300, (128, 128))
        >>> q.low.ravel().tolist(), q.high.ravel().tolist()
        ([0, 128, 256], [127, 255, 299])
    """
    b = np.arange(batch, dtype=np.int32).reshape(-1, 1, 1, 1)
    h = np.arange(heads, dtype=np.int32).reshape(1, -1, 1, 1)
    rows, columns = block
    q, k = block_ends(queries, rows), block_ends(keys, columns)
    return (
        point(b),
        point(h),
        Interval(*[x.reshape(1, 1, -1, 1) for x in q]),
        Interval(*[x.reshape(1, 1, 1, -1) for x in k]),
    )


def block_ends(n: int, size: int) -> tuple[Any, Any]:
    """Return the first and the last element of each block of ``n`` elements, int32."""
    low = np.arange(0, n, size, dtype=np.int64)
    return low.astype(np.int32), np.minimum(low + size - 1, n - 1).astype(np.int32)


def bounds_of_blocks(keep: Interval, counts: tuple[int, int, int, int]) -> BlockBounds:
    """Return the bounds of a mask over blocks, from its intervals.

    Args:
        keep: The interval of the mask in each block.
        counts: The numbers of blocks along batch, heads, queries and keys.
    """
    return BlockBounds(*[numpy_like(end).broadcast_to(end, counts) for end in keep])


def block_tables(certain: Any, possible: Any, keys: int, columns: int) -> Tables:
    """Return the tables of a mask, which list the partial and the full blocks of each row.

    Args:
        certain: bool (B, H, rows, columns): whether the mask keeps all elements of the block.
        possible: bool (B, H, rows, columns): whether the mask keeps any element of the block.
        keys: The number of keys.
        columns: The number of keys of a block. A last block of fewer keys is listed as partial
            where it is full, because full blocks must have all of their keys.

    Returns:
        For the partial blocks, then for the full ones: their number in each row, int32
        (B, H, rows), and their indices followed by all others, int32 (B, H, rows, columns).

    Example:
        >>> full = np.tri(2, dtype=bool)[None, None]
        >>> [x.tolist() for x in block_tables(full, full, 3, 2)]
        [[[[0, 1]]], [[[[0, 1], [1, 0]]]], [[[1, 1]]], [[[[0, 1], [0, 1]]]]]
    """
    xp = numpy_like(certain, possible)
    if keys % columns:
        has_all_keys = np.arange(-(-keys // columns)) < keys // columns
        certain = xp.logical_and(certain, has_all_keys)
    partial = xp.logical_and(possible, xp.logical_not(certain))
    return (*compact(partial), *compact(certain))


def shared_tables(
    uses: Sequence[bool], tiling: Tiling, compute_tables: Callable[[Tiling], Sequence[Any]]
) -> Tables:
    """Return the tables of a mask, computed once for sequences and heads that share them.

    Args:
        uses: Whether the mask function depends on the sequence, and on the head.
        tiling: The blocks.
        compute_tables: Computes the tables of a tiling that has queries and keys; called with one
            sequence or head if the mask function does not depend on the sequence or head.
    """
    batch, heads = tiling.counts[:2]
    reduced = tiling._replace(batch=batch if uses[0] else 1, heads=heads if uses[1] else 1)
    if 0 in reduced.counts:
        empty = np.zeros(tiling.counts, bool)
        return block_tables(empty, empty, tiling.keys, tiling.block[1])
    tables = compute_tables(reduced)
    xp = numpy_like(*tables)
    a, b, c, d = [xp.broadcast_to(x, (batch, heads, *x.shape[2:])) for x in tables]
    return a, b, c, d


# Values of blocks, in NumPy.

MAX_ELEMENTS = 2**17
"""The elements that are evaluated together: few enough for a cache, many enough for a call."""

ROWS = 16
"""The rows of a block that are evaluated before it is known to be partial."""


def evaluate_blocks(evaluate: Evaluate, tiling: Tiling, bounds: BlockBounds) -> BlockBounds:
    """Return bounds in which the mask's values decide the blocks that intervals left undecided.

    Args:
        evaluate: The mask.
        tiling: The blocks.
        bounds: The bounds by intervals, NumPy arrays.
    """
    certain, possible = bounds.certain.copy(), bounds.possible.copy()
    blocks = np.argwhere(possible & ~certain)
    some, all_ = np.zeros(len(blocks), bool), np.ones(len(blocks), bool)
    remaining = np.arange(len(blocks))
    for rows, columns in _passes(tiling):
        size = max(1, MAX_ELEMENTS // (rows.size * columns.size))
        for first in range(0, len(remaining), size):
            chunk = remaining[first : first + size]
            keep = _values(evaluate, tiling, blocks[chunk], rows, columns)
            some[chunk] |= keep.any((1, 2))
            all_[chunk] &= keep.all((1, 2))
        remaining = remaining[~some[remaining] | all_[remaining]]
        if not remaining.size:
            break
    certain[tuple(blocks.T)], possible[tuple(blocks.T)] = all_, some
    return BlockBounds(certain, possible)


def _passes(tiling: Tiling) -> list[tuple[Any, Any]]:
    """Return rows and columns of a block: its corners, then all elements in chunks of rows."""
    lengths = zip(tiling.block, (tiling.queries, tiling.keys), strict=True)
    rows, columns = [np.arange(min(size, n), dtype=np.int64) for size, n in lengths]
    chunks = [rows[first : first + ROWS] for first in range(0, rows.size, ROWS)]
    return [(rows[[0, -1]], columns[[0, -1]]), *[(chunk, columns) for chunk in chunks]]


def _values(evaluate: Evaluate, tiling: Tiling, blocks: Any, rows: Any, columns: Any) -> Any:
    """Return the mask (blocks, rows, columns); beyond the end, the last index is repeated."""
    b, h, q, k = blocks.T[..., None, None]
    height, width = tiling.block
    q = np.minimum(q * height + rows[:, None], tiling.queries - 1)
    k = np.minimum(k * width + columns, tiling.keys - 1)
    keep = evaluate(*[x.astype(np.int32) for x in (b, h, q, k)])
    return np.broadcast_to(keep, (len(blocks), rows.size, columns.size))
