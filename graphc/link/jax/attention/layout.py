"""Attention's arrays in blocks, and the heads that share a table.

Heads that share a table are one batch of matrices. Query heads that read the same keys are stacked
in one matrix, so that keys are never repeated. Blocks are read from the arrays and written to the
results with slices; no array is copied into another layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import lax

State = TypeVar("State")


class Tables(NamedTuple):
    """The tables of blocks: the count of each row, (nQ,), and the columns (nQ, nK).

    Before they are split into groups, tables have leading axes (Bm, Hm), of length 1 or the number
    of batches or heads.
    """

    partial: Any
    partial_columns: Any
    full: Any
    full_columns: Any


def all_blocks(lengths: GroupLengths, masked: bool) -> Tables:
    """Return tables of all blocks, partial if there is a mask or if keys end within the block."""
    partial = lengths.columns if masked else int(lengths.ragged)
    order = np.arange(lengths.columns, dtype=np.int32)
    full = lengths.columns - partial
    return Tables(
        *_uniform_table(lengths.rows, partial, np.roll(order, -full)),
        *_uniform_table(lengths.rows, full, order),
    )


def _uniform_table(rows: int, count: int, columns: Any) -> tuple[Any, Any]:
    """Return a table with the same columns in each row."""
    counts = jnp.full((1, 1, rows), count, np.int32)
    return counts, jnp.broadcast_to(jnp.asarray(columns), (1, 1, rows, columns.size))


class Block(NamedTuple):
    """The indices of a block, and whether it is partial."""

    row: Any
    column: Any
    is_partial: Any


def fold_row(
    tables: Tables, row: Any, step: Callable[[Block, State], State], start: State
) -> State:
    """Return the state after a row's partial blocks, and then its full ones.

    One loop compiles in half the time of two. It visits a range of an array: the partial columns
    reversed, up to index ``n``, then the full ones. XLA computes this array once for all rows.
    """
    n, row = np.int32(tables.partial_columns.shape[1]), lax.convert_element_type(row, np.int32)
    columns = lax.concatenate([lax.rev(tables.partial_columns, [1]), tables.full_columns], 1)

    def has_next(state: tuple[Any, State]) -> Any:
        return state[0] < n + _read(tables.full, row)

    def visit(state: tuple[Any, State]) -> tuple[Any, State]:
        i, inner = state
        column = lax.dynamic_slice(columns, (row, i), (1, 1), allow_negative_indices=False)
        return i + np.int32(1), step(Block(row, column.reshape(()), i < n), inner)

    return lax.while_loop(has_next, visit, (n - _read(tables.partial, row), start))[1]


def _read(x: Any, i: Any) -> Any:
    return lax.dynamic_index_in_dim(x, i, keepdims=False, allow_negative_indices=False)


@dataclass(frozen=True)
class GroupLengths:
    """The lengths of arrays that share a table.

    Attributes:
        batch: The number of batches.
        keyed: The number of heads of keys.
        shared: The number of query heads for each head of keys.
        queries: The number of queries of a head.
        keys: The number of keys of a head.
        block: The numbers of queries and keys of a block.
    """

    batch: int
    keyed: int
    shared: int
    queries: int
    keys: int
    block: tuple[int, int]

    @property
    def heads(self) -> int:
        """The number of heads of keys in all batches, which is the batch size of products."""
        return self.batch * self.keyed

    @property
    def below(self) -> int:
        """The number of queries in a row of blocks that read the same keys."""
        return self.shared * self.block[0]

    @property
    def rows(self) -> int:
        """The number of blocks of queries."""
        return -(-self.queries // self.block[0])

    @property
    def columns(self) -> int:
        """The number of blocks of keys."""
        return -(-self.keys // self.block[1])

    @property
    def ragged(self) -> bool:
        """Whether the last block of keys has fewer keys than the others."""
        return self.keys % self.block[1] != 0

    def pad_queries(self, x: Any, value: float | None = None) -> Any:
        """Return (b, h, Q, ...) padded to full blocks, with ``value`` or the last query."""
        return _pad(x, self.rows * self.block[0], value)

    def row(self, x: Any, row: Any) -> Any:
        """Return a row of blocks (heads, below, ...) of an array from ``pad_queries``."""
        size = self.block[0]
        x = lax.dynamic_slice_in_dim(x, row * np.int32(size), size, 2, allow_negative_indices=False)
        return x.reshape(self.heads, self.below, *x.shape[3:])

    def with_row(self, x: Any, row: Any, new: Any) -> Any:
        """Return an array from ``pad_queries`` with one row of blocks replaced."""
        size = self.block[0]
        new = new.astype(x.dtype).reshape(*x.shape[:2], size, *x.shape[3:])
        return lax.dynamic_update_slice_in_dim(
            x, new, row * np.int32(size), 2, allow_negative_indices=False
        )

    def unpad_queries(self, x: Any) -> Any:
        """Return the inverse of ``pad_queries``."""
        return x[:, :, : self.queries]

    def pad_keys(self, x: Any, value: float | None = None) -> Any:
        """Return (b, keyed, K, ...) as (heads, columns * block, ...), padded.

        Padding has ``value``, or repeats the last key.
        """
        x = _pad(x, self.columns * self.block[1], value)
        return x.reshape(self.heads, *x.shape[2:])

    def column(self, x: Any, column: Any) -> Any:
        """Return a block (heads, keys of a block, ...) of an array from ``pad_keys``."""
        size = self.block[1]
        start = column * np.int32(size)
        return lax.dynamic_slice_in_dim(x, start, size, 1, allow_negative_indices=False)

    def add_column(self, x: Any, column: Any, new: Any) -> Any:
        """Return an array from ``pad_keys`` with another array added to a block."""
        start, total = column * np.int32(self.block[1]), self.column(x, column) + new
        return lax.dynamic_update_slice_in_dim(x, total, start, 1, allow_negative_indices=False)

    def unpad_keys(self, x: Any) -> Any:
        """Return the inverse of ``pad_keys``."""
        return x.reshape(self.batch, self.keyed, *x.shape[1:])[:, :, : self.keys]


def _pad(x: Any, length: int, value: float | None) -> Any:
    if x.shape[2] == length:
        return x
    widths = [(0, length - x.shape[2] if axis == 2 else 0) for axis in range(x.ndim)]
    if value is None:
        return jnp.pad(x, widths, mode="edge")
    return jnp.pad(x, widths, constant_values=value)


class TableGroup(NamedTuple):
    """Batches and heads that share a table.

    Attributes:
        start: The first batch, head, and head of keys; int32 scalars.
        sizes: The numbers of batches, heads, and heads of keys.
    """

    start: tuple[Any, Any, Any]
    sizes: tuple[int, int, int]

    def select_queries(self, x: Any) -> Any:
        """Return the group's part of (B, Hq, Q, ...)."""
        return _slice_group(x, self.start[:2], self.sizes[:2])

    def select_keys(self, x: Any) -> Any:
        """Return the group's part of (B, Hkv, K, ...)."""
        return _slice_group(x, self.start[::2], self.sizes[::2])

    def add_group(self, total: Any, x: Any) -> Any:
        """Add the group's part to the total of all keys."""
        if x.shape == total.shape:
            return total + x
        start = (*self.start[::2], *[np.int32(0)] * (x.ndim - 2))
        return lax.dynamic_update_slice(total, self.select_keys(total) + x, start)

    def indices(self) -> tuple[Any, Any]:
        """Return the indices of batches (b,), and of heads (keyed, shared)."""
        batch, head, _ = self.start
        batches, heads, keyed = self.sizes
        numbers = head + np.arange(heads, dtype=np.int32).reshape(keyed, -1)
        return batch + np.arange(batches, dtype=np.int32), numbers


