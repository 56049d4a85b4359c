"""Attention of heads that share a table, one row of blocks after another: an online softmax.

The running maximum of the scores, the sum of exponentials and the weighted sum of values are
rescaled at each block, so that no complete row of scores is ever stored.

Source: Milakov & Gimelshein, arXiv:1805.02867, 2018; Dao et al., arXiv:2205.14135, 2022.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.layout import Block, Tables, fold_row, score_dtype
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
        lax.full(size, np.finfo(dtype).min, dtype),
        lax.full(size, 0, dtype),
        lax.full((*size, v.shape[3]), 0, dtype),
    )
    start = vary_as(state, q)

    def of_row(row: Any, done: tuple[Any, Any]) -> tuple[Any, Any]:
        row_queries = times(lengths.row(queries, row), before)

        def step(block: Block, state: SoftmaxState) -> SoftmaxState:
            block_keys, block_values = (lengths.column(x, block.column) for x in (keys, values))
            score = times(product(row_queries, block_keys, 2, 2, dtype), after)
            score = tiles.mask_scores(tiles.apply_score(score, block), block)
            return _update(state, score, block_values)

        results = _finish(fold_row(tables, row, step, start))
        return tuple(lengths.with_row(x, row, new) for x, new in zip(done, results, strict=True))

    shape = queries.shape[:3]
    zeros = lax.full((*shape, v.shape[3]), 0, q.dtype), lax.full(shape, 0, dtype)
    out, sums = lax.fori_loop(np.int32(0), np.int32(lengths.rows), of_row, vary_as(zeros, q))
    return lengths.unpad_queries(out), lengths.unpad_queries(sums)


def _update(state: SoftmaxState, score: Any, values: Any) -> SoftmaxState:
    """Return the state after a block, with scores (heads, below, n) and values (heads, n, Ev)."""
    largest = lax.max(state.largest, lax.reduce_max(score, [2]))
    # XLA may compute scores twice and round the copies differently: limit each to the largest.
    weights = lax.exp(lax.min(score - largest[..., None], np.zeros((), score.dtype)))
    correction = lax.exp(state.largest - largest)
    new = product(weights.astype(values.dtype), values, 2, 1, score.dtype)
    return SoftmaxState(
        largest,
        state.total * correction + lax.reduce_sum(weights, [2]),
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
