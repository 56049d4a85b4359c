"""Attention's arrays in blocks, and the heads that share a table.

Heads that share a table are one batch of matrices. Query heads that read the same keys lie below
one another in one matrix, so that keys are never repeated. Blocks are read where they are in the
arrays, and written where they are in results: nothing is laid out anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax


class Tables(NamedTuple):
    """The tables of blocks: the count of each row, (nQ,), and the columns (nQ, nK).

    Where batches or heads have their own, there are leading axes (Bm, Hm), 1 or the number of them.
    Both are None where there are never such blocks.
    """

    partial: Any
    partial_columns: Any
    full: Any
    full_columns: Any


def all_blocks(lengths: Lengths, masked: bool) -> Tables:
    """Tables of all blocks: partial ones where there is a mask, or the keys end within them."""
    partial = lengths.columns if masked else int(lengths.ragged)
    order = np.arange(lengths.columns, dtype=np.int32)
    full = order[: lengths.columns - partial]
    return Tables(*_alike(lengths.rows, order[full.size :]), *_alike(lengths.rows, full))


def _alike(rows: int, columns: Any) -> tuple[Any, Any]:
    """A table of the same columns in each row."""
    if not columns.size:
        return None, None
    counts = jnp.full((1, 1, rows), columns.size, np.int32)
    return counts, jnp.broadcast_to(jnp.asarray(columns), (1, 1, rows, columns.size))


@dataclass(frozen=True)
class Lengths:
    """The lengths of arrays that share a table.

    Attributes:
        batch: Batches.
        keyed: Heads of keys.
        shared: Query heads to each of these.
        queries: Queries of a head.
        keys: Keys of a head.
        block: Queries and keys of a block.
    """

    batch: int
    keyed: int
    shared: int
    queries: int
    keys: int
    block: tuple[int, int]

    @property
    def heads(self) -> int:
        """Heads of keys in all batches: matrices that are multiplied at once."""
        return self.batch * self.keyed

    @property
    def below(self) -> int:
        """Queries of a row of blocks that read the same keys."""
        return self.shared * self.block[0]

    @property
    def rows(self) -> int:
        """Blocks of queries."""
        return -(-self.queries // self.block[0])

    @property
    def columns(self) -> int:
        """Blocks of keys."""
        return -(-self.keys // self.block[1])

    @property
    def ragged(self) -> bool:
        """Whether the last block of keys has fewer keys than the others."""
        return self.keys % self.block[1] != 0

    @property
    def chunk(self) -> int:
        """The number of full blocks of a row that are computed at once."""
        area = self.heads * self.below * self.block[1]
        return max(1, min(AREA // area, MOST, self.columns))

    def of_queries(self, x: Any, value: float | None = None) -> Any:
        """(b, h, Q, ...) as (heads, shared, whole blocks, ...).

        Where queries are added, they have ``value``, or are the last one again.
        """
        x = _lengthened(x, self.rows * self.block[0], value)
        return x.reshape(self.heads, self.shared, *x.shape[2:])

    def row(self, x: Any, row: Any) -> Any:
        """A row of blocks (heads, below, ...) of the array of ``of_queries``."""
        x = lax.dynamic_slice_in_dim(x, row * np.int32(self.block[0]), self.block[0], 2)
        return x.reshape(self.heads, self.below, *x.shape[3:])

    def with_row(self, x: Any, row: Any, new: Any) -> Any:
        """The array of ``of_queries`` with one row of blocks replaced."""
        new = new.reshape(self.heads, self.shared, self.block[0], *new.shape[2:])
        start = row * np.int32(self.block[0])
        return lax.dynamic_update_slice_in_dim(x, new.astype(x.dtype), start, 2)

    def no_queries(self, dtype: Any, *tail: int) -> Any:
        """Zeros of the shape that ``of_queries`` gives."""
        return jnp.zeros((self.heads, self.shared, self.rows * self.block[0], *tail), dtype)

    def back(self, x: Any) -> Any:
        """The inverse of ``of_queries``."""
        return x.reshape(self.batch, self.keyed * self.shared, *x.shape[2:])[:, :, : self.queries]

    def of_keys(self, x: Any, value: float | None = None) -> Any:
        """(b, keyed, K, ...) as (heads, whole blocks, ...).

        Where keys are added, they have ``value``, or are the last one again.
        """
        x = _lengthened(x, self.columns * self.block[1], value)
        return x.reshape(self.heads, *x.shape[2:])

    def blocks(self, x: Any, columns: Sequence[Any]) -> Any:
        """Some blocks (heads, keys of these, ...) of the array of ``of_keys``."""
        size = self.block[1]
        starts = [column * np.int32(size) for column in columns]
        found = [lax.dynamic_slice_in_dim(x, start, size, 1) for start in starts]
        return found[0] if len(found) == 1 else jnp.concatenate(found, 1)

    def added(self, x: Any, columns: Sequence[Any], new: Any) -> Any:
        """The array of ``of_keys`` with an array added to some blocks."""
        size = self.block[1]
        for i, column in enumerate(columns):
            part = lax.slice_in_dim(new, i * size, (i + 1) * size, axis=1)
            total = self.blocks(x, [column]) + part
            x = lax.dynamic_update_slice_in_dim(x, total, column * np.int32(size), 1)
        return x

    def keys_back(self, x: Any) -> Any:
        """The inverse of ``of_keys``."""
        return x.reshape(self.batch, self.keyed, *x.shape[1:])[:, :, : self.keys]


AREA = 2**18
"""Elements of scores that a processor keeps close, a mebibyte in float32."""

MOST = 8
"""Blocks at once: more make the compiled program larger and hardly faster."""


def _lengthened(x: Any, length: int, value: float | None) -> Any:
    if x.shape[2] == length:
        return x
    widths = [(0, length - x.shape[2] if axis == 2 else 0) for axis in range(x.ndim)]
    if value is None:
        return jnp.pad(x, widths, mode="edge")
    return jnp.pad(x, widths, constant_values=value)


class HeadGroup(NamedTuple):
    """Batches and heads that share a table.

    Attributes:
        start: The first batch, head, and head of keys; int32 scalars.
        sizes: How many of each.
    """

    start: tuple[Any, Any, Any]
    sizes: tuple[int, int, int]

    def of_queries(self, x: Any) -> Any:
        """The group's part of (B, Hq, Q, ...)."""
        return _part(x, self.start[:2], self.sizes[:2])

    def of_keys(self, x: Any) -> Any:
        """The group's part of (B, Hkv, K, ...)."""
        return _part(x, self.start[::2], self.sizes[::2])

    def added(self, total: Any, x: Any) -> Any:
        """The total of all keys, with the group's part added."""
        if x.shape == total.shape:
            return total + x
        start = (*self.start[::2], *[np.int32(0)] * (x.ndim - 2))
        return lax.dynamic_update_slice(total, self.of_keys(total) + x, start)

    def indices(self) -> tuple[Any, Any]:
        """The numbers of batches (b,), and of heads, (keyed, shared)."""
        batch, head, _ = self.start
        batches, heads, keyed = self.sizes
        numbers = head + np.arange(heads, dtype=np.int32).reshape(keyed, -1)
        return batch + np.arange(batches, dtype=np.int32), numbers


