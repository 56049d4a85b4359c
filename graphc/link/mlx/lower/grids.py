"""Block tables as slices: which keys each row of blocks sees, for MLX to take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from graphc.attention.grids import grid_of
from graphc.errors import ShapeError


class Sizes(NamedTuple):
    """Of attention: how many batches, heads of keys, heads that share one, queries and keys."""

    batches: int
    heads: int
    sharing: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Piece:
    """Some of the keys that a row of blocks sees.

    Attributes:
        blocks: The numbers of their blocks.
        runs: The keys, in runs without a gap.
        partial: Whether the mask decides which of them are seen.
    """

    blocks: tuple[int, ...]
    runs: tuple[slice, ...]
    partial: bool

    def rows(self, x: Any) -> Any:
        """These keys of (..., keys, any)."""
        return joined([x[..., run, :] for run in self.runs], -2)

    def columns(self, x: Any) -> Any:
        """These keys of (..., any, keys)."""
        return joined([x[..., run] for run in self.runs], -1)

    def lengths(self, block: int, keys: int) -> list[int]:
        """The number of keys in each of its blocks."""
        return [min(block, keys - i * block) for i in self.blocks]

    def numbers(self) -> Any:
        """Those of the keys."""
        return joined([mx.arange(run.start, run.stop, dtype=mx.int32) for run in self.runs], 0)


@dataclass(frozen=True)
class Row:
    """Queries that see the same blocks of keys.

    Attributes:
        queries: These.
        pieces: The keys of full blocks, and those of partial ones.
    """

    queries: slice
    pieces: tuple[Piece, ...]

    @property
    def count(self) -> int:
        """The number of queries."""
        return int(self.queries.stop - self.queries.start)

    def of(self, x: Any) -> Any:
        """Its queries of (..., sharing heads, queries, any), sharing heads behind each other."""
        x = x[..., self.queries, :]
        return mx.reshape(x, (*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1]))


@dataclass(frozen=True)
class HeadGroup:
    """Batches and heads that see the same blocks.

    Attributes:
        batches: The batches.
        heads: The heads of keys.
        sharing: Of the heads of queries that share one of keys, these.
        rows: All rows of blocks.
    """

    batches: slice
    heads: slice
    sharing: slice
    rows: Sequence[Row]

    def of(self, x: Any) -> Any:
        """Its part of (batches, heads of keys, sharing heads, ...)."""
        return x[self.batches, self.heads, self.sharing]

    def of_keys(self, x: Any) -> Any:
        """Its part of (batches, heads of keys, ...)."""
        return x[self.batches, self.heads]

    def numbers(self, sizes: Sizes) -> tuple[Any, Any]:
        """Those of its batches, and of its heads of queries."""
        first = self.heads.start * sizes.sharing + self.sharing.start
        count = (self.heads.stop - self.heads.start) * (self.sharing.stop - self.sharing.start)
        batches = mx.arange(self.batches.start, self.batches.stop, dtype=mx.int32)
        return batches, mx.arange(first, first + count, dtype=mx.int32)


def joined(parts: Sequence[Any], axis: int) -> Any:
    """Arrays behind each other along an axis."""
    return parts[0] if len(parts) == 1 else mx.concatenate([*parts], axis)


def groups(
    tables: Sequence[np.ndarray[Any, Any]], sizes: Sizes, block: tuple[int, int], *, masked: bool
) -> list[list[HeadGroup]]:
    """Group the batches, and in them the heads, that see the same blocks of keys.

    Args:
        tables: The number of partial blocks in each row, these, and the same of full blocks.
            Without them all blocks are partial where there is a mask, and full elsewhere.
        sizes: Those of the attention.
        block: How many queries and keys a block has.
        masked: Whether there is a mask function; without one, all listed blocks are full.

    Raises:
        ShapeError: The tables are of other lengths.
    """
    counts = -(-sizes.queries // block[0]), -(-sizes.keys // block[1])
    if tables:
        some, full = grid_of(*tables[:2]), grid_of(*tables[2:])
        _check(some, sizes, counts)
    else:
        full = np.full((1, 1, *counts), not masked)
        some = ~full
    some, full = (some & ~full, full) if masked else (some & False, some | full)
    grid = np.stack([full, some], -2)
    by_batch = [slice(i, i + 1) for i in range(sizes.batches)]
    if _is_same(grid, 0):
        grid, by_batch = grid[:1], [slice(0, sizes.batches)]
    by_head = [
        (slice(i, i + 1), slice(j, j + 1)) for i in range(sizes.heads) for j in range(sizes.sharing)
    ]
    if _is_same(grid, 1):
        grid, by_head = grid[:, :1], [(slice(0, sizes.heads), slice(0, sizes.sharing))]
    return [
        [
            HeadGroup(batches, *heads, _rows(own, sizes, block))
            for heads, own in zip(by_head, of_batch, strict=True)
        ]
        for batches, of_batch in zip(by_batch, grid, strict=True)
    ]


def _check(grid: np.ndarray[Any, Any], sizes: Sizes, counts: tuple[int, int]) -> None:
    allowed = {1, sizes.batches}, {1, sizes.heads * sizes.sharing}, {counts[0]}, {counts[1]}
    if not all(n in found for n, found in zip(grid.shape, allowed, strict=True)):
        raise ShapeError(
            f"Tables of {grid.shape} (batches, heads, rows, columns) of blocks, for {sizes}.",
            f"There are {counts[0]} rows of {counts[1]} blocks: make the mask for these lengths.",
        )


def _is_same(grid: np.ndarray[Any, Any], axis: int) -> bool:
    """Whether it does not change along an axis."""
    return bool((grid == grid.take([0], axis)).all())


def _rows(grid: np.ndarray[Any, Any], sizes: Sizes, block: tuple[int, int]) -> list[Row]:
    """The rows of (rows, full and partial, columns)."""
    found = []
    for i, kinds in enumerate(grid):
        made = [_piece(listed, sizes.keys, block[1], bool(k)) for k, listed in enumerate(kinds)]
        queries = slice(i * block[0], min(sizes.queries, (i + 1) * block[0]))
        found.append(Row(queries, tuple([piece for piece in made if piece.blocks])))
    return found


def _piece(listed: np.ndarray[Any, Any], keys: int, block: int, partial: bool) -> Piece:
    numbers = np.flatnonzero(listed)
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    runs = np.split(numbers, cuts) if numbers.size else []
    slices = [slice(int(run[0]) * block, min(keys, (int(run[-1]) + 1) * block)) for run in runs]
    return Piece(tuple(numbers.tolist()), tuple(slices), partial)
