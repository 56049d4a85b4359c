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
"""The longest range of a captured array that is looked up as such, in blocks."""


class Tiling(NamedTuple):
    """The lengths of a mask, and the size of its blocks.

    Attributes:
        batch: The number of sequences that have their own mask.
        heads: The number of heads that do.
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
        """The longest range of a captured array that is looked up as such."""
        return SPAN * max(self.block)


class Decided(NamedTuple):
    """Which blocks are certainly full, and which possibly not empty; bool (B, H, rows, columns)."""

    certain: Any
    possible: Any


def indices(
    batch: int, heads: int, queries: int, keys: int, block: tuple[int, int]
) -> tuple[Interval, Interval, Interval, Interval]:
    """The intervals of batch, head, query and key in each block, int32.

    Returns:
        Points (B, 1, 1, 1) and (1, H, 1, 1), and intervals (1, 1, rows, 1) and (1, 1, 1, columns),
        the last of which end where the queries and keys do.

    Example:
        >>> _, _, q, _ = indices(1, 1, 300, 300, (128, 128))
        >>> q.low.ravel().tolist(), q.high.ravel().tolist()
        ([0, 128, 256], [127, 255, 299])
    """
    b = np.arange(batch, dtype=np.int32).reshape(-1, 1, 1, 1)
    h = np.arange(heads, dtype=np.int32).reshape(1, -1, 1, 1)
    rows, columns = block
    q, k = ends(queries, rows), ends(keys, columns)
    return (
        point(b),
        point(h),
        Interval(*[x.reshape(1, 1, -1, 1) for x in q]),
        Interval(*[x.reshape(1, 1, 1, -1) for x in k]),
    )


def ends(n: int, size: int) -> tuple[Any, Any]:
    """The first and the last element of each block of n elements, int32."""
    low = np.arange(0, n, size, dtype=np.int64)
    return low.astype(np.int32), np.minimum(low + size - 1, n - 1).astype(np.int32)


def grid(kept: Interval, counts: tuple[int, int, int, int]) -> Decided:
    """The blocks that intervals decide.

    Args:
        kept: The interval of a mask over the blocks.
        counts: The numbers of blocks along batch, heads, queries and keys.
    """
    return Decided(*[numpy_like(end).broadcast_to(end, counts) for end in kept])


def tables(certain: Any, possible: Any, keys: int, columns: int) -> Tables:
    """The tables of a mask: which blocks each row has.

    Args:
        certain: bool (B, H, rows, columns): where all elements are kept.
        possible: Where any is.
        keys: The number of keys.
        columns: The number of keys of a block. If the last one has fewer, it is partial where all
            are kept, so that full blocks have all of their keys.

    Returns:
        For partial blocks and for full ones the numbers of them in each row, int32 (B, H, rows),
        and their places, int32 (B, H, rows, columns), before those of all others.

    Example:
        >>> full = np.tri(2, dtype=bool)[None, None]
        >>> [x.tolist() for x in tables(full, full, 3, 2)]
        [[[[0, 1]]], [[[[0, 1], [1, 0]]]], [[[1, 1]]], [[[[0, 1], [0, 1]]]]]
    """
    xp = numpy_like(certain, possible)
    if keys % columns:
        whole = np.arange(-(-keys // columns)) < keys // columns
        certain = xp.logical_and(certain, whole)
    partial = xp.logical_and(possible, xp.logical_not(certain))
    return (*compact(partial), *compact(certain))


def tables_by(
    uses: Sequence[bool], tiling: Tiling, find: Callable[[Tiling], Sequence[Any]]
) -> Tables:
    """The tables of a mask, found once for sequences and heads that share them.

    Args:
        uses: Whether the mask function depends on the sequence, and on the head.
        tiling: The blocks.
        find: Finds the tables for fewer sequences and heads, where there are queries and keys.
    """
    batch, heads = tiling.counts[:2]
    own = tiling._replace(batch=batch if uses[0] else 1, heads=heads if uses[1] else 1)
    if 0 in own.counts:
        nothing = np.zeros(tiling.counts, bool)
        return tables(nothing, nothing, tiling.keys, tiling.block[1])
    found = find(own)
    xp = numpy_like(*found)
    a, b, c, d = [xp.broadcast_to(x, (batch, heads, *x.shape[2:])) for x in found]
    return a, b, c, d


# Values of blocks, in NumPy.

AT_ONCE = 2**17
"""The elements that are evaluated together: few enough for a cache, many enough for a call."""

ROWS = 16
"""The rows of a block that are evaluated before it is known to be partial."""


def evaluated(evaluate: Evaluate, tiling: Tiling, decided: Decided) -> Decided:
    """The blocks that intervals leave undecided, decided by the mask's values.

    Args:
        evaluate: The mask.
        tiling: The blocks.
        decided: What intervals say of them, NumPy arrays.
    """
    certain, possible = decided.certain.copy(), decided.possible.copy()
    blocks = np.argwhere(possible & ~certain)
    some, all_ = np.zeros(len(blocks), bool), np.ones(len(blocks), bool)
    left = np.arange(len(blocks))
    for rows, columns in _passes(tiling):
        size = max(1, AT_ONCE // (rows.size * columns.size))
        for first in range(0, len(left), size):
            part = left[first : first + size]
            kept = _values(evaluate, tiling, blocks[part], rows, columns)
            some[part] |= kept.any((1, 2))
            all_[part] &= kept.all((1, 2))
        left = left[~some[left] | all_[left]]
        if not left.size:
            break
    certain[tuple(blocks.T)], possible[tuple(blocks.T)] = all_, some
    return Decided(certain, possible)


def _passes(tiling: Tiling) -> list[tuple[Any, Any]]:
    """Rows and columns of a block: its corners, then all of it, some rows after others."""
    lengths = zip(tiling.block, (tiling.queries, tiling.keys), strict=True)
    rows, columns = [np.arange(min(size, n), dtype=np.int64) for size, n in lengths]
    parts = [rows[first : first + ROWS] for first in range(0, rows.size, ROWS)]
    return [(rows[[0, -1]], columns[[0, -1]]), *[(part, columns) for part in parts]]


def _values(evaluate: Evaluate, tiling: Tiling, blocks: Any, rows: Any, columns: Any) -> Any:
    """The mask (blocks, rows, columns); beyond the last query or key, that one again."""
    b, h, q, k = blocks.T[..., None, None]
    height, width = tiling.block
    q = np.minimum(q * height + rows[:, None], tiling.queries - 1)
    k = np.minimum(k * width + columns, tiling.keys - 1)
    kept = evaluate(*[x.astype(np.int32) for x in (b, h, q, k)])
    return np.broadcast_to(kept, (len(blocks), rows.size, columns.size))
