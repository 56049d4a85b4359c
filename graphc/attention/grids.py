"""Tables of blocks and grids of blocks: rows of numbers, and a bool for each block."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.implicit.level import numpy_like

__all__ = ["EMPTY", "FULL", "PARTIAL", "compact", "grid_of"]

EMPTY, PARTIAL, FULL = 0, 1, 2
"""What a block is."""


def grid_of(counts: Any, indices: Any) -> Any:
    """Which blocks the rows of a table list; entries past a row's count are not looked at.

    Args:
        counts: int32 (B, H, rows).
        indices: int32 (B, H, rows, columns), of static shape.

    Returns:
        bool (B, H, rows, columns), of the same library.

    Example:
        >>> counts, indices = np.array([[[1, 2]]]), np.array([[[[1, 0], [0, 1]]]])
        >>> grid_of(counts, indices).astype(int).tolist()
        [[[[0, 1], [1, 1]]]]
    """
    level = numpy_like(counts, indices)
    shape = tuple(level.shape_of(indices))
    columns, rows = shape[-1], int(np.prod(shape[:-1]))
    blocks = rows * columns
    listed = np.arange(columns, dtype=np.int32) < counts[..., None]
    first = np.arange(rows, dtype=np.int32).reshape(*shape[:-1], 1) * np.int32(columns)
    places = level.where(listed, first + indices, np.int32(-1))
    ones = np.ones(blocks, np.int32)
    return level.segment_sum(ones, level.reshape(places, (blocks,)), blocks).reshape(shape) > 0


def compact(grid: Any) -> tuple[Any, Any]:
    """The table of a grid: how many blocks a row has, and their numbers, before all others.

    Args:
        grid: bool (B, H, rows, columns).

    Returns:
        int32 (B, H, rows), and int32 of the grid's shape: in each row the numbers of its blocks in
        order, then the others in order.

    Example:
        >>> counts, indices = compact(np.array([[[[False, True, True], [True, False, False]]]]))
        >>> counts.tolist(), indices.tolist()
        ([[[2, 1]]], [[[[1, 2, 0], [0, 1, 2]]]])
    """
    level = numpy_like(grid)
    columns = grid.shape[-1] if level.name != "graphc" else grid.type.shape[-1]
    numbers = np.arange(columns, dtype=np.int32)
    # Distinct keys: any sort of them is a stable one.
    order = level.sort(level.where(grid, numbers, numbers + np.int32(columns)), axis=-1)
    counts = level.cast(level.sum(grid, axis=-1), "int32")
    return counts, level.cast(order % max(columns, 1), "int32")
