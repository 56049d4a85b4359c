"""Block tables as slices of keys for each row of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from graphc.attention.grids import grid_of
from graphc.errors import ShapeError


class FlexSizes(NamedTuple):
    """Numbers of batches, heads of keys, heads of queries per head of keys, queries and keys."""

    batches: int
    heads: int
    sharing: int
    queries: int
    keys: int


@dataclass(frozen=True)
class KeyRuns:
    """Some of the keys that a row of blocks sees.

    Attributes:
        blocks: Numbers of the blocks.
        runs: Slices of adjacent keys.
        partial: Whether the mask decides which keys are seen.
    """

    blocks: tuple[int, ...]
    runs: tuple[slice, ...]
    partial: bool

    def rows(self, x: Any) -> Any:
        """Return the selected keys of (..., keys, any)."""
        return concatenate([x[..., run, :] for run in self.runs], -2)

    def columns(self, x: Any) -> Any:
        """Return the selected keys of (..., any, keys)."""
        return concatenate([x[..., run] for run in self.runs], -1)

    def lengths(self, block: int, keys: int) -> list[int]:
        """Return the number of keys in each of the blocks."""
        return [min(block, keys - i * block) for i in self.blocks]

    def numbers(self) -> Any:
        """Return the numbers of the keys."""
        return concatenate([mx.arange(run.start, run.stop, dtype=mx.int32) for run in self.runs], 0)


@dataclass(frozen=True)
class QueryRow:
    """Queries that see the same blocks of keys.

    Attributes:
        queries: Slice of the queries.
        pieces: Keys of full blocks, and keys of partial blocks.
    """

    queries: slice
    pieces: tuple[KeyRuns, ...]

    @property
    def count(self) -> int:
        """The number of queries."""
        return int(self.queries.stop - self.queries.start)

    def of(self, x: Any) -> Any:
        """Return the row's queries of (..., sharing heads, queries, any), head after head."""
        x = x[..., self.queries, :]
        return mx.reshape(x, (*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1]))


@dataclass(frozen=True)
class HeadGroup:
    """Batches, heads of keys and heads of queries for each of these that see the same blocks."""

    batches: slice
    heads: slice
    sharing: slice
    rows: Sequence[QueryRow]

    def of(self, x: Any) -> Any:
        """Return the group's part of (batches, heads of keys, sharing heads, ...)."""
        return x[self.batches, self.heads, self.sharing]

    def of_keys(self, x: Any) -> Any:
        """Return the group's part of (batches, heads of keys, ...)."""
        return x[self.batches, self.heads]

    def numbers(self, sizes: FlexSizes) -> tuple[Any, Any]:
        """Return the numbers of the batches, and of the heads of queries."""
        first = self.heads.start * sizes.sharing + self.sharing.start
        count = (self.heads.stop - self.heads.start) * (self.sharing.stop - self.sharing.start)
        batches = mx.arange(self.batches.start, self.batches.stop, dtype=mx.int32)
        return batches, mx.arange(first, first + count, dtype=mx.int32)


def concatenate(parts: Sequence[Any], axis: int) -> Any:
    """Concatenate arrays along an axis."""
    return parts[0] if len(parts) == 1 else mx.concatenate([*parts], axis)


def groups(
    tables: Sequence[np.ndarray[Any, Any]],
    sizes: FlexSizes,
    block: tuple[int, int],
    *,
    masked: bool,
) -> list[list[HeadGroup]]:
    """Group the batches, and within them the heads, that see the same blocks of keys.

    Args:
        tables: Number of partial blocks in each row, their indices, and the same for full blocks.
            Without tables, all blocks are partial if there is a mask, and full if not.
        sizes: Sizes of the attention.
        block: Numbers of queries and keys in a block.
        masked: Whether there is a mask function; without one, all listed blocks are full.

    Raises:
        ShapeError: If the tables have other lengths.
    """
    counts = -(-sizes.queries // block[0]), -(-sizes.keys // block[1])
    if tables:
        partial, full = grid_of(*tables[:2]), grid_of(*tables[2:])
        _check_tables(partial, sizes, counts)
    else:
        full = np.full((1, 1, *counts), not masked)
        partial = ~full
    partial, full = (partial & ~full, full) if masked else (partial & False, partial | full)
    grid = np.stack([full, partial], -2)
    by_batch = [slice(i, i + 1) for i in range(sizes.batches)]
    if _is_constant(grid, 0):
        grid, by_batch = grid[:1], [slice(0, sizes.batches)]
    by_head = [
        (slice(i, i + 1), slice(j, j + 1)) for i in range(sizes.heads) for j in range(sizes.sharing)
    ]
    if _is_constant(grid, 1):
        grid, by_head = grid[:, :1], [(slice(0, sizes.heads), slice(0, sizes.sharing))]
    return [
        [
            HeadGroup(batches, *heads, _rows(head_grid, sizes, block))
            for heads, head_grid in zip(by_head, of_batch, strict=True)
        ]
        for batches, of_batch in zip(by_batch, grid, strict=True)
    ]


def _check_tables(grid: np.ndarray[Any, Any], sizes: FlexSizes, counts: tuple[int, int]) -> None:
    allowed = {1, sizes.batches}, {1, sizes.heads * sizes.sharing}, {counts[0]}, {counts[1]}
    if not all(n in numbers for n, numbers in zip(grid.shape, allowed, strict=True)):
        raise ShapeError(
            f"Tables of {grid.shape} (batches, heads, rows, columns) of blocks, for {sizes}.",
            f"There are {counts[0]} rows of {counts[1]} blocks: make the mask for these lengths.",
        )


def _is_constant(grid: np.ndarray[Any, Any], axis: int) -> bool:
    return bool((grid == grid.take([0], axis)).all())


def _rows(grid: np.ndarray[Any, Any], sizes: FlexSizes, block: tuple[int, int]) -> list[QueryRow]:
    """Return the rows of a grid of (rows, full and partial, columns)."""
    rows = []
    for i, kinds in enumerate(grid):
        pieces = [
            _selection(blocks, sizes.keys, block[1], bool(k)) for k, blocks in enumerate(kinds)
        ]
        queries = slice(i * block[0], min(sizes.queries, (i + 1) * block[0]))
        rows.append(QueryRow(queries, tuple([piece for piece in pieces if piece.blocks])))
    return rows


def _selection(is_listed: np.ndarray[Any, Any], keys: int, block: int, partial: bool) -> KeyRuns:
    numbers = np.flatnonzero(is_listed)
    ends = np.flatnonzero(np.diff(numbers) > 1) + 1
    runs = np.split(numbers, ends) if numbers.size else []
    slices = [slice(int(run[0]) * block, min(keys, (int(run[-1]) + 1) * block)) for run in runs]
    return KeyRuns(tuple(numbers.tolist()), tuple(slices), partial)
