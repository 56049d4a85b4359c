"""Checks of block tables that users give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.attention.grids import grid_of
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import Node

Shape = tuple[int, int, int, int]


def is_known(x: Any) -> bool:
    """Whether an array's values are known now: it is neither symbolic nor traced by JAX."""
    if isinstance(x, Node):
        return False
    try:
        np.asarray(x)
    except TypeError:  # a JAX tracer
        return False
    return True


def checked_tables(counts: Any, indices: Any, full_counts: Any, full_indices: Any) -> list[Any]:
    """Tables of partial and of full blocks, int32; those of full blocks may be None.

    Values are checked where they are known.
    """
    if (full_counts is None) != (full_indices is None):
        raise ArgumentError(
            "full_kv_num_blocks and full_kv_indices: only one is given.",
            "Give both, or neither where no block is full.",
        )
    pairs = [_pair_of("kv", counts, indices)]
    if full_counts is None:
        counts, indices = pairs[0]
        pairs.append((np.zeros(lengths_of(counts), np.int32), _numbers(lengths_of(indices))))
    else:
        pairs.append(_pair_of("full_kv", full_counts, full_indices))
    partial, full = lengths_of(pairs[0][1]), lengths_of(pairs[1][1])
    if partial != full:
        raise ShapeError(
            f"kv_indices {partial} and full_kv_indices {full} have different shapes.",
            "Both list blocks of the same grid.",
        )
    if all(is_known(x) for pair in pairs for x in pair):
        _check_once(*pairs)
    return [x for pair in pairs for x in pair]


def _numbers(shape: Sequence[int | None]) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.arange(shape[-1] or 0, dtype=np.int32), shape)  # type: ignore[arg-type]


def _pair_of(name: str, counts: Any, indices: Any) -> tuple[Any, Any]:
    counts = _integers(f"{name}_num_blocks", counts, 3)
    indices = _integers(f"{name}_indices", indices, 4)
    few, all_ = lengths_of(counts), lengths_of(indices)
    if few != all_[:3] or None in all_ or not all(all_):
        raise ShapeError(
            f"{name}_num_blocks {few} and {name}_indices {all_} do not fit each other.",
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
    listed = np.arange(columns) < counts[..., None]
    outside = listed & ((indices < 0) | (indices >= columns))
    if outside.any():
        raise BoundsError(
            f"{name}_indices: there is no block {indices[outside][0]} in a row of {columns}.",
            f"Number them from 0 to {columns - 1}.",
        )


def _check_once(*pairs: tuple[Any, Any]) -> None:
    """Raise where a block is listed twice."""
    grids = [grid_of(np.asarray(counts), np.asarray(indices)) for counts, indices in pairs]
    found = sum(np.sum(grid) for grid in grids)
    listed = sum(np.sum(np.asarray(counts)) for counts, _ in pairs)
    if np.any(grids[0] & grids[1]) or found != listed:
        raise ArgumentError(
            "A block is listed twice in a row of kv_indices and full_kv_indices.",
            "List each block once: partial, or full, or not at all.",
        )


def checked_lengths(
    shape: Sequence[int | None], block: tuple[int, int], lengths: tuple[int, int] | None
) -> tuple[int, int]:
    """The numbers of queries and keys, by the shape (B, H, rows, columns) of the tables."""
    grid = [n or 0 for n in shape[2:]]
    if lengths is None:
        return grid[0] * block[0], grid[1] * block[1]
    queries, keys = [int(n) for n in lengths]
    needed = [-(-n // size) for n, size in zip((queries, keys), block, strict=True)]
    if needed != grid:
        raise ShapeError(
            f"seq_lengths={lengths} are {needed[0]} x {needed[1]} blocks of {block}; the tables "
            f"have {grid[0]} x {grid[1]}.",
            "Give the lengths that the tables were made for.",
        )
    return queries, keys
