"""Checks of block tables, block sizes and lengths that users pass."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from graphc.attention.grids import grid_of
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import Node


def is_known(x: Any) -> bool:
    """Return whether an array has values now: it is neither symbolic nor traced by JAX."""
    if isinstance(x, Node):
        return False
    try:
        np.asarray(x)
    except TypeError:  # a JAX tracer
        return False
    return True


def check_tables(
    counts: Any, indices: Any, full_counts: Any, full_indices: Any
) -> list[tuple[Any, Any]]:
    """Check tables of partial and of full blocks, and return both pairs as int32.

    Tables of full blocks may be None: then no block is full. Values are checked where they are
    known.

    Raises:
        ShapeError: If the tables' shapes differ, or have another number of axes.
        DTypeError: If the tables are not integers.
        BoundsError: If a number of blocks, or the index of a block, is out of range.
        ArgumentError: If a block is listed twice, or if only one table of full blocks is given.
    """
    if (full_counts is None) != (full_indices is None):
        raise ArgumentError(
            "full_kv_num_blocks and full_kv_indices: only one is given.",
            "Give both, or neither where no block is full.",
        )
    pairs = [_check_pair("kv", counts, indices)]
    if full_counts is None:
        counts, indices = pairs[0]
        pairs.append((np.zeros(lengths_of(counts), np.int32), _all_columns(lengths_of(indices))))
    else:
        pairs.append(_check_pair("full_kv", full_counts, full_indices))
    partial, full = lengths_of(pairs[0][1]), lengths_of(pairs[1][1])
    if partial != full:
        raise ShapeError(
            f"kv_indices {partial} and full_kv_indices {full} have different shapes.",
            "Both list blocks of the same grid.",
        )
    if all(is_known(x) for pair in pairs for x in pair):
        _check_unique(*pairs)
    return pairs


def _all_columns(shape: Sequence[int | None]) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.arange(shape[-1] or 0, dtype=np.int32), shape)  # type: ignore[arg-type]


def _check_pair(name: str, counts: Any, indices: Any) -> tuple[Any, Any]:
    counts = _integers(f"{name}_num_blocks", counts, 3)
    indices = _integers(f"{name}_indices", indices, 4)
    rows, grid = lengths_of(counts), lengths_of(indices)
    if rows != grid[:3] or None in grid or not all(grid):
        raise ShapeError(
            f"{name}_num_blocks {rows} and {name}_indices {grid} do not fit each other.",
            "They are (B, H, rows) and (B, H, rows, columns), of known lengths from 1 on.",
        )
    if is_known(counts) and is_known(indices):
        _check_range(name, np.asarray(counts), np.asarray(indices))
    xp = numpy_like(counts, indices)
    return xp.cast(counts, "int32"), xp.cast(indices, "int32")


def _integers(name: str, x: Any, axes: int) -> Any:
    x = x if hasattr(x, "dtype") and hasattr(x, "shape") else np.asarray(x)
    if dtype_of(x).kind not in "iu":
        raise DTypeError(
            f"{name} has the dtype {x.dtype}; expected integers.",
            f"Convert it: {name}.astype('int32').",
        )
    if len(lengths_of(x)) != axes:
        raise ShapeError(
            f"{name} has the shape {lengths_of(x)}; expected {axes} axes.",
            "They are batch, head, rows" + (", columns." if axes == 4 else "."),
        )
    return x


def _check_range(name: str, counts: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> None:
    columns = indices.shape[-1]
    if (counts < 0).any() or (counts > columns).any():
        wrong = counts[(counts < 0) | (counts > columns)][0]
        raise BoundsError(
            f"{name}_num_blocks: {wrong} blocks in a row of {columns}.",
            f"Count from 0 to {columns}.",
        )
    is_listed = np.arange(columns) < counts[..., None]
    outside = is_listed & ((indices < 0) | (indices >= columns))
    if outside.any():
        raise BoundsError(
            f"{name}_indices: there is no block {indices[outside][0]} in a row of {columns}.",
            f"Number them from 0 to {columns - 1}.",
        )


def _check_unique(*pairs: tuple[Any, Any]) -> None:
    """Raise an error if a block is listed twice."""
    grids = [grid_of(np.asarray(counts), np.asarray(indices)) for counts, indices in pairs]
    distinct = sum(np.sum(grid) for grid in grids)
    listed = sum(np.sum(np.asarray(counts)) for counts, _ in pairs)
    if np.any(grids[0] & grids[1]) or distinct != listed:
        raise ArgumentError(
            "A block is listed twice in a row of kv_indices and full_kv_indices.",
            "List each block once: partial, or full, or not at all.",
        )


def check_lengths(
    shape: Sequence[int | None], block: tuple[int, int], lengths: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the numbers of queries and keys, for tables of shape (B, H, rows, columns).

    Raises:
        ShapeError: If ``lengths`` are not two integers of 0 or more, or need another number of
            blocks than the tables have.
    """
    grid = [n or 0 for n in shape[2:]]
    if lengths is None:
        return grid[0] * block[0], grid[1] * block[1]
    try:
        queries, keys = lengths
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"seq_lengths={lengths!r} is not a pair of lengths.",
            "Give the numbers of queries and keys.",
        ) from error
    queries, keys = check_length(queries, 0), check_length(keys, 0)
    needed = [-(-n // size) for n, size in zip((queries, keys), block, strict=True)]
    if needed != grid:
        raise ShapeError(
            f"seq_lengths={lengths} are {needed[0]} x {needed[1]} blocks of {block}; the tables "
            f"have {grid[0]} x {grid[1]}.",
            "Give the lengths that the tables were made for.",
        )
    return queries, keys


def check_length(n: Any, least: int = 1) -> int:
    """Return a length as an integer.

    Raises:
        ShapeError: If ``n`` is not an integer of ``least`` or more.
    """
    try:
        length = -1 if isinstance(n, bool | np.bool_) else index(n)
    except TypeError:
        length = -1
    if length < least:
        raise ShapeError(f"{n!r} is not a length.", f"Give an integer of {least} or more.")
    return length


def check_block_size(block: Any) -> tuple[int, int]:
    """Return the numbers of queries and keys of a block.

    Raises:
        ShapeError: If ``block`` is neither a positive integer nor a pair of positive integers.
    """
    sizes = block if isinstance(block, list | tuple) else (block, block)
    if len(sizes) != 2:
        raise ShapeError(f"BLOCK_SIZE={block!r} is not a size.", "Give one integer, or two.")
    return check_length(sizes[0]), check_length(sizes[1])
