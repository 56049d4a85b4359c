"""The blocks of a mask told apart: empty, full, and partial, where the mask has to be asked.

Each block is decided by the cheapest that suffices: intervals of the mask function over the block,
its values at the block's corners, or all of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.grids import compact
from graphc.attention.intervals.interval import Interval, point
from graphc.implicit.level import numpy_like

__all__ = ["Decided", "Evaluate", "Tiling", "asked", "grid", "indices", "tables"]

Tables = tuple[Any, Any, Any, Any]
Evaluate = Callable[[Any, Any, Any, Any], Any]
"""A mask for batches (n, 1, 1), heads (n, 1, 1), queries (n, m, 1) and keys (n, 1, l)."""


class Tiling(NamedTuple):
    """Which elements there are, and how they are cut into blocks.

    Attributes:
        batch: How many sequences the mask tells apart.
        heads: How many heads.
        queries: The number of queries.
        keys: The number of keys.
        block: How many queries and keys a block has; the last ones may have fewer.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    block: tuple[int, int]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many blocks there are along batch, heads, queries and keys."""
        rows, columns = self.block
        return self.batch, self.heads, -(-self.queries // rows), -(-self.keys // columns)


class Decided(NamedTuple):
    """Which blocks are certainly full, and which have anything, bool (B, H, rows, columns)."""

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
    q, k = _ends(queries, rows), _ends(keys, columns)
    return (
        point(b),
        point(h),
        Interval(*[x.reshape(1, 1, -1, 1) for x in q]),
        Interval(*[x.reshape(1, 1, 1, -1) for x in k]),
    )


def _ends(n: int, size: int) -> tuple[Any, Any]:
    low = np.arange(0, n, size, dtype=np.int64)
    return low.astype(np.int32), np.minimum(low + size - 1, n - 1).astype(np.int32)


def grid(kept: Interval, counts: tuple[int, int, int, int]) -> Decided:
    """What intervals tell of each block.

    Args:
        kept: The interval of a mask over the blocks.
        counts: How many blocks there are along batch, heads, queries and keys.
    """
    return Decided(*[numpy_like(end).broadcast_to(end, counts) for end in kept])


def tables(certain: Any, possible: Any, keys: int, columns: int) -> Tables:
    """Which blocks each row has, in compact form.

    Args:
        certain: bool (B, H, rows, columns): where all elements are kept.
        possible: Where any is.
        keys: The number of keys.
        columns: How many keys a block has. If the last one has fewer, it is partial where all are
            kept, so that whoever reads full blocks reads no key that is not there.

    Returns:
        For partial blocks and for full ones the numbers of them in each row, int32 (B, H, rows),
        and their places, int32 (B, H, rows, columns), before those of all others.

    Example:
        >>> full = np.tri(2, dtype=bool)[None, None]
        >>> [x.tolist() for x in tables(full, full, 3, 2)]
        [[[[0, 1]]], [[[[0, 1], [1, 0]]]], [[[1, 1]]], [[[[0, 1], [0, 1]]]]]
    """
    level = numpy_like(certain, possible)
    if keys % columns:
        whole = np.arange(-(-keys // columns)) < keys // columns
        certain = level.logical_and(certain, whole)
    partial = level.logical_and(possible, level.logical_not(certain))
    return (*compact(partial), *compact(certain))


# All values of blocks, in NumPy.

AT_ONCE = 2**17
"""How many elements are evaluated together: few enough for a cache, many enough for a call."""

ROWS = 16
"""How many rows of a block are evaluated before blocks that are partial leave."""


def asked(evaluate: Evaluate, tiling: Tiling, decided: Decided) -> Decided:
    """What the values of a mask tell of the blocks that intervals leave open.

    Args:
        evaluate: The mask.
        tiling: The blocks.
        decided: What is known of them, NumPy's arrays.
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
    """(blocks, rows, columns); what is beyond the last query or key is that one again."""
    b, h, q, k = blocks.T[..., None, None]
    height, width = tiling.block
    q = np.minimum(q * height + rows[:, None], tiling.queries - 1)
    k = np.minimum(k * width + columns, tiling.keys - 1)
    kept = evaluate(*[x.astype(np.int32) for x in (b, h, q, k)])
    return np.broadcast_to(kept, (len(blocks), rows.size, columns.size))
