"""Attention of heads that share a table, one row of blocks after another: an online softmax.

The running maximum of the scores, the sum of exponentials and the weighted sum of values are
rescaled at each block, so that no complete row of scores is ever stored.

Source: Milakov & Gimelshein, arXiv:1805.02867, 2018; Dao et al., arXiv:2205.14135, 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.layout import Tables, score_dtype
from graphc.link.jax.attention.tiles import Tiles
from graphc.link.jax.varying import vary_as

BATCH_DIMENSIONS = ((0,), (0,))
"""The batch dimensions of products: one matrix for each head."""


class Scale(NamedTuple):
    """The factor of products, split in two.

    Attributes:
        before: The factor of queries; 1 if their dtype is narrower than the scores'.
        after: The factor of products.
    """

    before: float
    after: float

    @classmethod
    def of(cls, scale: float, dtype: Any) -> Scale:
        """Return the factors for queries of a dtype."""
        return cls(scale, 1.0) if dtype == score_dtype(dtype) else cls(1.0, scale)


class SoftmaxState(NamedTuple):
    """The running softmax of a row of blocks.

    Attributes:
        largest: The largest score of each query (heads, below).
        total: ``sum(exp(score - largest))`` of each query (heads, below).
        values: ``sum(exp(score - largest) * value)`` of each query (heads, below, Ev).
    """

    largest: Any
    total: Any
    values: Any


def attention(
    tiles: Tiles, scale: float, tables: Tables, q: Any, k: Any, v: Any
) -> tuple[Any, Any]:
    """Return results (b, h, Q, Ev) of the queries' dtype, and log-sum-exps (b, h, Q)."""
    lengths, dtype = tiles.lengths, score_dtype(q.dtype)
    before, after = Scale.of(scale, q.dtype)
    queries, keys, values = lengths.pad_queries(q), lengths.pad_keys(k), lengths.pad_keys(v, 0)
    size = (lengths.heads, lengths.below)
    state = SoftmaxState(
        # Below all scores but -inf, so that differences of two are never NaN.
        jnp.full(size, np.finfo(dtype).min, dtype),
        jnp.zeros(size, dtype),
        jnp.zeros((*size, v.shape[3]), dtype),
    )
    start = vary_as(state, q)

    def of_row(row: Any, done: tuple[Any, Any]) -> tuple[Any, Any]:
        row_queries = times(lengths.row(queries, row), before)

        def step(state: SoftmaxState, columns: Sequence[Any], keep: Any) -> SoftmaxState:
            score = times(product(row_queries, lengths.blocks(keys, columns), 2, 2, dtype), after)
            score = tiles.apply_score(score, row, columns)
            score = score if keep is None else jnp.where(keep, score, -np.inf)
            return _update(state, score, lengths.blocks(values, columns))

        results = _finish(fold_blocks(tiles, tables, row, step, start))
        return tuple(lengths.with_row(x, row, new) for x, new in zip(done, results, strict=True))

    zeros = lengths.zero_queries(q.dtype, v.shape[3]), lengths.zero_queries(dtype)
    out, sums = lax.fori_loop(np.int32(0), np.int32(lengths.rows), of_row, vary_as(zeros, q))
    return lengths.unpad_queries(out), lengths.unpad_queries(sums)


def fold_blocks(
    tiles: Tiles,
    tables: Tables,
    row: Any,
    step: Callable[[Any, Sequence[Any], Any], Any],
    state: Any,
) -> Any:
    """Return the state after a row's blocks: chunks of full ones, single full ones, partial ones.

    A step takes the state, the columns of its blocks, and the mask of their elements.
    """
    row_tables: Sequence[Any] = [None if x is None else x[row] for x in tables]
    partial, partial_columns, full, full_columns = row_tables

    def of_partial(i: Any, state: Any) -> Any:
        column = partial_columns[i]
        # A branch computes the mask once. Fused into its users, it would be computed by each, with
        # different rounding, and comparisons near equality would differ.
        keep = lax.cond(partial > 0, tiles.mask_block, tiles.empty_mask_block, row, column)
        return step(state, [column], keep)

    if full is not None:
        state = _fold_full_blocks(tiles.lengths.chunk, full, full_columns, step, state)
    return state if partial is None else lax.fori_loop(np.int32(0), partial, of_partial, state)


def _fold_full_blocks(
    n: int, full: Any, columns: Any, step: Callable[[Any, Sequence[Any], Any], Any], state: Any
) -> Any:
    """Return the state after a row's full blocks, in chunks of ``n`` and then one by one."""

    def of_chunk(i: Any, state: Any) -> Any:
        chunk = lax.dynamic_slice_in_dim(columns, i * np.int32(n), n)
        return step(state, [chunk[j] for j in range(n)], None)

    def of_block(i: Any, state: Any) -> Any:
        return step(state, [columns[i]], None)

    done = np.int32(0)
    if 1 < n <= columns.size:
        state = lax.fori_loop(np.int32(0), full // np.int32(n), of_chunk, state)
        done = full // np.int32(n) * np.int32(n)
    return lax.fori_loop(done, full, of_block, state)


def _update(state: SoftmaxState, score: Any, values: Any) -> SoftmaxState:
    """Return the state after more keys, with scores (heads, below, n) and values (heads, n, Ev)."""
    largest = jnp.maximum(state.largest, score.max(2))
    # XLA may compute scores twice and round the copies differently: limit each to the largest.
    weights = jnp.exp(jnp.minimum(score - largest[..., None], 0))
    correction = jnp.exp(state.largest - largest)
    new = product(weights.astype(values.dtype), values, 2, 1, score.dtype)
    return SoftmaxState(
        largest,
        state.total * correction + weights.sum(2),
        state.values * correction[..., None] + new,
    )


def _finish(state: SoftmaxState) -> tuple[Any, Any]:
    """Return results and log-sum-exps; 0 and -inf for queries without keys."""
    empty = state.total == 0
    total = jnp.where(empty, 1, state.total)
    sums = jnp.where(empty, -np.inf, state.largest + jnp.log(total))
    return state.values / total[..., None], sums


def product(a: Any, b: Any, axis: int, other: int, dtype: Any) -> Any:
    """Return products of matrices for each head, over an axis of each, in the dtype of scores."""
    dimensions = (((axis,), (other,)), BATCH_DIMENSIONS)
    return lax.dot_general(a, b, dimensions, preferred_element_type=dtype)


def times(x: Any, scale: float) -> Any:
    """Return a multiple of an array, in its dtype."""
    return x if scale == 1 else x * np.asarray(scale, x.dtype)