def _slice_group(x: Any, start: Sequence[Any], sizes: Sequence[int]) -> Any:
    if x.shape[:2] == tuple(sizes):
        return x
    tail = x.shape[2:]
    return lax.dynamic_slice(x, (*start, *[np.int32(0)] * len(tail)), (*sizes, *tail))


class TableGrouping(NamedTuple):
    """The partition of batches and heads into groups of one table each.

    Attributes:
        batches: The number of tables along the batch, 1 or B.
        heads: The number of tables along the heads, 1 or Hq.
        sizes: The numbers of batches, heads, and heads of keys in a group.
    """

    batches: int
    heads: int
    sizes: tuple[int, int, int]

    @property
    def number(self) -> int:
        """The number of groups."""
        return self.batches * self.heads

    def group(self, index: Any, shared: int) -> TableGroup:
        """Return the group at an index, where ``shared`` query heads read the same keys."""
        batch, head = index // np.int32(self.heads), index % np.int32(self.heads)
        return TableGroup((batch, head, head // np.int32(shared)), self.sizes)

    def join_groups(self, x: Any) -> Any:
        """Return the parts of all groups (groups, b, h, ...) as (B, Hq, ...)."""
        batches, heads, _ = self.sizes
        x = x.reshape(self.batches, self.heads, batches, heads, *x.shape[3:])
        x = jnp.moveaxis(x, 1, 2)
        return x.reshape(self.batches * batches, self.heads * heads, *x.shape[4:])


def group_by_table(tables: Tables, batch: int, heads: int, keyed: int) -> TableGrouping:
    """Return the groups of tables (Bm, Hm, ...)."""
    batches, table_heads = tables.full.shape[:2]
    group_keyed = keyed if table_heads == 1 else 1
    return TableGrouping(
        batches, table_heads, (batch // batches, heads // table_heads, group_keyed)
    )


def score_dtype(dtype: Any) -> Any:
    """Return the dtype in which scores are computed, for queries of a dtype."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)
