"""Tables of blocks, which list indices row by row, and grids, which have a bool per block."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.implicit.namespace import numpy_like

EMPTY, PARTIAL, FULL = 0, 1, 2
"""The kinds of blocks."""


def grid_of(counts: Any, indices: Any) -> Any:
    """Return the grid of a table: whether its rows list each block.

    Args:
        counts: int32 (B, H, rows).
        indices: int32 (B, H, rows, columns), of static shape; entries past a row's count are
            ignored.

    Returns:
        bool (B, H, rows, columns), of the same library.

    Example:
        >>> counts, indices = np.array([[[1, 2]]]), np.array([[[[1, 0], [0, 1]]]])
        >>> grid_of(counts, indices).astype(int).tolist()
        [[[[0, 1], [1, 1]]]]
    """
    xp = numpy_like(counts, indices)
    shape = tuple(xp.shape_of(indices))
    columns, rows = shape[-1], int(np.prod(shape[:-1]))
    blocks = rows * columns
    is_listed = np.arange(columns, dtype=np.int32) < counts[..., None]
    first = np.arange(rows, dtype=np.int32).reshape(*shape[:-1], 1) * np.int32(columns)
    positions = xp.where(is_listed, first + indices, np.int32(-1))
    ones = np.ones(blocks, np.int32)
    return xp.segment_sum(ones, xp.reshape(positions, (blocks,)), blocks).reshape(shape) > 0


def compact(grid: Any) -> tuple[Any, Any]:
    """Return the table of a grid: the number of blocks in each row, and their indices.

    Args:
        grid: bool (B, H, rows, columns).

    Returns:
        int32 (B, H, rows), and int32 of the grid's shape: in each row the indices of its blocks in
        order, then the other indices in order.

    Example:
        >>> counts, indices = compact(np.array([[[[False, True, True], [True, False, False]]]]))
        >>> counts.tolist(), indices.tolist()
        ([[[2, 1]]], [[[[1, 2, 0], [0, 1, 2]]]])
    """
    xp = numpy_like(grid)
    columns = grid.shape[-1] if xp.name != "graphc" else grid.type.shape[-1]
    numbers = np.arange(columns, dtype=np.int32)
    # Keys are distinct, so any sort is stable.
    order = xp.sort(xp.where(grid, numbers, numbers + np.int32(columns)), axis=-1)
    counts = xp.cast(xp.sum(grid, axis=-1), "int32")
    return counts, xp.cast(order % max(columns, 1), "int32")