def _part(x: Any, start: Sequence[Any], sizes: Sequence[int]) -> Any:
    if x.shape[:2] == tuple(sizes):
        return x
    tail = x.shape[2:]
    return lax.dynamic_slice(x, (*start, *[np.int32(0)] * len(tail)), (*sizes, *tail))


class HeadGrouping(NamedTuple):
    """The partition of batches and heads into groups of one table each.

    Attributes:
        batches: Tables along the batch, 1 or B.
        heads: Tables along the heads, 1 or Hq.
        sizes: Batches, heads, and heads of keys in a group.
    """

    batches: int
    heads: int
    sizes: tuple[int, int, int]

    @property
    def number(self) -> int:
        """The number of groups."""
        return self.batches * self.heads

    def group(self, index: Any, shared: int) -> HeadGroup:
        """The group of a number, where ``shared`` query heads read the same keys."""
        batch, head = index // np.int32(self.heads), index % np.int32(self.heads)
        return HeadGroup((batch, head, head // np.int32(shared)), self.sizes)

    def joined(self, x: Any) -> Any:
        """The parts of all groups (groups, b, h, ...) as (B, Hq, ...)."""
        batches, heads, _ = self.sizes
        x = x.reshape(self.batches, self.heads, batches, heads, *x.shape[3:])
        x = jnp.moveaxis(x, 1, 2)
        return x.reshape(self.batches * batches, self.heads * heads, *x.shape[4:])


def grouping(tables: Tables, batch: int, heads: int, keyed: int) -> HeadGrouping:
    """The groups of tables (Bm, Hm, ...)."""
    counts = tables.full if tables.partial is None else tables.partial
    batches, own = counts.shape[:2]
    of_keys = keyed if own == 1 else 1
    return HeadGrouping(batches, own, (batch // batches, heads // own, of_keys))


def wide(dtype: Any) -> Any:
    """The dtype that scores of a dtype are computed in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)
